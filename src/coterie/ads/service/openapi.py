"""The table of routes, and the OpenAPI document that is made from it and the protocol."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

import coterie
from coterie.ads import protocol
from coterie.ads.service.deciding import CURVE_MEDIA, DECISIONS
from coterie.ads.service.problems import KINDS, PROBLEM_TYPE
from coterie.ads.service.routes import JSON, Routes

__all__ = ["Operation", "openapi_document", "operations"]

_ANY_ROUTE = ("malformed-request", "method-not-allowed", "unknown-host", "internal-error")
_TOKEN_ROUTE = ("token-required", "invalid-query", "too-much-work", "busy", "timed-out")
_QUESTION_ROUTE = (
    *("malformed-body", "slow-body", "body-too-large", "unsupported-media-type"),
    "invalid-question",
)
_TAGS = {
    "Forecasts": "What an advertiser wins, and what it pays, at any bid.",
    "Decisions": "Bids for goals, budgets, targets and portfolios.",
    "Model": "What is known of advertisers and segments.",
    "Operation": "For operators.",
}
#: An entry of a docstring: names, then the lines of their description.
_ATTRIBUTE = re.compile(r"^ *([\w, ]+?) : [^\n]*\n((?: {8,}[^\n]*\n?)+)", re.MULTILINE)
_ASKED = {"advertiser": "adv-00033", "bid": 2.5, "supply": 1_000_000}
_EXAMPLES: dict[str, dict[str, Any]] = {
    "forecast": {
        "one question": _ASKED,
        "several questions": [
            {"advertiser": "adv-00033", "bid": {"from": 2, "to": 3, "step": 0.25}},
            {"text": "flights and hotels", "bid": [1.5, 2.5], "supply": 10_000, "days": 7},
        ],
    },
    "bid": {
        "impressions": {"advertiser": "adv-00033", "impressions": 1_000, "days": 7},
        "spend": {"advertiser": "adv-00033", "spend": 5},
    },
    "budget": {"a week": {"advertiser": "adv-00033", "budget": 20, "days": 7}},
    "targets": {"devices": {"advertiser": "adv-00033", "dimension": "device", "by": "clicks"}},
    "portfolio": {
        "two advertisers": {"advertisers": ["adv-00001", "adv-00033"], "budget": 50},
        "a segment": {"segment": 0, "goal": "clicks"},
    },
}


@dataclass(frozen=True)
class Operation:
    """A route and its description in the OpenAPI document.

    Types are those of :mod:`coterie.ads.protocol`.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    tag: str
    answers: Sequence[Any] = ()  # types of the JSON
    media: Sequence[str] = (JSON,)
    body: Any = None
    query: type[msgspec.Struct] = protocol.NoQuery
    problems: Sequence[str] = ()
    needs_token: bool = True
    tagged: bool = False  # whether answers have an ETag

    @property
    def operation_id(self) -> str:
        """A stable name for generated clients."""
        return self.handler.__name__


def operations(routes: Routes) -> list[Operation]:
    """Return all routes that are described in the OpenAPI document, and how."""
    operation = partial(Operation, "GET", tag="Operation")
    health = partial(operation, answers=[protocol.Health], needs_token=False)
    return [
        *_forecast_operations(routes),
        *_decision_operations(routes),
        *_model_operations(routes),
        health("/health/live", routes.live),
        health("/health/ready", routes.ready, problems=["not-ready"]),
        operation("/metrics", routes.metrics, media=["text/plain"]),
    ]


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of some routes."""
    types = {one for each in operations for one in (*each.answers, each.body) if one is not None}
    types |= {each.query for each in operations} | {protocol.ProblemDocument}
    ordered = sorted(types, key=str)
    all_schemas, components = msgspec.json.schema_components(
        ordered, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(ordered, all_schemas, strict=True))
    _simplify(components)
    queries = {each.query: components.pop(each.query.__name__, None) for each in operations}
    for schema in components.values():
        _describe_members(schema)
        # examples in docstrings are those of Python
        schema["description"] = schema.get("description", "").partition("\n\n")[0]
        for member in schema.get("properties", {}).values():
            _describe_default(member)
    # not an enumeration: a later version may have more
    problem_type = components["ProblemDocument"]["properties"]["type"]
    problem_type["examples"] = [f"/problems/{name}" for name in KINDS]
    paths: dict[str, Any] = {}
    for each in operations:
        described = _operation(each, schemas, queries[each.query] or {})
        paths.setdefault(each.path, {})[each.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "coterie forecasts",
            "version": coterie.__version__,
            "description": "What an advertiser wins, and what it pays, at bids not made yet.",
        },
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _forecast_operations(routes: Routes) -> list[Operation]:
    operation = partial(Operation, tag="Forecasts")
    return [
        operation(
            "POST",
            "/v1/forecast",
            routes.forecast,
            answers=(protocol.Answer, protocol.Answers),
            body=protocol.Question | protocol.Questions,
            problems=_QUESTION_ROUTE,
        ),
        operation(
            "GET",
            "/v1/curves",
            routes.curves,
            media=list(CURVE_MEDIA.values()),
            query=protocol.CurveQuery,
        ),
    ]


def _decision_operations(routes: Routes) -> list[Operation]:
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
            handler,
            "Decisions",
            answers=[DECISIONS[path].answer],
            body=DECISIONS[path].question,
            problems=_QUESTION_ROUTE,
        )
        for path, handler in handlers.items()
    ]


def _model_operations(routes: Routes) -> list[Operation]:
    operation = partial(Operation, "GET", tag="Model")
    return [
        operation("/v1/model", routes.model, answers=[protocol.Model]),
        operation("/v1/segments", routes.segments, answers=[protocol.Segments], tagged=True),
        operation(
            "/v1/advertisers",
            routes.advertisers,
            answers=[protocol.AdvertiserPage],
            query=protocol.AdvertiserQuery,
            tagged=True,
        ),
        operation(
            "/v1/advertisers/{id}",
            routes.advertiser,
            answers=[protocol.Advertiser],
            problems=["unknown-advertiser"],
            tagged=True,
        ),
    ]


def _simplify(schema: Any) -> None:
    """Write a schema, and all within it, as generators of clients expect it."""
    for inner in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(inner, dict | list):
            _simplify(inner)
    if isinstance(schema, dict) and "prefixItems" in schema:
        schema["items"] = schema.pop("prefixItems")[0]  # all are of one type
    if isinstance(schema, dict) and "enum" in schema:
        schema["type"] = "string"


def _describe_members(schema: dict[str, Any]) -> None:
    """Describe the members of a data class by the section "Attributes" of its docstring."""
    for names, description in _ATTRIBUTE.findall(schema.get("description", "")):
        for name in names.split(", "):
            if name in schema.get("properties", {}):
                schema["properties"][name]["description"] = " ".join(description.split())


def _describe_default(member: dict[str, Any]) -> None:
    """Write a default in words: for generators, a member with a default is always there."""
    default = member.pop("default", "")
    if default != "":
        member["description"] = f"{member['description'].rstrip('.')}; by default {default}."


def _operation(
    operation: Operation, schemas: dict[Any, Any], query: dict[str, Any]
) -> dict[str, Any]:
    summary, _, rest = inspect.cleandoc(operation.handler.__doc__ or "").partition("\n\n")
    described: dict[str, Any] = {
        "operationId": operation.operation_id,
        "tags": [operation.tag],
        "summary": " ".join(summary.split()),
        "responses": _responses(operation, schemas),
    }
    if rest:
        described["description"] = " ".join(rest.split())
    if not operation.needs_token:
        described["security"] = []
    if parameters := [*_path_parameters(operation.path), *_query_parameters(query)]:
        described["parameters"] = parameters
    if operation.method == "POST":
        content: dict[str, Any] = {"schema": schemas[operation.body]}
        examples = _EXAMPLES[operation.operation_id]
        content["examples"] = {name: {"value": one} for name, one in examples.items()}
        described["requestBody"] = {"required": True, "content": {JSON: content}}
    return described


def _responses(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    binary = {"type": "string", "format": "binary"}
    answers = [schemas[answer] for answer in operation.answers] or [binary]
    answer = answers[0] if len(answers) == 1 else {"anyOf": answers}
    if operation.media == ["text/plain"]:
        answer = {"type": "string"}
    responses: dict[str, Any] = {
        "200": {
            "description": "The answer.",
            "content": {media: {"schema": answer} for media in operation.media},
        }
    }
    if operation.tagged:
        responses["304"] = {"description": "The client has the answer (If-None-Match)."}
    named = [*_ANY_ROUTE, *(_TOKEN_ROUTE if operation.needs_token else ()), *operation.problems]
    problems = {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}
    for status in sorted({KINDS[name].status for name in named}):
        kinds = [name for name in dict.fromkeys(named) if KINDS[name].status == status]
        titles = "; ".join(f"{KINDS[name].title} (`/problems/{name}`)" for name in kinds)
        responses[str(status)] = {
            "description": f"{titles}.",
            "content": {PROBLEM_TYPE: problems},
        }
    return responses


def _path_parameters(path: str) -> list[dict[str, Any]]:
    if "{id}" not in path:
        return []
    described = {"description": "Percent-encoded, also slashes.", "schema": {"type": "string"}}
    return [{"name": "id", "in": "path", "required": True, **described}]


def _query_parameters(query: dict[str, Any]) -> list[dict[str, Any]]:
    parameters = []
    for name, schema in query.get("properties", {}).items():
        parameter = {"name": name, "in": "query", "required": False, "schema": {**schema}}
        if "description" in schema:
            parameter["description"] = parameter["schema"].pop("description")
        parameters.append(parameter)
    return parameters
