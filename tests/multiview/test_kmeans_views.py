"""MultiViewKMeans: loss, centres, view weights, prediction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

import coterie as ct
from all_partitions import all_partitions
from coterie.multiview import MultiViewKMeans
from coterie.multiview.kmeans_views import (
    _descend,
    _fill_empty_clusters,
    _moved_centres,
    _nearest,
    _Table,
    _view_weights,
)

seeds = st.integers(0, 10**6)


@pytest.fixture(scope="module")
def views():
    """Two views of three groups of 60, 50 and 40, and one of noise."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], [60, 50, 40]))
    centres = np.array([[0, 0], [6, 0], [0, 6]])
    return {
        "shape": centres[y] + rng.normal(size=(150, 2)),
        "colour": 100 + 50 * centres[y] + rng.normal(0, 50, (150, 2)),
        "noise": rng.normal(size=(150, 3)),
    }, y


@pytest.mark.parametrize("standardize", [True, False])
def test_groups_are_found_and_noise_has_the_least_weight(views, standardize):
    """Clear groups are found; the view of noise has the lowest weight."""
    named, y = views
    est = MultiViewKMeans(3, standardize=standardize, random_state=0).fit(named)
    if standardize:
        assert ct.clustering_accuracy(y, est.labels_) > 0.98
        assert min(est.view_weights_, key=est.view_weights_.get) == "noise"
    assert sum(est.view_weights_.values()) == pytest.approx(1.0)
    assert est.n_iter_ == len(est.history_["loss"])
    # new points get the label of the nearest centre
    assert (est.predict(named) == est.labels_).all()
    assert (est.predict(est.cluster_centers_) == [0, 1, 2]).all()


@settings(max_examples=15)
@given(seeds, st.integers(1, 6), st.sampled_from([1.1, 2.0, 10.0]), st.booleans())
def test_the_loss_never_rises(seed, n_clusters, gamma, sparse):
    """No round raises the loss, for any data with equal points, from any labels."""
    rng = np.random.default_rng(seed)
    X = [rng.integers(0, 4, (25, 1)).astype(float), rng.normal(size=(25, 3))]
    tables = [_Table(X[0] - X[0].mean()), _Table(csr_array(X[1]) if sparse else X[1])]
    start = rng.integers(0, n_clusters, 25)
    fit = _descend(tables, start, n_clusters, gamma, 60, 0.0, np.random.RandomState(0))
    assert (np.diff(fit.history) <= 1e-7 * fit.history[0]).all()


# The formula holds after any number of rounds, and some seeds need more than the default.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=10)
@given(seeds)
def test_the_loss_is_the_formula(seed):
    """loss_ equals the formula at the fitted centres, weights and labels."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(20, 2)), rng.normal(size=(20, 1))]
    est = MultiViewKMeans(3, standardize=False, n_init=2, random_state=0).fit(X)
    of_views = zip(X, est.cluster_centers_.values(), est.view_weights_.values(), strict=True)
    assert est.loss_ == pytest.approx(
        sum(a**2 * np.linalg.norm(x - F[est.labels_], axis=1).sum() for x, F, a in of_views)
    )
    assert est.loss_ <= est.history_["loss"][-1] * (1 + 1e-9)


def test_no_partition_of_few_points_does_better():
    """On seven points the best start is the optimum over all partitions."""
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(7, 2)), rng.normal(size=(7, 1))]

    def best_loss(z):
        h = [
            sum(
                minimize(
                    lambda f, own=x[z == k]: np.linalg.norm(own - f, axis=1).sum(),
                    np.median(x[z == k], axis=0),
                    method="Nelder-Mead",
                    options={"xatol": 1e-6, "fatol": 1e-8},
                ).fun
                for k in range(2)
            )
            for x in X
        ]
        return 1.0 / sum(1.0 / value for value in h)  # at the optimal a, γ = 2

    lowest = min(best_loss(z) for z in all_partitions(7, 2) if max(z) == 1)
    est = MultiViewKMeans(2, standardize=False, n_init=15, tol=1e-12, random_state=0).fit(X)
    assert est.loss_ == pytest.approx(lowest, rel=1e-4)


@settings(max_examples=20)
@given(seeds, st.integers(1, 4))
def test_centres_converge_to_the_geometric_median(seed, p):
    """Steps from the mean, or from a data point, end at the least sum of distances."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(15, p))
    labels = np.zeros(15, dtype=np.int64)
    table = _Table(X)

    def total(f):
        return np.linalg.norm(X - f, axis=1).sum()

    ends = []
    for start in (X.mean(axis=0, keepdims=True), X[:1]):
        centre, before = start, np.inf
        while total(centre) < before - 1e-7:
            before = total(centre)
            centre = _moved_centres(table, centre, labels)
            assert total(centre) <= before + 1e-12
        ends.append(total(centre))
    assert ends[0] == pytest.approx(ends[1], rel=1e-3)
    least = minimize(total, X.mean(axis=0), method="Nelder-Mead", options={"maxiter": 4000}).fun
    assert ends[0] <= least * (1 + 1e-3)


def test_points_on_a_centre_shorten_its_step():
    """Of the pull of 2 towards Weiszfeld's 1.5, the point on the centre takes 1: half a step."""
    line, labels = np.array([[0.0], [1.0], [3.0]]), np.zeros(3, dtype=np.int64)
    assert _moved_centres(_Table(line), line[:1], labels).item() == pytest.approx(0.75)
    held = np.array([[0.0], [0.0], [1.0]])  # two points hold it against one
    assert _moved_centres(_Table(held), held[:1], labels).item() == 0.0


@settings(max_examples=20)
@given(seeds, st.floats(1.05, 50.0))
def test_view_weights_minimise_over_the_simplex(seed, gamma):
    """No random point of the simplex gives a lower Σ a^γ h."""
    rng = np.random.default_rng(seed)
    h = rng.uniform(0.1, 5.0, 4)
    a = _view_weights(h, np.ones(4, dtype=bool), gamma)
    others = rng.dirichlet(np.ones(4), 50)
    assert a.sum() == pytest.approx(1.0)
    assert a**gamma @ h <= (others**gamma @ h).min() * (1 + 1e-9)
    h[0] = 0.0
    assert np.isfinite(_view_weights(h, np.ones(4, dtype=bool), 1.001)).all()


def test_a_constant_view_has_no_weight(views):
    """A view in which all points are equal does not change the labels."""
    named, _ = views
    plain = MultiViewKMeans(3, random_state=0).fit({"shape": named["shape"]})
    for constant in (np.full((150, 2), 7.0), csr_array(np.full((150, 2), 7.0))):
        for standardize in (True, False):
            est = MultiViewKMeans(3, standardize=standardize, random_state=0)
            est.fit({"shape": named["shape"], "constant": constant})
            assert est.view_weights_["constant"] == 0.0
            assert ct.clustering_accuracy(plain.labels_, est.labels_) > 0.98


def test_an_empty_cluster_takes_a_point_and_lowers_the_loss():
    """The point comes from a cluster of several, and its centre is the point."""
    X = np.array([[0.0], [1.0], [5.0]])
    for seed in range(9):  # the point at 5 is away from its centre, but alone
        tables, centres = [_Table(X)], [np.array([[0.5], [6.0], [90.0]])]
        labels = _nearest(tables, centres, np.ones(1))
        _fill_empty_clusters(tables, centres, labels, np.random.RandomState(seed))
        assert sorted(np.bincount(labels)) == [1, 1, 1] and labels[2] == 1
        assert centres[0][2] in X[:2]


def test_poor_ends_are_reported(views):
    """There are as many clusters as distinct points; too few rounds give a warning too."""
    X = np.repeat([[0.0], [1.0]], 5, axis=0)
    with pytest.warns(ConvergenceWarning, match="only 2 of n_clusters=4"):
        est = MultiViewKMeans(4, random_state=0).fit([X])
    assert est.n_clusters_ == 2 and len(est.cluster_centers_["view 0"]) == 2
    assert (est.predict([X]) == est.labels_).all()
    with pytest.warns(ConvergenceWarning, match="only 1 of n_clusters=2"):
        assert MultiViewKMeans(2, random_state=0).fit([np.ones((5, 2))]).n_clusters_ == 1
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        MultiViewKMeans(3, max_iter=1, random_state=0).fit(views[0])
