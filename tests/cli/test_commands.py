"""Tests of options that are given twice, and of messages that name options."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from coterie.cli.program import Command, Program
from coterie.errors import InvalidParameterError


@pytest.fixture
def shop() -> typer.Typer:
    """Return a program with options of all kinds, which refuses every price."""
    app = typer.Typer(cls=Program)

    @app.command(cls=Command)
    def sell(
        unit_price: Annotated[str, typer.Option("--unit-price", "-p")],
        colour: Annotated[list[str] | None, typer.Option("--colour")] = None,
        quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
    ) -> None:
        what = "size" if colour else "unit_price"
        raise InvalidParameterError(f"{what}={unit_price!r}: it is too high")

    @app.callback()
    def _shop() -> None:
        """Sell."""

    return app


@pytest.mark.parametrize("repeated", [["--unit-price", "2"], ["-p", "2"]])
def test_an_option_with_one_value_is_given_once(shop, repeated):
    """A second value is wrong usage, also by the short name: the first would be ignored."""
    result = CliRunner().invoke(shop, ["sell", "--unit-price", "1", *repeated])
    assert result.exit_code == 2
    assert "--unit-price" in result.stderr
    assert "more than once" in result.stderr


def test_lists_and_flags_may_be_repeated(shop):
    """Options of several values, and flags, are accepted twice."""
    asked = ["sell", "-p", "1", "-q", "-q", "--colour", "red", "--colour", "blue"]
    assert CliRunner().invoke(shop, asked).exit_code == 1


def test_errors_name_the_option(shop):
    """An error about a parameter has the option and its value as the user writes them."""
    result = CliRunner().invoke(shop, ["sell", "-p", "9"])
    assert result.stderr == "error: --unit-price 9: it is too high\n"


def test_errors_about_other_parameters_stay_as_they_are(shop):
    """A parameter without an option is named as it is."""
    result = CliRunner().invoke(shop, ["sell", "-p", "9", "--colour", "red"])
    assert result.stderr == "error: size='9': it is too high\n"
