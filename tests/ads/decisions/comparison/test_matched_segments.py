"""Matched segments: other numbers of the same segments are no moves."""

from __future__ import annotations

from copy import copy

import numpy as np

from coterie.ads.decisions.comparison.matched_segments import match_segments, segments_of
from markets import fitted


def renumbered(model, order):
    """Return the model with its segments in another order."""
    other = copy(model)
    other.segments_ = [model.segments_[s] for s in order]
    place = np.argsort(order)
    other.labels_ = np.where(model.labels_ >= 0, place[model.labels_], -1)
    return other


def test_other_numbers_are_no_moves():
    """The order of the segments does not matter."""
    model = fitted()
    order = np.roll(np.arange(len(model.segments_)), 1)
    found = match_segments(model, renumbered(model, order), model.advertisers_)
    assert found.adjusted_rand == 1.0
    assert not found.moved.any()
    known = model.labels_ >= 0
    names = np.array(found.names)[found.groups[known]]
    assert names.tolist() == [model.segments_[s].name for s in model.labels_[known]]


def test_one_that_goes_elsewhere_moved():
    """An advertiser in another segment than most of its former one has moved."""
    model, other = fitted(), copy(fitted())
    other.labels_ = model.labels_.copy()
    row = int(np.flatnonzero(model.labels_ == 0)[0])
    other.labels_[row] = 1
    found = match_segments(model, other, model.advertisers_)
    assert np.flatnonzero(found.moved).tolist() == [row]
    assert found.adjusted_rand < 1.0


def test_unknown_advertisers_have_no_segment():
    """An advertiser of one model only has not moved, and is counted where it was."""
    model = fitted()
    found = match_segments(model, model, np.array(["nobody", *model.advertisers_[:2]]))
    assert found.after[0] == found.groups[0] == -1
    assert not found.moved[0]


def test_one_model_has_the_same_segments():
    """Within one model nobody moves."""
    found = segments_of(fitted())
    assert not found.moved.any()
    assert found.adjusted_rand is None
