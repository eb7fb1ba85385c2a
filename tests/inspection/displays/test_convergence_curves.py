"""Convergence of the robust relaxation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coterie import (
    ConvergenceDisplay,
    L2Consensus,
    MultiViewKMeans,
    RobustConsensus,
    RobustSpectral,
    coassociation,
)
from coterie.errors import InvalidParameterError


def test_convergence_draws_the_history(fitted: RobustConsensus) -> None:
    """Objective and residuals have one value per step."""
    display = ConvergenceDisplay.from_estimator(fitted)
    (objective,) = display.ax_.lines
    primal, dual = display.residuals_ax_.lines
    assert objective.get_xdata().tolist() == list(range(1, fitted.n_iter_ + 1))
    assert objective.get_ydata().tolist() == fitted.history_["objective"]
    assert list(primal.get_ydata()) == fitted.history_["primal_residual"]
    assert list(dual.get_ydata()) == fitted.history_["dual_residual"]
    assert display.residuals_ax_.get_yscale() == "log"


@pytest.mark.parametrize(
    "est", [RobustConsensus(3, relaxation="l2", random_state=0), L2Consensus(3, random_state=0)]
)
def test_a_missing_history_is_refused(spoilt: np.ndarray, est: Any) -> None:
    """A least-squares relaxation has no steps; the message names one that has."""
    with pytest.raises(InvalidParameterError, match="relaxation='admm'"):
        ConvergenceDisplay.from_estimator(est.fit(spoilt))


def test_a_similarity_matrix_has_a_convergence(spoilt: np.ndarray) -> None:
    """RobustSpectral runs the same solver; other estimators with a history are refused."""
    est = RobustSpectral(3, random_state=0).fit(coassociation(spoilt))
    assert len(ConvergenceDisplay.from_estimator(est).history["objective"]) == est.n_iter_
    views = MultiViewKMeans(3, random_state=0).fit([spoilt[:, :5], spoilt[:, 5:]])
    with pytest.raises(InvalidParameterError, match="no ADMM ran in this MultiViewKMeans"):
        ConvergenceDisplay.from_estimator(views)
