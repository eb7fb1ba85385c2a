"""Tests of the facts about a consensus and of their summary."""

from __future__ import annotations

import numpy as np
import pytest

from coterie import (
    L2Consensus,
    RobustConsensus,
    mirkin_objective,
    planted_partitions,
)
from coterie.cli.summary import consensus_facts, print_summary
from coterie.consensus.robust.camps import partition_agreement

AROUND = {"input": "labels.csv", "seconds": 0.5, "written": {}, "notes": []}


def facts_of(P: np.ndarray, **settings: object) -> dict:
    """Return the facts about the consensus of partitions named p0, p1, …"""
    estimator = RobustConsensus(random_state=0, **settings).fit(P)
    return AROUND | consensus_facts(estimator, [f"p{v}" for v in range(P.shape[1])])


def summary(facts: dict, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the summary on one line."""
    print_summary(facts)
    return " ".join(capsys.readouterr().out.split())


def test_facts_are_the_estimators(planted):
    """Counts, objective and camps are those of the fitted estimator."""
    P, _ = planted
    facts = facts_of(P, n_clusters=3)
    believed = np.repeat([1.0, 0.0], [6, 4])
    labels = RobustConsensus(3, random_state=0).fit(P).labels_
    assert facts["objective"] == pytest.approx(mirkin_objective(P, labels, believed))
    assert facts["share_of_pairs"] == pytest.approx(facts["objective"] / (100 * 99))
    assert facts["sizes"] == np.bincount(labels).tolist()
    members = [camp["partitions"] for camp in facts["camps"]]
    assert members == [[f"p{v}" for v in range(6)], [f"p{v}" for v in range(6, 10)]]
    assert [camp["decides"] for camp in facts["camps"]] == [True, False]


def test_summary_names_the_camps(planted, capsys):
    """A camp without a vote is listed with its members."""
    text = summary(facts_of(planted[0], n_clusters=3), capsys)
    assert "labels.csv: 100 points, 10 partitions" in text
    names = [f"p{v}" for v in range(10)]
    assert partition_agreement(planted[0]).in_words(names) in text
    assert "ignored p6, p7, p8, p9" in text


def test_summary_of_equal_votes(planted, capsys):
    """With equal votes camps are shown, and none is ignored."""
    facts = facts_of(planted[0], n_clusters=3, partition_weights=None, relaxation="l2")
    text = summary(facts, capsys)
    assert "4 dissent (p6, p7, p8, p9)" in text and "all of them vote" in text
    assert "ignored" not in text


def test_summary_of_learned_weights(planted, capsys):
    """Weights that are not all or nothing are shown as numbers."""
    facts = facts_of(planted[0], n_clusters=3, partition_weights="learned", relaxation="l2")
    assert "weight " in summary(facts, capsys)


def test_summary_of_a_method_without_camps_or_bound(planted, capsys):
    """Facts that a method does not provide are left out; agreement is shown instead."""
    estimator = L2Consensus(3, random_state=0).fit(planted[0])
    facts = AROUND | consensus_facts(estimator, [f"p{v}" for v in range(10)], "l2")
    text = summary(facts, capsys)
    assert "method L2CC, least squares" in text
    least = min(facts["votes"], key=lambda vote: vote["agreement"])
    assert f"lowest for {least['partition']}, {least['agreement']:.2f}" in text
    assert "bound" not in text and "dissent" not in text and "camp" not in text


def test_own_objective_and_partitioner_are_shown(planted, capsys):
    """A method's own objective and the package it used are part of the summary."""
    estimator = L2Consensus(3, random_state=0).fit(planted[0])
    estimator.loss_, estimator.partitioner_ = 12.5, "metis"
    facts = AROUND | consensus_facts(estimator, [f"p{v}" for v in range(10)], "l2")
    assert (facts["loss"], facts["partitioner"]) == (12.5, "metis")
    text = summary(facts, capsys)
    assert "L2CC (by metis), " in text and "its own objective is 12.5" in text


def test_summary_of_one_partition(capsys):
    """One partition is its own consensus."""
    text = summary(facts_of(np.array([[0], [0], [1]])), capsys)
    assert "1 partition, 2 distinct label tuples" in text
    assert "one partition: nothing to agree on" in text


def test_long_lists_are_cut_short(capsys):
    """Long lists are shortened in the summary; the facts have all items."""
    P, _ = planted_partitions([20] * 15, 60, 50, 0.0, correlated=False, random_state=0)
    facts = facts_of(P, n_clusters=15)
    text = summary(facts, capsys)
    assert "clusters 15, of 20, 20" in text and "20, … points" in text
    assert "the rest" in text
    assert sum(len(camp["partitions"]) for camp in facts["camps"]) == 60


def test_names_are_not_markup(capsys):
    """Markup in a name is shown literally."""
    estimator = RobustConsensus(2, random_state=0).fit([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    facts = AROUND | consensus_facts(estimator, ["[bold]a", "b", "[/]"])
    facts["input"] = "[red]x.csv"
    text = summary(facts | {"written": {"table": "[dim]out.csv"}}, capsys)
    assert "[red]x.csv: 4 points" in text
    assert "Wrote [dim]out.csv" in text


def test_a_chosen_number_is_named(planted, capsys):
    """The summary names the number of clusters that was chosen, and why; a given K is not named."""
    P, _ = planted
    facts = facts_of(P, n_clusters=None)
    choice = RobustConsensus(random_state=0).fit(P).k_choice_
    assert (facts["chosen_k"], facts["weak_k"]) == (choice.reason, False)
    assert f"chosen K 3: {choice.reason}" in summary(facts, capsys)
    given = facts_of(P, n_clusters=3)
    assert not {"chosen_k", "weak_k"} & set(given)
    assert "chosen K" not in summary(given, capsys)
