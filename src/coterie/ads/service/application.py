"""The routes: what each of them answers, as one ASGI application.

Every answer is written from plain values; the models of
:mod:`coterie.ads.service.api_document` describe them and are not run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Annotated, Any

import orjson
from fastapi import Body, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.responses import Response

import coterie
from coterie.ads.protocol import Limits
from coterie.ads.service import api_document as document
from coterie.ads.service.answering.forecast_lane import ForecastLane
from coterie.ads.service.answering.questions import faulty
from coterie.ads.service.metrics import CONTENT_TYPE, Metrics
from coterie.ads.service.models.model_holder import ModelHolder
from coterie.ads.service.models.served_model import ServedModel
from coterie.ads.service.pages import has_tag, page_routes
from coterie.ads.service.problems import PROBLEM_TYPE, Problem, problem_body

__all__ = ["application"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]

_FORECAST = "/v1/forecast"
_MOST_PAGE = 1_000_000_000
_MOST_PAGE_SIZE = 100
_MOST_SEARCH = 1_024
# what each parameter of a query may be
_PARAMETERS = {
    "search": f"it may have up to {_MOST_SEARCH:,} characters",
    "segment": f"it may be a whole number from 0 to {_MOST_PAGE:,}",
    "page": f"it may be a whole number from 1 to {_MOST_PAGE:,}",
    "page_size": f"it may be a whole number from 1 to {_MOST_PAGE_SIZE}",
}


def application(holder: ModelHolder, *, limits: Limits, metrics: Metrics) -> ASGI:
    """Return the service as an ASGI application, without the gate before it."""
    lane = ForecastLane(holder, limits=limits, metrics=metrics)
    app = FastAPI(
        title="coterie forecasts",
        version=coterie.__version__,
        description="What an advertiser wins, and what it pays, at bids it has not made yet.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=document.problem_responses(),
    )
    register_url_convertor("anything", _Anything())
    _add_signs_of_life(app, holder, metrics)
    _add_model(app, holder)
    _add_advertisers(app, holder)
    _add_forecast(app, lane)
    app.router.routes.extend(page_routes())
    _answer_problems(app)
    document.completed(app.openapi())  # which the app keeps
    return _Application(app, lane)


class _Application:
    """The routes, with a short cut to the one that is asked most, and HEAD wherever GET is."""

    def __init__(self, routes: FastAPI, lane: ForecastLane) -> None:
        self.routes = routes
        self._lane = lane

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            method = scope["method"]
            if method == "POST" and scope["path"] == _FORECAST:
                await _with_problems(self._lane, scope, receive, send)
                return
            if method == "HEAD":
                scope, send = {**scope, "method": "GET"}, _without_body(send)
        await self.routes(scope, receive, send)


def _add_signs_of_life(app: FastAPI, holder: ModelHolder, metrics: Metrics) -> None:
    @app.get("/health", response_model=document.Health)
    async def health(request: Request) -> Response:
        """Whether the service answers, with which model, and whether a later one was refused."""
        told: dict[str, Any] = {"status": "ok"}
        if request.scope.get("state", {}).get("authorised", True):
            served, refusal = holder.current, holder.last_refusal
            told["model"] = {
                "version": served.version,
                "advertisers": served.advertisers,
                "loaded_at": served.loaded_at.isoformat(),
            }
            told["last_refusal"] = refusal and {
                "at": refusal.at.isoformat(),
                "reason": refusal.reason,
            }
        return _json(told)

    @app.get("/metrics", response_class=Response, responses=_PLAIN_TEXT)
    async def counts() -> Response:
        """Return the metrics in the format of Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)


def _add_model(app: FastAPI, holder: ModelHolder) -> None:
    @app.get("/v1/model", response_model=document.Model, responses=_UNCHANGED)
    async def model(request: Request) -> Response:
        """Return what is served: the market, its days, its grid of bids."""
        served = await holder.current.with_details()
        named = {
            "name": served.name,
            "version": served.version,
            "loaded_at": served.loaded_at.isoformat(),
        }
        return _tagged(request, served, lambda: named | served.book.summary())

    @app.get("/v1/segments", response_model=document.Segments, responses=_UNCHANGED)
    async def segments(request: Request) -> Response:
        """All segments and their curves."""
        served = await holder.current.with_details()
        return _tagged(
            request,
            served,
            lambda: {"grid": served.book.grid, "segments": served.book.segments()},
        )


def _add_advertisers(app: FastAPI, holder: ModelHolder) -> None:
    @app.get("/v1/advertisers", response_model=document.AdvertiserPage, responses=_UNCHANGED)
    async def advertisers(
        request: Request,
        search: Annotated[
            str, Query(max_length=_MOST_SEARCH, description="A part of the id.")
        ] = "",
        segment: Annotated[int | None, Query(ge=0, le=_MOST_PAGE)] = None,
        page: Annotated[int, Query(ge=1, le=_MOST_PAGE)] = 1,
        page_size: Annotated[int, Query(ge=1, le=_MOST_PAGE_SIZE)] = 20,
    ) -> Response:
        """Advertisers whose id holds a text, in upper or lower case; those that begin first.

        Within each kind those that spend most come first.
        """
        served = await holder.current.with_details()
        return _tagged(request, served, lambda: served.found(search, segment, page, page_size))

    @app.get(
        "/v1/advertisers/{id:anything}",
        response_model=document.AdvertiserDetail,
        responses=document.problem_responses(404) | _UNCHANGED,
    )
    async def advertiser(
        request: Request,
        id_: Annotated[str, Path(alias="id", description="Percent-encoded, slashes too.")],
    ) -> Response:
        """All that is known of one advertiser."""
        served = await holder.current.with_details()
        row = served.tables.row_of.get(id_)
        if row is None:
            raise Problem(404, "Not Found", "the model has no advertiser of this id")
        return _tagged(request, served, lambda: served.book.advertiser(row))


def _add_forecast(app: FastAPI, lane: ForecastLane) -> None:
    class LaneRoute(APIRoute):
        """Described like every other route, and answered by the lane."""

        async def handle(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["method"] == "POST":
                await _with_problems(lane, scope, receive, send)
            else:
                await super().handle(scope, receive, send)

    def forecast(
        questions: Annotated[
            document.Question
            | Annotated[list[document.Question], Body(min_length=1, max_length=1000)],
            Body(),
        ],
    ) -> None:
        """Impressions, spend, clicks and conversions at bids: of one question, or of a list.

        A fault in any question refuses the whole, and tells where each fault is.
        """

    app.router.add_api_route(
        _FORECAST,
        forecast,
        methods=["POST"],
        response_model=document.OneAnswer | document.ManyAnswers,
        responses=document.problem_responses(415),
        route_class_override=LaneRoute,
    )


def _answer_problems(app: FastAPI) -> None:
    async def problem(request: Request, error: Exception) -> Response:
        return _problem_response(request.scope, _as_problem(error))

    for kind in (Problem, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, problem)


def _as_problem(error: Exception) -> Problem:
    """Return what a client is told of an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        found = [(".".join(map(str, one["loc"][1:])), one["msg"]) for one in error.errors()]
        return faulty([(at, _PARAMETERS.get(at, what)) for at, what in found])
    if isinstance(error, HTTPException):
        title = HTTPStatus(error.status_code).phrase
        headers = dict(error.headers or {})
        if error.status_code == 404:
            return Problem(404, title, "there is nothing at this path")
        if error.status_code == 405:
            allowed = {name.strip() for name in headers.get("Allow", "").split(",")}
            allowed |= {"HEAD"} if "GET" in allowed else set()
            told = ", ".join(sorted(allowed))
            return Problem(405, title, f"this path answers to {told}", headers={"Allow": told})
        return Problem(error.status_code, title, title, headers=headers)
    return Problem(500, "Internal Server Error", "the service failed on this request")


async def _with_problems(app: ASGI, scope: Scope, receive: Receive, send: Send) -> None:
    """Run an application that raises problems, and answer those."""
    try:
        await app(scope, receive, send)
    except Problem as problem:
        await _problem_response(scope, problem)(scope, receive, send)


def _problem_response(scope: Scope, problem: Problem) -> Response:
    request_id = scope.get("state", {}).get("request_id", "")
    return Response(
        problem_body(problem, request_id),
        problem.status,
        headers={"Cache-Control": "no-store", **problem.headers},
        media_type=PROBLEM_TYPE.decode(),
    )


def _tagged(request: Request, served: ServedModel, content: Callable[[], Any]) -> Response:
    """Return an answer valid as long as the model, or 304 if the client has it."""
    headers = {"ETag": served.tag, "Cache-Control": "no-cache"}
    if has_tag(request, served.tag):
        return Response(status_code=304, headers=headers)
    return _json(content(), headers)


def _json(content: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), headers=headers, media_type="application/json")


def _without_body(send: Send) -> Send:
    """As the answer to a GET, its headers too, and then nothing."""

    async def headers_only(message: Any) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return headers_only


class _Anything(Convertor[str]):
    """The rest of a path, slashes and line ends too: an id may hold any character."""

    regex = r"(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


_PLAIN_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Counts"}
}
_UNCHANGED: dict[int | str, dict[str, Any]] = {
    304: {"description": "The client has this answer already (If-None-Match)"}
}
