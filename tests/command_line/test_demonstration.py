"""The experiment of the demo."""

from __future__ import annotations

import numpy as np
import pytest

from coterie import RobustConsensus, mirkin_objective
from coterie.command_line.demonstration import _most_central
from coterie.scores import adjusted_rand_index, clustering_accuracy


def test_scores_are_those_of_the_labels(demonstration, planted):
    """Accuracy and agreement are with what was planted."""
    P, y = planted
    assert (demonstration.P == P).all()
    for recovery in demonstration.recoveries:
        labels = getattr(recovery.fitted, "labels_", recovery.fitted)
        assert recovery.accuracy == clustering_accuracy(y, labels)
        assert recovery.agreement == adjusted_rand_index(y, labels)
        assert recovery.seconds > 0


def test_the_flagship_is_the_default(demonstration):
    """The last method is RobustConsensus as it comes, and it finds the spoiled partitions."""
    expected = RobustConsensus(len(demonstration.sizes), random_state=demonstration.seed)
    assert demonstration.flagship.get_params() == expected.get_params()
    assert demonstration.spoiled == ["p6", "p7", "p8", "p9"]
    assert demonstration.set_aside == demonstration.spoiled
    assert demonstration.verdict == (
        "4 of the 4 spoiled partitions lost their vote, and none of the 6 honest ones"
    )


def test_every_method_is_there_once(demonstration):
    """Six methods, each under a name of its own."""
    assert len({recovery.method for recovery in demonstration.recoveries}) == 6


def test_the_best_single_partition_is_the_most_central(planted):
    """It is the column of the lowest objective; what was planted is not looked at."""
    P, _ = planted
    objectives = [mirkin_objective(P, column) for column in P.T]
    chosen = _most_central(P)
    assert mirkin_objective(P, chosen) == pytest.approx(min(objectives))
    assert any(np.array_equal(chosen, column) for column in P.T)
