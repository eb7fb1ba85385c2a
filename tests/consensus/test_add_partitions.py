"""add_partitions of every consensus function: partitions added to a fitted consensus."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import coterie as ct
from coterie.consensus.registry import CONSENSUS_METHODS, make_consensus
from coterie.errors import DissentWarning, InvalidLabelsError, InvalidParameterError
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import compress_labels
from label_matrices import assert_same_tuples


@pytest.fixture(scope="module")
def spoiled():
    """Thirty partitions of 600 points, of which ten follow another clustering."""
    P, y = ct.planted_partitions([300, 180, 85, 35], 30, 10, 0.2, random_state=0)
    return P[:, np.random.default_rng(0).permutation(30)], y


@pytest.mark.parametrize("key", CONSENSUS_METHODS)
def test_every_method_equals_a_fit_on_all(key):
    """For few points add_partitions gives every attribute of a fit on all partitions."""
    P, _ = ct.planted_partitions([40, 40, 40], 9, 0, 0.2, random_state=1)
    whole = make_consensus(key, 3, random_state=0).fit(P)
    est = make_consensus(key, 3, random_state=0).fit(P[:, :6])
    assert est.add_partitions(P[:, 6:]) is est
    assert_equally_fitted(est, whole)
    np.testing.assert_array_equal(est.predict(P), whole.labels_)


def test_the_choice_of_k_is_that_of_all_partitions():
    """With a number given since, there is no choice; otherwise it is made again."""
    P, _ = ct.planted_partitions([40, 40, 40], 9, 0, 0.2, random_state=1)
    est = ct.RobustConsensus(random_state=0).fit(P[:, :6])
    est.add_partitions(P[:, 6:])
    whole = ct.RobustConsensus(random_state=0).fit(P)
    np.testing.assert_array_equal(est.k_choice_.margin, whole.k_choice_.margin)
    more = est.set_params(n_clusters=2).add_partitions(P[:, :1])
    assert not hasattr(more, "k_choice_")


def assert_equally_fitted(est, whole):
    """Check that all fitted public attributes are equal."""
    names = {name for name in vars(whole) if name.endswith("_") and not name.startswith("_")}
    assert names == {name for name in vars(est) if name.endswith("_") and not name.startswith("_")}
    for name in sorted(names - {"dissent_"}):
        np.testing.assert_equal(getattr(est, name), getattr(whole, name), err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings_",
    [
        {},
        {"refine": "search"},
        {"refine": "relaxation"},
        {"partition_weights": None},
        {"partition_weights": "learned"},
        {"n_clusters": "free"},
    ],
    ids=str,
)
def test_added_partitions_give_the_fit_on_all(spoiled, settings_):
    """Every attribute is that of a fit on all partitions, for all settings."""
    P = spoiled[0]
    make = ct.RobustConsensus(**{"n_clusters": 4, "random_state": 0} | settings_)
    whole = clone(make).fit(P)
    est = clone(make).fit(P[:, :24]).add_partitions(P[:, 24:])
    assert_same_tuples(est._tuples, whole._tuples)
    for field in ("agreement", "scores", "groups", "weights"):
        np.testing.assert_array_equal(getattr(est.dissent_, field), getattr(whole.dissent_, field))
    assert_equally_fitted(est, whole)
    np.testing.assert_array_equal(est.predict(P), est.labels_)


@pytest.mark.parametrize("refine", ["auto", "search"])
def test_order_of_partitions_changes_nothing(spoiled, refine):
    """Permuted points and partitions give permuted labels and weights."""
    rng = np.random.default_rng(3)
    P = spoiled[0]
    points = rng.permutation(len(P))
    columns = np.concatenate([rng.permutation(24), 24 + rng.permutation(6)])
    make = ct.RobustConsensus(4, refine=refine, random_state=0)
    a = clone(make).fit(P[:, :24]).add_partitions(P[:, 24:])
    other = 7 - P[points][:, columns]
    b = clone(make).fit(other[:, :24]).add_partitions(other[:, 24:])
    np.testing.assert_array_equal(b.labels_, a.labels_[points])
    np.testing.assert_array_equal(b.partition_weights_, a.partition_weights_[columns])


def test_a_new_majority_decides():
    """If new partitions outvote the old majority, the result changes with a warning."""
    P, _ = ct.planted_partitions([60, 40], 10, 0, 0.05, random_state=0)
    Q, _ = ct.planted_partitions([50, 50], 14, 0, 0.05, random_state=1)
    Q = Q[np.random.default_rng(2).permutation(100)]
    est = ct.RobustConsensus(2, random_state=0).fit(dict(zip("abcdefghij", P.T, strict=True)))
    est.add_partitions(Q[:, :4])
    assert est.partition_weights_.tolist() == [1.0] * 10 + [0.0] * 4
    with pytest.warns(DissentWarning) as caught:
        est.add_partitions(Q[:, 4:])
    close, lost = (str(warning.message) for warning in caught)
    assert "14 of 24 partitions agree; 10 dissent (a, b, c, d" in close
    assert "10 partitions that decided before no longer do (a, b, c" in lost
    assert est.partition_weights_.tolist() == [0.0] * 10 + [1.0] * 14


def test_new_partitions_may_miss_points(spoiled):
    """Points without labels in the new partitions keep their old ones."""
    P, y = spoiled
    holes = np.where(np.random.default_rng(0).random(P.shape) < 0.2, -1, P)
    holes[:, 0] = np.where((holes[:, :24] < 0).all(axis=1), P[:, 0], holes[:, 0])
    holes[:50, 24:] = -1
    est = ct.RobustConsensus(4, random_state=0).fit(holes[:, :24]).add_partitions(holes[:, 24:])
    assert ct.clustering_accuracy(y, est.labels_) > 0.97
    assert_same_tuples(est._tuples, compress_labels(as_label_matrix(holes)))


def test_rows_of_weight_zero_are_refused():
    """Labels of rows of weight 0 are not kept, so no partitions can be added."""
    P, _ = ct.planted_partitions([30, 20], 8, 0, 0.2, random_state=0)
    est = ct.RobustConsensus(2, random_state=0).fit(P[:, :5], sample_weight=np.arange(50))
    with pytest.raises(InvalidParameterError, match="rows of weight 0"):
        est.add_partitions(P[:, 5:])


def test_given_weights_must_be_given_for_all():
    """Weights of only the old partitions are refused; weights of all are used."""
    P, _ = ct.planted_partitions([30, 20], 6, 0, 0.2, random_state=0)
    weights = np.array([2.0, 1, 1, 1, 3, 1])
    est = ct.RobustConsensus(2, partition_weights=weights[:4], random_state=0).fit(P[:, :4])
    with pytest.raises(InvalidParameterError, match=r"4 numbers.*there are 6.*set_params"):
        est.add_partitions(P[:, 4:])
    est.set_params(partition_weights=weights).add_partitions(P[:, 4:])
    assert_equally_fitted(
        est, ct.RobustConsensus(2, partition_weights=weights, random_state=0).fit(P)
    )


@pytest.mark.filterwarnings("ignore:all 3 partitions are the same")
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_and_texts_are_joined(frame):
    """Columns keep their names and kinds of labels; predict needs them in the same order."""
    columns = {
        "anna": ["cat", "cat", "dog", "dog", "cat", "dog"],
        "ben": [1, 1, 2, 2, 1, None],
        "carla": ["A", "A", "B", "B", None, "B"],
    }
    first, last = frame({"anna": columns["anna"], "ben": columns["ben"]}), frame(columns)[["carla"]]
    est = ct.RobustConsensus(2, random_state=0).fit(first).add_partitions(last)
    assert est._vocabulary.names == ("anna", "ben", "carla")
    np.testing.assert_array_equal(est.predict(frame(columns)), [0, 0, 1, 1, 0, 1])
    with pytest.raises(InvalidLabelsError, match="not those of the fit"):
        est.predict(frame(columns)[["carla", "anna", "ben"]])
    with pytest.raises(InvalidLabelsError, match=r"'carla' \(new column 0\) was fitted already"):
        est.add_partitions(last)


def test_the_first_add_partitions_is_a_fit():
    """On an unfitted estimator add_partitions equals fit."""
    P, _ = ct.planted_partitions([30, 20], 6, 0, 0.2, random_state=0)
    est = ct.RobustConsensus(2, random_state=0).add_partitions(P)
    assert_equally_fitted(est, ct.RobustConsensus(2, random_state=0).fit(P))


@pytest.mark.parametrize(
    ("P", "error", "message"),
    [
        (np.zeros((49, 1), dtype=int), InvalidLabelsError, "49 rows.*have 50.*predict"),
        (np.full((50, 1), 0.5), InvalidLabelsError, "not a whole number"),
        (np.zeros((50, 1), dtype=int), KeyboardInterrupt, "pressed"),
    ],
)
def test_refused_and_interrupted_partitions_change_nothing(P, error, message, monkeypatch):
    """After invalid partitions or an interrupt the model is unchanged."""
    labels, _ = ct.planted_partitions([30, 20], 5, 0, 0.2, random_state=0)
    est = ct.RobustConsensus(2, random_state=0).fit(labels)
    before = dict(vars(est))

    def interrupted(*_):
        raise KeyboardInterrupt("pressed")

    monkeypatch.setattr(ct.RobustConsensus, "_finish", interrupted)
    with pytest.raises(error, match=message):
        est.add_partitions(P)
    assert vars(est).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(est).items())
