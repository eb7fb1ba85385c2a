"""Partitions that join a fitted consensus."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

import coterie as ct
from coterie.consensus.registry import CONSENSUS_METHODS, make_consensus
from coterie.consensus.robust import estimator as robust_consensus
from coterie.consensus.robust.candidates import move_answer
from coterie.consensus.robust.votes import Votes
from coterie.counts.contingency import all_contingencies
from coterie.counts.growth import append_partitions, contingencies_to_keep
from coterie.errors import (
    DissentWarning,
    InvalidLabelsError,
    InvalidParameterError,
    ModelFileError,
)
from coterie.labels.label_matrix import as_label_matrix
from coterie.labels.tuples import as_label_tuples, compress_labels
from label_matrices import label_matrices

TUPLE_FIELDS = ("codes", "offsets", "weights", "inverse", "partition_order", "recode")


def grown(P, n_before, row_weights=None):
    """The first partitions compressed, the others appended."""
    fitted = as_label_matrix(P[:, :n_before], allow_unlabelled_rows=True)
    before = compress_labels(fitted, row_weights)
    return append_partitions(before, fitted.without_rows(), P[:, n_before:], row_weights)


def assert_same_tuples(a, b):
    """Tuples are equal in every field, order included."""
    for field in TUPLE_FIELDS:
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)
        assert getattr(a, field).dtype == getattr(b, field).dtype, field


@pytest.fixture(scope="module")
def spoiled():
    """Thirty partitions of 1,800 points in a mixed order, ten of them wrong together."""
    P, y = ct.planted_partitions([900, 540, 260, 100], 30, 10, 0.2, random_state=0)
    return P[:, np.random.default_rng(0).permutation(30)], y


@pytest.fixture
def going_on(monkeypatch):
    """Let few tuples be enough to go on from the answer before."""
    monkeypatch.setattr(robust_consensus, "_MOST_COMPARED_QUICKLY", 0)


@settings(max_examples=50, deadline=None)
@given(label_matrices(max_points=14, max_partitions=6), st.data())
def test_tuples_and_tables_are_those_of_all_partitions(P, data):
    """Appended anywhere, partitions give the tuples and the tables of one compression of all."""
    P = P[:, (P >= 0).any(axis=0)]
    assume(P.shape[1] > 1)
    n_before = data.draw(st.integers(1, P.shape[1] - 1))
    growth = grown(P, n_before)
    whole = compress_labels(as_label_matrix(P))
    assert_same_tuples(growth.tuples, whole)
    np.testing.assert_array_equal(
        growth.contingencies(all_contingencies(growth.before)), all_contingencies(whole)
    )
    np.testing.assert_array_equal(growth.contingencies(None), all_contingencies(whole))


def test_tuples_know_what_they_were_part_of(spoiled):
    """Each tuple's origin is the tuple that its points had before."""
    growth = grown(spoiled[0], 20)
    origin_of_points = growth.origin[growth.tuples.inverse]
    np.testing.assert_array_equal(origin_of_points, growth.before.inverse)


def test_rows_keep_their_weights(spoiled):
    """Weighted rows give the tuples, and but for rounding the tables, of one compression of all."""
    P = spoiled[0][:200]
    weights = np.random.default_rng(0).uniform(0.5, 3, 200)
    growth = grown(P, 12, weights)
    whole = compress_labels(as_label_matrix(P), weights)
    assert_same_tuples(growth.tuples, whole)
    np.testing.assert_allclose(
        growth.contingencies(all_contingencies(growth.before)), all_contingencies(whole)
    )


def test_many_labels_take_wider_codes():
    """More clusters than the small codes can hold are no trouble, whoever brings them."""
    few, many = np.arange(40_000) % 2, np.arange(40_000)
    for P in (np.column_stack([few, many]), np.column_stack([many, few])):
        assert_same_tuples(grown(P, 1).tuples, compress_labels(as_label_matrix(P)))


def test_tables_are_kept_where_they_are_small(spoiled):
    """Tables as large as the tuples are not kept: to count those again costs little."""
    tuples = compress_labels(as_label_matrix(spoiled[0][:, :20]))
    C = all_contingencies(tuples)
    assert contingencies_to_keep(tuples, C) is C
    few = compress_labels(as_label_matrix(spoiled[0][:20]))
    assert contingencies_to_keep(few, all_contingencies(few)) is None


@pytest.mark.parametrize("key", CONSENSUS_METHODS)
def test_every_method_grows_to_what_a_fit_on_all_is(key):
    """Of few points partial_fit gives what fit on all columns gives, to the last attribute."""
    P, _ = ct.planted_partitions([40, 40, 40], 9, 0, 0.2, random_state=1)
    whole = make_consensus(key, 3, random_state=0).fit(P)
    est = make_consensus(key, 3, random_state=0).fit(P[:, :6])
    assert est.partial_fit(P[:, 6:]) is est
    assert_equally_fitted(est, whole)
    np.testing.assert_array_equal(est.predict(P), whole.labels_)


def assert_equally_fitted(est, whole):
    """All public attributes are equal."""
    names = {name for name in vars(whole) if name.endswith("_") and not name.startswith("_")}
    assert names == {name for name in vars(est) if name.endswith("_") and not name.startswith("_")}
    for name in sorted(names - {"dissent_"}):
        np.testing.assert_equal(getattr(est, name), getattr(whole, name), err_msg=name)


@pytest.mark.parametrize(
    "settings_",
    [
        {},
        {"refine": True},
        {"refine": False},
        {"refine": False, "relaxation": "l2"},
        {"partition_weights": None},
        {"partition_weights": "learned"},
        {"n_clusters": None},
    ],
    ids=str,
)
def test_going_on_is_as_good_as_a_fit_on_all(spoiled, going_on, settings_):
    """Votes and dissent are those of a fit on all columns, and the answer is as good."""
    P = spoiled[0]
    make = ct.RobustConsensus(**{"n_clusters": 4, "random_state": 0} | settings_)
    whole = clone(make).fit(P)
    est = clone(make).fit(P[:, :24])
    assert est._contingencies is not None
    est.partial_fit(P[:, 24:])
    assert_same_tuples(est._tuples, whole._tuples)
    for field in ("agreement", "scores", "groups", "weights"):
        np.testing.assert_array_equal(getattr(est.dissent_, field), getattr(whole.dissent_, field))
    np.testing.assert_array_equal(est.partition_weights_, whole.partition_weights_)
    assert est.lower_bound_ == whole.lower_bound_ and est.n_features_in_ == 30
    assert est.objective_ <= 1.01 * whole.objective_
    assert adjusted_rand_score(est.labels_, whole.labels_) > 0.95
    np.testing.assert_array_equal(est.predict(P), est.labels_)
    if settings_.get("refine") is False:
        np.testing.assert_array_equal(est.labels_, whole.labels_)
        np.testing.assert_array_equal(est.embedding_, whole.embedding_)


def test_going_on_compares_fewer_answers(spoiled, going_on):
    """The answer before, that moved, and least squares are compared; the best separated wins."""
    est = ct.RobustConsensus(4, random_state=0).fit(spoiled[0][:, :24])
    assert "linkage" in est.selected_["reason"]
    est.partial_fit(spoiled[0][:, 24:])
    reason = est.selected_["reason"]
    assert all(name in reason for name in ("before", "before, moved", "least squares"))
    assert "linkage" not in reason and est.selected_["method"] in reason


def test_all_answers_are_compared_again_in_time(spoiled, going_on):
    """Once there are half as many partitions again, everything is compared as in a fit."""
    P = spoiled[0]
    est = ct.RobustConsensus(4, random_state=0).fit(P[:, :20])
    anew = []
    for v in range(20, 30):
        est.partial_fit(P[:, v : v + 1])
        anew.append("linkage" in est.selected_["reason"])
    assert anew == [False] * 9 + [True]
    assert_equally_fitted(est, ct.RobustConsensus(4, random_state=0).fit(P))


def test_an_answer_is_moved_by_the_votes_of_now(spoiled):
    """Points put into the wrong cluster go back; a cluster that would be left empty stays."""
    P, y = spoiled
    votes = Votes.from_tuples(as_label_tuples(P), "agreement")
    truth = np.empty(votes.tuples.n_tuples, dtype=np.int64)
    truth[votes.tuples.inverse] = y
    wrong = np.where(np.arange(len(truth)) % 9 == 0, (truth + 1) % 4, truth)
    moved = move_answer(votes, wrong)
    assert adjusted_rand_score(moved, truth) > max(0.97, adjusted_rand_score(wrong, truth))
    alone = np.where(np.arange(len(truth)) == 0, 4, truth)
    np.testing.assert_array_equal(move_answer(votes, alone), alone)


@pytest.mark.parametrize("name", ["wine", "iris", "glass"])
def test_real_ensembles_lose_nothing_one_by_one(name, going_on):
    """Runs of k-means that arrive one at a time end at an objective as low as all together."""
    X, y = ct.load_dataset(name)
    K = len(set(y))
    P = ct.make_partitions(scale(X), K, n_partitions=20, random_state=0)
    whole = ct.RobustConsensus(K, refine=True, random_state=0).fit(P)
    est = ct.RobustConsensus(K, refine=True, random_state=0).fit(P[:, :2])
    for v in range(2, 20):
        est.partial_fit(P[:, v : v + 1])
    assert est.objective_ <= 1.01 * whole.objective_


@pytest.mark.parametrize("refine", ["auto", True])
def test_order_of_partitions_changes_nothing(spoiled, going_on, refine):
    """Permuting points, the partitions before and those that come permutes the labels alone."""
    rng = np.random.default_rng(3)
    P = spoiled[0]
    points = rng.permutation(len(P))
    columns = np.concatenate([rng.permutation(24), 24 + rng.permutation(6)])
    make = ct.RobustConsensus(4, refine=refine, random_state=0)
    a = clone(make).fit(P[:, :24]).partial_fit(P[:, 24:])
    other = 7 - P[points][:, columns]
    b = clone(make).fit(other[:, :24]).partial_fit(other[:, 24:])
    np.testing.assert_array_equal(b.labels_, a.labels_[points])
    np.testing.assert_array_equal(b.partition_weights_, a.partition_weights_[columns])


def test_a_camp_that_outvotes_the_old_one_decides(going_on):
    """When those who decided are outvoted the answer changes, and a warning says so."""
    P, _ = ct.planted_partitions([60, 40], 10, 0, 0.05, random_state=0)
    Q, _ = ct.planted_partitions([50, 50], 14, 0, 0.05, random_state=1)
    Q = Q[np.random.default_rng(2).permutation(100)]
    est = ct.RobustConsensus(2, random_state=0).fit(P)
    est.partial_fit(Q[:, :4])
    assert est.partition_weights_.tolist() == [1.0] * 10 + [0.0] * 4
    with pytest.warns(DissentWarning, match="10 partitions that decided before no longer do"):
        est.partial_fit(Q[:, 4:])
    assert est.partition_weights_.tolist() == [0.0] * 10 + [1.0] * 14
    assert_equally_fitted(est, ct.RobustConsensus(2, random_state=0).fit(np.hstack([P, Q])))


def test_missing_labels_may_fill_whole_rows(spoiled, going_on):
    """Points that the new partitions do not label keep what they have."""
    P, y = (part[::3] for part in spoiled)
    holes = np.where(np.random.default_rng(0).random(P.shape) < 0.2, -1, P)
    holes[:, 0] = np.where((holes[:, :24] < 0).all(axis=1), P[:, 0], holes[:, 0])
    holes[:50, 24:] = -1
    est = ct.RobustConsensus(4, random_state=0).fit(holes[:, :24]).partial_fit(holes[:, 24:])
    assert ct.clustering_accuracy(y, est.labels_) > 0.97
    assert_same_tuples(est._tuples, compress_labels(as_label_matrix(holes)))


def test_weighted_rows_grow_as_repeated_ones_do():
    """Rows that stand for several points still do when partitions come."""
    P, _ = ct.planted_partitions([30, 20], 8, 0, 0.2, random_state=0)
    times = np.random.default_rng(0).integers(1, 4, 50)
    weighted = ct.RobustConsensus(2, random_state=0).fit(P[:, :5], sample_weight=times)
    repeated = ct.RobustConsensus(2, random_state=0).fit(np.repeat(P[:, :5], times, axis=0))
    weighted.partial_fit(P[:, 5:])
    repeated.partial_fit(np.repeat(P[:, 5:], times, axis=0))
    np.testing.assert_array_equal(np.repeat(weighted.labels_, times), repeated.labels_)
    assert weighted.objective_ == pytest.approx(repeated.objective_)


def test_rows_of_weight_zero_are_refused():
    """What rows without a say were labelled was not kept, so such a fit cannot grow."""
    P, _ = ct.planted_partitions([30, 20], 8, 0, 0.2, random_state=0)
    est = ct.RobustConsensus(2, random_state=0).fit(P[:, :5], sample_weight=np.arange(50))
    with pytest.raises(InvalidParameterError, match="rows of weight 0"):
        est.partial_fit(P[:, 5:])


def test_given_weights_must_be_given_for_all():
    """Weights of the old partitions alone are refused; once set for all, they are used."""
    P, _ = ct.planted_partitions([30, 20], 6, 0, 0.2, random_state=0)
    weights = np.array([2.0, 1, 1, 1, 3, 1])
    est = ct.RobustConsensus(2, partition_weights=weights[:4], random_state=0).fit(P[:, :4])
    with pytest.raises(InvalidParameterError, match=r"4 numbers.*there are 6.*set_params"):
        est.partial_fit(P[:, 4:])
    est.set_params(partition_weights=weights).partial_fit(P[:, 4:])
    assert_equally_fitted(
        est, ct.RobustConsensus(2, partition_weights=weights, random_state=0).fit(P)
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_and_texts_are_joined(frame):
    """Columns keep their names, labels their kind; predict wants them all, in their order."""
    columns = {
        "anna": ["cat", "cat", "dog", "dog", "cat", "dog"],
        "ben": [1, 1, 2, 2, 1, None],
        "carla": ["A", "A", "B", "B", None, "B"],
    }
    first, last = frame({"anna": columns["anna"], "ben": columns["ben"]}), frame(columns)[["carla"]]
    est = ct.RobustConsensus(2, random_state=0).fit(first).partial_fit(last)
    assert est._vocabulary.names == ("anna", "ben", "carla")
    np.testing.assert_array_equal(est.predict(frame(columns)), [0, 0, 1, 1, 0, 1])
    with pytest.raises(InvalidLabelsError, match="not those of the fit"):
        est.predict(frame(columns)[["carla", "anna", "ben"]])
    with pytest.raises(InvalidLabelsError, match=r"'carla' \(new column 0\) was fitted already"):
        est.partial_fit(last)


def test_a_name_twice_is_refused():
    """Two new columns of one name would be one partition that votes twice."""
    twice = pd.DataFrame([[0, 0], [1, 1], [1, 1]], columns=["x", "x"])
    est = ct.RobustConsensus(2, random_state=0).fit([[0], [1], [1]])
    with pytest.raises(InvalidLabelsError, match=r"'x' \(new column 1\) is given twice"):
        est.partial_fit(twice)


def test_columns_without_names_go_on_counting():
    """Arrays, and frames with numbers for names, are called by the number of the column."""
    est = ct.RobustConsensus(2, random_state=0).fit([[0], [1], [1]])
    est.partial_fit(np.array([[0], [1], [1]])).partial_fit(pd.DataFrame([[0], [1], [1]]))
    assert est._vocabulary.names == ("0", "1", "2")


def test_before_any_fit_it_is_fit():
    """The first call is a fit."""
    P, _ = ct.planted_partitions([30, 20], 6, 0, 0.2, random_state=0)
    est = ct.RobustConsensus(2, random_state=0).partial_fit(P)
    assert_equally_fitted(est, ct.RobustConsensus(2, random_state=0).fit(P))


@pytest.mark.parametrize(
    ("P", "message"),
    [
        (np.zeros((49, 1), dtype=int), "49 rows.*have 50.*predict"),
        (np.full((50, 1), -1), r"partition '0' \(column 0\) has no label"),
        (np.full((50, 1), 0.5), "not a whole number"),
        (np.zeros(50), "two dimensions"),
    ],
)
def test_refused_partitions_leave_no_trace(P, message):
    """What cannot join is refused with a message, and the model stays as it was."""
    labels, _ = ct.planted_partitions([30, 20], 5, 0, 0.2, random_state=0)
    est = ct.RobustConsensus(2, random_state=0).fit(labels)
    before = dict(vars(est))
    with pytest.raises(InvalidLabelsError, match=message):
        est.partial_fit(P)
    assert vars(est) == before


def test_failures_leave_no_trace(monkeypatch):
    """An interruption half-way leaves the fitted model whole."""
    P, _ = ct.planted_partitions([30, 20], 6, 0, 0.2, random_state=0)
    est = ct.RobustConsensus(2, random_state=0).fit(P[:, :5])
    before = dict(vars(est))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(robust_consensus, "_select", interrupted)
    with pytest.raises(KeyboardInterrupt):
        est.partial_fit(P[:, 5:])
    assert vars(est).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(est).items())


@pytest.mark.parametrize("key", ["robust", "eac"])
def test_a_loaded_model_grows(key, tmp_path, spoiled, going_on):
    """A model from a file takes more partitions as the one that was saved does."""
    P = spoiled[0]
    est = make_consensus(key, 4, random_state=0).fit(P[:, :24])
    ct.save_model(est, tmp_path / "m.coterie")
    loaded = ct.load_model(tmp_path / "m.coterie").partial_fit(P[:, 24:])
    assert_equally_fitted(loaded, est.partial_fit(P[:, 24:]))


def test_a_model_that_forgot_its_points_says_so():
    """Of files from before points were kept, only the labels of new rows can be had."""
    P, _ = ct.planted_partitions([30, 20], 6, 0, 0.2, random_state=0)
    est = ct.RobustConsensus(2, random_state=0).fit(P[:, :5])
    est._tuples = est._tuples.without_points()
    with pytest.raises(ModelFileError, match="earlier version of coterie"):
        est.partial_fit(P[:, 5:])


def test_another_number_of_clusters_may_be_wanted(spoiled, going_on):
    """If n_clusters has been set anew, everything is compared as in a fit."""
    P = spoiled[0][:500]
    est = ct.RobustConsensus(4, random_state=0).fit(P[:, :24])
    est.set_params(n_clusters=3).partial_fit(P[:, 24:])
    assert_equally_fitted(est, ct.RobustConsensus(3, random_state=0).fit(P))
