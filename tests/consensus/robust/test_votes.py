"""The partitions that vote."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from coterie import RobustConsensus, planted_partitions
from coterie.consensus.robust import votes as votes_module
from coterie.consensus.robust.votes import Votes, weighted_rand_index
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import DissentWarning
from coterie.labels.tuples import as_label_tuples


@pytest.fixture(scope="module")
def spoiled():
    """Ten partitions, of which the last four are wrong in the same way."""
    return planted_partitions([60, 40, 20], 10, 4, 0.1, random_state=0)


@pytest.fixture
def counted(monkeypatch):
    """Labels of all cluster tables that the votes count."""
    counted = []

    class CountingTables:
        @staticmethod
        def of(tuples, labels, weights):
            counted.append(labels.tobytes())
            return ClusterTables.of(tuples, labels, weights)

    monkeypatch.setattr(votes_module, "ClusterTables", CountingTables)
    return counted


def test_only_partitions_of_positive_weight_are_kept(spoiled):
    """Tuples, tables and weights are those of the deciding partitions alone."""
    tuples = as_label_tuples(spoiled[0])
    votes = Votes.from_tuples(tuples, "agreement")
    alone = as_label_tuples(spoiled[0][:, :6])
    assert tuples.in_given_order(votes.all_weights).tolist() == [1.0] * 6 + [0.0] * 4
    assert votes.tuples.n_tuples == alone.n_tuples < tuples.n_tuples
    assert np.sort(votes.contingencies.diagonal()).tolist() == sorted(
        np.concatenate([np.bincount(column) for column in spoiled[0][:, :6].T]).tolist()
    )


@pytest.mark.parametrize("share_missing", [0.0, 0.2])
@pytest.mark.parametrize("refine", ["auto", "search", "relaxation"])
def test_the_tables_of_a_labelling_are_counted_once(spoiled, counted, refine, share_missing):
    """A fit counts the cluster tables of each candidate labelling once, for all its measures."""
    P = np.where(np.random.default_rng(0).random(spoiled[0].shape) < share_missing, -1, spoiled[0])
    P[:, 0] = spoiled[0][:, 0]
    RobustConsensus(3, refine=refine, random_state=0).fit(P)
    assert 0 < len(counted) == len(set(counted))


def test_answers_are_among_the_starts(spoiled):
    """A search that starts from an answer too ends no worse than it."""
    votes = Votes.from_tuples(as_label_tuples(spoiled[0]), None)
    first = votes.search(3)
    again = votes.search(3, {"known": first.labels})
    assert again.n_starts == first.n_starts + 1
    assert again.tables.objective() <= first.tables.objective() + 1e-9


def test_given_weights_keep_their_partitions(spoiled):
    """Weights are in the order of the given partitions, not of the columns of the tuples."""
    weights = np.arange(10.0)
    tuples = as_label_tuples(spoiled[0])
    votes = Votes.from_tuples(tuples, weights)
    assert tuples.in_given_order(votes.all_weights).tolist() == weights.tolist()
    assert votes.weights.min() > 0 and len(votes.weights) == 9


def test_doubtful_decisions_give_a_warning():
    """Equal camps, no agreement at all, and a close second camp give a warning."""
    equal, _ = planted_partitions([120, 80], 8, 4, 0.1, random_state=0)
    noise = np.random.default_rng(0).integers(0, 3, (200, 3))
    close, _ = planted_partitions([120, 80], 9, 4, 0.1, random_state=0)
    with pytest.warns(DissentWarning, match="2 camps of 4"):
        Votes.from_tuples(as_label_tuples(equal), "agreement")
    with pytest.warns(DissentWarning, match="no two of the 3 partitions agree"):
        votes = Votes.from_tuples(as_label_tuples(noise), "agreement")
    assert votes.all_weights.tolist() == [1.0] * 3
    with pytest.warns(DissentWarning, match=r"5 of 9 .* dissent \(5, 6, 7, 8\).*with each other"):
        Votes.from_tuples(as_label_tuples(close), "agreement")


def test_the_rand_index_is_over_the_points_that_both_label():
    """It equals scikit-learn's on repeated points; −1 in either is left out, 0 if none is left."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-1, 3, (2, 60))
    weights = rng.integers(1, 4, 60)
    both = (a >= 0) & (b >= 0)
    expected = adjusted_rand_score(*(np.repeat(x[both], weights[both]) for x in (a, b)))
    assert weighted_rand_index(a, b, weights.astype(float)) == pytest.approx(expected)
    assert weighted_rand_index(np.array([0, -1]), np.array([-1, 0]), np.ones(2)) == 0


@pytest.mark.parametrize(("sizes", "is_close"), [((6, 4), False), ((9, 6), False), ((10, 7), True)])
def test_a_decision_is_close_if_the_second_camp_has_more_than_two_thirds(sizes, is_close):
    """Only then there is a warning."""
    P, _ = planted_partitions([120, 80], sum(sizes), sizes[1], 0.1, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        votes = Votes.from_tuples(as_label_tuples(P), "agreement")
    assert np.bincount(votes.dissent.groups).tolist() == list(sizes)
    assert [("the decision is close" in str(one.message)) for one in caught] == [True] * is_close
