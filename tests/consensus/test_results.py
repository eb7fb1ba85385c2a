"""Summaries, data frames and HTML of fitted estimators."""

from dataclasses import asdict, fields
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import NotFittedError

import coterie as ct
from coterie.consensus.results import ConsensusResults, PartitionRow
from coterie.errors import InvalidLabelsError, InvalidParameterError

COLUMNS = [f"run {v}" for v in range(10)]
ROWS = pd.Index([f"user-{i:03}" for i in range(100)], name="user")


@pytest.fixture(scope="module")
def table():
    """Return ten named partitions of 100 named points; the last four are wrong."""
    P, _ = ct.planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.1, random_state=0)
    return pd.DataFrame(P, columns=COLUMNS, index=ROWS)


@pytest.fixture(scope="module")
def fitted(table):
    """Return their consensus."""
    return ct.RobustConsensus(3, random_state=0).fit(table)


class Clusterer(ConsensusResults, ClusterMixin, BaseEstimator):
    """A clusterer of features that holds a consensus function."""

    def fit(self, labels, consensus):
        """Store the results of a consensus function."""
        self.consensus_ = consensus.fit(np.asarray(labels))
        self.index_ = labels.index
        self.labels_, self.confidence_ = self.consensus_.labels_, self.consensus_.confidence_
        return self


def test_the_summary_names_points_and_partitions(fitted):
    """Names are those of the index and of the columns; the text is that of the function."""
    text = fitted.summary()
    assert repr(text) == str(text) == ct.summary(fitted)
    least = ROWS[np.argmin(fitted.confidence_)]
    assert f"uncertain   points {least} ({fitted.confidence_.min():.2f}), user-" in text
    assert "4 dissent (run 6, run 7, run 8, run 9)" in text
    assert "clusters    3, of 60, 30 and 10 points" in text


def test_the_frame_of_points_has_the_index(fitted):
    """Labels, confidences and runner-ups are by the names of the rows."""
    frame = fitted.to_frame()
    pd.testing.assert_index_equal(frame.index, ROWS)
    assert list(frame.columns) == ["label", "confidence", "margin", "runner_up"]
    np.testing.assert_array_equal(frame["label"], fitted.labels_)
    np.testing.assert_array_equal(frame["confidence"], fitted.confidence_)
    assert (frame["runner_up"] != frame["label"]).all()


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_margin_is_the_lead_over_the_runner_up(table, missing):
    """The share of votes for the own cluster minus that for the runner-up is the margin."""
    P = np.where(np.random.default_rng(0).random(table.shape) < missing, -1, table.to_numpy())
    est = ct.RobustConsensus(3, random_state=0).fit(P)
    frame, votes = est.to_frame(), P[:, est.partition_weights_ > 0]
    for i in range(0, 100, 7):
        both = (votes[i] >= 0) & (votes >= 0)
        same = both & (votes[i] == votes)
        own, other = (
            same[est.labels_ == cluster].sum() / both[est.labels_ == cluster].sum()
            for cluster in frame.loc[i, ["label", "runner_up"]].astype(int)
        )
        assert frame.loc[i, "margin"] == pytest.approx(max(own - other, 0))


def test_runner_ups_need_two_clusters_and_a_vote(table):
    """With one cluster, without labels, or with weight 0 there is no runner-up."""
    P = table.to_numpy().copy()
    assert (ct.L2Consensus(1).fit(P).to_frame()["runner_up"] == -1).all()
    P[3] = -1
    weights = np.where(np.arange(100) == 7, 0, 1)
    frame = ct.L2Consensus(3, random_state=0).fit(P, sample_weight=weights).to_frame()
    np.testing.assert_array_equal(np.flatnonzero(frame["runner_up"] < 0), [3, 7])


def test_the_frame_of_partitions_is_the_report(fitted):
    """Every field of the report is a column; the index is the names of the partitions."""
    frame = fitted.to_frame("partitions")
    assert [frame.index.name, *frame.columns] == [field.name for field in fields(PartitionRow)]
    assert frame.reset_index().to_dict("records") == [
        asdict(r) for r in ct.partition_report(fitted)
    ]


def test_the_frame_of_clusters_has_sizes_and_consensus(fitted):
    """Sizes, mean confidences and cluster consensus are by cluster."""
    frame = fitted.to_frame("clusters")
    points = fitted.to_frame().groupby("label")["confidence"]
    assert frame.index.name == "cluster" and frame["size"].tolist() == points.size().tolist()
    np.testing.assert_allclose(frame["confidence"], points.mean())
    np.testing.assert_array_equal(frame["consensus"], ct.cluster_consensus(fitted))


def test_the_frame_of_ks_needs_a_choice(fitted):
    """A chosen K gives the frame of its comparison; a given one says how to get it."""
    with pytest.raises(InvalidParameterError, match=r"n_clusters=None .* coterie.choose_k\(P\)"):
        fitted.to_frame("k")
    est = Clusterer()
    choice = SimpleNamespace(to_frame=lambda: "the frame")
    est.__dict__ |= vars(fitted) | {"k_choice_": choice}
    assert est.to_frame("k") == "the frame"


def test_other_frames_are_refused(fitted):
    """An unknown frame, and an estimator that is not fitted, are refused."""
    with pytest.raises(InvalidParameterError, match="what='rows': give 'points'"):
        fitted.to_frame("rows")
    with pytest.raises(NotFittedError):
        ct.RobustConsensus(3).to_frame()
    with pytest.raises(NotFittedError):
        ct.RobustConsensus(3).summary()


def test_clusterers_read_their_consensus(table, fitted):
    """A clusterer has the frames of its consensus function, with its own index if it has one."""
    est = Clusterer().fit(table, ct.RobustConsensus(3, random_state=0))
    pd.testing.assert_frame_equal(est.to_frame(), fitted.to_frame())
    assert est.to_frame("partitions").index[0] == "0"
    assert "points user-" in est.summary()
    numbered = ct.L2Consensus(3, random_state=0).fit(pl.DataFrame(table.to_dict("list")))
    assert numbered.index_ is None
    pd.testing.assert_index_equal(numbered.to_frame().index, pd.RangeIndex(100))


def test_added_partitions_must_have_the_same_rows(table):
    """add_partitions refuses rows in another order, and keeps the index."""
    est = ct.L2Consensus(3, random_state=0).fit(table[COLUMNS[:5]])
    with pytest.raises(InvalidLabelsError, match="the rows of the new partitions are not those of"):
        est.add_partitions(table[COLUMNS[5:]].iloc[::-1])
    est.add_partitions(table[COLUMNS[5:]].to_numpy())
    pd.testing.assert_index_equal(est.index_, ROWS)
    numbered = ct.L2Consensus(3, random_state=0).fit(table[COLUMNS[:5]].to_numpy())
    pd.testing.assert_index_equal(numbered.add_partitions(table[COLUMNS[5:]]).index_, ROWS)


def html_of(estimator):
    """Return what a notebook shows; both protocols give the same but for generated ids."""
    bundle = estimator._repr_mimebundle_()
    assert bundle["text/plain"] == repr(estimator)
    assert estimator._repr_html_().count("<table") == bundle["text/html"].count("<table")
    return bundle["text/html"]


def test_notebooks_show_the_summary_below_the_diagram(table, fitted):
    """Only a fitted estimator has the table; names of columns and rows are no markup."""
    assert "100 points in 10 partitions" not in html_of(ct.RobustConsensus(3))
    html, rows = html_of(fitted), fitted.summary()._repr_html_()
    assert html.rindex("100 points in 10 partitions") > html.rindex("RobustConsensus</div>")
    assert html.endswith(rows) and rows.count("<tr>") == len(fitted.summary().splitlines()) - 1
    evil = table.rename(columns={"run 9": "<script>"}, index=lambda name: f"<b>{name}")
    html = html_of(ct.RobustConsensus(3, random_state=0).fit(evil))
    assert "run 8, &lt;script&gt;)" in html and "&lt;b&gt;user-" in html
    assert "<b>user" not in html and "run 8, <script>" not in html


def test_the_display_setting_of_scikit_learn_is_respected(fitted):
    """With display="text" there is no HTML."""
    with sklearn.config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert "text/html" not in fitted._repr_mimebundle_()


def test_a_foreign_consensus_does_not_break_the_display():
    """A clusterer whose consensus is of another kind shows the diagram alone."""
    est = Clusterer()
    est.labels_ = est.confidence_ = np.zeros(3)
    est.consensus_ = ct.RobustSpectral(2, random_state=0).fit(np.kron(np.eye(2), np.ones((2, 2))))
    assert "distinct label tuples" not in html_of(est)


def test_labels_given_as_words_come_back_as_words():
    """Each cluster has the word that its raters use most, and no two clusters have the same."""
    raters = [list(each) for each in ("aabbcc-", "aabbcc-", "aabbca-", "zzzzzz-")]
    P = np.array([["" if label == "-" else label for label in each] for each in raters]).T
    est = ct.RobustConsensus(3, partition_weights=[1, 1, 1, 0], random_state=0).fit(P)
    frame = est.to_frame()
    assert list(frame.columns)[:2] == ["label", "word"]
    assert "".join(frame["word"]) == "aabbcc"
    assert frame["label"].iloc[-1] == -1 and frame["word"].iloc[-1] == ""
    # "x" is most common in both clusters: one of them has its next best word
    shared = [list("xxp"), list("xxp"), list("xqx"), list("xqx"), list("xqx")]
    assert ct.EvidenceAccumulation(2).fit(shared).label_names_ == ["x", "p"]
    assert ct.EvidenceAccumulation(2).fit([["a", 1], ["b", 2], ["a", 1]]).label_names_ is None
