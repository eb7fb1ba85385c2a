"""The facts of a consensus, and how they read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from coterie import L2Consensus, RobustConsensus, mirkin_objective, planted_partitions
from coterie.command_line.terminal.summary import consensus_facts, print_json, print_summary

AROUND = {"input": "labels.csv", "seconds": 0.5, "written": {}, "notes": []}


def facts_of(P: np.ndarray, **settings: object) -> dict:
    """The facts of the consensus of partitions named p0, p1, …"""
    estimator = RobustConsensus(random_state=0, **settings).fit(P)
    return AROUND | consensus_facts(estimator, [f"p{v}" for v in range(P.shape[1])])


def told(facts: dict, capsys: pytest.CaptureFixture[str]) -> str:
    """The summary, on one line."""
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


def test_json_is_what_the_facts_are(planted, capsys):
    """Printed facts are parsed as the same facts."""
    facts = facts_of(planted[0], n_clusters=3)
    print_json(facts)
    assert json.loads(capsys.readouterr().out) == facts


def test_summary_tells_who_decided(planted, capsys):
    """A camp that is set aside is named, with its members."""
    text = told(facts_of(planted[0], n_clusters=3), capsys)
    assert "labels.csv: 100 points, 10 partitions" in text
    assert "2 camps that agree only among themselves; 6 partitions of 10 decided" in text
    assert "set aside p6, p7, p8, p9" in text


def test_summary_of_equal_votes(planted, capsys):
    """Where every vote counts, camps are shown but nobody is set aside."""
    facts = facts_of(planted[0], n_clusters=3, partition_weights=None, relaxation="l2")
    text = told(facts, capsys)
    assert "10 partitions of 10 decided" in text
    assert "set aside" not in text


def test_summary_of_learned_weights(planted, capsys):
    """Weights that are not all or nothing are shown as numbers."""
    facts = facts_of(planted[0], n_clusters=3, partition_weights="learned", relaxation="l2")
    assert "weighs " in told(facts, capsys)


def test_summary_of_a_method_without_camps_or_bound(planted, capsys):
    """What a method does not know is not told; how the partitions stand to its result is."""
    estimator = L2Consensus(3, random_state=0).fit(planted[0])
    facts = AROUND | consensus_facts(estimator, [f"p{v}" for v in range(10)], "l2")
    text = told(facts, capsys)
    assert "method L2CC, least squares" in text
    least = min(facts["votes"], key=lambda vote: vote["agreement"])
    assert f"least {least['partition']}, {least['agreement']:.2f}" in text
    assert "at least" not in text and "dissent" not in text and "camp" not in text


def test_own_objective_and_partitioner_are_told(planted, capsys):
    """A method's own objective and the package it used are part of the summary."""
    estimator = L2Consensus(3, random_state=0).fit(planted[0])
    estimator.loss_, estimator.partitioner_ = 12.5, "metis"
    facts = AROUND | consensus_facts(estimator, [f"p{v}" for v in range(10)], "l2")
    assert (facts["loss"], facts["partitioner"]) == (12.5, "metis")
    text = told(facts, capsys)
    assert "L2CC (by metis), " in text and "its own objective is 12.5" in text


def test_summary_of_one_partition(capsys):
    """One partition is its own consensus."""
    text = told(facts_of(np.array([[0], [0], [1]])), capsys)
    assert "1 partition, 2 distinct label tuples" in text
    assert "one partition: nothing to agree on" in text


def test_long_lists_are_cut_short(capsys):
    """Many camps and many clusters do not fill the screen; the JSON has them all."""
    P, _ = planted_partitions([20] * 15, 60, 50, 0.0, correlated=False, random_state=0)
    facts = facts_of(P, n_clusters=15)
    text = told(facts, capsys)
    assert "(15 in all)" in text
    assert "the rest" in text
    assert sum(len(camp["partitions"]) for camp in facts["camps"]) == 60


def test_names_are_shown_as_they_are(capsys):
    """What looks like markup in a name is part of the name."""
    estimator = RobustConsensus(2, random_state=0).fit([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    facts = AROUND | consensus_facts(estimator, ["[bold]a", "b", "[/]"])
    facts["input"] = "[red]x.csv"
    text = told(facts | {"written": {"table": "[dim]out.csv"}}, capsys)
    assert "[red]x.csv: 4 points" in text
    assert "Wrote [dim]out.csv" in text
