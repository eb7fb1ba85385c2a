"""Results of a fitted consensus: reports, frames, and one record of facts in all renderings."""

import json
from copy import copy
from dataclasses import asdict, fields, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

import coterie as ct
from consensus_pages import read_page
from coterie.cli.summary import Run, print_summary
from coterie.consensus.results import (
    CampFacts,
    ConsensusResults,
    PartitionRow,
    Summary,
    VoteFacts,
    consensus_facts,
    fitted_rows,
    least_certain,
)
from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.inspection.report.consensus_page import consensus_contents, render_report
from coterie.inspection.scores import mirkin_distance
from label_matrices import label_matrices, pair_votes, weights_for
from soft_memberships import pair_matrices, soft_partitions

pytestmark = pytest.mark.filterwarnings("ignore:all . partitions are the same")

NAMES = [f"p{v}" for v in range(10)]
COLUMNS = [f"run {v}" for v in range(10)]
ROWS = pd.Index([f"user-{i:03}" for i in range(100)], name="user")


@pytest.fixture(scope="module", name="P")
def spoilt():
    """Return six noisy copies of one partition, and four of a wrong one."""
    return ct.planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.1, random_state=0)[0]


@pytest.fixture(scope="module")
def est(P):
    """Return their consensus."""
    return ct.RobustConsensus(3, random_state=0).fit(P)


@pytest.fixture(scope="module")
def table(P):
    """Return the partitions with names of partitions and points."""
    return pd.DataFrame(P, columns=COLUMNS, index=ROWS)


@pytest.fixture(scope="module")
def fitted(table):
    """Return the consensus of the named partitions."""
    return ct.RobustConsensus(3, random_state=0).fit(table)


def test_rows_equal_pairwise_scores(P, est):
    """Agreement, distance and number of clusters equal scores of each column, the best first."""
    n = len(P)
    rows = ct.partition_report(est)
    assert sorted(row.name for row in rows) == sorted(map(str, range(10)))
    for row in rows:
        column = P[:, int(row.name)]
        assert row.n_clusters == len(np.unique(column))
        assert row.agreement == pytest.approx(adjusted_rand_score(column, est.labels_))
        distance = mirkin_distance(column, est.labels_)
        assert row.mirkin_share == pytest.approx(distance / (n * (n - 1)))
        assert row.weight == est.partition_weights_[int(row.name)]
        assert row.camp == est.partition_groups_[int(row.name)]
    assert [r.agreement for r in rows] == sorted((r.agreement for r in rows), reverse=True)
    assert [r.odd_one_out for r in rows] == [False] * 6 + [True] * 4
    # with equal weights the dissenters vote, and are still marked
    equal = ct.RobustConsensus(3, partition_weights=None, random_state=0).fit(P)
    rows = ct.partition_report(equal)
    assert {row.name for row in rows if row.odd_one_out} == {"6", "7", "8", "9"}
    assert {row.weight for row in rows} == {1.0}


def test_missing_labels_are_left_out_of_both_scores(P):
    """A partition is compared with the consensus over the points it labels."""
    P = P.copy()
    P[:40, 2] = -1
    est = ct.RobustConsensus(3, random_state=0).fit(P)
    row = next(row for row in ct.partition_report(est) if row.name == "2")
    seen, labels = P[40:, 2], est.labels_[40:]
    assert row.agreement == pytest.approx(adjusted_rand_score(seen, labels))
    assert row.mirkin_share == pytest.approx(mirkin_distance(seen, labels) / (60 * 59))
    assert row.coverage == est.partition_coverage_[2] == 0.6


def test_methods_without_camps_get_them_found(P, est):
    """The camps do not depend on the consensus function."""
    camps = {
        row.name: row.camp for row in ct.partition_report(ct.L2Consensus(3, random_state=0).fit(P))
    }
    assert camps == {row.name: row.camp for row in ct.partition_report(est)}


def test_names_come_from_the_caller_or_the_table(P):
    """Given names win over column names; a wrong number of them is refused."""
    est = ct.RobustConsensus(3, random_state=0).fit(pd.DataFrame(P).add_prefix("view"))
    assert {row.name for row in ct.partition_report(est)} == {f"view{v}" for v in range(10)}
    assert {row.name for row in ct.partition_report(est, names=list("abcdefghij"))} == set(
        "abcdefghij"
    )
    with pytest.raises(InvalidParameterError, match="2 entries for 10 partitions"):
        ct.partition_report(est, names=["a", "b"])


def test_points_come_by_rising_confidence(est):
    """The n least certain points have their cluster and confidence; n is an integer from 1 up."""
    rows = ct.point_report(est, n=7)
    assert [r.confidence for r in rows] == np.sort(est.confidence_)[:7].tolist()
    assert [r.cluster for r in rows] == est.labels_[[r.point for r in rows]].tolist()
    assert len(ct.point_report(est, n=1000)) == 100
    for n in (0, -1, 2.5, True):
        with pytest.raises(InvalidParameterError, match="n="):
            ct.point_report(est, n=n)


def test_what_is_no_fitted_consensus_is_refused():
    """Unfitted estimators and other clusterers are refused."""
    with pytest.raises(NotFittedError):
        ct.partition_report(ct.RobustConsensus(2))
    with pytest.raises(InvalidParameterError, match="KMeans is not a consensus"):
        ct.point_report(KMeans(2, n_init=1).fit([[0.0], [1.0]]))


def _by_definition(together, both, labels):
    """Return the cluster and item consensus from the votes of every pair, (n, n) each."""
    members = np.eye(labels.max() + 1)[labels]
    others = 1 - np.eye(len(labels))
    sums, numbers = ((x * others) @ members for x in (together, both))
    of_clusters = members.T @ (together * others) @ members, members.T @ (both * others) @ members
    with np.errstate(invalid="ignore", divide="ignore"):
        item = np.where(numbers > 1e-9, sums / numbers, np.nan)
        total, number = (x.diagonal() for x in of_clusters)
        return np.where(number > 1e-9, total / number, np.nan), item


def _assert_equal(est, together, both):
    cluster, item = _by_definition(together, both, est.labels_)
    np.testing.assert_allclose(ct.cluster_consensus(est), cluster, atol=1e-9)
    np.testing.assert_allclose(ct.item_consensus(est), item, atol=1e-9)


@given(data=st.data(), K=st.integers(1, 4))
def test_means_of_labels_equal_their_definition(data, K):
    """Both equal a loop over all pairs and partitions, with weights and missing labels."""
    P = data.draw(label_matrices(max_points=9))
    weights = data.draw(weights_for(P))
    n_tuples = len(np.unique(P, axis=0))
    est = ct.EvidenceAccumulation(min(K, n_tuples), partition_weights=weights).fit(P)
    _assert_equal(est, *(np.tensordot(weights, votes, axes=1) for votes in pair_votes(P)))


@given(P=soft_partitions(), K=st.integers(1, 3))
def test_means_of_memberships_equal_their_definition(P, K):
    """For soft partitions, votes are products of memberships."""
    n_tuples = len(np.unique(np.hstack(P), axis=0))
    est = ct.EvidenceAccumulation(min(K, n_tuples)).fit(P)
    _assert_equal(est, *(matrices.sum(axis=0) for matrices in pair_matrices(P)))


def test_row_weights_are_copies():
    """A row of weight 2 counts as two points, each of which has a companion."""
    P = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [2, 2]])
    counts = np.array([2, 1, 3, 1, 1])
    heavy = ct.EvidenceAccumulation(2).fit(P, sample_weight=counts)
    copied = ct.EvidenceAccumulation(2).fit(np.repeat(P, counts, axis=0))
    np.testing.assert_allclose(ct.cluster_consensus(heavy), ct.cluster_consensus(copied))
    first = np.cumsum(counts) - counts
    np.testing.assert_allclose(ct.item_consensus(heavy), ct.item_consensus(copied)[first])


def test_points_outside_the_fit_have_no_item_consensus():
    """Rows without a label and rows of weight 0 are nan; the others keep their place."""
    P, _ = ct.planted_partitions([20, 10], 6, n_bad=0, noise=0.2, random_state=0)
    P[[0, 9]] = -1
    weights = np.ones(30)
    weights[[4, 29]] = 0
    est = ct.L2Consensus(2, random_state=0).fit(P, sample_weight=weights)
    item = ct.item_consensus(est)
    outside = [0, 4, 9, 29]
    assert np.isnan(item[outside]).all()
    kept = np.delete(np.arange(30), outside)
    assert fitted_rows(est).tolist() == kept.tolist()
    alone = ct.L2Consensus(2, random_state=0).fit(P[kept])
    np.testing.assert_allclose(item[kept], ct.item_consensus(alone))
    np.testing.assert_allclose(ct.cluster_consensus(est), ct.cluster_consensus(alone))


def test_a_cluster_of_one_point_has_no_pairs():
    """Its cluster consensus and the item consensus of its point are nan; others are not."""
    est = ct.EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1]])
    np.testing.assert_array_equal(ct.cluster_consensus(est), [1.0, np.nan])
    np.testing.assert_array_equal(ct.item_consensus(est), [[1, 0], [1, 0], [0, np.nan]])


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


def printed(facts, capsys, **more):
    """Return what the program prints, on one line."""
    print_summary(Run("labels.csv", facts, seconds=0.5, **({"written": {}} | more)))
    return " ".join(capsys.readouterr().out.split())


def test_facts_are_the_estimators(P, est):
    """Counts, objective, votes and camps are those of the fitted estimator."""
    facts = consensus_facts(est, NAMES)
    decides = np.repeat([1.0, 0.0], [6, 4])
    assert facts.objective == pytest.approx(ct.mirkin_objective(P, est.labels_, decides))
    assert facts.share_of_pairs == pytest.approx(facts.objective / (100 * 99))
    assert (facts.lower_bound, facts.gap) == (est.lower_bound_, est.gap_)
    assert (facts.points, facts.tuples, facts.clusters) == (100, est.n_tuples_, 3)
    assert facts.sizes == np.bincount(est.labels_).tolist()
    assert facts.mean_confidence == pytest.approx(est.confidence_.mean())
    assert (facts.selected, facts.reason) == (est.selected_["method"], est.selected_["reason"])
    assert facts.camps is not None
    assert [camp.partitions for camp in facts.camps] == [NAMES[:6], NAMES[6:]]
    assert [camp.decides for camp in facts.camps] == [True, False]
    assert [vote.agreement for vote in facts.votes] == est.partition_agreement_.tolist()
    least = np.argsort(est.confidence_, kind="stable")[:5]
    assert [one.row for one in facts.uncertain] == least.tolist()


CHANGES = {
    "points": ({"points": 4321}, "4,321 points"),
    "tuples": ({"tuples": 1234}, "1,234 distinct label tuples"),
    "words": ({"label_names": ["ash", "bee", "cat"]}, "(bee)"),
    "sizes": ({"sizes": [70, 20, 10]}, "of 70, 20 and 10 points"),
    "unlabelled": ({"unlabelled": 7}, "7 points without a label in any partition"),
    "confidence": ({"mean_confidence": 0.375}, "0.38"),
    "objective": ({"objective": 4321.5}, "4,32"),
    "bound": ({"lower_bound": 77.5, "gap": 0.25}, "o partition can have J below 77.5, so J could"),
    "loose": ({"lower_bound": 7.5, "gap": 0.75}, "J below 7.5; so far below J, this says nothing"),
    "optimum": ({"lower_bound": 77.5, "gap": 1e-12}, "o partition has a lower J"),
    "dissent": ({"dissent": "only one agrees"}, "nly one agrees"),
    "selected": ({"selected": "tea leaves", "reason": "they are never wrong"}, "never wrong"),
    "features": ({"feature_indices": {"silhouette": 0.625}}, "silhouette 0.625"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_fact_is_in_every_rendering(name, est, capsys):
    """The summary, the program, the page and JSON show what the record holds."""
    changed, text = CHANGES[name]
    contents = consensus_contents(est, np.arange(100.0)[:, None])
    before, facts = contents["facts"], replace(contents["facts"], **changed)
    pages = [render_report(contents | {"facts": each}) for each in (before, facts)]
    pages = [" ".join(read_page(page).text.split()) for page in pages]
    texts = [[Summary.of(each), printed(each, capsys), page] for each, page in
             zip((before, facts), pages, strict=True)]  # fmt: skip
    for old, new in zip(*texts, strict=True):
        assert text in new and text not in old
    values = json.loads(json.dumps(Run("t.csv", facts, 0.5, {}).as_json(), allow_nan=False))
    assert {key: values[key] for key in changed} == changed


def test_the_program_prints_the_lines_of_the_summary(est, capsys):
    """Every line of ``summary()`` is in what the program prints."""
    lines = [line.split(None, 1)[1] for line in str(ct.summary(est)).splitlines()[1:]]
    text = printed(consensus_facts(est), capsys)
    assert all(" ".join(line.split()) in text for line in lines)


def test_votes_and_camps_are_shown(P, est, capsys):
    """A camp without a vote is ignored; equal and learned weights are shown as such."""
    assert "ignored p6, p7, p8, p9" in printed(consensus_facts(est, NAMES), capsys)
    cases = {"equal": None, "learned": "learned"}
    texts = {}
    for name, weights in cases.items():
        other = ct.RobustConsensus(3, partition_weights=weights, relaxation="l2", random_state=0)
        texts[name] = printed(consensus_facts(other.fit(P), NAMES), capsys)
    assert "4 dissent (p6, p7, p8, p9)" in texts["equal"]
    assert "all of them vote" in texts["equal"] and "ignored" not in texts["equal"]
    assert "weight 0." in texts["learned"]


def test_points_are_named_by_the_index(est):
    """Given names, of which several columns make one, win over row numbers."""
    index = [("north", i) for i in range(100)]
    facts, rows = consensus_facts(est, index=index), consensus_facts(est).uncertain
    assert [one.name for one in facts.uncertain] == [f"north · {one.row}" for one in rows]
    assert "uncertain   points north · " in Summary.of(facts)


def test_what_a_method_lacks_is_left_out(P, capsys):
    """Without camps the agreement is shown; a method's objective and its package are named."""
    est = ct.L2Consensus(3, random_state=0).fit(P)
    facts = consensus_facts(est, NAMES, method="l2", find_dissent=False)
    text = printed(facts, capsys)
    assert "method L2CC, least squares" in text
    least = min(facts.votes, key=lambda vote: vote.agreement)
    assert f"lowest for {least.partition}, {least.agreement:.2f}" in text
    assert not {"lower_bound", "gap", "selected", "dissent", "camps"} & set(facts.as_json())
    assert "bound" not in text and "camp" not in text
    assert "6 of 10 partitions agree" in ct.summary(est)
    est.loss_, est.partitioner_ = 12.5, "metis"
    facts = consensus_facts(est, NAMES, method="l2", find_dissent=False)
    assert facts.loss == 12.5
    text = printed(facts, capsys)
    assert "L2CC (by metis), " in text and "its own objective is 12.5" in text
    est.lower_bound_ = est.gap_ = float("nan")
    assert consensus_facts(est).gap is None


def test_long_lists_are_cut_short(est, capsys):
    """The program lists some sizes, camps and members; JSON has all."""
    camps = [CampFacts(c, c == 0, 1.0, 0.5, [f"q{v}" for v in range(20)]) for c in range(10)]
    facts = replace(consensus_facts(est), sizes=[20] * 15, camps=camps)
    text = printed(facts, capsys)
    assert "20, … points" in text
    assert "q11, … (20 in all)" in text and "… 40 the rest" in text
    assert len(facts.as_json()["camps"]) == 10


def test_weak_members_of_a_camp_are_named_in_its_row(capsys):
    """Records and the program's table of camps name members that hardly agree with their camp."""
    rng, y = np.random.default_rng(0), np.repeat(np.arange(4), [200, 100, 50, 25])
    votes = np.where(
        rng.random((len(y), 9)) < [0.8] + [0.2] * 8, rng.integers(0, 4, (375, 9)), y[:, None]
    )
    P = np.column_stack([votes, rng.permutation(y)])
    facts = consensus_facts(ct.RobustConsensus(4, random_state=0).fit(P), [*"abcdefghi", "out"])
    assert [camp.weak for camp in facts.camps] == [["a"], []]
    assert facts.as_json()["camps"][0]["weak"] == ["a"]
    assert "a, b, c, d, e, f, g, h, i; weak: a" in printed(facts, capsys)


def test_names_are_not_markup(est, capsys):
    """Markup in a name is shown literally, and names of points are short and on one line."""
    facts = consensus_facts(est, ["[bold]a", *NAMES[1:-1], "[/]"])
    long = replace(facts.uncertain[0], name="a\nb\x1b" + "c" * 50)
    facts = replace(facts, uncertain=[long], votes=[VoteFacts("[red]", 1, 1, 1)])
    text = printed(facts, capsys, written={"table": "[dim]out.csv"})
    assert "[bold]a" in text and "[/]" in text and "Wrote [dim]out.csv" in text
    assert f"a b␛{'c' * 35}… (" in text


def test_the_choice_of_k_is_a_part_of_the_facts(P, capsys):
    """A chosen number is named with its reason; unknown values are None."""
    choice = ct.choose_k(P, range(2, 6), random_state=0)
    est = copy(ct.RobustConsensus(3, random_state=0).fit(P))
    assert consensus_facts(est).k_choice is None and "chosen K" not in ct.summary(est)
    est.k_choice_ = replace(choice, is_weak=True, stability=np.array([1, np.nan, 2, 3]))
    facts = consensus_facts(est)
    part = facts.k_choice
    assert part is est.k_choice_ and part.curves["margin"] == choice.margin.tolist()
    assert part.curves["stability"] == [1.0, None, 2.0, 3.0]
    assert not {"pac", "silhouette", "eigenvalues", "ks"} & set(part.curves)
    assert f"chosen K 3: {choice.reason}" in printed(facts, capsys)
    shown = json.loads(json.dumps(facts.as_json(), allow_nan=False))["k_choice"]
    assert (shown["recommended"], shown["reason"]) == (3, choice.reason) and shown["is_weak"]
    assert shown["by_criterion"] == choice.by_criterion
    assert [row["k"] for row in shown["table"]] == [2, 3, 4, 5]
    assert [row["pac"] for row in shown["table"]] == [None] * 4


def test_constraints_shortcuts_and_remarks_have_lines(P, est):
    """What the fit noted is in the summary, for people and as JSON."""
    linked = ct.L2Consensus(3, random_state=0).fit(P, must_link=[[0, 99]], cannot_link=[[0, 1]])
    facts = consensus_facts(linked)
    assert "constraints 1 must-link and 1 cannot-link pairs hold; " in Summary.of(facts)
    assert json.loads(json.dumps(facts.as_json()))["constraints"]["must_link"] == 1
    noted = SimpleNamespace(**vars(est), consensus_=est, shortcuts_=("a", "b"), notes_=("c",))
    lines = Summary.of(consensus_facts(noted)).splitlines()
    assert "runs        a; b" in lines and "note        c" in lines


def test_equally_certain_points_are_not_named():
    """Five of many equal points would be chosen by their order; rows without label have a line."""
    labels = np.repeat([[0], [1]], 10, axis=0) * np.ones((1, 5), dtype=int)
    assert "uncertain" not in ct.summary(ct.RobustConsensus(2, random_state=0).fit(labels))
    labels[3, 2] = 1
    assert "uncertain   rows 3 (0." in ct.summary(ct.RobustConsensus(2, random_state=0).fit(labels))
    unlabelled = ct.EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1], [1, 1], [-1, -1]])
    text = ct.summary(unlabelled)
    assert "unlabelled  1 point without a label" in text and "uncertain" not in text
    known = unlabelled.confidence_[:4].mean()
    assert consensus_facts(unlabelled).mean_confidence == pytest.approx(known)


@pytest.mark.parametrize(("below", "n_named"), [(0.0, 0), (0.5, 0), (0.75, 3)])
def test_equally_certain_points_are_named_below_a_limit(est, below, n_named):
    """A report lists points below its limit, even if no point is more certain."""
    equal = SimpleNamespace(consensus_=est, labels_=est.labels_, confidence_=np.full(100, 0.6))
    assert len(least_certain(equal, None, 3, below)) == n_named


def test_a_clusterer_is_read_through_its_consensus():
    """A clusterer of features has the facts of its consensus, and indices on features."""
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0, 0], [9, 9]], 20, axis=0)
    est = ct.ConsensusClusterer(2, n_partitions=5, random_state=0).fit(X)
    own, inner = (consensus_facts(each, method="robust") for each in (est, est.consensus_))
    assert own.feature_indices is not None and "silhouette" in own.feature_indices
    assert replace(own, feature_indices=None) == inner
