"""The quick way of ``POST /v1/forecast``: bytes in, bytes out, past every framework.

A forecast takes microseconds; routing, validation and serialisation by models would take a
hundred times that. The route is described in the OpenAPI document like every other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from coterie.ads.protocol import Limits
from coterie.ads.service.answering.answers import (
    answer_to_one,
    answers_in_turns,
    answers_to,
    periods_of,
    rows_of,
)
from coterie.ads.service.answering.questions import Question, read_questions
from coterie.ads.service.metrics import Metrics
from coterie.ads.service.models.model_holder import ModelHolder
from coterie.ads.service.models.served_model import ServedModel
from coterie.ads.service.problems import Problem

__all__ = ["ForecastLane"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

#: More bids times days at a time are forecast in a thread, so that others are answered meanwhile.
_MOST_AT_ONCE = 2_000
_THREADS = 2
_JSON = b"application/json"


class ForecastLane:
    """An ASGI application that answers questions; a :class:`Problem` where a body has none."""

    def __init__(self, holder: ModelHolder, *, limits: Limits, metrics: Metrics) -> None:
        self._holder = holder
        self._limits = limits
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(_THREADS, "forecasts")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        _refuse_other_types(scope["headers"])
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        content = await self.answered(body)
        start = {
            "type": "http.response.start",
            "status": 200,
            "headers": [
                (b"content-type", _JSON),
                (b"content-length", b"%d" % len(content)),
                (b"cache-control", b"no-store"),
            ],
        }
        await send(start)
        await send({"type": "http.response.body", "body": content})

    async def answered(self, body: bytes) -> bytes:
        """Return the JSON that answers the JSON of a body."""
        served = self._holder.current
        asked = _parsed(body)
        questions = read_questions(asked, self._limits)
        rows = rows_of(served, questions)
        many = type(asked) is list
        total = sum([len(question[2]) for question in questions])
        work = sum([len(question[2]) * question[5] for question in questions])
        ready = all(served.has_period(*period) for period in periods_of(questions))
        if total == 1 and ready and not many and rows[0] is not None:
            content = _whole(served, answer_to_one(served, questions[0], rows[0]), many)
        elif work > _MOST_AT_ONCE or not ready or None in rows:
            content = await self._in_turns(served, questions, rows, many)
        else:
            content = _whole(served, answers_to(served, questions, rows, self._limits), many)
        self._metrics.count_forecasts(total)
        return content

    async def _in_turns(
        self, served: ServedModel, questions: list[Question], rows: list[int | None], many: bool
    ) -> bytes:
        """Answer in threads, which take requests by turns; nothing is done for who has left."""
        turns = answers_in_turns(served, questions, rows, self._limits, many=many)
        loop = asyncio.get_running_loop()
        answers = b""
        while not answers:
            answers = await loop.run_in_executor(self._threads, next, turns)
        return _whole(served, answers, many)


def _refuse_other_types(headers: Any) -> None:
    """Refuse a body that is not said to be JSON in UTF-8."""
    for name, value in headers:
        if name == b"content-type":
            if value == _JSON:
                return
            kind, *settings = value.lower().replace(b" ", b"").replace(b'"', b"").split(b";")
            if kind == _JSON and all(one in {b"", b"charset=utf-8"} for one in settings):
                return
    raise Problem(
        415,
        "Unsupported Media Type",
        "questions are JSON in UTF-8: send the header Content-Type: application/json",
    )


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(
            400, "Bad Request", f"the body is not JSON: {error.msg} (line {error.lineno})"
        ) from None


def _whole(served: ServedModel, answers: bytes, many: bool) -> bytes:
    """Return the body of a response: answers, or the one answer, after what goes for all."""
    if many:
        return b'%b"answers":[%b]}' % (served.preface, answers)
    return served.preface + answers[1:]
