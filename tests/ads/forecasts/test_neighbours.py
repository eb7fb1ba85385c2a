"""The advertisers most like one."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest

from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.ads.forecasts.neighbours import Neighbours
from fitted_models import first_price_model, minimum_model, small_model, textless_model
from markets import odd_model

MODELS = [small_model, first_price_model, minimum_model, textless_model]


def neighbours_of(model):
    """Those of a model."""
    return Neighbours(model, tables_of(model))


def by_definition(model, a, b):
    """Segments in common, curves and texts, from the curves on the whole grid of 48 bids."""
    bins = np.unique(np.linspace(0, len(model.edges_) - 1, 32).round().astype(int))
    win_a, win_b = (model.curve(str(model.advertisers_[row])).win[bins] for row in (a, b))
    found = np.minimum(model.shares_[a], model.shares_[b]).sum() * (1 - abs(win_a - win_b).max())
    if model.vectors_ is not None:
        found *= (1 + max(model.vectors_[a] @ model.vectors_[b], 0)) / 2
    return found


@pytest.mark.parametrize("model", MODELS)
def test_likeness_is_what_its_definition_says(model):
    """Of any two, the same both ways, from 0 to 1."""
    model = model()
    neighbours = neighbours_of(model)
    for a, b in np.random.default_rng(0).integers(0, len(model.advertisers_), (60, 2)):
        found = neighbours.likeness(a, b)
        assert found == pytest.approx(by_definition(model, a, b), abs=1e-5)
        assert found == pytest.approx(neighbours.likeness(b, a), abs=1e-12)
        assert 0 <= found <= 1


@pytest.mark.parametrize("model", MODELS)
def test_those_found_are_the_most_alike_of_all(model):
    """Eight at most, most alike first, never itself: as comparing with everyone has it."""
    model = model()
    neighbours = neighbours_of(model)
    everyone = range(len(model.advertisers_))
    for row in (0, 7, 31, 59):
        found = neighbours.of(row)
        others = [(neighbours.likeness(row, b), b) for b in everyone if b != row]
        expected = sorted((one for one in others if one[0] > 0), reverse=True)[:8]
        assert len(found) == len(expected) and row not in [b for b, _ in found]
        likenesses = [likeness for _, likeness in found]
        np.testing.assert_allclose(likenesses, [likeness for likeness, _ in expected], rtol=1e-6)
        assert likenesses == sorted(likenesses, reverse=True)


def test_a_twin_is_the_nearest():
    """Whoever has the same bids, shares and text is as like as can be."""
    model = copy(small_model())
    rows = np.arange(60)
    rows[41] = 5
    for name in ("shares_", "successes_", "trials_by_bin_", "observations_", "vectors_"):
        setattr(model, name, getattr(model, name)[rows])
    nearest, likeness = neighbours_of(model).of(5)[0]
    has_text = model.vectors_[5].any()
    assert nearest == 41 and likeness == pytest.approx(1.0 if has_text else 0.5, abs=1e-6)


def test_of_equals_the_first_are_found():
    """Where everyone is alike, in the order of rows."""
    model = copy(textless_model())
    same = np.full(60, 3)
    for name in ("shares_", "successes_", "trials_by_bin_", "observations_"):
        setattr(model, name, getattr(model, name)[same])
    assert [row for row, _ in neighbours_of(model).of(2)] == [0, 1, 3, 4, 5, 6, 7, 8]
    assert [row for row, _ in neighbours_of(model).of(30, n=3)] == [0, 1, 2]


def test_who_has_nothing_in_common_is_left_out():
    """Rather than listed with a likeness of 0; alone there is nobody."""
    model = copy(textless_model())
    shares = np.zeros_like(model.shares_)
    shares[:4, 0], shares[4:, 1] = 1.0, 1.0
    model.shares_ = shares
    assert {row for row, _ in neighbours_of(model).of(1)} == {0, 2, 3}
    assert neighbours_of(odd_model("one advertiser")).of(0) == []
