"""The partitions that have a vote."""

import numpy as np
import pytest

from coterie import clustering_accuracy, mirkin_objective, planted_partitions
from coterie.consensus.robust.votes import Votes, check_weighing
from coterie.errors import DissentWarning, InvalidParameterError
from coterie.labels.tuples import as_label_tuples


@pytest.fixture(scope="module")
def spoiled():
    """Ten partitions, the last four wrong together."""
    return planted_partitions([60, 40, 20], 10, 4, 0.1, random_state=0)


def test_only_believed_partitions_are_kept(spoiled):
    """Tuples, tables and weights are those of compressing the believed partitions alone."""
    tuples = as_label_tuples(spoiled[0])
    votes = Votes.counted(tuples, "agreement")
    alone = as_label_tuples(spoiled[0][:, :6])
    assert tuples.in_given_order(votes.all_weights).tolist() == [1.0] * 6 + [0.0] * 4
    assert votes.tuples.n_tuples == alone.n_tuples < tuples.n_tuples
    assert np.sort(votes.contingencies.diagonal()).tolist() == sorted(
        np.concatenate([np.bincount(column) for column in spoiled[0][:, :6].T]).tolist()
    )


def test_group_leads_from_all_tuples_to_believed_ones(spoiled):
    """Labels of believed tuples, carried over group and expanded, have the objective they had."""
    tuples = as_label_tuples(spoiled[0])
    votes = Votes.counted(tuples, "agreement")
    found = votes.search(3)
    points = tuples.expand(found.labels[votes.group])
    assert votes.objective(found.labels) == pytest.approx(
        mirkin_objective(spoiled[0][:, :6], points)
    )
    assert clustering_accuracy(spoiled[1], points) > 0.98


def test_answers_are_among_the_starts(spoiled):
    """A search told the best answer ends no worse than it."""
    tuples = as_label_tuples(spoiled[0])
    votes = Votes.counted(tuples, None)
    first = votes.search(3)
    again = votes.search(3, {"known": first.labels})
    assert again.n_starts == first.n_starts + 1
    assert again.tables.objective() <= first.tables.objective() + 1e-9


def test_given_weights_keep_their_partitions(spoiled):
    """Weights are in the order the partitions were given in, whatever the inner order."""
    weights = np.arange(10.0)
    tuples = as_label_tuples(spoiled[0])
    votes = Votes.counted(tuples, weights)
    assert tuples.in_given_order(votes.all_weights).tolist() == weights.tolist()
    assert votes.weights.min() > 0 and len(votes.weights) == 9


def test_equal_camps_are_told_and_lone_partitions_are_not():
    """Two equal camps warn; partitions of which no two agree simply all vote."""
    P, _ = planted_partitions([120, 80], 8, 4, 0.1, random_state=0)
    with pytest.warns(DissentWarning, match="2 camps of 4"):
        Votes.counted(as_label_tuples(P), "agreement")
    noise = np.random.default_rng(0).integers(0, 3, (200, 3))
    assert Votes.counted(as_label_tuples(noise), "agreement").all_weights.tolist() == [1.0] * 3


def test_unknown_rule_is_refused():
    """A name that is no rule is refused with those that are."""
    with pytest.raises(InvalidParameterError, match="'agreement', 'learned'"):
        check_weighing("loudest")
