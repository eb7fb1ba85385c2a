"""Bids get their outcome from notices, as a join in plain Python does."""

from __future__ import annotations

import ibis
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.logs.log_mapping import LogMapping
from coterie.ads.logs.notice_joins import join_notices
from coterie.errors import CoterieWarning, TableError
from coterie.tables.engines import fetch

IDS = st.lists(st.integers(0, 9), max_size=12)


def table(**columns):
    """A table in memory; ids are texts."""
    types = {"bid_id": pa.string(), "price": pa.float64(), "loss": pa.int64()}
    arrays = {name: pa.array(values, types.get(name)) for name, values in columns.items()}
    return ibis.memtable(pa.table(arrays))


def outcomes(bids, wins, losses, **said) -> list[tuple]:
    """Id, outcome and price of every bid, in order."""
    joined = join_notices(bids, wins, losses, LogMapping(**said), "x")
    names = ["bid_id", "notice.won", "win.price"]
    rows = fetch(joined.table.select(*names).order_by("bid_id")).to_pylist()
    return [tuple(row.values()) for row in rows]


@given(IDS, IDS, st.booleans())
@settings(deadline=None, max_examples=15)
def test_outcomes_are_those_of_sets(wins, losses, unnoticed_lost):
    """Won by a win notice alone, lost by a loss notice alone, else unknown."""
    names = [f"b{i}" for i in range(10)]
    found = outcomes(
        table(bid_id=names),
        table(bid_id=[f"b{i}" for i in wins], price=[float(i) for i in wins]),
        table(bid_id=[f"b{i}" for i in losses]),
        unnoticed_lost=unnoticed_lost,
    )
    for i, (name, won, price) in enumerate(found):
        assert name == names[i]
        noticed = (i in wins, i in losses)
        unknown = False if unnoticed_lost else None
        outcome = {(True, False): True, (False, True): False, (False, False): unknown}
        assert won == outcome.get(noticed)
        assert price == (i if i in wins else None)


def test_notices_that_differ_have_no_price():
    """A bid is never counted twice."""
    wins = table(bid_id=["a", "a", "b", "b"], price=[1.0, 2.0, 3.0, 3.0])
    found = outcomes(table(bid_id=["a", "b"]), wins, None, unnoticed_lost=True)
    assert found == [("a", True, None), ("b", True, 3.0)]


def test_reason_0_is_no_loss():
    """OpenRTB sends it for a bid that won."""
    losses = table(bid_id=["a", "b", "c"], loss=[0, 102, None])
    found = outcomes(table(bid_id=["a", "b", "c"]), table(bid_id=["a"], price=[1.0]), losses)
    assert [won for _, won, _ in found] == [True, False, False]


def test_bids_without_loss_notices_count_as_lost_with_a_warning():
    """The option confirms it."""
    wins = table(bid_id=["a"], price=[1.0])
    with pytest.warns(CoterieWarning, match=r"no loss notices.*--unnoticed-lost"):
        found = outcomes(table(bid_id=["a", "b"]), wins, None)
    assert [won for _, won, _ in found] == [True, False]


def test_the_minimum_to_win_of_both_notices_is_used():
    """Wins and losses may have it."""
    wins = ibis.memtable(pa.table({"bid_id": ["a"], "price": [1.0], "min_to_win_usd": [0.5]}))
    losses = ibis.memtable(pa.table({"bid_id": ["b"], "min_to_win_usd": [3.0]}))
    joined = join_notices(table(bid_id=["a", "b"]), wins, losses, LogMapping(), "x")
    column = joined.columns["min_to_win"]
    found = fetch(joined.table.select("bid_id", column).order_by("bid_id"))
    assert found[column].to_pylist() == [0.5, 3.0]


def test_a_missing_id_is_an_error():
    """The message has the option and the columns."""
    wins = table(bid_id=["a"], price=[1.0])
    with pytest.raises(TableError, match=r"no column in common; say --join-on.*bids have key"):
        join_notices(table(key=["a"]), wins, None, LogMapping(), "x")
    with pytest.raises(TableError, match=r"\? say --join-on price$"):
        join_notices(table(key=["a"], price=[1.0]), wins, None, LogMapping(), "x")
    with pytest.raises(TableError, match="names nothing, but there is a table without"):
        join_notices(table(bid_id=["a"]), wins, None, LogMapping(join_on="nothing"), "x")
