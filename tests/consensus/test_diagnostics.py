"""Reports on a fitted consensus."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

from coterie import ConsensusClusterer, L2Consensus, RobustConsensus, planted_partitions
from coterie.consensus.diagnostics import partition_report, point_report, summary
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import mirkin_distance

pytestmark = pytest.mark.filterwarnings("ignore:all . partitions are the same")


@pytest.fixture(scope="module")
def spoilt() -> np.ndarray:
    """Return six noisy copies of one partition, and four of a wrong one."""
    return planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.1, random_state=0)[0]


@pytest.fixture(scope="module")
def fitted(spoilt: np.ndarray) -> RobustConsensus:
    """Return their consensus."""
    return RobustConsensus(3, random_state=0).fit(spoilt)


def test_rows_equal_pairwise_scores(spoilt: np.ndarray, fitted: RobustConsensus) -> None:
    """Agreement, distance and number of clusters equal scores of each column."""
    n = len(spoilt)
    rows = partition_report(fitted)
    assert sorted(row.name for row in rows) == sorted(map(str, range(10)))
    for row in rows:
        column = spoilt[:, int(row.name)]
        assert row.n_clusters == len(np.unique(column))
        assert row.agreement == pytest.approx(adjusted_rand_score(column, fitted.labels_))
        distance = mirkin_distance(column, fitted.labels_)
        assert row.mirkin_share == pytest.approx(distance / (n * (n - 1)))
        assert row.weight == fitted.partition_weights_[int(row.name)]
        assert row.camp == fitted.partition_groups_[int(row.name)]


def test_rows_come_by_falling_agreement(fitted: RobustConsensus) -> None:
    """The partition that agrees most is first; the odd ones out are last."""
    rows = partition_report(fitted)
    assert [r.agreement for r in rows] == sorted((r.agreement for r in rows), reverse=True)
    assert [r.odd_one_out for r in rows] == [False] * 6 + [True] * 4


def test_odd_ones_out_are_named_even_when_they_vote(spoilt: np.ndarray) -> None:
    """With equal weights the dissenters vote, and are still marked."""
    rows = partition_report(RobustConsensus(3, partition_weights=None, random_state=0).fit(spoilt))
    assert {row.name for row in rows if row.odd_one_out} == {"6", "7", "8", "9"}
    assert {row.weight for row in rows} == {1.0}


def test_missing_labels_are_left_out_of_both_scores(spoilt: np.ndarray) -> None:
    """A partition is compared with the consensus over the points it labels."""
    P = spoilt.copy()
    P[:40, 2] = -1
    est = RobustConsensus(3, random_state=0).fit(P)
    row = next(row for row in partition_report(est) if row.name == "2")
    seen, labels = P[40:, 2], est.labels_[40:]
    assert row.agreement == pytest.approx(adjusted_rand_score(seen, labels))
    assert row.mirkin_share == pytest.approx(mirkin_distance(seen, labels) / (60 * 59))


def test_methods_without_camps_get_them_found(spoilt: np.ndarray, fitted: RobustConsensus) -> None:
    """The camps do not depend on the consensus function."""
    camps = {
        row.name: row.camp for row in partition_report(L2Consensus(3, random_state=0).fit(spoilt))
    }
    assert camps == {row.name: row.camp for row in partition_report(fitted)}


def test_names_come_from_the_caller_or_the_table(spoilt: np.ndarray) -> None:
    """Given names win over column names; a wrong number of them is refused."""
    est = RobustConsensus(3, random_state=0).fit(pd.DataFrame(spoilt).add_prefix("view"))
    assert {row.name for row in partition_report(est)} == {f"view{v}" for v in range(10)}
    assert {row.name for row in partition_report(est, names=list("abcdefghij"))} == set(
        "abcdefghij"
    )
    with pytest.raises(InvalidParameterError, match="2 entries for 10 partitions"):
        partition_report(est, names=["a", "b"])


def test_points_come_by_rising_confidence(fitted: RobustConsensus) -> None:
    """The n least certain points have their cluster and confidence."""
    rows = point_report(fitted, n=7)
    assert [r.confidence for r in rows] == np.sort(fitted.confidence_)[:7].tolist()
    assert [r.cluster for r in rows] == fitted.labels_[[r.point for r in rows]].tolist()
    assert len(point_report(fitted, n=1000)) == 100


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_an_invalid_number_of_points_is_refused(fitted: RobustConsensus, n: object) -> None:
    """The number is an integer, at least 1."""
    with pytest.raises(InvalidParameterError, match="n="):
        point_report(fitted, n=n)  # type: ignore[arg-type]


def test_summary_has_sizes_objective_bound_and_dissent(fitted: RobustConsensus) -> None:
    """All main figures are in the text."""
    text = summary(fitted, names=[f"view{v}" for v in range(10)])
    sizes = np.bincount(fitted.labels_)
    for part in (
        f"100 points in 10 partitions, {fitted.n_tuples_} distinct",
        f"3, of {sizes[0]}, {sizes[1]} and {sizes[2]} points",
        f"J = {fitted.objective_:,.1f}",
        f"{fitted.lower_bound_:,.1f}",
        f"{fitted.gap_:.1%}",
        f"{fitted.confidence_.mean():.2f}",
        "4 dissent (view6, view7, view8, view9)",
        fitted.selected_["reason"],
    ):
        assert part in text


def test_summary_of_a_method_without_bound_leaves_it_out(spoilt: np.ndarray) -> None:
    """Only what a method computes is in the text."""
    text = summary(L2Consensus(3, random_state=0).fit(spoilt))
    assert "bound" not in text
    assert "6 of 10 partitions agree" in text


def test_many_clusters_are_cut_short() -> None:
    """Sizes of more than a dozen clusters end in an ellipsis."""
    P = np.repeat(np.arange(20), 3)[:, None] * np.ones((1, 3), dtype=int)
    assert "3, 3, … points" in summary(RobustConsensus(20, random_state=0).fit(P))


def test_equally_certain_points_are_not_named() -> None:
    """Five of many equal points would be chosen by their order."""
    P = np.repeat([[0], [1]], 10, axis=0) * np.ones((1, 5), dtype=int)
    assert "uncertain" not in summary(RobustConsensus(2, random_state=0).fit(P))
    P[3, 2] = 1
    assert "uncertain   rows 3 (0." in summary(RobustConsensus(2, random_state=0).fit(P))


def test_a_clusterer_is_read_through_its_consensus() -> None:
    """A clusterer that starts from features reports on the partitions it made.

    Its confidence is a probability, that of the consensus function a share of votes.
    """
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0, 0], [9, 9]], 20, axis=0)
    est = ConsensusClusterer(2, n_partitions=5, random_state=0).fit(X)
    assert partition_report(est) == partition_report(est.consensus_)
    own, of_consensus = (summary(each).splitlines() for each in (est, est.consensus_))
    assert [line.split()[0] for line in own if line.startswith("features")] == ["features"]
    assert [line for line in own if not line.startswith("features")] == of_consensus
    assert f"{est.confidence_.mean():.2f} on average" in summary(est)


def test_what_is_no_fitted_consensus_is_refused() -> None:
    """Unfitted estimators and other clusterers are refused."""
    with pytest.raises(NotFittedError):
        partition_report(RobustConsensus(2))
    with pytest.raises(InvalidParameterError, match="KMeans is not a consensus"):
        summary(KMeans(2, n_init=1).fit([[0.0], [1.0]]))


def test_coverage_stands_beside_agreement():
    """A partition that labels few points, all well, has a high agreement and a low coverage."""
    P, _ = planted_partitions([60, 40], 5, 0, 0.2, random_state=0)
    P[20:, 4] = -1
    est = RobustConsensus(2, random_state=0).fit(P)
    row = next(row for row in partition_report(est) if row.name == "4")
    assert row.coverage == est.partition_coverage_[4] == 0.2
