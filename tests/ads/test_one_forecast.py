"""Report, service, program and Python give one forecast of one weekday.

The log has three weeks: advertisers have factors of weekdays of their own, and prices a level of
each weekday.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie.ads import bid_for, report_payload
from coterie.ads.service.served_model import ServedModel
from coterie.cli.program import app
from coterie.models import save_model
from markets import EASY, fitted
from service_calls import Service

MARKET = replace(EASY, days=21)
DAYS = [f"2026-03-{day}" for day in range(23, 30)]  # the week after the log
FIGURES = ("supply", "win_rate", "cost", "impressions", "spend", "clicks")


@pytest.fixture(scope="module")
def payload():
    """Return the report of three weeks."""
    return report_payload(fitted(MARKET), source="logs", engine="duckdb")


def reported(payload, one, bid, weekday):
    """Return the figures that the report's page computes of a weekday."""
    prices, supply = payload.prices_by_weekday[weekday], one.supply_by_weekday[weekday]
    win, cost = (np.interp(bid / prices, payload.grid, curve) for curve in (one.win, one.cost))
    impressions = supply * win
    spend = impressions * prices * cost / 1000
    return dict(
        zip(
            FIGURES,
            (supply, win, prices * cost, impressions, spend, impressions * one.click_rate),
            strict=True,
        )
    )


@pytest.mark.parametrize("day", DAYS)
def test_a_weekday_has_one_forecast(payload, tmp_path, day):
    """Supply, win rate, cost, impressions, spend and clicks agree wherever they are asked."""
    model, weekday = fitted(MARKET), date.fromisoformat(day).weekday()
    service = Service(ServedModel(model, "0123456789ab", "market.coterie"))
    save_model(model, tmp_path / "market.coterie")
    for one in payload.advertisers[::30]:
        # where the curves of the page have a point at the level of an average day
        bids = [payload.prices_by_weekday[weekday] * payload.grid[place] for place in (20, 40)]
        in_python = [
            {name: getattr(found, name) for name in FIGURES}
            for found in model.forecast(one.id, bids, day=day)
        ]
        asked = service.forecast({"advertiser": one.id, "bid": bids, "day": day}).json
        arguments = ["--advertiser", one.id, "--bid", ",".join(map(repr, bids)), "--day", day]
        told = CliRunner().invoke(
            app, ["ads", "forecast", str(tmp_path / "market.coterie"), *arguments, "--json"]
        )
        for answer in (asked, json.loads(told.stdout)):
            found = [{"supply": answer["supply"], **each} for each in answer["forecasts"]]
            assert [{name: each[name] for name in FIGURES} for each in found] == in_python
        for bid, expected in zip(bids, in_python, strict=True):
            assert reported(payload, one, bid, weekday) == pytest.approx(expected, rel=1e-9)


def test_a_weekdays_own_supply_and_prices_matter(payload):
    """The days differ from an average one, in supply by advertiser and in prices together."""
    own = np.array([np.array(one.supply_by_weekday) / one.supply for one in payload.advertisers])
    assert own.std(axis=0).max() > 0.01
    assert np.ptp(payload.prices_by_weekday) > 0.03


def test_the_bid_for_a_goal_is_that_of_the_day(payload):
    """What the page's forecast gives at the bid for a goal is the goal."""
    one = payload.advertisers[30]
    goal = reported(payload, one, payload.grid[40], 5)["impressions"]
    found = bid_for(fitted(MARKET), one.id, impressions=goal, day=DAYS[5])
    assert reported(payload, one, found.bid, 5)["impressions"] == pytest.approx(goal, rel=0.02)
