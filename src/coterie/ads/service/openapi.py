"""The OpenAPI document, made from the table of operations and their types."""

from __future__ import annotations

import re
from typing import Any

import msgspec

import coterie
from coterie.ads.protocol import JSON, OPERATIONS, TAGS, Operation, ProblemDocument
from coterie.ads.service.problems import KINDS, PROBLEM_TYPE

_ANY_ROUTE = ("malformed-request", "method-not-allowed", "unknown-host", "internal-error")
_TOKEN_ROUTE = ("token-required", "invalid-query", "too-much-work", "busy", "timed-out")
_QUESTION_ROUTE = (
    *("malformed-body", "slow-body", "body-too-large", "unsupported-media-type"),
    "invalid-question",
)
#: An entry of the section "Attributes" of a docstring: names, then the lines that describe them.
_ATTRIBUTE = re.compile(r"^ *([\w, ]+?) : [^\n]*\n((?: {8,}[^\n]*\n?)+)", re.MULTILINE)


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of all operations."""
    each_type = [(*one.answers, one.question, one.query) for one in OPERATIONS.values()]
    types = {kind for some in each_type for kind in some if kind is not None} | {ProblemDocument}
    ordered = sorted(types, key=str)
    all_schemas, components = msgspec.json.schema_components(
        ordered, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(ordered, all_schemas, strict=True))
    _simplify(components)
    queries: dict[Any, Any] = {
        one.query: components.pop(one.query.__name__, {})
        for one in OPERATIONS.values()
        if one.query is not None
    }
    for schema in components.values():
        members, docstring = schema.get("properties", {}), schema.get("description", "")
        for names, description in _ATTRIBUTE.findall(docstring):
            for name in names.split(", "):
                if name in members:
                    members[name]["description"] = " ".join(description.split())
        # examples in docstrings are those of Python
        schema["description"] = docstring.partition("\n\n")[0]
        # defaults are in words: for generators, a member with a default is always there
        for member in members.values():
            default = member.pop("default", "")
            if default != "":
                member["description"] = (
                    f"{member['description'].rstrip('.')}; by default {default}."
                )
    # not an enumeration: a later version may have more
    problem_type = components["ProblemDocument"]["properties"]["type"]
    problem_type["examples"] = [f"/problems/{name}" for name in KINDS]
    paths: dict[str, Any] = {}
    for name, each in OPERATIONS.items():
        described = _operation(name, each, schemas, queries.get(each.query, {}))
        paths.setdefault(each.path, {})[each.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "coterie forecasts",
            "version": coterie.__version__,
            "description": "What an advertiser wins, and what it pays, at bids not made yet.",
        },
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
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


def _operation(
    name: str, operation: Operation, schemas: dict[Any, Any], query: dict[str, Any]
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": _responses(operation, schemas),
    }
    if operation.description:
        described["description"] = operation.description
    if not operation.needs_token:
        described["security"] = []
    if parameters := _parameters(operation.path, query):
        described["parameters"] = parameters
    if operation.question is not None:
        content: dict[str, Any] = {"schema": schemas[operation.question]}
        content["examples"] = {kind: {"value": one} for kind, one in operation.examples.items()}
        described["requestBody"] = {"required": True, "content": {JSON: content}}
    return described


def _responses(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    binary = {"type": "string", "format": "binary"}
    answers = [schemas[answer] for answer in operation.answers] or [binary]
    answer = answers[0] if len(answers) == 1 else {"anyOf": answers}
    if operation.media == ("text/plain",):
        answer = {"type": "string"}
    responses: dict[str, Any] = {
        "200": {
            "description": "The answer.",
            "content": {media: {"schema": answer} for media in operation.media},
        }
    }
    if operation.tagged:
        responses["304"] = {"description": "The client has the answer (If-None-Match)."}
    named = [*_ANY_ROUTE, *(_TOKEN_ROUTE if operation.needs_token else ())]
    named += [*(_QUESTION_ROUTE if operation.question is not None else ()), *operation.problems]
    problems = {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}
    for status in sorted({KINDS[name].status for name in named}):
        kinds = [name for name in dict.fromkeys(named) if KINDS[name].status == status]
        titles = "; ".join(f"{KINDS[name].title} (`/problems/{name}`)" for name in kinds)
        responses[str(status)] = {
            "description": f"{titles}.",
            "content": {PROBLEM_TYPE: problems},
        }
    return responses


def _parameters(path: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if "{id}" in path:
        described = {"description": "Percent-encoded, also slashes.", "schema": {"type": "string"}}
        parameters.append({"name": "id", "in": "path", "required": True, **described})
    for name, schema in query.get("properties", {}).items():
        parameter = {"name": name, "in": "query", "required": False, "schema": {**schema}}
        if "description" in schema:
            parameter["description"] = parameter["schema"].pop("description")
        parameters.append(parameter)
    return parameters
