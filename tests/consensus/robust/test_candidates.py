"""Candidate answers, and the choice of the best separated one."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coterie as ct
from coterie.consensus.robust import candidates
from coterie.consensus.robust.candidates import best_separated, linkage_answer, profile_answer
from coterie.consensus.robust.votes import Votes
from coterie.labels.tuples import as_label_tuples


def votes_of(P):
    """The votes of all partitions alike."""
    return Votes.from_tuples(as_label_tuples(P), None)


@pytest.mark.parametrize(
    ("answer", "method"),
    [(linkage_answer, ct.EvidenceAccumulation(4)), (profile_answer, ct.KMeansConsensus(4))],
)
def test_answers_are_those_of_the_methods(answer, method):
    """The linkage answer is that of EvidenceAccumulation, profiles that of KMeansConsensus."""
    P, _ = ct.planted_partitions([60, 30, 20, 10], 9, 0, 0.3, random_state=0)
    votes = votes_of(P)
    found = votes.tuples.expand(answer(votes, 4, np.random.RandomState(0)))
    if "random_state" in method.get_params():
        method.set_params(random_state=0)
    assert adjusted_rand_score(method.fit(P).labels_, found) == 1


@pytest.mark.parametrize("answer", [linkage_answer, profile_answer])
def test_many_tuples_are_sampled(answer, monkeypatch):
    """Above the limit a sample is clustered, and the other tuples join by vote."""
    monkeypatch.setattr(candidates, "_MOST_LINKED", 100)
    monkeypatch.setattr(candidates, "_MOST_PROFILED", 100)
    P, y = ct.planted_partitions([300, 200, 100], 12, 0, 0.3, random_state=1)
    votes = votes_of(P)
    assert votes.tuples.n_tuples > 100
    found = votes.tuples.expand(answer(votes, 3, np.random.RandomState(0)))
    assert ct.clustering_accuracy(y, found) > 0.97


def test_the_best_separated_answer_wins():
    """The planted clusters beat a random cut; of equal answers the first wins."""
    P, y = ct.planted_partitions([200, 100], 8, 0, 0.4, random_state=0)
    votes = votes_of(P)
    truth = np.empty(votes.tuples.n_tuples, dtype=np.int64)
    truth[votes.tuples.inverse] = y
    large = truth == np.bincount(y).argmax()
    cut = np.where(large & (votes.tuples.labels_of_partition(0) == 0), 2, truth)
    name, separation = best_separated(votes, {"cut": cut, "truth": truth, "again": truth})
    assert name == "truth"
    assert separation["truth"] > separation["cut"]
