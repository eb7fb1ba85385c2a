"""The OpenAPI document: made from the routes and the types of the protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

import coterie
from coterie.ads import protocol
from coterie.ads.service.operations import Operation
from coterie.ads.service.problems import KINDS, PROBLEM_TYPE

__all__ = ["openapi_document"]

_ANY_ROUTE = ("malformed-request", "method-not-allowed", "unknown-host", "internal-error")
_TOKEN_ROUTE = ("token-required", "invalid-query", "too-much-work", "busy", "timed-out")
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


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of some routes."""
    types = {one for each in operations for one in (*each.answers, each.body) if one is not None}
    types |= {each.query for each in operations} | {protocol.ProblemDocument}
    ordered = sorted(types, key=str)
    found, components = msgspec.json.schema_components(
        ordered, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(ordered, found, strict=True))
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
        "tags": [{"name": name, "description": what} for name, what in _TAGS.items()],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


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
    for names, told in _ATTRIBUTE.findall(schema.get("description", "")):
        for name in names.split(", "):
            if name in schema.get("properties", {}):
                schema["properties"][name]["description"] = " ".join(told.split())


def _describe_default(member: dict[str, Any]) -> None:
    """Tell a default in words: generators make a member with a default one that is always there."""
    default = member.pop("default", "")
    if default != "":
        member["description"] = f"{member['description'].rstrip('.')}; by default {default}."


def _operation(
    operation: Operation, schemas: dict[Any, Any], query: dict[str, Any]
) -> dict[str, Any]:
    summary, _, rest = operation.description.partition("\n\n")
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
        content: dict[str, Any] = {"schema": schemas.get(operation.body, {"type": "string"})}
        if operation.body is not None:
            examples = _EXAMPLES[operation.operation_id]
            content["examples"] = {name: {"value": one} for name, one in examples.items()}
        described["requestBody"] = {"required": True, "content": {operation.body_media: content}}
    return described


def _responses(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    binary = {"type": "string", "format": "binary"}
    found = [schemas[answer] for answer in operation.answers] or [binary]
    answer = found[0] if len(found) == 1 else {"anyOf": found}
    if operation.media == ["text/plain"] or "ndjson" in operation.media[0]:
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
        told = "; ".join(f"{KINDS[name].title} (`/problems/{name}`)" for name in kinds)
        responses[str(status)] = {
            "description": f"{told}.",
            "content": {PROBLEM_TYPE: problems},
        }
    return responses


def _path_parameters(path: str) -> list[dict[str, Any]]:
    if "{id}" not in path:
        return []
    schema = {"type": "string"}
    return [
        {
            "name": "id",
            "in": "path",
            "required": True,
            "description": "Percent-encoded, also slashes.",
            "schema": schema,
        }
    ]


def _query_parameters(query: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for name, schema in query.get("properties", {}).items():
        parameter = {"name": name, "in": "query", "required": False}
        if "description" in schema:
            parameter["description"] = schema["description"]
        found.append(
            {**parameter, "schema": {k: v for k, v in schema.items() if k != "description"}}
        )
    return found
