"""The routes asked without a network or a gate: a request in, an answer out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import fitted_models
from coterie.ads.protocol import Limits
from coterie.ads.service.application import application
from coterie.ads.service.metrics import Metrics
from coterie.ads.service.models.served_model import ServedModel

JSON = "application/json"


@dataclass(frozen=True)
class Reply:
    """An answer, whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """What the body says."""
        return json.loads(self.body)

    @property
    def problem(self) -> dict[str, Any]:
        """The body of an answer that must be a problem."""
        assert self.headers["content-type"] == "application/problem+json"
        told = self.json
        assert told["status"] == self.status
        assert told["request_id"] == "r-1"
        return told

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Places and words of the faults in a problem of status 422."""
        assert self.status == 422, self.body
        return [(fault["at"], fault["what"]) for fault in self.problem["errors"]]


@dataclass
class OneModel:
    """Holds a model and never another, as far as the routes can tell a holder."""

    current: ServedModel
    last_refusal: Any = None


class Service:
    """The routes around a model, and what they counted."""

    def __init__(self, served: ServedModel, **limits: Any) -> None:
        self.holder = OneModel(served)
        self.served = served
        self.metrics = Metrics()
        self.app = application(self.holder, limits=Limits(**limits), metrics=self.metrics)

    def ask(
        self,
        method: str,
        target: str,
        *,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> Reply:
        """One request, in a loop of its own; ``target`` is percent-encoded."""
        told = urlsplit(target)
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(told.path),
            "raw_path": told.path.encode(),
            "query_string": told.query.encode(),
            "root_path": "",
            "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
            "state": {"request_id": "r-1", **(state or {})},
        }
        return asyncio.run(self._asked(scope, content))

    def get(self, target: str, **request: Any) -> Reply:
        """One GET."""
        return self.ask("GET", target, **request)

    def forecast(self, asked: Any) -> Reply:
        """Questions, as a client sends them."""
        content = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        return self.ask("POST", "/v1/forecast", content=content, headers={"content-type": JSON})

    async def _asked(self, scope: dict[str, Any], content: bytes) -> Reply:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return Reply(sent[0]["status"], headers, body)


@cache
def served(name: str = "small_model") -> ServedModel:
    """One of the fitted models, ready to answer."""
    return ServedModel(getattr(fitted_models, name)(), "0123456789ab", "market.coterie")


@cache
def service(name: str = "small_model") -> Service:
    """The routes around one of the fitted models."""
    return Service(served(name))


def advertiser_path(advertiser: str) -> str:
    """Where an advertiser is found."""
    return f"/v1/advertisers/{quote(advertiser, safe='')}"
