"""The OpenAPI document: answers are as it says, and generators of clients understand it."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from coterie.ads.protocol import Limits
from coterie.ads.service.access import AccessPolicy
from coterie.ads.service.problems import KINDS
from running_service import running_service
from service_calls import Service, advertiser_path, served, service

MODELS = ("small_model", "first_price_model", "textless_model")
TOKEN = "a-token-that-nobody-guesses"
#: Names that generated clients depend on.
OPERATIONS = {
    "advertiser": "GET /v1/advertisers/{id}",
    "advertisers": "GET /v1/advertisers",
    "bid": "POST /v1/bids",
    "budget": "POST /v1/budgets",
    "curves": "GET /v1/curves",
    "forecast": "POST /v1/forecast",
    "live": "GET /health/live",
    "metrics": "GET /metrics",
    "model": "GET /v1/model",
    "portfolio": "POST /v1/portfolios",
    "ready": "GET /health/ready",
    "segments": "GET /v1/segments",
    "targets": "POST /v1/targets",
}


@pytest.fixture(scope="module")
def document():
    """The document, as it is served."""
    return service().get("/openapi.json").json


def operations(document):
    """Return each operation with its path and method."""
    return {
        one["operationId"]: (f"{method.upper()} {path}", one)
        for path, item in document["paths"].items()
        for method, one in item.items()
    }


def within(document, schema):
    """Yield a schema and all that it consists of."""
    yield schema
    if "$ref" in schema:
        yield from within(
            document, document["components"]["schemas"][schema["$ref"].split("/")[-1]]
        )
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from within(document, inner)
    if "items" in schema:
        yield from within(document, schema["items"])


def check(document, schema, told):
    """Assert that some JSON is as a schema says."""
    whole = {**schema, "components": document["components"]}
    jsonschema_rs.validator_for(whole).validate(told)


class TestDocument:
    def test_operation_ids_are_stable(self, document):
        """Names of generated functions do not change, and each route is there once."""
        assert document["openapi"] == "3.1.0"
        assert {name: where for name, (where, _) in operations(document).items()} == OPERATIONS
        assert len(document["paths"]) == len(OPERATIONS)  # a path has one operation

    def test_operations_are_described(self, document):
        """Each has a summary, a tag of the document and its problems, by name."""
        tags = {tag["name"] for tag in document["tags"]}
        assert all(tag["description"] for tag in document["tags"])
        for name, (_, one) in operations(document).items():
            assert one["summary"] and set(one["tags"]) <= tags
            assert {"200", "400", "405", "421", "500"} <= set(one["responses"])
            open_to_all = name in {"live", "ready"}
            assert ("401" in one["responses"]) == (not open_to_all) == ("security" not in one)
            for status, response in one["responses"].items():
                if int(status) >= 400:
                    assert set(response["content"]) == {"application/problem+json"}
                    assert "/problems/" in response["description"]

    def test_problem_types_are_listed(self, document):
        """All types of problems are named, without closing the list."""
        kind = document["components"]["schemas"]["ProblemDocument"]["properties"]["type"]
        assert kind["examples"] == [f"/problems/{name}" for name in KINDS]
        assert "enum" not in kind

    def test_questions_are_closed_and_answers_open(self, document):
        """Unknown members of a question are refused; answers may get more members."""
        assert document["components"]["schemas"]["Question"]["additionalProperties"] is False
        for _, one in operations(document).values():
            for response in one["responses"].values():
                for content in response.get("content", {}).values():
                    for schema in within(document, content["schema"]):
                        assert "additionalProperties" not in schema

    def test_absent_members_have_no_default(self, document):
        """What may be absent is not required, and no null or default stands for it."""
        question = document["components"]["schemas"]["Question"]
        assert question["required"] == ["bid"]
        for schema in document["components"]["schemas"].values():
            for member in schema["properties"].values():
                assert "default" not in member
        assert not any("null" in json.dumps(one) for one in question["properties"].values())

    def test_limits_are_stated(self, document):
        """The number of questions, bids and characters that a request may have is told."""
        _, one = operations(document)["forecast"]
        schema = one["requestBody"]["content"]["application/json"]["schema"]
        [listed] = [each for each in schema["anyOf"] if each.get("type") == "array"]
        assert (listed["minItems"], listed["maxItems"]) == (1, Limits().questions)

    def test_examples_are_valid(self, document):
        """Examples of requests are questions, and those of members are such members."""
        _, one = operations(document)["forecast"]
        content = one["requestBody"]["content"]["application/json"]
        for example in content["examples"].values():
            check(document, content["schema"], example["value"])
        for schema in document["components"]["schemas"].values():
            for member in schema["properties"].values():
                for example in member.get("examples", ()):
                    check(document, member, example)

    @pytest.mark.parametrize("name", MODELS)
    def test_answers_are_as_described(self, document, name):
        """All kinds of answers of all kinds of models are valid."""
        found = service(name)

        def check_answer(operation, reply):
            responses = operations(document)[operation][1]["responses"]
            kind = reply.headers["content-type"].split(";")[0]
            check(document, responses[str(reply.status)]["content"][kind]["schema"], reply.json)

        for operation in ("model", "segments", "advertisers", "live", "ready"):
            check_answer(operation, found.get(OPERATIONS[operation].split()[1]))
        for advertiser in served(name).names[::7]:
            check_answer("advertiser", found.get(advertiser_path(advertiser)))
            question = {"advertiser": advertiser, "bid": [1, 1e9], "days": 3, "level": 0.5}
            check_answer("forecast", found.forecast(question))
            check_answer("forecast", found.forecast([question]))
        check_answer("forecast", found.forecast({"text": "tour", "bid": 1, "supply": 10}))
        check_answer("forecast", found.forecast([7]))
        check_answer("advertiser", found.get("/v1/advertisers/nobody"))


class OnDemand:
    """Holds a model that is fitted when it is first asked: the document does not need it."""

    last_refusal = None
    current = property(lambda _: served())


LAZY = Service(None, AccessPolicy(frozenset({"testserver"})))  # as schemathesis calls it
LAZY.app.holder = OnDemand()
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", LAZY.app)


@SCHEMA.parametrize()
# a parameter gives each operation an id of its own: workers run tests of one id only once
@pytest.mark.parametrize("excluded", [[positive_data_acceptance]], ids=["generated"])
@settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.slow
def test_any_request_is_answered_as_described(case, excluded):
    """No request makes the service fail; status, media type and body are as in the document."""
    # a schema cannot say that a range must rise
    case.call_and_validate(excluded_checks=excluded)


PYTHON = """
import sys
from client import AuthenticatedClient
from client.api.forecasts import curves, forecast
from client.api.model import advertisers, model
from client.models import Answer, Answers, BidRange, ProblemDocument, Question

known = "adv-00023"
with AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2]) as client:
    one = forecast.sync(client=client, body=Question(advertiser=known, bid=2.5))
    assert isinstance(one, Answer) and one.forecasts[0].bid == 2.5, one
    low, high = one.forecasts[0].spend_interval
    assert low <= one.forecasts[0].spend <= high
    asked = [Question(advertiser=known, bid=BidRange(from_=1, to=3, step=1), days=7, level=0.5),
             Question(text="tour", bid=[1.0], supply=10)]
    many = forecast.sync(client=client, body=asked)
    assert isinstance(many, Answers), many
    assert [len(each.forecasts) for each in many.answers] == [3, 1]
    assert many.answers[0].level == 0.5 and not many.answers[1].known
    refused = forecast.sync(client=client, body=Question(advertiser=known, bid=-1.0))
    assert isinstance(refused, ProblemDocument) and refused.errors[0].at == "bid", refused
    assert model.sync(client=client).last_refusal is None
    assert advertisers.sync(client=client, search="adv", page_size=3).items[0].id.startswith("adv")
    assert curves.sync(client=client, segment=1).payload.read()
"""
#: How the media types that a generator does not know are to be treated.
OVERRIDES = ["vnd.apache.arrow.stream", "vnd.apache.parquet"]


@pytest.mark.slow
def test_python_client_asks_the_service(document, models, tmp_path):
    """openapi-python-client makes a client without a warning, with typed answers."""
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    overrides = {f"application/{one}": "application/octet-stream" for one in OVERRIDES}
    config = {"content_type_overrides": overrides, "post_hooks": []}
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path"]
    command += ["openapi.json", "--output-path", "client", "--meta", "none"]
    command += ["--config", "config.json", "--fail-on-warning"]
    subprocess.run(command, cwd=tmp_path, check=True)
    (tmp_path / "program.py").write_text(PYTHON)
    environment = {"COTERIE_TOKEN": TOKEN}
    options = ("--drain-seconds", "0")
    with running_service(models[0], tmp_path, *options, environment=environment) as running:
        program = [sys.executable, "-W", "error", "program.py", running.address, TOKEN]
        subprocess.run(program, cwd=tmp_path, check=True)
