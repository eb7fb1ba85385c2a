"""One table and one type for each question: what is added there is everywhere."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Annotated

import httpx
import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from coterie.ads import bid_for, plan_budget, rank_targets, split_budget
from coterie.ads.client import Client
from coterie.ads.protocol import OPERATIONS, BudgetQuestion, Question
from coterie.ads.service import answering
from coterie.ads.service.openapi import openapi_document
from coterie.cli.ads.budget import budget
from coterie.cli.ads.forecast import forecast
from coterie.cli.ads.portfolio import portfolio
from coterie.cli.ads.targets import targets
from coterie.errors import InvalidParameterError
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
    found = Service(served())

    def answer(request):
        reply = found.ask(
            "POST", request.url.path, content=request.content, headers=dict(request.headers)
        )
        return httpx.Response(reply.status, headers=reply.headers, content=reply.body)

    client = Client(transport=httpx.MockTransport(answer))
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
