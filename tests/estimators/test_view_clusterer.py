"""MultiViewClusterer: which answer it selects, which views vote, and what it accepts as views."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score

import coterie as ct
from coterie.errors import InvalidParameterError, LabelWarning

CENTRES = np.array([[0, 0], [6, 0], [0, 6]])


def views_of(y, seed=0):
    """Two views of the groups y, the second on another scale."""
    rng = np.random.default_rng(seed)
    return {
        "shape": CENTRES[y] + rng.normal(size=(len(y), 2)),
        "colour": 100 * CENTRES[y] + rng.normal(0, 120, (len(y), 2)),
    }


@pytest.fixture(scope="module")
def views():
    """Two views of three groups of one size, and one that shows other groups."""
    rng = np.random.default_rng(0)
    y, other = rng.permutation(np.arange(150) % 3), rng.integers(0, 3, 150)
    return views_of(y) | {"weather": CENTRES[other] + rng.normal(size=(150, 2))}, y


def fitted(views, n_clusters=3, **settings):
    """Return a fit with few runs."""
    settings = {"n_partitions": 6, "standardize": True, "random_state": 0} | settings
    return ct.MultiViewClusterer(n_clusters, **settings).fit(views)


def test_views_agree_on_what_they_share(views):
    """Two views out of three decide; the third is reported to disagree."""
    named, y = views
    est = fitted(named)
    assert ct.clustering_accuracy(y, est.labels_) > 0.95
    assert est.view_names_ == ["shape", "colour", "weather"]
    assert est.view_agreement_["weather"] < 0.1 and est.view_agreement_["colour"] > 0.4
    assert est.view_weight_ == {"shape": 1, "colour": 1, "weather": 0}
    assert (est.predict(named) == est.labels_).all()
    learned = fitted(named, consensus=ct.RobustConsensus(partition_weights="learned"))
    shares = (learned.consensus_.partition_weights_ > 0).reshape(3, 6).mean(axis=1)
    assert list(learned.view_weight_.values()) == shares.tolist()
    probabilities = est.predict_proba(named)
    np.testing.assert_allclose(probabilities[np.arange(150), est.labels_], est.confidence_)


def test_groups_of_very_different_size_are_found_by_linkage(views):
    """Linkage is selected if the clusters of the search are of different size, else the search."""
    y = np.repeat([0, 1, 2], [240, 30, 12])
    named, equal = views
    two = {name: named[name] for name in ("shape", "colour")}
    for groups, of_groups, method in (
        (equal, two, "search"),
        (y, views_of(y), "local linkage"),
    ):
        est = fitted(of_groups, n_partitions=12)
        assert est.consensus_.selected_["method"] == method
        assert adjusted_rand_score(groups, est.labels_) > 0.9


def test_circles_are_found():
    """The halves of a circle are of one size but not stable, and are not returned."""
    two = [make_circles(500, noise=0.03, factor=0.4, shuffle=False, random_state=s) for s in (0, 1)]
    (first, y), (second, _) = two
    est = fitted([first, second], 2, n_partitions=12)
    assert adjusted_rand_score(y, est.labels_) > 0.95


def test_views_may_come_as_a_list_and_sparse(views):
    """A list is a dict with the names view 0, view 1, …; sparse views are used as they are."""
    named, y = views
    listed = fitted(list(named.values()))
    assert listed.view_names_ == ["view 0", "view 1", "view 2"]
    np.testing.assert_array_equal(listed.labels_, fitted(named).labels_)
    sparse = [csr_array(named["shape"]), named["colour"]]
    est = fitted(sparse)
    assert ct.clustering_accuracy(y, est.labels_) > 0.95
    assert (est.predict(sparse) == est.labels_).all()


def test_scales_of_columns_do_not_matter(views):
    """Columns in other units give the same labels; without standardize not, and a note says so."""
    named, _ = views
    units = {name: X * [1, 4096] for name, X in named.items()}
    scaled, unscaled = fitted(units), fitted(units, standardize=False)
    np.testing.assert_array_equal(scaled.labels_, fitted(named).labels_)
    assert (unscaled.labels_ != scaled.labels_).any()
    assert scaled.notes_ == () and len(unscaled.notes_) == 3
    note = unscaled.notes_[0]
    assert note.startswith("shape: column 1 varies ") and note.endswith("if their units differ")
    tables = [pd.DataFrame(X, columns=["x", "y"]) for X in units.values()]
    assert fitted(tables, standardize=False).notes_[2].startswith("view 2: column 'y' varies ")


def test_each_view_may_have_its_own_ensemble(views):
    """A dict has the ensemble of each view; partitions are named by view, kind and number."""
    named, _ = views
    two = {"shape": named["shape"], "colour": named["colour"]}
    est = fitted(two, ensemble={"shape": "kmeans", "colour": ["ward", "spectral"]}, n_partitions=3)
    names = set(est.to_frame("partitions").index)
    assert names == {f"shape: kmeans {i}" for i in range(3)} | {
        "colour: ward 0",
        "colour: spectral 0",
        "colour: ward 1",
    }
    assert (est.ensembles_["shape"].labels.max(axis=0) == 2).all()
    with pytest.raises(InvalidParameterError, match=r"the views are .*'weather'"):
        fitted(named, ensemble={"shape": "kmeans", "colour": "ward"})


def test_the_number_of_clusters_is_chosen(views):
    """n_clusters=None keeps the comparison in k_choice_; a later fit with K removes it."""
    named, y = views
    two = {name: named[name] for name in ("shape", "colour")}
    est = fitted(two, None, n_partitions=12)
    assert est.n_clusters_ == est.k_choice_.best_k == 3
    assert ct.clustering_accuracy(y, est.labels_) > 0.95
    assert not hasattr(est.set_params(n_clusters=2).fit(two), "k_choice_")


def test_a_view_without_clusters_is_left_out(views):
    """Runs that classify every row as noise have no vote; agreement and weight are 0."""
    named, y = views
    ensemble = {"shape": "mixed", "colour": "mixed", "weather": DBSCAN(eps=1e-9)}
    with pytest.warns(LabelWarning, match="label no row"):
        est = fitted(named, ensemble=ensemble)
    assert est.view_weight_["weather"] == est.view_agreement_["weather"] == 0
    assert len(est.to_frame("partitions")) == 12
    assert (est.predict(named) == est.labels_).all()
    assert ct.clustering_accuracy(y, est.labels_) > 0.95


def test_rows_of_weight_0_have_no_influence(views):
    """The fit is that without these rows, and they are labelled like new rows."""
    named, _ = views
    weights = np.repeat([0.0, 1.0], [30, 120])
    outliers = {name: np.vstack([50 * X[:30], X[30:]]) for name, X in named.items()}
    more = ct.MultiViewClusterer(3, n_partitions=4, random_state=0)
    less = clone(more).fit({name: X[30:] for name, X in named.items()}, None, weights[30:])
    more.fit(outliers, sample_weight=weights)
    np.testing.assert_array_equal(more.labels_[30:], less.labels_)
    np.testing.assert_array_equal(
        more.labels_[:30], less.predict({name: X[:30] for name, X in outliers.items()})
    )
