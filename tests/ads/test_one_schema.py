"""One table and one type for each question: what is added there is everywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from inspect import signature
from typing import Annotated

import httpx
import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from coterie.ads import bid_for, plan_budget, rank_targets, split_budget
from coterie.ads.client import Client
from coterie.ads.decisions.decision_answers import GoalBid
from coterie.ads.page.parts import SERVICE_SCRIPTS, page_file, served_files
from coterie.ads.protocol import OPERATIONS, BudgetQuestion, Question
from coterie.ads.service import answering
from coterie.ads.service.openapi import openapi_document
from coterie.cli.ads.budget import budget
from coterie.cli.ads.forecast import forecast
from coterie.cli.ads.inputs.subjects import answer_facts
from coterie.cli.ads.portfolio import portfolio
from coterie.cli.ads.targets import targets
from coterie.errors import InvalidParameterError
from coterie.models import save_model
from service_calls import Service, served

Colour = Annotated[str, Meta(max_length=5, description="Of the banner.")]
FUNCTIONS = {
    "bid": bid_for,
    "budget": plan_budget,
    "targets": rank_targets,
    "portfolio": split_budget,
}
COMMANDS = {"forecast": forecast, "budget": budget, "targets": targets, "portfolio": portfolio}
#: Options whose form differs from that of the member.
OTHERWISE = {"bid", "level", "advertisers", "segment", "where", "dimension", "day"}


@dataclass(frozen=True)
class ColourBid(GoalBid):
    """An answer with one more member.

    Attributes
    ----------
    colour : str
        Of the banner.
    """

    colour: str = "red"


class ColourQuestion(BudgetQuestion, kw_only=True):
    """A question with one more member."""

    colour: Colour | UnsetType = UNSET


@pytest.fixture
def coloured(monkeypatch):
    """Add a member to the type of a question, and note the arguments of its function."""
    told = {}

    def steps(model, **arguments):
        told.update(arguments)
        raise InvalidParameterError("enough")
        yield

    monkeypatch.setitem(
        OPERATIONS, "budget", replace(OPERATIONS["budget"], question=ColourQuestion)
    )
    monkeypatch.setitem(
        answering.DECISIONS, "budget", answering.DECISIONS["budget"]._replace(steps=steps)
    )
    return told


def test_a_member_of_a_type_is_a_member_everywhere(coloured):
    """The document describes it, the client sends it, the service checks it and passes it on."""
    member = openapi_document()["components"]["schemas"]["ColourQuestion"]["properties"]["colour"]
    assert (member["maxLength"], member["description"]) == (5, "Of the banner.")
    client = asking(Service(served()))
    with pytest.raises(InvalidParameterError, match="enough"):
        client.plan_budget("adv-00020", 5, colour="red")
    assert coloured == {
        "advertiser": "adv-00020",
        "budget": 5,
        "colour": "red",
        "days": 7,
        "level": 0.9,
    }
    with pytest.raises(InvalidParameterError, match="colour: it must be a text of up to 5 char"):
        client.plan_budget("adv-00020", 5, colour="ultramarine")
    with pytest.raises(InvalidParameterError, match="coulour: unknown name"):
        client.plan_budget("adv-00020", 5, coulour="red")


def asking(found):
    """Return a client of an application in this process."""

    def answer(request):
        reply = found.ask(
            "POST", request.url.path, content=request.content, headers=dict(request.headers)
        )
        return httpx.Response(reply.status, headers=reply.headers, content=reply.body)

    return Client(transport=httpx.MockTransport(answer))


def test_a_member_of_an_answer_is_a_member_everywhere(monkeypatch, tmp_path):
    """The document describes it; service, client and program give it."""
    answer = ColourBid(**vars(bid_for(served().model, "adv-00020", impressions=3)))

    def steps(model, **asked):
        return answer
        yield

    monkeypatch.setitem(OPERATIONS, "bid", replace(OPERATIONS["bid"], answers=(ColourBid,)))
    decision = answering.DECISIONS["bid"]._replace(steps=steps)
    monkeypatch.setitem(answering.DECISIONS, "bid", decision)
    described = openapi_document()["components"]["schemas"]["ColourBid"]["properties"]["colour"]
    assert described["description"] == "Of the banner; by default red."
    found = asking(Service(served())).bid_for("adv-00020", impressions=3)
    assert found == answer and found.colour == "red"
    save_model(served().model, tmp_path / "market.coterie")
    assert answer_facts(answer, tmp_path / "market.coterie")["colour"] == "red"


def test_the_page_has_the_limits_of_the_types():
    """The most days of a question are in the page, and in no script."""
    days = openapi_document()["components"]["schemas"]["BudgetQuestion"]["properties"]["days"]
    page = served_files()[""].body.decode()
    assert re.findall(r'data-most="(\d+)"', page) == [str(days["maximum"])]
    for name in SERVICE_SCRIPTS:
        assert str(days["maximum"]) not in page_file(name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_members_are_the_arguments_of_the_function(name):
    """Each member has the name and the default of an argument of the function that answers."""
    details = signature(served().model.prepare_forecast).parameters
    parameters = {**details, **signature(FUNCTIONS[name]).parameters}
    for member in msgspec.structs.fields(OPERATIONS[name].question):
        given = parameters[member.name].default
        if member.default not in (UNSET, msgspec.NODEFAULT):
            assert given == member.default


@pytest.mark.parametrize("name", COMMANDS)
def test_members_are_the_options_of_the_command(name):
    """Each member is an option with the same default, and those of numbers have the same ends."""
    kind = Question if name == "forecast" else OPERATIONS[name].question
    parameters = signature(COMMANDS[name], eval_str=True).parameters
    for member in msgspec.structs.fields(kind):
        # the name of the command is that of its function
        option = parameters["amount" if name == member.name == "budget" else member.name]
        if member.name in OTHERWISE:
            continue
        if member.default not in (UNSET, msgspec.NODEFAULT):
            assert option.default == member.default
        schema = msgspec.json.schema(member.type)
        if member.name == "days":
            [told] = option.annotation.__metadata__
            assert (told.min, told.max) == (schema["minimum"], schema["maximum"])
        assert all(repr(value) in str(option.annotation) for value in schema.get("enum", ()))
