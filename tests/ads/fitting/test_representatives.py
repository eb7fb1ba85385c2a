"""Representatives are a random sample of advertisers, and batches have everybody once."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.fitting import representatives
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.fitting.representatives import (
    batches_of,
    choose_representatives,
    histograms_of,
    memory_needed,
    refuse_too_many,
)
from coterie.errors import InvalidParameterError
from markets import log_of, market


def campaigns(*sizes):
    """A log of one bid for each of so many campaigns of each advertiser."""
    names = sorted(f"adv{a:02d}/{c}" for a, n in enumerate(sizes) for c in range(n))
    log = log_of(bid=[5] * len(names), won=1, price=3, advertiser=np.arange(len(names)), edges=[9])
    return replace(log, advertisers=np.array(names), unit="campaign")


def test_few_advertisers_are_all_representatives(caplog):
    """Then nothing is said of it, and their histograms are the same object."""
    log = market().histograms
    n = len(log.advertisers)
    with caplog.at_level(logging.INFO, logger="coterie"):
        rows = choose_representatives(log, n, 0)
    np.testing.assert_array_equal(rows, np.arange(n))
    assert histograms_of(log, rows) is log
    assert not caplog.records


def test_many_advertisers_are_sampled(caplog):
    """In order, each once, by the seed; the log says how many."""
    log = market().histograms
    with caplog.at_level(logging.INFO, logger="coterie"):
        rows = choose_representatives(log, 30, 7)
    assert len(rows) == 30 and (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, choose_representatives(log, 30, 7))
    assert (rows != choose_representatives(log, 30, 8)).any()
    assert "Fitting on 30 of 90 advertisers; the others are placed" in caplog.text
    assert histograms_of(log, rows).advertisers.tolist() == log.advertisers[rows].tolist()


def test_all_have_the_same_chance():
    """Whatever their number of bids."""
    log = market().histograms
    chosen = np.zeros(len(log.advertisers))
    for seed in range(400):
        chosen[choose_representatives(log, 30, seed)] += 1
    # binomial with mean 133 and standard deviation 9.4
    assert np.abs(chosen - 400 / 3).max() < 5 * 9.4


def test_who_does_not_bid_represents_nobody():
    """An advertiser without cells is not chosen."""
    log = log_of(bid=[5, 5, 5], won=1, price=3, advertiser=[0, 1, 2], edges=[9])
    silent = replace(log, advertisers=np.array([*log.advertisers, "silent"]))
    for seed in range(20):
        assert 3 not in choose_representatives(silent, 3, seed)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(2, 20), st.integers(0, 99))
def test_campaigns_stay_together(sizes, most, seed):
    """All campaigns of an advertiser are representatives or none, and they are in one batch."""
    log = campaigns(*sizes)
    parents = log.parents
    rows = choose_representatives(log, most, seed)
    assert 0 < len(rows) <= max(most, *sizes)
    assert not set(parents[rows]) & set(np.delete(parents, rows))
    batches = batches_of(log, most)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(len(parents)))
    owners = [set(parents[batch]) for batch in batches]
    assert sum(len(some) for some in owners) == len(sizes)
    assert all(len(batch) <= max(most, *sizes) for batch in batches)


def test_an_advertiser_with_very_many_campaigns_leaves_room_for_others():
    """It is passed over wherever it is drawn; alone, it is the sample."""
    log = campaigns(50, *[1] * 40)
    for seed in range(20):
        assert len(choose_representatives(log, 30, seed)) == 30
    assert len(choose_representatives(campaigns(50, 60), 30, 0)) in (50, 60)


def test_new_advertisers_leave_most_of_the_sample():
    """Each of them takes the place of at most one other, whatever its place among the names."""
    log = market().histograms
    before = log.for_advertisers(np.arange(5, 90))
    old = set(before.advertisers[choose_representatives(before, 30, 0)].tolist())
    new = set(log.advertisers[choose_representatives(log, 30, 0)].tolist())
    assert len(old & new) >= 25


@pytest.mark.parametrize("size", [1, 7, 90, 1000])
def test_batches_of_advertisers(size):
    """They follow each other, and each has so many but the last."""
    log = market().histograms
    batches = batches_of(log, size)
    np.testing.assert_array_equal(np.concatenate(batches), np.arange(90))
    assert {len(batch) for batch in batches[:-1]} <= {size}


def test_memory_is_looked_at_before_the_work(monkeypatch, caplog):
    """A model that does not fit is refused before anything is fitted; a large one is told."""
    log = market().histograms
    needed = memory_needed(log, 1000)
    assert memory_needed(log, 30) < needed < 100e6
    monkeypatch.setattr(representatives, "available_memory", lambda: needed - 1)
    message = r"a model of 90 advertisers needs about .* but .* are free; .*max_representatives"
    model = AdForecaster(max_representatives=1000)
    with pytest.raises(InvalidParameterError, match=message):
        model.fit(log)
    assert not hasattr(model, "text_view_")
    with caplog.at_level(logging.INFO, logger="coterie"):
        refuse_too_many(log, 30)
    assert "A model of 90 advertisers needs about" in caplog.text
