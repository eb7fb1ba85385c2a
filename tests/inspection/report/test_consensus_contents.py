"""The contents of a report: every number is the estimator's or a mean of its numbers."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import coterie as ct
from consensus_pages import clustered_features, fitted
from coterie.consensus.results import runner_up_clusters
from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.inspection.report import consensus_page as module
from coterie.inspection.report.consensus_page import (
    MOST_QUOTED,
    cluster_words,
    consensus_contents,
    render_report,
)


@pytest.fixture(scope="module")
def case():
    """Return features, partitions of which two are wrong, and their consensus."""
    X, P, _ = clustered_features()
    return X, P, fitted(P)


def test_clusters_have_the_confidence_of_their_points(case):
    """Mean, histogram and consensus of a cluster are those of its points."""
    _, _, est = case
    firmness = ct.cluster_consensus(est)
    report = consensus_contents(est)
    for row, histogram in zip(report.clusters, report.histograms, strict=True):
        own = est.confidence_[est.labels_ == row.cluster]
        assert row.confidence == pytest.approx(own.mean())
        assert histogram == np.histogram(own.round(6), np.arange(11) / 10)[0].tolist()
        assert row.consensus == pytest.approx(firmness[row.cluster])


def test_partitions_are_those_of_the_partition_report(case):
    """The rows are those of the partition report; camps and their sizes are those of the fit."""
    _, _, est = case
    names = [f"rater {v}" for v in range(8)]
    part = consensus_contents(est, names=names)
    assert part.partitions == ct.partition_report(est, names)
    assert [len(camp.partitions) for camp in part.facts.camps] == [6, 2]
    assert part.n_deciding == (est.partition_weights_ > 0).sum()
    assert part.facts.dissent == est.dissent_.in_words(names)
    order = [names.index(name) for name in part.agreement.names]
    np.testing.assert_array_equal(
        part.agreement.matrix, np.clip(est.dissent_.agreement[np.ix_(order, order)], 0, 1)
    )
    assert sum(length for _, length in part.agreement.blocks) == 8


def test_the_coassociation_is_that_of_the_points(case, monkeypatch):
    """The heat map has the co-association of a sample, with the blocks of its clusters."""
    _, P, est = case
    monkeypatch.setattr(module, "_MOST_COASSOCIATED", 25)
    heat = consensus_contents(est).coassociation
    rows = [int(name) for name in heat.names]
    M = ct.coassociation(P, est.partition_weights_)
    np.testing.assert_allclose(heat.matrix, M[np.ix_(rows, rows)], atol=1e-12)
    assert (len(rows), heat.total) == (25, len(P))
    ends = np.cumsum([length for _, length in heat.blocks])
    clusters = [set(est.labels_[part]) for part in np.split(rows, ends[:-1])]
    assert clusters == [{0}, {1}, {2}]


def test_many_partitions_are_compared_by_some(case, monkeypatch):
    """Of many partitions some of every large camp are compared."""
    _, _, est = case
    monkeypatch.setattr(module, "_MOST_COMPARED", 4)
    heat = consensus_contents(est).agreement
    assert (len(heat.names), heat.total) == (4, 8)
    assert heat.matrix.shape == (4, 4)


def test_doubtful_points_are_the_least_certain(case):
    """They are listed by rising confidence, with their cluster and the next best."""
    _, _, est = case
    report = consensus_contents(est)
    assert report.n_doubtful == (est.confidence_ < module._DOUBTFUL_BELOW).sum() > 0
    runner_up = runner_up_clusters(est)
    shown = [one.confidence for one, _ in report.points]
    doubtful = est.confidence_[est.confidence_ < module._DOUBTFUL_BELOW]
    assert shown == sorted(doubtful.tolist())[:100]
    for one, next_best in report.points:
        assert one.cluster == est.labels_[one.row]
        assert next_best == runner_up[one.row]
        assert one.name == str(one.row)
    assert not report.has_index


def test_if_no_point_is_doubtful_a_few_are_listed_unless_all_are_certain(case, monkeypatch):
    """Points above the limit are not counted as doubtful; those of confidence 1 are not listed."""
    est = ct.EvidenceAccumulation(2).fit(np.repeat([[0], [1]], 5, axis=0).repeat(3, axis=1))
    est.confidence_ = np.ones(10)
    report = consensus_contents(est)
    assert (report.points, report.n_doubtful) == ([], 0)
    est = case[2]
    monkeypatch.setattr(module, "_DOUBTFUL_BELOW", 0.0)
    report = consensus_contents(est)
    assert report.n_doubtful == 0
    assert [one.confidence for one, _ in report.points] == np.sort(est.confidence_)[:10].tolist()


def test_unlabelled_points_are_counted_and_not_listed():
    """Points without a label are in no cluster, no histogram and no list of doubtful points."""
    P = np.array([[0, 0], [0, 0], [0, 1], [1, 1], [1, 1], [-1, -1]])
    est = ct.KMeansConsensus(2, random_state=0).fit(P)
    X = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [99.0]])
    report = consensus_contents(est, X)
    assert report.facts.unlabelled == 1
    assert sum(row.size for row in report.clusters) == 5
    assert 5 not in [one.row for one, _ in report.points]
    assert report.features.rows[0].mean == pytest.approx(X[:5].mean())


def test_points_have_the_names_of_the_table(case):
    """Names come from the argument, the fitted table or the features, in this order."""
    X, P, est = case
    rows = [f"p{i}" for i in range(len(P))]
    from_fit = consensus_contents(fitted(pd.DataFrame(P, index=rows)))
    from_X = consensus_contents(est, pd.DataFrame(X, index=rows))
    given = consensus_contents(est, index=list(zip(rows, range(len(rows)), strict=True)))
    for report in (from_fit, from_X):
        assert all(one.name == f"p{one.row}" for one, _ in report.points)
        assert report.has_index
    first, _ = given.points[0]
    assert first.name == f"p{first.row} · {first.row}"


def test_features_of_other_rows_are_refused(case):
    """Features whose index is another one describe other points."""
    X, P, _ = case
    est = fitted(pd.DataFrame(P, index=[f"p{i}" for i in range(len(P))]))
    with pytest.raises(InvalidLabelsError, match="the rows of X are not those of the fit"):
        consensus_contents(est, pd.DataFrame(X, index=[f"q{i}" for i in range(len(P))]))
    with pytest.raises(InvalidParameterError, match="index has 2 names for 60 points"):
        consensus_contents(est, index=["a", "b"])


def test_clusterers_name_their_runs_and_kinds(case):
    """The partitions of a clusterer have the names of its runs, and are counted by kind."""
    X, _, _ = case
    est = ct.ConsensusClusterer(
        3, n_partitions=6, ensemble=["diverse", "subspaces"], random_state=0
    ).fit(X)
    report = consensus_contents(est, X)
    assert {row.name for row in report.partitions} == set(est.ensemble_.names)
    assert {row.kind: row.size for row in report.kinds} == {"diverse": 3, "subspaces": 3}
    assert sum(row.deciding for row in report.kinds) == report.n_deciding
    assert report.estimator == "ConsensusClusterer"
    np.testing.assert_array_equal(report.features.map.confidence, est.confidence_)
    assert len(report.features.rows) == 4


@pytest.mark.parametrize(("ensemble", "is_finer"), [("mixed", True), ("kmeans", False)])
def test_only_the_default_ensemble_has_finer_runs(ensemble, is_finer):
    """The runs of k-means have as many clusters as the consensus."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    est = ct.ConsensusClusterer(3, n_partitions=4, ensemble=ensemble, random_state=0).fit(X)
    assert consensus_contents(est).has_finer_runs == is_finer


def test_views_are_kinds_of_partitions(case):
    """The runs of several views are counted by view, and features are named by view."""
    X, _, _ = case
    views = {"left": X[:, :2], "right": X[:, :2] + 0.1 * X[:, [2]]}
    est = ct.MultiViewClusterer(3, n_partitions=3, ensemble="diverse", random_state=0).fit(views)
    report = consensus_contents(est, views)
    agreement = {row.kind: row.agreement for row in report.kinds}
    assert agreement == pytest.approx(est.view_agreement_)
    assert {row.name for row in report.features.rows} == {
        f"{view}: feature {j}" for view in views for j in range(2)
    }


WORDS = np.array(["red", "green", "blue", ""])


def labelled(n_partitions):
    """Return labels of noisy partitions, as words and with gaps, and the names of the columns."""
    P, _ = ct.planted_partitions([30, 20, 10], n_partitions, 1, noise=0.2, random_state=0)
    P[::7, 0] = -1
    return WORDS[P], [f"rater {v}" for v in range(n_partitions)]


def test_words_are_the_most_common_labels_of_voting_partitions():
    """They are those that a count over the points finds; a partition without labels has none."""
    P, names = labelled(5)
    est = ct.EvidenceAccumulation(3, partition_weights=[1, 2, 0, 1, 1]).fit(P)
    for cluster, words in enumerate(cluster_words(est, names)):
        rows = P[est.labels_ == cluster]
        assert [name for name, _ in words] == ["rater 0", "rater 1", "rater 3", "rater 4"]
        for name, label in words:
            counts = Counter(rows[:, names.index(name)].tolist())
            del counts[""]
            assert counts[label] == max(counts.values())
    P = [["a", "x"], ["a", "x"], ["b", ""], ["b", ""]]
    assert cluster_words(ct.EvidenceAccumulation(2).fit(P), ["p", "q"])[1] == [("p", "b")]


def test_of_many_partitions_those_that_agree_most_are_quoted():
    """At most six partitions are quoted, and the page says which."""
    P, names = labelled(9)
    est = ct.EvidenceAccumulation(3).fit(P)
    best = np.sort(np.argsort(-est.partition_agreement_, kind="stable")[:MOST_QUOTED])
    assert [name for name, _ in cluster_words(est, names)[0]] == [names[v] for v in best]
    page = render_report(consensus_contents(est, names=names))
    assert "each of the 6 deciding partitions that agree most" in page


@pytest.mark.parametrize(
    "P", [[[0, 1], [0, 1], [1, 0]], [np.eye(3)[[0, 1, 1]], np.full((3, 2), 0.5)]]
)
def test_numbers_and_memberships_have_no_words(P):
    """Labels that are numbers say nothing, and soft partitions have no labels: no column."""
    est = ct.EvidenceAccumulation(2).fit(P)
    assert cluster_words(est, ["p", "q"]) == [[], []]
    assert "Most common labels" not in render_report(consensus_contents(est))


def test_words_are_text_in_the_page():
    """Words appear escaped, with visible control characters."""
    P = [["<b>red\a", 1], ["<b>red\a", 1], ["blue", 2], ["blue", 2]]
    page = render_report(
        consensus_contents(ct.EvidenceAccumulation(2).fit(P), names=["anna", "ben"])
    )
    assert "<bdi>anna</bdi> <strong><bdi>&lt;b&gt;red␇</bdi></strong>, <bdi>ben</bdi>" in page
    assert "each deciding partition gives most often" in page
