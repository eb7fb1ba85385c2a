"""A proposed mapping is what a person would say about the columns."""

from __future__ import annotations

import tomllib

import ibis
import pyarrow as pa
import pytest

from coterie.ads.logs.log_mapping import LogMapping
from coterie.ads.logs.mapping_proposals import propose_mapping
from foreign_logs import SHAPES, auctions

ROWS = {
    "Advertiser": ["a", "b"],
    "timestamp": [1772460000, 1772460001],
    "bid": [2.53, 1.20],
    "clearing price": [1.7, None],
}


def proposed(said=None, **columns):
    """The proposal for the rows with other columns; None leaves a column out."""
    rows = {name: values for name, values in {**ROWS, **columns}.items() if values is not None}
    return propose_mapping(ibis.memtable(pa.table(rows)), said or LogMapping())


def test_all_that_is_proposed_is_said():
    """The unit follows from the median bid, and won from the price."""
    found = proposed()
    assert found.mapping.units == {"all": "currency"}
    assert found.mapping.won_when_priced
    assert found.problems
    assert found.open_problems == found.missing == ()
    assert found.mapping.columns == {
        "advertiser": "Advertiser",
        "time": "timestamp",
        "bid": "bid",
        "price": "clearing price",
    }


@pytest.mark.parametrize(
    ("bids", "unit"),
    [([2_530_000, 1_200_000], "micros"), ([0.0025, 0.0012], "currency/impression")],
)
def test_units_follow_from_the_median_bid(bids, unit):
    """Each proposed unit is marked as a guess."""
    found = proposed(bid=bids)
    assert found.mapping.units == {"all": unit}
    assert {one.unit_why for one in found.roles if one.unit} == {"the median bid, a guess"}


def test_a_median_that_is_typical_in_two_units_stays_open():
    """120 may be cents or the currency."""
    assert "is unknown" in proposed(bid=[120, 130]).open_problems[0]


def test_guesses_are_comments_in_a_mapping_file():
    """The file says no more than the user and usual names do; its comments have all problems."""
    found = proposed(bid=None, price=[2.53, 1.20])
    text = found.as_toml()
    assert '# bid = "price"  # a guess: ' in text
    assert '# all = "currency"  # a guess: ' in text
    assert "# won_when_priced = true  # a guess: " in text
    assert text.count("# To do: ") == len(found.problems) == 2
    assert tomllib.loads(text) == {
        "columns": {"advertiser": "Advertiser", "time": "timestamp", "price": "clearing price"},
        "amounts": {},
    }


def test_what_the_user_said_is_no_guess():
    """Said entries are written as they are."""
    said = LogMapping({"advertiser": "Advertiser"}, "currency", won_when_priced=True)
    assert proposed(said).guesses == {}
    assert "# " not in proposed(said).as_toml()


@pytest.mark.parametrize("prices", [[1.7, 1.1], [None, None], ["1,7", "1,1"]])
def test_won_follows_from_the_price_only_if_some_bids_have_none(prices):
    """If all bids or none have a price, it does not say which won."""
    found = proposed(**{"clearing price": prices})
    assert not found.mapping.won_when_priced
    assert "won" in found.missing


def test_roles_without_a_column_are_listed():
    """Examples are shown only of columns with a role."""
    found = proposed(LogMapping({"bid": ""}), email=["x@y", "z@y"])
    assert found.missing == ("bid",)
    assert "email" in found.unused
    assert not any("x@y" in one.examples for one in found.roles)


def test_the_proposed_mapping_reads_the_log(tmp_path):
    """Its options are complete for a log with usual names."""
    source = SHAPES["usual_names"](tmp_path, auctions(100))[0]
    found = propose_mapping(ibis.duckdb.connect().read_csv(source), LogMapping())
    assert found.open_problems == ()
    assert found.as_dict()["options"][-2:] == ["--amounts", "currency"]
