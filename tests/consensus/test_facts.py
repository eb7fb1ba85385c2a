"""One record of facts about a consensus, and its text, its page and its JSON."""

import json
from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.cluster import KMeans

import coterie as ct
from consensus_pages import read_page
from coterie.cli.summary import Run, print_summary
from coterie.consensus.results import (
    CampFacts,
    Summary,
    VoteFacts,
    consensus_facts,
    k_facts,
)
from coterie.errors import InvalidParameterError
from coterie.inspection.report.consensus_page import consensus_contents, render_report

NAMES = [f"p{v}" for v in range(10)]


@pytest.fixture(scope="module", name="P")
def spoilt():
    """Return six noisy copies of one partition, and four of a wrong one."""
    return ct.planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.1, random_state=0)[0]


@pytest.fixture(scope="module")
def est(P):
    """Return their consensus."""
    return ct.RobustConsensus(3, random_state=0).fit(P)


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
    before, facts = contents.facts, replace(contents.facts, **changed)
    pages = [render_report(replace(contents, facts=each)) for each in (before, facts)]
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
    assert facts.k_choice == k_facts(est.k_choice_)
    part = facts.k_choice
    assert (part.recommended, part.reason, part.is_weak) == (3, choice.reason, True)
    assert (part.ks, part.curves["margin"]) == ([2, 3, 4, 5], choice.margin.tolist())
    assert part.by_criterion == choice.by_criterion
    assert part.known_curves["stability"] == [1.0, None, 2.0, 3.0]
    assert not {"pac", "silhouette"} & set(part.known_curves)
    assert not {"eigenvalues", "ks"} & set(part.curves)
    assert f"chosen K 3: {choice.reason}" in printed(facts, capsys)
    shown = json.loads(json.dumps(facts.as_json(), allow_nan=False))["k_choice"]
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


@pytest.mark.filterwarnings("ignore:all . partitions are the same")
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


def test_a_clusterer_is_read_through_its_consensus():
    """A clusterer of features has the facts of its consensus, and indices on features."""
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0, 0], [9, 9]], 20, axis=0)
    est = ct.ConsensusClusterer(2, n_partitions=5, random_state=0).fit(X)
    own, inner = (consensus_facts(each, method="robust") for each in (est, est.consensus_))
    assert own.feature_indices is not None and "silhouette" in own.feature_indices
    assert replace(own, feature_indices=None) == inner


def test_what_is_no_consensus_is_refused():
    """Other clusterers have no partitions."""
    with pytest.raises(InvalidParameterError, match="KMeans is not a consensus"):
        ct.summary(KMeans(2, n_init=1).fit([[0.0], [1.0]]))
