"""Words of clusters: the most common labels of voting partitions, counted by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from coterie import EvidenceAccumulation, planted_partitions
from coterie.inspection.report.cluster_words import MOST_QUOTED, cluster_words
from coterie.inspection.report.consensus_contents import consensus_contents
from coterie.inspection.report.consensus_page import render_report

WORDS = np.array(["red", "green", "blue", ""])


def labelled(n_partitions: int) -> tuple[np.ndarray, list[str]]:
    """Return labels of noisy partitions, as words and with gaps, and the names of the columns."""
    P, _ = planted_partitions([30, 20, 10], n_partitions, 1, noise=0.2, random_state=0)
    P[::7, 0] = -1
    return WORDS[P], [f"rater {v}" for v in range(n_partitions)]


def test_words_are_the_most_common_labels_of_voting_partitions():
    """The labels of every voting partition are those that a count over the points finds."""
    P, names = labelled(5)
    est = EvidenceAccumulation(3, partition_weights=[1, 2, 0, 1, 1]).fit(P)
    for cluster, words in enumerate(cluster_words(est, names)):
        rows = P[est.labels_ == cluster]
        assert [name for name, _ in words] == ["rater 0", "rater 1", "rater 3", "rater 4"]
        for name, label in words:
            counts = Counter(rows[:, names.index(name)].tolist())
            del counts[""]
            assert counts[label] == max(counts.values())


def test_a_partition_without_a_label_in_a_cluster_is_left_out():
    """A cluster that a partition does not label has no word of it."""
    P = [["a", "x"], ["a", "x"], ["b", ""], ["b", ""]]
    assert cluster_words(EvidenceAccumulation(2).fit(P), ["p", "q"])[1] == [("p", "b")]


def test_of_many_partitions_those_that_agree_most_are_quoted():
    """At most six partitions are quoted, and the page says which."""
    P, names = labelled(9)
    est = EvidenceAccumulation(3).fit(P)
    best = np.sort(np.argsort(-est.partition_agreement_, kind="stable")[:MOST_QUOTED])
    assert [name for name, _ in cluster_words(est, names)[0]] == [names[v] for v in best]
    page = render_report(consensus_contents(est, names=names))
    assert "each of the 6 deciding partitions that agree most" in page


@pytest.mark.parametrize(
    "P", [[[0, 1], [0, 1], [1, 0]], [np.eye(3)[[0, 1, 1]], np.full((3, 2), 0.5)]]
)
def test_numbers_and_memberships_have_no_words(P):
    """Labels that are numbers say nothing, and soft partitions have no labels: no column."""
    est = EvidenceAccumulation(2).fit(P)
    assert cluster_words(est, ["p", "q"]) == [[], []]
    assert "Most common labels" not in render_report(consensus_contents(est))


def test_words_are_text_in_the_page():
    """Words appear escaped, with visible control characters."""
    P = [["<b>red\a", 1], ["<b>red\a", 1], ["blue", 2], ["blue", 2]]
    page = render_report(consensus_contents(EvidenceAccumulation(2).fit(P), names=["anna", "ben"]))
    assert "<bdi>anna</bdi> <strong><bdi>&lt;b&gt;red␇</bdi></strong>, <bdi>ben</bdi>" in page
    assert "each deciding partition gives most often" in page
