"""Bid shares: the c.d.f.s of the paper, of advertisers and segments, and their distances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.ads.curves.bid_shares import BidShares
from coterie.ads.curves.landscapes import share_of_cost, share_of_wins
from coterie.ads.histograms.stored_days import pack_days, unpack_days
from coterie.ads.segments.similarity import ks_distances
from coterie.errors import ModelFileError
from markets import fitted


@pytest.fixture(scope="module")
def market():
    """The stored days of a model, its histograms and its segments."""
    model = fitted()
    return model.stored_days_, unpack_days(model.stored_days_)[0], model.labels_


@pytest.mark.parametrize(
    ("name", "c_d_f"), [("wins", share_of_wins), ("cost", share_of_cost)], ids=["wins", "cost"]
)
def test_curves_are_those_of_the_dense_counts(market, name, c_d_f):
    """Curves and distances are those of all cells added up, of an advertiser and of a segment."""
    stored, histograms, labels = market
    counts = histograms.dense()
    shares = BidShares(stored, labels, stored.edges)
    summed = {
        field: np.stack([getattr(counts, field)[labels == s].sum(axis=0) for s in range(3)])
        for field in ("wins", "cost")
    }
    own, of_segments = c_d_f(counts), c_d_f(replace(counts, **summed))
    for row in range(0, len(labels), 7):
        found = shares.of_advertiser(row)[name]
        assert found["own"] == pytest.approx(own[row])
        if labels[row] >= 3:
            continue
        segment = of_segments[labels[row]]
        assert shares.of_segment(labels[row])[name] == pytest.approx(segment)
        assert found["distance"] == pytest.approx(ks_distances([own[row], segment])[0, 1], abs=1e-6)
        at = np.searchsorted(stored.edges, round(found["bid"] * 1_000_000))
        assert abs(own[row][at] - segment[at]) == pytest.approx(found["distance"])


def test_without_segments_the_others_are_all(market):
    """An advertiser of no segment is compared with all advertisers."""
    stored, histograms, labels = market
    shares = BidShares(stored, np.full_like(labels, -1), stored.edges)
    wins = histograms.dense().wins.sum(axis=0)
    assert shares.of_segment(-1)["wins"] == pytest.approx(np.cumsum(wins) / wins.sum())


def test_bids_of_the_grid_alone_are_given(market):
    """On a coarser grid the curves have the same values, and the distance does not change."""
    stored, _, labels = market
    fine, coarse = (BidShares(stored, labels, grid) for grid in (stored.edges, stored.edges[::5]))
    one, other = fine.of_advertiser(3)["wins"], coarse.of_advertiser(3)["wins"]
    assert other["own"] == one["own"][::5]
    assert (other["distance"], other["bid"]) == (one["distance"], one["bid"])


def test_an_advertiser_without_wins_has_none(market):
    """Without wins there is no distribution to show."""
    _, histograms, labels = market
    lost = histograms.bids.advertiser == 0
    wins, cost = (np.where(lost, 0.0, one) for one in (histograms.bids.wins, histograms.bids.cost))
    stored = pack_days(replace(histograms, bids=replace(histograms.bids, wins=wins, cost=cost)), {})
    assert BidShares(stored, labels, stored.edges).of_advertiser(0) is None


def test_days_that_do_not_fit_are_refused(market):
    """Cells of other advertisers, too many of them, or bytes that are no table are an error."""
    stored, _, labels = market
    with pytest.raises(ModelFileError, match="do not fit"):
        BidShares(stored, labels[:-1], stored.edges)
    with pytest.raises(ModelFileError, match="more cells"):
        BidShares(replace(stored, days=stored.days[:0]), labels, stored.edges)
    with pytest.raises(ModelFileError, match="cannot be read"):
        BidShares(replace(stored, bids=stored.bids[:-9]), labels, stored.edges)
