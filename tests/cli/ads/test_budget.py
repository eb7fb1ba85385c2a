"""Tests of ``coterie ads budget``: the bid that uses a budget, what it buys, how long it lasts."""

from __future__ import annotations

import json

import msgspec
import pytest

from answers import as_options, assert_one_line, unwrapped
from coterie.ads import plan_budget
from coterie.ads.decisions.decision_answers import BudgetPlan
from coterie.ads.fitting.forecaster import load_forecaster
from table_files import columns_of

KNOWN = "adv-00042"


@pytest.fixture
def ask(segmented, run):
    """Return a function that asks about the small market."""
    return lambda *options: run("ads", "budget", segmented["model_file"], *options)


@pytest.mark.parametrize(
    "asked",
    [
        {"advertiser": KNOWN, "budget": 0.02},
        {"advertiser": KNOWN, "budget": 0.02, "bid": 3.0, "day": "2026-03-14", "days": 3},
        {"text": "flights", "supply": 1e5, "budget": 20.0, "days": 2, "level": 0.8},
    ],
)
def test_json_is_the_answer_of_python(ask, segmented, asked):
    """The object has exactly the members of a plan, and every option reaches it."""
    result = ask(*as_options(asked), "--json")
    found = msgspec.json.decode(result.stdout, type=BudgetPlan)
    assert found == plan_budget(load_forecaster(segmented["model_file"]), **asked)
    assert json.loads(result.stdout) == json.loads(msgspec.json.encode(found))
    assert len(found.model_version) == 12
    assert found.unlimited.model_version == found.model_version


def test_the_summary_has_the_bid_and_the_days(ask):
    """One line a day, the probability that the money lasts, and the bid that uses it."""
    result = ask("--advertiser", KNOWN, "--budget", "0.01", "--bid", "9", "--days", "3")
    assert result.exit_code == 0
    shown = unwrapped(result.stdout)
    assert shown.startswith(f"{KNOWN}: 0.01 USD in 3 days at a bid of 9 USD")
    assert all(f"2026-03-{day:02}" in shown for day in (6, 7, 8))
    assert "the money lasts" in shown and "The bid that uses the budget is" in shown


def test_a_budget_that_cannot_be_spent(ask):
    """The first line says so, and the most; no bid makes such money "last"."""
    result = ask("--advertiser", KNOWN, "--budget", "1e9")
    assert result.exit_code == 0
    assert unwrapped(result.stdout).startswith("1B USD cannot be spent: the most is ")
    assert "the money lasts" not in result.stdout


def test_writes_the_days(ask, tmp_path):
    """A row per day, with the interval of what is spent."""
    table = tmp_path / "days.csv"
    assert ask("--advertiser", KNOWN, "--budget", "1", "-o", table, "-q").exit_code == 0
    columns = columns_of(table)
    assert list(columns)[:5] == ["day", "auctions", "impressions", "spend", "spent"]
    assert len(columns["day"]) == 7


def test_refusals_are_one_line(ask):
    """What cannot be planned is refused, with the option."""
    assert_one_line(ask("--advertiser", KNOWN, "--budget", "0"), "--budget 0")
    assert_one_line(ask("--budget", "1", "--advertiser", "nobody"))
