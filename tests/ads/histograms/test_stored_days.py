"""Stored days: histograms packed into a model, and days that are added to it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bid_tables import HOSTILE
from coterie.ads.histograms import stored_days
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.histograms.price_grid import on_price_grid, price_grid
from coterie.ads.histograms.stored_days import merge_histograms, pack_days, unpack_days
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.errors import InvalidParameterError, TableError
from markets import EASY, log_of, market

KINDS = [{}, {"auction": "first"}, {"minimum_logged": True}]
SMALL = replace(EASY, advertisers=30, days=4)


def assert_equal(one, other):
    """Require equal histograms, to the last bit and of the same types."""
    for name in ("advertisers", "days", "edges"):
        here, there = getattr(one, name), getattr(other, name)
        assert here.tolist() == there.tolist() and here.dtype.kind == there.dtype.kind, name
    for name in ("auction", "revealed", "currency", "unit"):
        assert getattr(one, name) == getattr(other, name)
    for part in ("bids", "prices"):
        for field in fields(getattr(one, part)):
            here, there = (getattr(getattr(log, part), field.name) for log in (one, other))
            np.testing.assert_array_equal(here, there, err_msg=f"{part}.{field.name}")
            assert here.dtype == there.dtype, field.name


def weighted_log(seed, names=None):
    """A log whose sums are no whole numbers."""
    rng = np.random.default_rng(seed)
    n = 200
    bid = rng.integers(1, 9_000_000, n)
    return log_of(
        bid=bid,
        won=rng.random(n) < 0.6,
        price=bid // 2,
        advertiser=rng.integers(0, 6, n),
        day=rng.integers(0, 4, n),
        weight=rng.choice([0.37, 1.0, 2.9], n),
        edges=price_grid(1, 9_000_000),
        names=names,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_packed_is_unpacked(kind):
    """Histograms and texts; an advertiser without a text has an empty one."""
    made = market(replace(SMALL, **kind))
    found, texts = unpack_days(pack_days(made.histograms, made.descriptions))
    assert_equal(found, made.histograms)
    assert list(texts) == found.advertisers.tolist()
    assert {name: text for name, text in texts.items() if text} == {
        name: text for name, text in made.descriptions.items() if name in texts
    }


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_sums_of_weights_are_packed_without_rounding(seed):
    """Also names that break what pastes text together, in every script."""
    log = weighted_log(seed, sorted(HOSTILE)[:6])
    found, texts = unpack_days(pack_days(log, dict.fromkeys(HOSTILE, "日本 🦊\x00\n'\"")))
    assert_equal(found, log)
    assert set(texts.values()) == {"日本 🦊\x00\n'\""}


def test_packed_days_are_small(monkeypatch):
    """About ten bytes for each cell, also in several groups of rows."""
    log = market(replace(EASY, bids_per_day=150)).histograms
    stored = pack_days(log, {})
    size = len(stored.bids) + len(stored.prices) + len(stored.texts)
    cells = len(log.bids.bin) + len(log.prices.bin)
    assert cells > 5000 and size < 12 * cells
    monkeypatch.setattr(stored_days, "_GROUP_ROWS", 1000)
    assert_equal(unpack_days(pack_days(log, {}))[0], log)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("days", [[0], [3], [1, 2], [0, 2]])
def test_days_put_together_are_the_log(kind, days):
    """In either order: advertisers and days are sorted, and unused bins go."""
    log = market(replace(SMALL, **kind)).histograms
    others = [day for day in range(4) if day not in days]
    one, other = log.for_days(days), log.for_days(others)
    assert_equal(merge_histograms(one, other), on_price_grid(log))
    assert_equal(merge_histograms(other, one), on_price_grid(log))


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_weighted_days_put_together_are_the_log(seed, cut):
    """With advertisers that bid on some days only; nothing is added, so nothing is rounded."""
    log = weighted_log(seed)
    parts = log.for_days(list(range(cut))), log.for_days(list(range(cut, 4)))
    assert_equal(merge_histograms(*parts), on_price_grid(log))


def test_an_engine_counts_both_logs_as_they_are_put_together(tmp_path):
    """Two logs read apart, with other ranges of amounts, are one log."""
    simulate_logs(SMALL, tmp_path / "market")
    logs = open_logs(tmp_path / "market")
    days = [str(day) for day in np.datetime64("2026-03-02") + np.arange(4)]
    first, second = (read_histograms(logs, days=part) for part in (days[:1], days[1:]))
    assert first.edges.tolist() != second.edges.tolist()
    assert_equal(merge_histograms(first, second), on_price_grid(read_histograms(logs)))


def test_campaigns_are_stored_as_campaigns():
    """Their unit is kept, and with it their advertisers."""
    log = market(SMALL).histograms
    names = np.array([f"adv-{i // 3:03d}/{i % 3}" for i in range(len(log.advertisers))])
    campaigns = replace(log, advertisers=names, unit="campaign")
    found, _ = unpack_days(pack_days(campaigns, {}))
    assert_equal(found, campaigns)
    assert_equal(merge_histograms(found.for_days([0]), found.for_days([1, 2, 3])), campaigns)
    assert found.parents.tolist() == [name.split("/")[0] for name in names]


def test_common_days_are_refused():
    """The message names the first, and how many more there are."""
    log = market(SMALL).histograms
    one = log.for_days([0, 1])
    with pytest.raises(InvalidParameterError, match="already has 2026-03-03; give a log of new"):
        merge_histograms(one, log.for_days([1, 2]))
    with pytest.raises(InvalidParameterError, match="2026-03-02 and 1 other days of the new log"):
        merge_histograms(one, log)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"currency": "EUR"}, "currency of the model is 'USD' and that of the new log 'EUR'"),
        ({"auction": "first"}, "auction type"),
        ({"revealed": "minimum"}, "kind of known prices"),
        ({"unit": "campaign"}, "unit"),
    ],
)
def test_other_logs_are_refused(change, words):
    """Auction type, known prices and currency must be the same."""
    log = market(SMALL).histograms
    with pytest.raises(InvalidParameterError, match=words):
        merge_histograms(log.for_days([0]), replace(log.for_days([1]), **change))


def test_more_days_than_a_log_may_have_are_refused():
    """Their numbers would not fit into the cells, and begin again below 0."""
    how = {"bid": 5, "won": 1, "price": 3, "edges": [9], "day": np.arange(20_000)}
    first, second = log_of(**how), log_of(**how, first_day=np.datetime64("2126-01-01"))
    with pytest.raises(TableError, match="together: it has 40,000 different days"):
        merge_histograms(first, second)


def test_a_log_without_a_currency_has_that_of_the_other():
    """In either order."""
    log = market(SMALL).histograms
    silent = replace(log.for_days([1]), currency="")
    assert merge_histograms(log.for_days([0]), silent).currency == "USD"
    assert merge_histograms(silent, log.for_days([0])).currency == "USD"
