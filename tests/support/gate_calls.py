"""A gate asked without a network: messages in, an answer out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.ads.protocol import Limits
from coterie.ads.service.access.gate import Gate
from coterie.ads.service.access.listening import Door
from coterie.ads.service.access.request_logs import RequestLog
from coterie.ads.service.metrics import Metrics

HOST = (b"host", b"localhost:8400")
CHUNKED = (b"transfer-encoding", b"chunked")
DISCONNECT = {"type": "http.disconnect"}


@dataclass
class Answer:
    """What a gate sent."""

    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def status(self) -> int:
        """Of the answer."""
        return self.messages[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        """By name; none is there twice."""
        pairs = self.messages[0]["headers"]
        assert len({name for name, _ in pairs}) == len(pairs), "a header is there twice"
        return {name.decode(): value.decode() for name, value in pairs}

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def complete(self) -> bool:
        """Whether the gate said that this was all."""
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)

    @property
    def problem(self) -> dict[str, Any]:
        """The answer as a problem, which it must be."""
        assert self.headers["content-type"] == "application/problem+json"
        assert int(self.headers["content-length"]) == len(self.body)
        told = json.loads(self.body)
        assert told["status"] == self.status
        assert told["request_id"] == self.headers["x-request-id"]
        return told


class Asked:
    """A gate around an application, and what it logged and counted."""

    def __init__(self, app: Any, *, door: Door | None = None, **limits: Any) -> None:
        self.lines: list[str] = []
        self.metrics = Metrics()
        self.gate = Gate(
            app,
            door=door or Door(),
            limits=Limits(**limits),
            metrics=self.metrics,
            logs=RequestLog(self.lines.append),
        )

    @property
    def log(self) -> str:
        """What was logged so far."""
        return "".join(self.lines)

    @property
    def counted(self) -> str:
        """The metrics."""
        return self.metrics.text().decode()

    async def ask(
        self,
        path: str = "/v1/model",
        *,
        method: str = "GET",
        headers: Sequence[tuple[bytes, bytes]] = (HOST,),
        messages: Sequence[dict[str, Any]] = (),
        client: str = "127.0.0.1",
        query: bytes = b"",
    ) -> Answer:
        """One request; after its messages the client waits for the answer, and goes away then."""
        answer, coming, answered = Answer(), list(messages), asyncio.Event()

        async def receive() -> dict[str, Any]:
            if coming:
                return coming.pop(0)
            await answered.wait()
            return DISCONNECT

        async def send(message: dict[str, Any]) -> None:
            answer.messages.append(message)
            if message["type"] == "http.response.body":
                answered.set()

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
            "headers": list(headers),
            "client": (client, 4711),
        }
        await self.gate(scope, receive, send)
        return answer

    def __call__(self, *path: str, **request: Any) -> Answer:
        """One request in a loop of its own."""
        return asyncio.run(self.ask(*path, **request))


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    """A message with a part of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


async def greeting(scope: Any, receive: Any, send: Any) -> None:
    """An application that says hello."""
    await respond(send, b"hello")


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """An application that sends back the body of one message."""
    message = await receive()
    assert not message["more_body"]
    await respond(send, message["body"])


async def respond(send: Any, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """A whole answer."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def never(scope, receive, send):
    """An application that must not be reached."""
    raise AssertionError("the application was asked")
