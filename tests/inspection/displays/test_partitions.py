"""Agreement of partitions, and convergence of the solver."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

import coterie as ct
from coterie.errors import InvalidParameterError

BLUE, VERMILION = "#0072b2", "#d55e00"


def test_agreement_heat_map_and_bars_follow_one_order(fitted):
    """Heat map and bars have the same order of partitions."""
    display = ct.PartitionAgreementDisplay.from_estimator(fitted)
    order = display.order
    drawn = np.asarray(display.image_.get_array())
    np.testing.assert_array_equal(drawn, fitted.dissent_.agreement[np.ix_(order, order)])
    widths = [bar.get_width() for bar in display.bars_]
    assert widths == fitted.partition_agreement_[order].tolist()
    middles = [bar.get_y() + bar.get_height() / 2 for bar in display.bars_]
    np.testing.assert_allclose(middles, np.arange(10))
    assert display.bars_ax_.get_ylim() == display.ax_.get_ylim()
    # the largest camp is first; in a camp, the partition that agrees most is first
    assert display.camps.tolist() == [0] * 6 + [1] * 4
    for camp in (0, 1):
        assert np.all(np.diff(display.with_consensus[display.camps == camp]) <= 0)


def test_dissenters_are_marked(fitted):
    """Dissenters have another colour, and camps have brackets."""
    display = ct.PartitionAgreementDisplay.from_estimator(fitted, names=list("abcdefghij"))
    expected = [BLUE] * 6 + [VERMILION] * 4
    assert [to_hex(bar.get_facecolor()) for bar in display.bars_] == expected
    ticks = display.ax_.get_yticklabels()
    assert [tick.get_text() for tick in ticks] == ["abcdefghij"[v] for v in display.order]
    assert [to_hex(tick.get_color()) == VERMILION for tick in ticks] == [False] * 6 + [True] * 4
    legend = display.bars_ax_.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["decides", "dissents"]
    # a bracket spans the members of each camp and names it
    spans = [line.get_xdata() for line in display.ax_.lines]
    np.testing.assert_allclose(spans, [[-0.4, 5.4], [5.6, 9.4]])
    assert [text.get_text() for text in display.ax_.texts] == ["camp 0", "camp 1"]


def test_single_partitions_share_a_bracket():
    """Random partitions, each a camp of one, have one bracket."""
    P, _ = ct.planted_partitions([60, 40], 8, 3, 0.0, correlated=False, random_state=1)
    display = ct.PartitionAgreementDisplay.from_estimator(
        ct.RobustConsensus(2, random_state=0).fit(P)
    )
    assert [text.get_text() for text in display.ax_.texts] == ["camp 0", "alone"]


def test_unanimous_partitions_of_a_frame(spoilt):
    """Partitions have the names of the columns; without dissenters there is no legend."""
    est = ct.L2Consensus(3, random_state=0).fit(pd.DataFrame(spoilt[:, :6]).add_prefix("view"))
    display = ct.PartitionAgreementDisplay.from_estimator(est)
    assert display.names == [f"view{v}" for v in display.order]
    assert display.bars_ax_.get_legend() is None


@pytest.mark.parametrize(("n_partitions", "every"), [(5, 1), (30, 1), (60, 1), (100, 2), (250, 4)])
def test_names_do_not_overlap(n_partitions, every):
    """Names are left out only if they do not fit; those that are shown do not overlap."""
    P, _ = ct.planted_partitions([200, 100], n_partitions, n_partitions // 3, 0.2, random_state=0)
    est = ct.L2Consensus(2, random_state=0).fit(P)
    names = [f"gaussian mixture {v}" for v in range(n_partitions)]
    display = ct.PartitionAgreementDisplay.from_estimator(est, names)
    ticks = display.ax_.get_yticklabels()
    assert [tick.get_text() for tick in ticks] == display.names[::every]
    _assert_apart(display)


def test_names_fit_into_given_axes():
    """On small axes fewer names are shown."""
    P, _ = ct.planted_partitions([40, 20], 40, 10, 0.2, random_state=0)
    _, axes = plt.subplots(2, 1, figsize=(8, 6), layout="constrained")
    est = ct.L2Consensus(2, random_state=0).fit(P)
    display = ct.PartitionAgreementDisplay.from_estimator(est, ax=axes[1])
    assert len(display.ax_.get_yticklabels()) < 40
    _assert_apart(display)


def _assert_apart(display):
    display.figure_.canvas.draw()
    boxes = [tick.get_window_extent() for tick in display.ax_.get_yticklabels()]
    assert all(above.y0 >= below.y1 - 1 for above, below in pairwise(boxes))


def test_convergence_draws_the_history(fitted):
    """Objective and residuals have one value per step."""
    display = ct.ConvergenceDisplay.from_estimator(fitted)
    (objective,) = display.ax_.lines
    primal, dual = display.residuals_ax_.lines
    assert objective.get_xdata().tolist() == list(range(1, fitted.n_iter_ + 1))
    assert objective.get_ydata().tolist() == fitted.history_["objective"]
    assert list(primal.get_ydata()) == fitted.history_["primal_residual"]
    assert list(dual.get_ydata()) == fitted.history_["dual_residual"]
    assert display.residuals_ax_.get_yscale() == "log"


@pytest.mark.parametrize(
    "est",
    [ct.RobustConsensus(3, relaxation="l2", random_state=0), ct.L2Consensus(3, random_state=0)],
)
def test_a_missing_history_is_refused(spoilt, est):
    """A least-squares relaxation has no steps; the message names one that has."""
    with pytest.raises(InvalidParameterError, match="relaxation='admm'"):
        ct.ConvergenceDisplay.from_estimator(est.fit(spoilt))


def test_a_similarity_matrix_has_a_convergence(spoilt):
    """RobustSpectral runs the same solver; other estimators with a history are refused."""
    est = ct.RobustSpectral(3, random_state=0).fit(ct.coassociation(spoilt))
    assert len(ct.ConvergenceDisplay.from_estimator(est).history["objective"]) == est.n_iter_
    views = ct.MultiViewKMeans(3, random_state=0).fit([spoilt[:, :5], spoilt[:, 5:]])
    with pytest.raises(InvalidParameterError, match="no ADMM ran in this MultiViewKMeans"):
        ct.ConvergenceDisplay.from_estimator(views)
