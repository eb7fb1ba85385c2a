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
from coterie.ads.service.deciding import DECISIONS
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
    return [
        *_forecasts(routes),
        *_decisions(routes),
        *_of_the_model(routes),
        *_for_operators(routes),
    ]


def _forecasts(routes: Routes) -> list[Operation]:
    return [
        Operation(
            "POST",
            "/v1/forecast",
            routes.forecast,
            "Forecasts",
            answers=(protocol.Answer, protocol.Answers),
            body=protocol.Question | protocol.Questions,
            problems=_OF_QUESTIONS,
        ),
        Operation(
            "POST",
            "/v1/forecast/stream",
            routes.forecast_stream,
            "Forecasts",
            media=[NDJSON],
            body_media=NDJSON,
            problems=["unsupported-media-type"],
        ),
        Operation(
            "GET",
            "/v1/curves",
            routes.curves,
            "Forecasts",
            media=list(bulk_curves.MEDIA.values()),
            query=protocol.CurveQuery,
        ),
    ]


def _decisions(routes: Routes) -> list[Operation]:
    handlers = {
        "/v1/bids": routes.bid,
        "/v1/budgets": routes.budget,
        "/v1/targets": routes.targets,
        "/v1/portfolios": routes.portfolio,
    }
    return [
        Operation(
            "POST",
            path,
            handlers[path],
            "Decisions",
            answers=[decision.answer],
            body=decision.question,
            problems=_OF_QUESTIONS,
        )
        for path, decision in DECISIONS.items()
    ]


def _of_the_model(routes: Routes) -> list[Operation]:
    get = partial(Operation, "GET", tag="Model")
    return [
        get("/v1/model", routes.model, answers=[protocol.Model]),
        get("/v1/segments", routes.segments, answers=[protocol.Segments], tagged=True),
        get(
            "/v1/advertisers",
            routes.advertisers,
            answers=[protocol.AdvertiserPage],
            query=protocol.AdvertiserQuery,
            tagged=True,
        ),
        get(
            "/v1/advertisers/{id}",
            routes.advertiser,
            answers=[protocol.Advertiser],
            problems=["unknown-advertiser"],
            tagged=True,
        ),
    ]


def _for_operators(routes: Routes) -> list[Operation]:
    get = partial(Operation, "GET", tag="Operation")
    health = partial(get, answers=[protocol.Health], needs_token=False)
    return [
        health("/health/live", routes.live),
        health("/health/ready", routes.ready, problems=["not-ready"]),
        get("/metrics", routes.metrics, media=["text/plain"]),
    ]
