"""Curves of the consensus c.d.f., and the growth of the area under them."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from coterie import ConsensusCDFDisplay, RobustConsensus, choose_k
from coterie.errors import InvalidParameterError
from coterie.inspection.stability import consensus_cdf, resampled_ensembles


@pytest.fixture(scope="module")
def ensembles() -> dict[int, np.ndarray]:
    """Return resampled ensembles of two separate groups, with the K in no order."""
    X = np.append(np.linspace(0, 1, 15), np.linspace(5, 6, 15))[:, None]
    return resampled_ensembles(X, (2, 3, 4), 15, random_state=0)


def test_every_k_has_the_curve_of_its_ensemble(ensembles: dict[int, np.ndarray]) -> None:
    """Curves are those of ``consensus_cdf``, in rising order of K, with names."""
    shuffled = {k: ensembles[k] for k in (4, 2, 3)}
    display = ConsensusCDFDisplay.from_ensembles(shuffled)
    assert display.ks is not None
    assert display.ks.tolist() == [2, 3, 4]
    for line, k in zip(display.ax_.lines, (2, 3, 4), strict=True):
        x, cdf = consensus_cdf(ensembles[k])
        np.testing.assert_array_equal(line.get_xdata(), x)
        np.testing.assert_array_equal(line.get_ydata(), cdf)
        assert line.get_label() == f"K = {k}"
    assert len({tuple(line.get_color()) for line in display.ax_.lines}) == 3


def test_growth_is_that_of_choose_k(ensembles: dict[int, np.ndarray]) -> None:
    """The second panel shows the ``delta_area`` of choose_k."""
    display = ConsensusCDFDisplay.from_ensembles(ensembles)
    expected = choose_k(ensembles, random_state=0).delta_area
    np.testing.assert_allclose(display.delta_area, expected)
    np.testing.assert_allclose(display.delta_ax_.lines[0].get_ydata(), expected)


def test_one_curve_has_no_growth(spoilt: np.ndarray, ensembles: dict[int, np.ndarray]) -> None:
    """An estimator, or a single K, gives one curve and one panel, on given axes if there are."""
    _, ax = plt.subplots()
    display = ConsensusCDFDisplay.from_estimator(RobustConsensus(3).fit(spoilt), ax=ax)
    np.testing.assert_array_equal(display.cdf, [consensus_cdf(spoilt)[1]])
    assert display.names == ["10 partitions"]
    assert display.ax_ is ax
    single = ConsensusCDFDisplay.from_ensembles({3: ensembles[3]})
    assert single.delta_area is display.delta_area is None
    assert single.delta_ax_ is None


def test_a_mapping_of_k_is_needed(spoilt: np.ndarray) -> None:
    """An empty mapping, a label matrix and K below 2 are refused."""
    with pytest.raises(InvalidParameterError, match="ks is empty"):
        ConsensusCDFDisplay.from_ensembles({})
    with pytest.raises(InvalidParameterError, match="give a mapping of K to labels"):
        ConsensusCDFDisplay.from_ensembles(spoilt)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="ks=1"):
        ConsensusCDFDisplay.from_ensembles({1: spoilt})
