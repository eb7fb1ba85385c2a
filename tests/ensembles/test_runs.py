"""One run of an ensemble: which rows it fits, with which weights, and labels of all rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from coterie.ensembles import scalings
from coterie.ensembles.execution import fit_run, fitted_rows
from coterie.ensembles.plans import MOST_FITTED, Run
from coterie.ensembles.scalings import centring
from coterie.errors import InvalidParameterError

IRIS = load_iris().data
METHODS = list(MOST_FITTED)


def run_of(kind, n_clusters=3, drawn=None, seed=0):
    """Return a run on centred iris flowers."""
    return Run(kind=kind, n_clusters=n_clusters, scaling=centring(IRIS), drawn=drawn, seed=seed)


@pytest.mark.parametrize("kind", METHODS)
def test_predicting_by_blocks_changes_nothing(kind, monkeypatch):
    """Labels do not depend on the size of the blocks of rows."""
    member, labels = fit_run(IRIS, run_of(kind))
    monkeypatch.setattr(scalings, "_MOST_ROWS", 7)
    np.testing.assert_array_equal(member.predict(IRIS), labels)


@pytest.mark.parametrize("kind", MOST_FITTED)
def test_many_rows_are_sampled_and_all_are_labelled(kind, monkeypatch):
    """Above the limit a run fits a random sample; the others are labelled like new rows."""
    monkeypatch.setitem(MOST_FITTED, kind, 60)
    drawn = np.arange(150) % 3 > 0
    for rows in (None, drawn):
        fitted, weights = fitted_rows(150, run_of(kind, drawn=rows), None)
        assert weights is None
        assert len(np.unique(fitted)) == len(fitted) == 60
        assert rows is None or rows[fitted].all()
        member, labels = fit_run(IRIS, run_of(kind, 4, rows))
        np.testing.assert_array_equal(labels >= 0, np.ones(150, bool) if rows is None else rows)
        np.testing.assert_array_equal(member.predict(IRIS)[labels >= 0], labels[labels >= 0])
        assert set(labels[labels >= 0]) == set(range(labels.max() + 1))
    other = fitted_rows(150, run_of(kind, seed=1), None)[0]
    assert not np.array_equal(other, fitted_rows(150, run_of(kind), None)[0])


@settings(max_examples=30)
@given(
    weights=st.lists(st.integers(0, 20), min_size=1, max_size=30).filter(any),
    seed=st.integers(0, 99),
    some=st.booleans(),
)
def test_rows_are_drawn_in_proportion_to_their_weights(weights, seed, some):
    """Of m draws, row i has ⌊m w_i/Σw⌋ or ⌈m w_i/Σw⌉; rows that may not be drawn have none."""
    w = np.array(weights, dtype=float)
    drawn = None
    if some:
        drawn = (np.arange(len(w)) % 2 == 0) | (np.arange(len(w)) == w.argmax())
    rows, kept = fitted_rows(len(w), run_of("ward", drawn=drawn, seed=seed), w)
    assert kept is None
    used = w if drawn is None else np.where(drawn, w, 0.0)
    expected = len(rows) * used / used.sum()
    times = np.bincount(rows, minlength=len(w))
    assert (times >= np.floor(expected - 1e-9)).all()
    assert (times <= np.ceil(expected + 1e-9)).all()


@pytest.mark.parametrize("kind", METHODS)
def test_rows_of_weight_zero_have_no_influence(kind):
    """A fit with weights 0 and 1 depends only on the rows of weight 1; all rows are labelled."""
    weights = (np.arange(150) % 3 > 0).astype(float)
    far = IRIS + 50.0 * (weights == 0)[:, None]
    scaling = centring(IRIS)
    run = Run(kind=kind, n_clusters=3, scaling=scaling, drawn=None, seed=0)
    (member, labels), (_, of_far) = (fit_run(X, run, weights) for X in (IRIS, far))
    np.testing.assert_array_equal(labels[weights > 0], of_far[weights > 0])
    assert (labels >= 0).all()
    np.testing.assert_array_equal(member.predict(IRIS), labels)


@pytest.mark.parametrize("kind", ["kmeans", "mixture"])
def test_a_sample_without_weight_is_refused(kind):
    """The message says what to do if all rows of a sample have weight 0."""
    drawn = np.arange(150) < 10
    with pytest.raises(InvalidParameterError, match=r"sample_weight is 0 for all 10 rows.*raise"):
        fit_run(IRIS, run_of(kind, drawn=drawn), (~drawn).astype(float))


@pytest.mark.parametrize("kind", METHODS)
def test_every_cluster_has_a_fitted_row(kind):
    """New rows get only labels that fitted rows have."""
    X = np.repeat(IRIS[[0, 60, 120]], 5, axis=0)
    member, labels = fit_run(X, run_of(kind, 10))
    present = set(labels.tolist())
    assert present == set(range(len(present)))
    assert len(present) <= 3
    assert set(member.predict(IRIS).tolist()) <= present
