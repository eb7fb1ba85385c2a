"""Bulk curves: one table, the curves of the model."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.ads.service import bulk_curves
from coterie.ads.service.bulk_curves import written
from service_calls import served

COLUMNS = [
    *("advertiser", "segment", "bid", "win_rate", "win_rate_low", "win_rate_high", "cost"),
    *("marginal_cost", "own_win_rate", "segment_win_rate"),
]
READ = {
    "arrow": lambda body: pa.ipc.open_stream(io.BytesIO(body)).read_all(),
    "parquet": pq.read_table,
}


def table(kind, segment=None, name="small_model"):
    """Return the table that the parts make, and their costs."""
    parts = [(cost, make()) for cost, make in written(served(name), kind, segment)]
    body = b"".join(part for _, part in parts)
    return READ[kind](io.BytesIO(body) if kind == "parquet" else body), [cost for cost, _ in parts]


@pytest.mark.parametrize("name", ["small_model", "first_price_model", "textless_model"])
@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_curves_are_those_of_the_model(kind, name):
    """Each advertiser has its curve at each bid of the grid, bit for bit, by advertiser and bid."""
    made = served(name)
    found, costs = table(kind, name=name)
    assert found.column_names == COLUMNS
    assert found.schema.metadata[b"model_version"] == b"0123456789ab"
    assert found.schema.metadata[b"currency"] == made.currency.encode()
    bids = np.array([bid for bid in made.book.grid if bid > 0])
    assert found["advertiser"].to_pylist() == [one for one in made.names for _ in bids]
    columns = [found[column].to_numpy().reshape(len(made.names), -1) for column in COLUMNS[2:7]]
    for row, advertiser in enumerate(made.names):
        known = made.tables.curves_at(made.placer.placed(advertiser, None), bids)
        expected = [bids, known["win"], known["low"], known["high"], known["cost"]]
        np.testing.assert_array_equal([column[row] for column in columns], expected)
    assert sum(costs) == found.num_rows + 1
    assert max(costs) <= 8 * len(bids)


def test_curve_of_the_python_interface_is_the_same():
    """At the bids of the grid, model.curve has the same win rates and costs."""
    made = served()
    found, _ = table("arrow")
    of_model = made.model.curve("adv-00023")
    of_table = found.filter(pa.compute.equal(found["advertiser"], "adv-00023"))
    both = np.intersect1d(of_table["bid"].to_numpy(), of_model.bid)
    assert len(both) > 5
    for ours, theirs in (("win_rate", of_model.win), ("cost", of_model.cost)):
        left = of_table[ours].to_numpy()[np.isin(of_table["bid"].to_numpy(), both)]
        np.testing.assert_array_equal(left, theirs[np.isin(of_model.bid, both)])


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_one_segment(kind):
    """Only advertisers of the segment are there; a segment that does not exist has none."""
    labels, names = served().model.labels_, np.array(served().names)
    found, _ = table(kind, 1)
    assert sorted(set(found["advertiser"].to_pylist())) == sorted(names[labels == 1])
    none, _ = table(kind, 1_000)
    assert (none.num_rows, none.column_names) == (0, COLUMNS)


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_parts_are_written_while_they_are_made(kind, monkeypatch):
    """A large table does not wait in memory until its end, and is the same."""
    whole, _ = table(kind)
    monkeypatch.setattr(bulk_curves, "_ADVERTISERS_WRITTEN", 16)
    parts = [len(make()) for _, make in written(served(), kind)]
    assert sum(size > 0 for size in parts) >= len(served().names) // 16
    assert table(kind)[0].equals(whole)
