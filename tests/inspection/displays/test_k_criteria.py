"""Criteria of a choice of K."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coterie import ChooseKDisplay, L2Consensus, RobustConsensus, choose_k, planted_partitions
from coterie.inspection.stability import resampled_ensembles


def test_choice_is_drawn_with_the_chosen_k_marked(spoilt: np.ndarray) -> None:
    """Each panel has the curve of a criterion and a mark at the recommended K."""
    choice = choose_k(spoilt, range(2, 7), random_state=0)
    display = ChooseKDisplay.from_choice(choice)
    assert list(display.axes_) == ["objective", "margin", "relative_eigengap", "agreement"]
    assert display.ax_ is display.axes_["objective"]
    for name, panel in display.axes_.items():
        curve, mark, line = panel.lines
        assert curve.get_xdata().tolist() == choice.ks.tolist()
        assert curve.get_ydata().tolist() == getattr(choice, name).tolist()
        assert mark.get_xydata().tolist() == [[choice.best_k, getattr(choice, name)[1]]]
        assert list(line.get_xdata()) == [choice.best_k] * 2
    assert choice.best_k == 3


def test_resampled_choice_has_a_panel_of_ambiguous_pairs() -> None:
    """PAC has a panel if it is available; a single K gives panels with single points."""
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0, 0], [9, 9]], 20, axis=0)
    choice = choose_k(resampled_ensembles(X, (2, 3), 12, random_state=0), random_state=0)
    display = ChooseKDisplay.from_choice(choice)
    assert display.axes_["pac"].lines[0].get_ydata().tolist() == choice.pac.tolist()
    P, _ = planted_partitions([20, 10], 4, 0, 0.1, random_state=0)
    display = ChooseKDisplay.from_choice(choose_k(P, [2], random_state=0))
    assert [panel.lines[0].get_xdata().tolist() for panel in display.axes_.values()] == [[2]] * 4


def test_partitions_of_an_estimator_are_compared(spoilt: np.ndarray) -> None:
    """Without a stored choice the fitted partitions are compared, with their weights."""
    est = RobustConsensus(3, random_state=0).fit(spoilt)
    display = ChooseKDisplay.from_estimator(est, range(2, 6))
    expected = choose_k(
        spoilt, range(2, 6), partition_weights=est.partition_weights_, random_state=0
    )
    assert display.choice.best_k == expected.best_k
    np.testing.assert_allclose(display.choice.objective, expected.objective)


def test_a_stored_choice_is_drawn(spoilt: np.ndarray) -> None:
    """``k_choice_`` is drawn as it is, unless other K are asked for."""
    est = L2Consensus(3, random_state=0).fit(spoilt)
    est.k_choice_ = replace(choose_k(spoilt, [2, 3, 4], random_state=0), best_k=4)
    assert ChooseKDisplay.from_estimator(est).choice is est.k_choice_
    assert ChooseKDisplay.from_estimator(est, [2, 3]).choice.ks.tolist() == [2, 3]
