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


def by_definition(model, wins, row):
    """The likeness of everyone to one, 0 to itself: segments in common, curves and texts."""
    found = np.minimum(model.shares_[row], model.shares_).sum(axis=1)
    found *= 1 - abs(wins[row] - wins).max(axis=1)
    if model.vectors_ is not None:
        found *= (1 + np.maximum(model.vectors_ @ model.vectors_[row], 0)) / 2
    found[row] = 0.0
    return found


@pytest.mark.parametrize("model", MODELS)
def test_those_found_are_the_most_alike_of_all(model):
    """Eight at most, most alike first, never itself: as the definition has it of everyone."""
    model = model()
    neighbours = neighbours_of(model)
    bins = np.unique(np.linspace(0, len(model.edges_) - 1, 32).round().astype(int))
    wins = model.win_[:, bins].astype(float)
    for row in (0, 7, 31, 59):
        found = neighbours.of(row)
        expected = by_definition(model, wins, row)
        alike = [likeness for _, likeness in found]
        np.testing.assert_allclose(alike, expected[[b for b, _ in found]], atol=1e-5)
        np.testing.assert_allclose(alike, -np.sort(-expected[expected > 0])[:8], atol=1e-5)
        assert alike == sorted(alike, reverse=True) and row not in [b for b, _ in found]
    there, back = (dict(neighbours.of(row, n=59)) for row in (0, 31))
    assert there.get(31, 0.0) == pytest.approx(back.get(0, 0.0), abs=1e-12)


def test_a_twin_is_the_nearest():
    """One with the same curve, shares and text is as like as can be."""
    model = copy(small_model())
    rows = np.arange(60)
    rows[41] = 5
    for name in ("shares_", "win_", "vectors_"):
        setattr(model, name, getattr(model, name)[rows])
    nearest, likeness = neighbours_of(model).of(5)[0]
    has_text = model.vectors_[5].any()
    assert nearest == 41 and likeness == pytest.approx(1.0 if has_text else 0.5, abs=1e-6)


def test_of_equals_the_first_are_found():
    """Where everyone is alike, in the order of rows."""
    model = copy(textless_model())
    same = np.full(60, 3)
    for name in ("shares_", "win_"):
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
