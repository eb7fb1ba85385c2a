"""Criteria of K, stability, and where the points go when K grows."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from sklearn.metrics import adjusted_rand_score

import coterie as ct
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.colours_and_axes import cluster_colours
from coterie.inspection.displays.numbers_of_clusters import carry_colours
from coterie.inspection.stability import consensus_cdf, resampled_ensembles


def test_choice_is_drawn_with_the_chosen_k_marked(spoilt):
    """Each panel has the curve of a criterion and a mark at the recommended K."""
    choice = ct.choose_k(spoilt, range(2, 7), random_state=0)
    display = ct.ChooseKDisplay.from_choice(choice)
    assert list(display.axes_) == ["objective", "margin", "relative_eigengap", "agreement"]
    assert display.ax_ is display.axes_["objective"]
    for name, panel in display.axes_.items():
        curve, mark, line = panel.lines
        assert curve.get_xdata().tolist() == choice.ks.tolist()
        assert curve.get_ydata().tolist() == getattr(choice, name).tolist()
        assert mark.get_xydata().tolist() == [[choice.best_k, getattr(choice, name)[1]]]
        assert list(line.get_xdata()) == [choice.best_k] * 2
    assert choice.best_k == 3


def test_resampled_choice_has_a_panel_of_ambiguous_pairs():
    """PAC has a panel if it is available; a single K gives panels with single points."""
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0, 0], [9, 9]], 20, axis=0)
    choice = ct.choose_k(resampled_ensembles(X, (2, 3), 12, random_state=0), random_state=0)
    display = ct.ChooseKDisplay.from_choice(choice)
    assert display.axes_["pac"].lines[0].get_ydata().tolist() == choice.pac.tolist()
    P, _ = ct.planted_partitions([20, 10], 4, 0, 0.1, random_state=0)
    display = ct.ChooseKDisplay.from_choice(ct.choose_k(P, [2], random_state=0))
    assert [panel.lines[0].get_xdata().tolist() for panel in display.axes_.values()] == [[2]] * 4


def test_an_estimator_has_its_choice_or_a_comparison_of_its_partitions(spoilt):
    """``k_choice_`` is drawn as it is, unless other K are asked for: with the fitted weights."""
    est, ks = ct.RobustConsensus(3, random_state=0).fit(spoilt), range(2, 6)
    display = ct.ChooseKDisplay.from_estimator(est, ks)
    expected = ct.choose_k(spoilt, ks, partition_weights=est.partition_weights_, random_state=0)
    assert display.choice.best_k == expected.best_k
    np.testing.assert_allclose(display.choice.objective, expected.objective)
    est.k_choice_ = replace(expected, best_k=4)
    assert ct.ChooseKDisplay.from_estimator(est).choice is est.k_choice_
    assert ct.ChooseKDisplay.from_estimator(est, [2, 3]).choice.ks.tolist() == [2, 3]


@pytest.fixture(scope="module")
def ensembles():
    """Return resampled ensembles of two separate groups, with the K in no order."""
    X = np.append(np.linspace(0, 1, 15), np.linspace(5, 6, 15))[:, None]
    return resampled_ensembles(X, (2, 3, 4), 15, random_state=0)


def test_every_k_has_the_curve_of_its_ensemble(ensembles):
    """Curves are those of ``consensus_cdf``, in rising order of K; growth is that of choose_k."""
    display = ct.ConsensusCDFDisplay.from_ensembles({k: ensembles[k] for k in (4, 2, 3)})
    assert display.ks.tolist() == [2, 3, 4]
    for line, k in zip(display.ax_.lines, (2, 3, 4), strict=True):
        x, cdf = consensus_cdf(ensembles[k])
        np.testing.assert_array_equal(line.get_xdata(), x)
        np.testing.assert_array_equal(line.get_ydata(), cdf)
        assert line.get_label() == f"K = {k}"
    assert len({tuple(line.get_color()) for line in display.ax_.lines}) == 3
    expected = ct.choose_k(ensembles, random_state=0).delta_area
    np.testing.assert_allclose(display.delta_area, expected)
    np.testing.assert_allclose(display.delta_ax_.lines[0].get_ydata(), expected)


def test_one_curve_has_no_growth(spoilt, ensembles):
    """An estimator, or a single K, gives one curve and one panel, on given axes if there are."""
    _, ax = plt.subplots()
    display = ct.ConsensusCDFDisplay.from_estimator(ct.RobustConsensus(3).fit(spoilt), ax=ax)
    np.testing.assert_array_equal(display.cdf, [consensus_cdf(spoilt)[1]])
    assert display.names == ["10 partitions"]
    assert display.ax_ is ax
    single = ct.ConsensusCDFDisplay.from_ensembles({3: ensembles[3]})
    assert single.delta_area is display.delta_area is None
    assert single.delta_ax_ is None


def _is_same_partition(a, b):
    return adjusted_rand_score(a, b) == 1.0


def test_rows_of_ensembles_are_cuts_of_average_linkage():
    """Each row has the labels of EvidenceAccumulation on the ensemble of its K."""
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0, 0], [5, 5]], 20, axis=0)
    ensembles = resampled_ensembles(X, [4, 2, 3], 12, random_state=0)
    display = ct.TrackingDisplay.from_ensembles(ensembles)
    assert display.ks.tolist() == [2, 3, 4]
    assert sorted(display.points) == list(range(40))
    for k, row in zip(display.ks.tolist(), display.tracks, strict=True):
        labels = ct.EvidenceAccumulation(k).fit(ensembles[k]).labels_
        assert _is_same_partition(row, labels[display.points])


def test_rows_of_an_estimator_are_cuts_of_its_locally_weighted_tree(spoilt, fitted):
    """Each row has the labels of LocallyWeightedConsensus with the weights of the estimator."""
    display = ct.TrackingDisplay.from_estimator(fitted, range(2, 6))
    for k, row in zip(display.ks.tolist(), display.tracks, strict=True):
        method = ct.LocallyWeightedConsensus(k, partition_weights=fitted.partition_weights_)
        assert _is_same_partition(row, method.fit(spoilt).labels_[display.points])


def test_rows_of_an_estimator_split_the_rows_above(fitted):
    """All rows come from one tree, so every cluster is one run of columns in every row."""
    display = ct.TrackingDisplay.from_estimator(fitted)
    assert display.ks.tolist() == [2, 3, 4, 5, 6]
    for k, row in zip(display.ks.tolist(), display.tracks, strict=True):
        assert np.count_nonzero(np.diff(row)) == k - 1
    for above, below in zip(display.tracks, display.tracks[1:], strict=False):
        # one cluster is split: its larger part keeps the colour
        assert len(np.unique(np.stack([above, below]), axis=1).T) == len(np.unique(below))


def test_colours_are_those_of_the_estimator(fitted):
    """In the row of its K, most points have the colours that other pictures give them."""
    display = ct.TrackingDisplay.from_estimator(fitted, range(2, 7))
    labels = fitted.labels_[display.points]
    assert np.mean(display.tracks[1] == labels) > 0.9
    assert set(display.tracks[1].tolist()) == {0, 1, 2}


@given(
    rows=st.lists(
        st.lists(st.integers(0, 4), min_size=12, max_size=12).map(np.array), min_size=1, max_size=4
    )
)
def test_colours_change_no_cluster(rows):
    """Clusters stay the same; equal rows have equal colours."""
    tracks = carry_colours([*rows, rows[-1]])
    for row, track in zip(rows, tracks, strict=False):
        assert _is_same_partition(row, track)
        assert len(np.unique(row)) == len(np.unique(track))
    assert tracks[-1].tolist() == tracks[-2].tolist()


def test_most_points_keep_their_colour():
    """Colours follow the best overlap; a new cluster takes a colour that was not in use."""
    first = np.repeat([0, 1, 2], [10, 8, 6])
    second = first.copy()
    second[:3], second[10:12] = 3, 2
    tracks = carry_colours([first, (second + 1) % 4])
    assert tracks[0].tolist() == first.tolist()
    assert tracks[1].tolist() == second.tolist()


def test_rows_are_drawn_in_the_colours_of_the_palette(fitted):
    """The picture has a row for each K and the palette's colour for each number."""
    _, ax = plt.subplots()
    display = ct.TrackingDisplay.from_estimator(fitted, [2, 3], ax=ax)
    assert display.ax_ is ax
    np.testing.assert_array_equal(display.image_.get_array(), display.tracks)
    drawn = display.image_.to_rgba(np.arange(3))
    assert [to_hex(colour).upper() for colour in drawn] == list(cluster_colours(3))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["2", "3"]


def test_points_without_a_deciding_vote_are_left_out(spoilt):
    """A point with labels only in partitions of weight 0 is not in the tree."""
    P, weights = spoilt.copy(), np.repeat([1.0, 0.0], [6, 4])
    P[[5, 80], :6] = -1
    P[9] = -1
    est = ct.EvidenceAccumulation(3, partition_weights=weights).fit(P)
    display = ct.TrackingDisplay.from_estimator(est)
    assert sorted(display.points) == sorted(set(range(100)) - {5, 9, 80})


def test_few_distinct_points_limit_the_default_range():
    """The default ends at the number of distinct points; larger K must be given and possible."""
    est = ct.EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1], [2, 1]])
    assert ct.TrackingDisplay.from_estimator(est).ks.tolist() == [2, 3]
    single = ct.EvidenceAccumulation(1).fit([[0, 0], [0, 0]])
    assert ct.TrackingDisplay.from_estimator(single).tracks.tolist() == [[0, 0]]
    with pytest.raises(InvalidParameterError, match="more than the number of points"):
        ct.TrackingDisplay.from_estimator(est, [2, 5])
