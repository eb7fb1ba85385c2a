"""The OpenAPI document says what the routes take and give, and every answer is as described."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from pydantic import BaseModel, ValidationError
from schemathesis.specs.openapi.checks import positive_data_acceptance

from coterie.ads.protocol import Limits
from coterie.ads.service import api_document as document
from coterie.ads.service.answering.questions import faults_in
from coterie.ads.service.application import application
from coterie.ads.service.metrics import Metrics
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
        question = {"advertiser": str(advertiser), "bid": [1, 1e9], "days": 3, "level": 0.5}
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
        {"advertiser": "a", "bid": 1, "days": 7, "level": 0.5},
        {"advertiser": "a", "bid": 1, "days": 0},
        {"advertiser": "a", "bid": 1, "days": 367},
        {"advertiser": "a", "bid": 1, "level": 0.85},
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


class FittedOnDemand:
    """Holds a model that is fitted when it is first asked: the document does not need it."""

    last_refusal = None
    current = property(lambda _: served())


APP = application(FittedOnDemand(), limits=Limits(), metrics=Metrics())
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)


@SCHEMA.parametrize()
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_described(case):
    """No request makes the service fail, and status, type and body are those of the document."""
    # a schema cannot say that a range must rise, or that strangers need a supply
    case.call_and_validate(excluded_checks=[positive_data_acceptance])
