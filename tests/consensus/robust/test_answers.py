"""Answers by different methods, and the choice of the one that the others agree with most."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coterie as ct
from coterie.consensus.robust import answers
from coterie.consensus.robust.answers import Sample, choose_answer, mean_agreement, rand_index
from coterie.consensus.robust.votes import Votes
from coterie.labels.tuples import as_label_tuples


def sample_of(P, seed=0, **limit):
    """The sample of the votes of all partitions alike."""
    votes = Votes.from_tuples(as_label_tuples(P), None)
    return Sample.draw(votes, np.random.RandomState(seed), **limit)


def truth_of(sample, y):
    """The planted labels of the tuples of the votes."""
    truth = np.empty(sample.votes.tuples.n_tuples, dtype=np.int64)
    truth[sample.votes.tuples.inverse] = y
    return truth


@pytest.fixture(scope="module")
def planted():
    """Nine noisy partitions of four unequal clusters."""
    return ct.planted_partitions([60, 30, 20, 10], 9, 0, 0.3, random_state=0)


def test_answers_are_those_of_the_methods(planted, monkeypatch):
    """Every answer is that of the method alone."""
    P = planted[0]
    seen = {}
    monkeypatch.setattr(
        answers, "mean_agreement", lambda found, w: seen.update(found) or mean_agreement(found, w)
    )
    sample = sample_of(P)
    choose_answer(sample, 4, {}, np.random.RandomState(0))
    methods = {
        "local linkage": ct.LocallyWeightedConsensus(4),
        "local cut": ct.LocallyWeightedConsensus(4, strategy="graph", random_state=0),
        "profiles": ct.KMeansConsensus(4, random_state=0),
        "propagated linkage": ct.PropagatedConsensus(4),
        "meta-clusters": ct.MCLA(4, partitioner="linkage", random_state=0),
    }
    assert set(seen) <= set(methods)
    for name, labels in seen.items():
        alone = methods[name].fit(P).labels_
        assert adjusted_rand_score(alone, sample.votes.tuples.expand(labels)) > 0.97, name


def test_the_answer_in_the_middle_wins(planted):
    """The chosen answer has the largest mean agreement of those with the most clusters."""
    sample = sample_of(planted[0])
    wrong = np.arange(sample.tuples.n_tuples) % 4
    merged = np.minimum(truth_of(sample, planted[1]), 1)
    found = choose_answer(sample, 4, {"wrong": wrong, "merged": merged}, np.random.RandomState(0))
    competing = {name: one for name, one in found.others.items() if one["competes"]}
    assert found.others["merged"] == {"clusters": 2, "competes": False, "agreement": None}
    assert found.method == max(competing, key=lambda name: round(competing[name]["agreement"], 9))
    assert min(competing, key=lambda name: competing[name]["agreement"]) == "wrong"
    assert "merged (2)" in found.reason and found.method in found.reason


@pytest.mark.parametrize(("noise", "are_equal"), [(0.02, True), (0.5, False)])
def test_equal_answers_are_said_to_be_equal(noise, are_equal):
    """The reason lists the agreements only if they differ."""
    P, _ = ct.planted_partitions([60, 30, 20, 10], 9, 0, noise, random_state=0)
    found = choose_answer(sample_of(P), 4, {}, np.random.RandomState(0))
    agreements = [one["agreement"] for one in found.others.values()]
    assert (min(agreements) == pytest.approx(1)) == are_equal
    assert found.reason.startswith(f"all {len(agreements)} methods") == are_equal


def test_mean_agreement_is_that_of_repeated_points():
    """Multiplicities count like repeated points in scikit-learn's adjusted Rand index."""
    rng = np.random.default_rng(0)
    found = {name: rng.integers(0, 3, 20) for name in "abc"}
    times = rng.integers(1, 5, 20)
    every = {name: np.repeat(labels, times) for name, labels in found.items()}
    expected = {
        a: np.mean([adjusted_rand_score(every[a], every[b]) for b in every if b != a])
        for a in every
    }
    assert mean_agreement(found, times.astype(float)) == pytest.approx(expected)


def test_much_finer_partitions_are_left_to_local_linkage():
    """If the partitions have many more than K clusters, locally weighted linkage decides."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 100)
    P = np.column_stack([y * 7 + rng.integers(0, 7, 300) for _ in range(8)])
    sample = sample_of(P)
    wrong = {"least squares": np.arange(sample.tuples.n_tuples) % 3}
    found = choose_answer(sample, 3, wrong, np.random.RandomState(0))
    assert set(found.others) == {"local linkage"}
    assert "21 clusters (median), more than 2.3 times the 3 asked for" in found.reason
    assert ct.clustering_accuracy(y, sample.votes.tuples.expand(found.labels)) == 1


def test_many_tuples_are_sampled():
    """Above the limit a sample is clustered, and the other tuples join by vote."""
    P, y = ct.planted_partitions([300, 200, 100], 12, 0, 0.3, random_state=1)
    sample = sample_of(P, most=100)
    assert sample.votes.tuples.n_tuples > sample.tuples.n_tuples == 100
    found = choose_answer(sample, 3, {}, np.random.RandomState(0))
    assert ct.clustering_accuracy(y, sample.votes.tuples.expand(found.labels)) > 0.97


def test_many_base_clusters_leave_the_cubic_methods_out(planted, monkeypatch):
    """Above the limit of base clusters only methods without their eigenvectors take part."""
    monkeypatch.setattr(answers, "MOST_COLUMNS", 10)
    found = choose_answer(sample_of(planted[0]), 4, {}, np.random.RandomState(0))
    assert set(found.others) == {"local cut", "local linkage"}


def test_separation_prefers_the_planted_clusters(planted):
    """The planted clusters are better separated than a random cut of one of them."""
    sample = sample_of(planted[0])
    truth = truth_of(sample, planted[1])
    cut = np.where((truth == 0) & (np.arange(len(truth)) % 2 == 0), 4, truth)
    assert sample.separation(truth) > sample.separation(cut)


def test_the_rand_index_is_over_the_points_that_both_label():
    """It equals scikit-learn's on repeated points; −1 in either is left out, 0 if none is left."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-1, 3, (2, 60))
    weights = rng.integers(1, 4, 60)
    both = (a >= 0) & (b >= 0)
    expected = adjusted_rand_score(*(np.repeat(x[both], weights[both]) for x in (a, b)))
    assert rand_index(a, b, weights.astype(float)) == pytest.approx(expected)
    assert rand_index(np.array([0, -1]), np.array([-1, 0]), np.ones(2)) == 0
