"""The OpenAPI document says what the routes take and give."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from coterie.ads.protocol import Limits
from coterie.ads.service import api_document as document
from coterie.ads.service.answering.questions import faults_in
from service_calls import advertiser_path, served, service

MODELS = ("small_model", "first_price_model", "textless_model")


@pytest.fixture(scope="module")
def paths():
    """The paths of the document."""
    return service().get("/openapi.json").json["paths"]


def test_is_of_openapi_3_1_and_has_every_route(paths):
    """All routes for programs are there, the forecast too."""
    assert service().get("/openapi.json").json["openapi"].startswith("3.1")
    assert set(paths) == {
        "/health",
        "/metrics",
        "/v1/model",
        "/v1/segments",
        "/v1/advertisers",
        "/v1/advertisers/{id}",
        "/v1/forecast",
    }
    assert set(paths["/v1/forecast"]) == {"post"}


def test_every_route_says_what_it_does_and_what_may_go_wrong(paths):
    """Each operation has words, and problems as application/problem+json."""
    for operations in paths.values():
        for operation in operations.values():
            assert operation["description"]
            assert {"400", "401", "422", "429", "500", "503"} <= set(operation["responses"])
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert set(response["content"]) == {"application/problem+json"}


def test_every_reference_leads_somewhere():
    """No schema refers to one that is not there."""
    told = service().get("/openapi.json").json
    schemas = told["components"]["schemas"]

    def walk(node):
        if isinstance(node, dict):
            if "$ref" in node:
                assert node["$ref"].removeprefix("#/components/schemas/") in schemas
            for item in node.values():
                walk(item)
        elif isinstance(node, list):
            for item in node:
                walk(item)

    walk(told)


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_of_the_shapes_they_are_said_to_be(name):
    """Every answer has exactly the members of its model, within their bounds."""
    asked = service(name)
    document.Health.model_validate(asked.get("/health").json)
    document.Model.model_validate(asked.get("/v1/model").json)
    document.Segments.model_validate(asked.get("/v1/segments").json)
    document.AdvertiserPage.model_validate(asked.get("/v1/advertisers").json)
    for advertiser in served(name).model.advertisers_[::7]:
        detail = asked.get(advertiser_path(str(advertiser))).json
        document.AdvertiserDetail.model_validate(detail)
        question = {"advertiser": str(advertiser), "bid": [1, 1e9]}
        document.OneAnswer.model_validate(asked.forecast(question).json)
        document.ManyAnswers.model_validate(asked.forecast([question]).json)
    stranger = {"text": "tour", "bid": 1, "supply": 10}
    document.OneAnswer.model_validate(asked.forecast(stranger).json)
    document.ProblemDocument.model_validate(asked.get("/nowhere").json)
    document.ProblemDocument.model_validate(asked.forecast([]).json)


def test_shapes_are_exact():
    """A member too many does not pass for one of ours."""

    def shapes(kind):
        yield kind
        for child in kind.__subclasses__():
            yield from shapes(child)

    ours = [kind for kind in shapes(BaseModel) if kind.__module__ == document.__name__]
    assert len(ours) > 20
    assert all(kind.model_config.get("extra") == "forbid" for kind in ours)


@pytest.mark.parametrize(
    "question",
    [
        {"advertiser": "a", "bid": 1},
        {"text": "t", "bid": [1, 2.5], "supply": 0},
        {"advertiser": "a", "text": "t", "bid": {"from": 1, "to": 2, "step": 0.5}},
        {"advertiser": "a", "bid": 0},
        {"advertiser": "a", "bid": []},
        {"advertiser": "a", "bid": {"from": 1, "to": 2}},
        {"advertiser": "a", "bid": 1e10},
        {"advertiser": "a" * 1025, "bid": 1},
        {"advertiser": "a", "bid": 1, "supply": -1},
        {"advertiser": "a", "bid": 1, "colour": "red"},
        {"advertiser": "a"},
    ],
)
def test_questions_are_read_as_they_are_described(question):
    """What the document's model of a question refuses, the reader refuses, and the reverse."""
    try:
        document.Question.model_validate(question, strict=False)
        described = True
    except ValidationError:
        described = False
    assert described == (not faults_in(question, Limits()))


def test_limits_in_the_document_are_those_of_the_service(paths):
    """The most questions and bids that a request may have are told."""
    schema = paths["/v1/forecast"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    listed = next(one for one in schema["anyOf"] if one.get("type") == "array")
    assert (listed["minItems"], listed["maxItems"]) == (1, Limits().questions)


def test_the_page_is_no_part_of_the_document(paths):
    """What people look at is not described for programs."""
    assert "/" not in paths
