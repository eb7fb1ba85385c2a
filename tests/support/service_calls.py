"""The service asked without a network: a request in, an answer out."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal
from urllib.parse import quote, unquote, urlsplit

import fitted_models
from coterie.ads.protocol import Limits
from coterie.ads.service.access import AccessPolicy
from coterie.ads.service.application import Application
from coterie.ads.service.fair_queue import FairQueue
from coterie.ads.service.monitoring import Metrics
from coterie.ads.service.served_model import ServedModel
from target_markets import targets_model

JSON = "application/json"
Then = Literal["ends", "leaves", "stalls", "waits"]


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decompressed and parsed."""
        zipped = self.headers.get("content-encoding") == "gzip"
        return json.loads(gzip.decompress(self.body) if zipped else self.body)

    @property
    def problem(self) -> dict[str, Any]:
        """The body of an answer that must be a problem."""
        assert self.headers["content-type"] == "application/problem+json"
        told = self.json
        assert told["status"] == self.status
        assert told["request_id"] == self.headers["x-request-id"]
        return told

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Places and words of the faults in a problem of status 422."""
        assert self.status == 422, self.body
        return [(fault["at"], fault["what"]) for fault in self.problem["errors"]]


@dataclass
class OneModel:
    """A holder that never replaces its model."""

    current: ServedModel
    last_refusal: Any = None


class Service:
    """The application around a model, and what it counted."""

    def __init__(
        self, served: ServedModel, policy: AccessPolicy | None = None, **limits: Any
    ) -> None:
        self.holder: Any = OneModel(served)
        self.served = served
        self.limits = Limits(**limits)
        self.metrics = Metrics()
        self.queue = FairQueue(self.limits, self.metrics.queued_work.set)
        self.app = Application(
            self.holder, self.queue, self.metrics, policy or AccessPolicy(), self.limits
        )

    def ask(self, method: str, target: str, **request: Any) -> Reply:
        """Answer one request, in a loop of its own."""
        return asyncio.run(self.asked(method, target, **request))

    def get(self, target: str, **request: Any) -> Reply:
        """Answer one GET."""
        return self.ask("GET", target, **request)

    def forecast(self, asked: Any) -> Reply:
        """Answer questions, as JSON or as an object."""
        content = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        return self.ask("POST", "/v1/forecast", content=content, headers={"content-type": JSON})

    async def asked(
        self,
        method: str,
        target: str,
        *,
        content: bytes | Sequence[bytes] = b"",
        headers: Mapping[str, str] | None = None,
        client: str = "127.0.0.1",
        then: Then = "ends",
    ) -> Reply:
        """Answer one request; ``target`` is percent-encoded, ``content`` may come in parts.

        After them the body ends, or the client leaves, or it sends nothing more, for an hour or
        until this call is cancelled.
        """
        told = urlsplit(target)
        given = {"host": "localhost"} | {k.lower(): v for k, v in (headers or {}).items()}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},  # as uvicorn
            "http_version": "1.1",
            "method": method,
            "path": unquote(told.path),
            "raw_path": told.path.encode(),
            "query_string": told.query.encode(),
            "root_path": "",
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in given.items()],
            "client": (client, 4711),
        }
        parts = [content] if isinstance(content, bytes) else list(content)
        coming = [{"type": "http.request", "body": one, "more_body": True} for one in parts]
        if then == "ends":
            coming[-1]["more_body"] = False
        sent: list[Any] = []
        over = asyncio.Event()

        async def receive() -> Any:
            if coming:
                return coming.pop(0)
            if then == "stalls":  # the clock moves on, so that nobody has to wait
                loop = asyncio.get_running_loop()
                loop.time = partial(lambda time: time() + 3600, loop.time)
            if then != "leaves":
                await over.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            await asyncio.sleep(0)

        await self.app(scope, receive, send)
        over.set()
        if not sent:
            return Reply(0, {}, b"")
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Reply(sent[0]["status"], found, b"".join(one.get("body", b"") for one in sent[1:]))


@cache
def served(name: str = "small_model") -> ServedModel:
    """Return one of the fitted models, ready to answer."""
    made = targets_model if name == "targets_model" else getattr(fitted_models, name)
    return ServedModel(made(), "0123456789ab", "market.coterie")


@cache
def service(name: str = "small_model") -> Service:
    """Return the application around one of the fitted models."""
    return Service(served(name))


def advertiser_path(advertiser: str) -> str:
    """Return the path of an advertiser."""
    return f"/v1/advertisers/{quote(advertiser, safe='')}"
