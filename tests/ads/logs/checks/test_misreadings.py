"""No misreading of a log is silent, and a log that is read rightly has no warning.

Every misreading is a query of one simulated log.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from coterie.ads.curves.price_readings import win_ceiling
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings

SMALL = {"advertisers": 80, "segments": 4, "days": 14, "bids_per_day": 20, "dimensions": 1}
#: A fifth of the advertisers, and a number from 0 to 99 of each row.
FIFTH, DRAW = "advertiser_id LIKE '%3' OR advertiser_id LIKE '%7'", "hash(ts, bid_micros) % 100"


def with_amounts(factor: str, names=("bid_micros", "price_micros")) -> str:
    """Multiply amounts of a fifth of the advertisers."""
    changed = (f"CASE WHEN {FIFTH} THEN {n} {factor} ELSE {n} END AS {n}" for n in names)
    return f"SELECT * REPLACE ({', '.join(changed)}) FROM log"


#: The code of the fault that says it, and the query.
MISREADINGS = {
    "a day without losses": (
        "days_few_losses",
        "FROM log WHERE won OR ts::DATE <> DATE '2026-03-06'",
    ),
    "losses of the last week sampled": (
        "days_few_losses",
        f"FROM log WHERE won OR ts::DATE < DATE '2026-03-09' OR {DRAW} < 10",
    ),
    "a device without losses": (
        "values_without_losses",
        "FROM log WHERE won OR device <> 'phone'",
    ),
    "advertisers without losses": ("no_losses", f"FROM log WHERE won OR NOT ({FIFTH})"),
    "lost bids with a placeholder": (
        "losses_at_one_bid",
        "SELECT * REPLACE (CASE WHEN won THEN bid_micros ELSE 1000000 END AS bid_micros) FROM log",
    ),
    "wins without their notices": (
        "clicks_on_losses",
        f"SELECT * REPLACE (won AND {DRAW} >= 30 AS won) FROM log",
    ),
    "prices in units": (
        "prices_far_below",
        "SELECT * REPLACE (price_micros / 1000000 AS price_micros) FROM log",
    ),
    "missing prices as 0": (
        "prices_zero",
        f"SELECT * REPLACE (CASE WHEN {DRAW} < 20 AND won THEN 0 ELSE price_micros END "
        "AS price_micros) FROM log",
    ),
    "prices net of a fee": (
        "prices_net",
        "SELECT * REPLACE (price_micros * 85 // 100 AS price_micros) FROM log",
    ),
    "prices for one impression": ("prices_implausible", with_amounts("// 1000", ["price_micros"])),
    "prices in another currency": ("prices_implausible", with_amounts("// 7", ["price_micros"])),
    "prices in a dear currency": ("prices_implausible", with_amounts("// 150", ["price_micros"])),
    "prices in a small currency": ("price_above_bid", with_amounts("* 7", ["price_micros"])),
    "amounts in another currency": ("amounts_multiplied", with_amounts("* 7")),
    "amounts in a small currency": ("amounts_multiplied", with_amounts("* 150")),
    "amounts at a rate": ("amounts_multiplied", with_amounts("* 7.3")),
    "amounts at a rate below 1": ("amounts_multiplied", with_amounts("* 0.92")),
    "first-price rows": (
        "prices_equal_bids",
        f"SELECT * REPLACE (CASE WHEN {DRAW} < 30 AND won THEN bid_micros ELSE price_micros END "
        "AS price_micros) FROM log",
    ),
    "first-price advertisers": (
        "prices_equal_bids",
        f"SELECT * REPLACE (CASE WHEN ({FIFTH}) AND won THEN bid_micros ELSE price_micros END "
        "AS price_micros) FROM log",
    ),
    "bids and prices swapped": (
        "price_above_bid",
        "SELECT * REPLACE (coalesce(price_micros, bid_micros) AS bid_micros, "
        "CASE WHEN won THEN bid_micros END AS price_micros) FROM log",
    ),
    "day and month swapped": (
        "days_scattered",
        "SELECT * REPLACE (CASE WHEN day(ts) > 12 THEN ts ELSE "
        "make_timestamptz(2026, day(ts), month(ts), hour(ts), minute(ts), 0.0) END AS ts) FROM log",
    ),
}


@cache
def log_of(**changes) -> Path:
    """Return the folder of a simulated log."""
    settings = MarketSettings(**{**SMALL, "seed": 31, **changes})
    return simulate_logs(settings, Path(mkdtemp(prefix="coterie-misread-")) / "market").folder


def said_of(folder: Path, query: str = "FROM log") -> dict[str, int]:
    """Return the counts of the errors and doubts of a query of a log, by code."""
    check = check_logs(open_logs(folder, sql=query))
    return {fault.code: fault.count for fault in [*check.errors, *check.doubts]}


@pytest.mark.parametrize("name", MISREADINGS)
def test_no_misreading_is_silent(name):
    """Each is an error or a doubt, that of its own kind among them."""
    code, query = MISREADINGS[name]
    assert code in said_of(log_of(), query)


@pytest.mark.parametrize(
    "market",
    [
        {},
        {"auction": "first"},
        {"minimum_logged": True},
        {"bids_per_day": 6, "bid_move": 0.8},
        {"weekday_effect": 2.0, "price_rise": 0.26},
        {"outliers": 0.35, "within_segment": 0.15, "floors": False},
        {"common_floors": 0.5, "own_weekdays": 0.4, "young": 0.4},
        {"segments": 1},
    ],
    ids=str,
)
def test_a_log_that_is_read_rightly_has_no_doubt(market):
    """Of every kind of market; its highest bids win."""
    folder = log_of(**market)
    assert said_of(folder) == {}
    assert win_ceiling(read_histograms(open_logs(folder))) is None


@pytest.mark.parametrize("percent", [30, 50])
def test_wins_that_were_lost_are_a_ceiling_of_win_rates(percent):
    """If wins at random are marked as lost, their share is that of the highest bids that lost."""
    query = (
        f"SELECT * REPLACE (won AND {DRAW} >= {percent} AS won, false AS click, "
        f"CASE WHEN {DRAW} >= {percent} THEN price_micros END AS price_micros) FROM log"
    )
    logs = open_logs(log_of(), sql=query)
    assert said_of(log_of(), query) == {}
    ceiling = win_ceiling(read_histograms(logs))
    assert ceiling is not None and ceiling.share == pytest.approx(percent / 100, abs=0.05)


def test_few_advertisers_with_other_bids_are_no_other_currency():
    """Steps of 5 cents and large bids are usual; only odd factors of many bids are doubted."""
    query = with_amounts("// 50000 * 50000", ["bid_micros"])
    assert "amounts_multiplied" not in said_of(log_of(), query)
