"""Numbers in the displays, and the plots of them."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex

from coterie import (
    ConsensusClusterer,
    L2Consensus,
    RobustConsensus,
    choose_k,
    coassociation,
    planted_partitions,
)
from coterie.errors import InvalidLabelsError, InvalidParameterError, MissingExtraError
from coterie.inspection.displays import (
    ChooseKDisplay,
    CoassociationDisplay,
    ConvergenceDisplay,
    PartitionAgreementDisplay,
)
from coterie.inspection.stability import resampled_ensembles

BLUE, VERMILION = "#0072b2", "#d55e00"


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Close all figures after every test."""
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def spoilt() -> np.ndarray:
    """Return six noisy copies of one partition, and four of a wrong one."""
    return planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.15, random_state=0)[0]


@pytest.fixture(scope="module")
def fitted(spoilt: np.ndarray) -> RobustConsensus:
    """Return their consensus."""
    return RobustConsensus(3, random_state=0).fit(spoilt)


def test_heat_map_is_the_weighted_coassociation_reordered(
    spoilt: np.ndarray, fitted: RobustConsensus
) -> None:
    """The heat map is M with the weights of the estimator, in the order of ``points``."""
    display = CoassociationDisplay.from_estimator(fitted, spoilt)
    M = coassociation(spoilt, fitted.partition_weights_)
    drawn = np.asarray(display.image_.get_array())
    np.testing.assert_allclose(drawn, M[np.ix_(display.points, display.points)], rtol=1e-12)
    assert sorted(display.points) == list(range(100))
    assert display.ax_.figure is display.figure_
    assert display.image_.get_clim() == (0, 1)
    # clusters are in the order of their labels; the most certain points of each are first
    assert display.labels.tolist() == np.sort(fitted.labels_).tolist()
    assert display.labels.tolist() == fitted.labels_[display.points].tolist()
    for cluster in range(3):
        confidence = fitted.confidence_[display.points[display.labels == cluster]]
        assert np.all(np.diff(confidence) <= 0)
    # each cluster has a square from its first point to its last
    sizes = np.bincount(fitted.labels_)
    starts = np.cumsum(sizes) - sizes
    squares = [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in display.ax_.patches]
    assert squares == [
        (a - 0.5, a - 0.5, size, size) for a, size in zip(starts, sizes, strict=True)
    ]


def test_confidence_of_any_labels_is_that_of_a_consensus(spoilt: np.ndarray) -> None:
    """With the labels of a consensus, the default order is that of its confidence."""
    est = L2Consensus(3, random_state=0).fit(spoilt)
    of_estimator = CoassociationDisplay.from_estimator(est, spoilt)
    of_labels = CoassociationDisplay.from_labels(spoilt, est.labels_)
    assert of_labels.points.tolist() == of_estimator.points.tolist()


def test_labels_may_be_text_and_tables_frames(spoilt: np.ndarray) -> None:
    """Ticks have the names of the clusters; a frame gives the same matrix as an array."""
    names = np.array(["low", "high"])[(spoilt[:, 0] > 0).astype(int)]
    display = CoassociationDisplay.from_labels(pd.DataFrame(spoilt), names)
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["high", "low"]
    array = CoassociationDisplay.from_labels(spoilt, names)
    np.testing.assert_array_equal(display.matrix, array.matrix)


def test_many_points_are_sampled_by_cluster() -> None:
    """A sample keeps the shares of the clusters, and one point of the smallest."""
    P, y = planted_partitions([900, 298, 2], 4, n_bad=0, noise=0.1, random_state=0)
    display = CoassociationDisplay.from_labels(P, y, max_points=120)
    assert display.matrix.shape == (120, 120)
    assert len(set(display.points.tolist())) == 120
    shown = np.bincount(display.labels)
    assert np.all(np.abs(shown - [90, 29.8, 0.2]) <= 1)
    assert shown[2] == 1
    M = coassociation(P)[np.ix_(display.points, display.points)]
    np.testing.assert_allclose(display.matrix, M)
    again, other = (
        CoassociationDisplay.from_labels(P, y, max_points=120, random_state=seed).points.tolist()
        for seed in (0, 1)
    )
    assert again == display.points.tolist() != other


@pytest.mark.parametrize("name", ["labels", "confidence"])
def test_values_of_the_wrong_length_are_refused(spoilt: np.ndarray, name: str) -> None:
    """The message has both lengths; the number of points shown is checked, too."""
    values = {"labels": spoilt[:, 0], "confidence": np.ones(100)} | {name: np.zeros(7)}
    with pytest.raises(InvalidLabelsError, match=rf"{name} has shape \(7,\), P has 100 points"):
        CoassociationDisplay.from_labels(spoilt, **values)
    with pytest.raises(InvalidParameterError, match="max_points=0"):
        CoassociationDisplay.from_labels(spoilt, spoilt[:, 0], max_points=0)


def test_it_draws_on_given_axes(spoilt: np.ndarray, fitted: RobustConsensus) -> None:
    """With ``ax`` no other axes are created; the colour bar is optional."""
    figure, ax = plt.subplots()
    display = CoassociationDisplay.from_estimator(fitted, spoilt, ax=ax, colorbar=False)
    assert display.ax_ is ax
    assert figure.axes == [ax]


def test_agreement_heat_map_and_bars_follow_one_order(fitted: RobustConsensus) -> None:
    """Heat map and bars have the same order of partitions."""
    display = PartitionAgreementDisplay.from_estimator(fitted)
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


def test_dissenters_are_marked(fitted: RobustConsensus) -> None:
    """Dissenters have another colour, and camps have brackets."""
    display = PartitionAgreementDisplay.from_estimator(fitted, names=list("abcdefghij"))
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


def test_single_partitions_share_a_bracket() -> None:
    """Random partitions, each a camp of one, have one bracket."""
    P, _ = planted_partitions([60, 40], 8, 3, 0.0, correlated=False, random_state=1)
    display = PartitionAgreementDisplay.from_estimator(RobustConsensus(2, random_state=0).fit(P))
    assert [text.get_text() for text in display.ax_.texts] == ["camp 0", "alone"]


def test_unanimous_partitions_of_a_frame(spoilt: np.ndarray) -> None:
    """Partitions have the names of the columns; without dissenters there is no legend."""
    est = L2Consensus(3, random_state=0).fit(pd.DataFrame(spoilt[:, :6]).add_prefix("view"))
    display = PartitionAgreementDisplay.from_estimator(est)
    assert display.names == [f"view{v}" for v in display.order]
    assert display.bars_ax_.get_legend() is None


def test_panels_take_the_place_of_a_subplot(fitted: RobustConsensus) -> None:
    """The panels replace a given subplot; other axes are refused."""
    figure, (left, right) = plt.subplots(1, 2, layout="constrained")
    display = PartitionAgreementDisplay.from_estimator(fitted, ax=right)
    assert display.figure_ is figure
    assert not right.axison
    figure.canvas.draw()
    assert display.ax_.get_position().x0 > left.get_position().x1
    with pytest.raises(InvalidParameterError, match="no subplot"):
        ConvergenceDisplay.from_estimator(fitted, ax=figure.add_axes((0, 0, 1, 1)))


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


def test_choice_is_drawn_with_the_chosen_k_marked(spoilt: np.ndarray) -> None:
    """Each panel has the curve of a criterion and a mark at the recommended K."""
    choice = choose_k(spoilt, range(2, 7), random_state=0)
    display = ChooseKDisplay.from_choice(choice)
    assert list(display.axes_) == ["objective", "confidence", "relative_eigengap", "agreement"]
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


def test_plot_can_be_called_again(spoilt: np.ndarray, fitted: RobustConsensus) -> None:
    """A second call draws a new figure."""
    display = CoassociationDisplay.from_estimator(fitted, spoilt)
    first = display.figure_
    assert display.plot(cmap="Greys") is display
    assert display.figure_ is not first
    assert display.image_.get_cmap().name == "Greys"


def test_a_clusterer_is_drawn_through_its_consensus() -> None:
    """A clusterer of features shows its partitions."""
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0, 0], [9, 9]], 20, axis=0)
    est = ConsensusClusterer(2, n_partitions=5, random_state=0).fit(X)
    P = est.ensemble_.labels
    of_clusterer = CoassociationDisplay.from_estimator(est, P).matrix
    np.testing.assert_array_equal(
        of_clusterer, CoassociationDisplay.from_estimator(est.consensus_, P).matrix
    )
    assert PartitionAgreementDisplay.from_estimator(est).agreement.shape == (5, 5)
    assert len(ConvergenceDisplay.from_estimator(est).ax_.lines) == 1


def test_an_unfitted_estimator_is_refused(spoilt: np.ndarray) -> None:
    """Every display needs a fitted estimator."""
    with pytest.raises(NotFittedError):
        CoassociationDisplay.from_estimator(RobustConsensus(2), spoilt)
    with pytest.raises(NotFittedError):
        PartitionAgreementDisplay.from_estimator(RobustConsensus(2))
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(RobustConsensus(2))


def test_without_matplotlib_the_extra_is_named(
    spoilt: np.ndarray, fitted: RobustConsensus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    real_import = builtins.__import__

    def no_matplotlib(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    for draw in (
        lambda: CoassociationDisplay.from_estimator(fitted, spoilt),
        lambda: PartitionAgreementDisplay.from_estimator(fitted),
        lambda: ConvergenceDisplay.from_estimator(fitted),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install 'coterie\[plots\]'"):
            draw()
