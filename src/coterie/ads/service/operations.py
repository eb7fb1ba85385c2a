"""The table of routes: what each takes and answers, for routing and for the OpenAPI document."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from coterie.ads import protocol
from coterie.ads.service import bulk_curves
from coterie.ads.service.routes import JSON, NDJSON, Routes

__all__ = ["Operation", "operations"]

_OF_QUESTIONS = (
    "malformed-body",
    "slow-body",
    "body-too-large",
    "unsupported-media-type",
    "invalid-question",
)


@dataclass(frozen=True)
class Operation:
    """A route and its description in the OpenAPI document.

    ``description`` is that of the handler. Types are those of
    :mod:`coterie.ads.protocol`.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    tag: str
    answers: Sequence[Any] = ()  # types of the JSON
    media: Sequence[str] = (JSON,)
    body: Any = None
    body_media: str = JSON
    query: type[msgspec.Struct] = protocol.NoQuery
    problems: Sequence[str] = ()
    needs_token: bool = True
    tagged: bool = False  # whether answers have an ETag

    @property
    def operation_id(self) -> str:
        """A stable name for generated clients."""
        return self.handler.__name__

    @property
    def description(self) -> str:
        """The docstring of the handler."""
        return inspect.cleandoc(self.handler.__doc__ or "")


def operations(routes: Routes) -> list[Operation]:
    """Return all routes that are described in the OpenAPI document, and how."""
    get, post = partial(Operation, "GET"), partial(Operation, "POST")
    forecasts, model, operation = "Forecasts", "Model", "Operation"
    return [
        post(
            "/v1/forecast",
            routes.forecast,
            forecasts,
            answers=(protocol.Answer, protocol.Answers),
            body=protocol.Question | protocol.Questions,
            problems=_OF_QUESTIONS,
        ),
        post(
            "/v1/forecast/stream",
            routes.forecast_stream,
            forecasts,
            media=[NDJSON],
            body_media=NDJSON,
            problems=["unsupported-media-type"],
        ),
        get(
            "/v1/curves",
            routes.curves,
            forecasts,
            media=list(bulk_curves.MEDIA.values()),
            query=protocol.CurveQuery,
        ),
        get("/v1/model", routes.model, model, answers=[protocol.Model]),
        get("/v1/segments", routes.segments, model, answers=[protocol.Segments], tagged=True),
        get(
            "/v1/advertisers",
            routes.advertisers,
            model,
            answers=[protocol.AdvertiserPage],
            query=protocol.AdvertiserQuery,
            tagged=True,
        ),
        get(
            "/v1/advertisers/{id}",
            routes.advertiser,
            model,
            answers=[protocol.Advertiser],
            problems=["unknown-advertiser"],
            tagged=True,
        ),
        get("/health/live", routes.live, operation, answers=[protocol.Health], needs_token=False),
        get(
            "/health/ready",
            routes.ready,
            operation,
            answers=[protocol.Health],
            problems=["not-ready"],
            needs_token=False,
        ),
        get("/metrics", routes.metrics, operation, media=["text/plain"]),
    ]
