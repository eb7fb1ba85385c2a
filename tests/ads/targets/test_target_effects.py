"""Fitted effects recover what the simulator planted, and are sound for odd logs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from coterie.ads.logs.simulation.simulated_traits import draw_traits
from coterie.ads.targets.target_effects import Market, fit_targets
from coterie.errors import InvalidParameterError
from target_markets import DIVIDED, counted_market, targets_model


@pytest.fixture(scope="module")
def planted():
    """Planted shares, shifts and click factors, (60, V) each, in the order of the model."""
    model = targets_model()
    rows = [int(name.removeprefix("adv-")) for name in model.advertisers_]
    found = {}
    for name in ("share", "shift", "click"):
        parts = []
        for one in draw_traits(DIVIDED).effects:
            values = model.targets_.values[model.targets_.columns(one.name)]
            order = [one.values.index(value) for value in values]
            parts.append(getattr(one, name)[rows][:, order])
        found[name] = np.hstack(parts)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("share", 0.95), ("shift", 0.85), ("click", 0.5)])
@pytest.mark.parametrize("auction", ["second", "first"])
def test_planted_effects_are_found(planted, auction, name, least):
    """Fitted means correlate with the planted effects."""
    model = targets_model(auction)
    found = getattr(model.targets_, name)[0]
    assert np.corrcoef(found.ravel(), planted[name].ravel())[0, 1] > least


def test_intervals_of_shares_and_shifts_cover(planted):
    """Intervals of 90% contain most planted shares and shifts."""
    effects = targets_model().targets_
    share, shift = effects.share, effects.shift
    relative = np.abs(np.log(share[0] / planted["share"]))
    assert 0.8 < (relative < 1.645 * share[1]).mean() < 0.99
    of_dimension = np.eye(2)[effects.dimension]
    centre = (planted["share"] * shift[0]) @ of_dimension @ of_dimension.T
    far = np.abs(shift[0] - centre - planted["shift"])
    assert 0.75 < (far < 1.645 * shift[1]).mean() < 0.99


def test_shares_sum_to_one_and_unknown_events_change_nothing():
    """Without rates of events all factors are 1; shares of every dimension sum to 1."""
    model, counts = targets_model(), counted_market().targets
    market = Market(model.edges_, model.win_, model.shares_, None, None)
    found = fit_targets(counts, market)
    assert np.all(found.click[0] == 1)
    assert np.all(found.conversion[1] == 0)
    sums = found.share[0] @ np.eye(2)[found.dimension]
    np.testing.assert_allclose(sums, 1, atol=1e-5)


def test_an_advertiser_without_auctions_gets_its_segment():
    """Where nothing was counted, the effects are those of a new advertiser of its segments."""
    model, counts = targets_model(), counted_market().targets
    cells = counts.cells
    kept = cells.advertiser != 0
    fewer = type(cells)(**{name: part[kept] for name, part in vars(cells).items()})
    market = Market(model.edges_, model.win_, model.shares_, model.click_rate_, None)
    found = fit_targets(dataclasses.replace(counts, cells=fewer), market)
    own, new = found.of_row(0), found.of_new(model.shares_[0])
    for name in ("share", "shift", "click"):
        np.testing.assert_allclose(
            getattr(own, name)[0], getattr(new, name)[0], rtol=1e-3, atol=1e-4
        )


def test_the_values_of_an_unknown_dimension_are_refused():
    """The message names the dimensions that there are."""
    with pytest.raises(InvalidParameterError, match="device, country"):
        targets_model().targets_.columns("planet")
