"""The choice of K, compared with estimators, eigenvalues and planted clusters."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.metrics import silhouette_score

import coterie as ct
from coterie.errors import InvalidParameterError
from coterie.inspection.stability import (
    consensus_cdf,
    proportion_of_ambiguous_pairs,
    resampled_ensembles,
)
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.spectral import least_squares_spectrum

pytestmark = pytest.mark.filterwarnings("ignore:all . partitions are the same")

BY_RESAMPLES = ("pac", "cdf_area", "delta_area")
TWO = [[0, 0], [1, 1]]


@pytest.fixture(scope="module")
def spoilt():
    """Return eight noisy copies of a partition into four clusters, and five of a wrong one."""
    return ct.planted_partitions([50, 40, 30, 20], 13, n_bad=5, noise=0.15, random_state=0)[0]


@pytest.fixture(scope="module")
def choice(spoilt):
    """Return the choice of K for them."""
    return ct.choose_k(spoilt, range(2, 9), random_state=0)


@pytest.fixture(scope="module")
def resampled():
    """Return resampled clusterings of three groups of points."""
    X, _ = make_blobs([30, 30, 20], centers=[[0, 0], [9, 0], [40, 9]], random_state=0)
    return resampled_ensembles(X, (2, 3, 4, 5), 12, random_state=0)


def _assert_same(a, b):
    for name, value in vars(a).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(getattr(b, name), value, rtol=1e-9, atol=1e-9, err_msg=name)
    assert (a.best_k, a.by_criterion) == (b.best_k, b.by_criterion)
    assert b.lower_bound == pytest.approx(a.lower_bound)


@pytest.mark.parametrize(
    ("sizes", "n_bad"),
    [([60, 60], 6), ([80, 40, 20], 0), ([30] * 5, 6), ([80, 40, 30, 20, 15, 15], 0)],
)
def test_planted_clusters_are_counted(sizes, n_bad):
    """The planted number is recommended, with and without a camp of wrong partitions."""
    P, _ = ct.planted_partitions(sizes, 15, n_bad, noise=0.1, bad_clusters=4, random_state=0)
    assert ct.choose_k(P, range(2, 9), random_state=0).best_k == len(sizes)


def test_objective_falls_to_the_estimators_and_respects_the_bound(spoilt, choice):
    """One pass over all K is as good as a fit for each K, and the free search is that of a fit."""
    assert np.all(np.diff(choice.objective) <= 1e-9)
    assert np.all(choice.objective >= choice.lower_bound)
    assert np.all(choice.n_clusters <= choice.ks)
    assert np.all(np.diff(choice.information) >= -1e-9)
    for k, objective in zip(choice.ks[:4], choice.objective, strict=False):
        est = ct.RobustConsensus(int(k), refine="search", random_state=0).fit(spoilt)
        assert objective <= est.objective_ * (1 + 1e-9)
        assert choice.lower_bound == pytest.approx(est.lower_bound_)
    J, J_of_one = choice.objective, ct.mirkin_objective(spoilt[:, :8], np.zeros(len(spoilt), int))
    fallen = J <= J.min() + 0.02 * (J_of_one - J.min())
    assert choice.by_criterion["objective"] == choice.ks[np.argmax(fallen)]
    est = ct.RobustConsensus("free", relaxation="l2", random_state=0).fit(spoilt)
    assert choice.by_criterion["free_search"] == est.n_clusters_


def test_eigenvalues_are_those_of_the_believed_coassociation(spoilt, choice):
    """They equal a dense eigendecomposition, and the spectrum from contingency tables."""
    believed = spoilt[:, :8]
    dense = np.linalg.eigvalsh(ct.coassociation(believed))[::-1][:9]
    np.testing.assert_allclose(choice.eigenvalues, dense, rtol=1e-8)
    _, values = least_squares_spectrum(as_label_tuples(believed), np.ones(8), 9)
    np.testing.assert_allclose(choice.eigenvalues, values, rtol=1e-8)
    np.testing.assert_allclose(choice.eigengap, dense[1:8] - dense[2:9], rtol=1e-6)
    relative = choice.eigengap / (dense[1:8] + max(140 / 500, 1))
    np.testing.assert_allclose(choice.relative_eigengap, relative, rtol=1e-6)


def test_margin_and_information_are_those_of_a_fit():
    """For clear partitions both equal what the estimator of that K has."""
    P, y = ct.planted_partitions([40, 30, 20], 9, 0, 0.1, random_state=0)
    est = ct.RobustConsensus(3, refine="search", random_state=0).fit(P)
    found = ct.choose_k(P, [3], random_state=0)
    assert found.margin[0] == pytest.approx(est.margin_.mean())
    perfect = ct.choose_k(np.column_stack([y, y, y]), [3], random_state=0)
    shares = np.array([40, 30, 20]) / 90
    assert perfect.information[0] == pytest.approx(-(shares * np.log(shares)).sum())
    assert perfect.margin[0] == pytest.approx(1.0)
    assert perfect.objective[0] == 0.0


@given(seed=st.integers(0, 2**31))
@settings(deadline=None, max_examples=4)
def test_order_and_names_change_nothing(seed):
    """Permuted points or partitions and renamed labels give the same choice."""
    rng = np.random.default_rng(seed)
    P, _ = ct.planted_partitions([25, 15, 10], 7, 2, 0.2, random_state=seed)
    P[rng.random(P.shape) < 0.05] = -1
    P[(P < 0).all(axis=1), 0] = 0
    other = P[rng.permutation(50)][:, rng.permutation(7)]
    other = np.where(other >= 0, 10 - other, -1)
    _assert_same(*(ct.choose_k(p, range(2, 5), random_state=0) for p in (P, other)))


def test_weights_can_be_given_learned_or_equal(spoilt, choice):
    """The weights of the default rule, given as an array, give the same choice; others differ."""
    given_weights = ct.choose_k(
        spoilt, range(2, 9), partition_weights=[1] * 8 + [0] * 5, random_state=0
    )
    _assert_same(choice, given_weights)
    for way in (None, "learned"):
        different = ct.choose_k(spoilt, range(2, 9), partition_weights=way, random_state=0)
        assert different.lower_bound > choice.lower_bound
    with pytest.raises(InvalidParameterError, match="partition_weights='mean'"):
        ct.choose_k(spoilt, partition_weights="mean")


def test_without_resamples_there_is_no_pac(choice, resampled):
    """PAC and CDF are nan for complete partitions, and do not decide if some K have none."""
    for name in BY_RESAMPLES:
        assert np.isnan(getattr(choice, name)).all()
    assert choice.by_criterion["pac"] is choice.by_criterion["delta_area"] is None
    X, _ = make_blobs([30, 30, 20], 4, random_state=3)
    P = {k: ct.make_partitions(X, k, 12, ensemble="kmeans", random_state=0) for k in (2, 3, 4)}
    assert np.isnan(ct.choose_k(P, random_state=0).pac).all()
    found = ct.choose_k(resampled, range(2, 8), random_state=0)
    assert np.isfinite(found.pac).tolist() == [True] * 4 + [False] * 2
    assert "samples of the points" not in found.reason


def test_a_mapping_gives_pac_of_each_and_the_rest_of_all(resampled):
    """PAC and CDF are those of each ensemble; J and eigenvalues those of all together."""
    found = ct.choose_k(resampled, random_state=0)
    assert found.ks.tolist() == [2, 3, 4, 5]
    assert found.pac.tolist() == [proportion_of_ambiguous_pairs(P) for P in resampled.values()]
    areas = [consensus_cdf(P)[1][1:].mean() for P in resampled.values()]
    assert found.cdf_area.tolist() == areas
    largest = np.maximum.accumulate(areas)
    growth = [areas[0], *((a - b) / b for a, b in zip(areas[1:], largest[:-1], strict=True))]
    np.testing.assert_allclose(found.delta_area, growth)
    assert found.by_criterion["delta_area"] == found.ks[found.delta_area > 0.1][-1]
    pooled = ct.choose_k(np.hstack(list(resampled.values())), (2, 3, 4, 5), random_state=0)
    np.testing.assert_allclose(found.objective, pooled.objective)
    np.testing.assert_allclose(found.eigenvalues, pooled.eigenvalues)


def test_the_largest_stable_k_is_recommended(resampled):
    """Three groups, two of them near each other, are stable as two and as three."""
    found = ct.choose_k(resampled, random_state=0)
    assert found.pac[:2].tolist() == [0.0, 0.0]
    assert found.best_k == found.by_criterion["pac"] == 3
    assert "samples of the points" in found.reason


def test_unstable_everywhere_falls_back_on_the_partitions():
    """If no K is stable, eigengap and margin decide."""
    X = np.random.default_rng(0).uniform(size=(60, 8))
    found = ct.choose_k(resampled_ensembles(X, (3, 4, 5), 12, random_state=0), random_state=0)
    assert np.all(found.pac > 0.25 * (1 - found.cdf_area))
    assert found.by_criterion["pac"] is None
    assert "samples of the points" not in found.reason
    assert found.best_k == found.ks[np.argmax(found.relative_eigengap * found.margin)]


def test_one_table_gives_pac_where_it_holds_enough_resamples():
    """Ten incomplete partitions with exactly k clusters are enough, nine are not."""
    X, _ = make_blobs([30, 30, 20], 4, random_state=3)
    samples = resampled_ensembles(X, (2, 3, 4), 10, random_state=0)
    P = np.column_stack([samples[2], samples[3], samples[4][:, :9]])
    found = ct.choose_k(P, (2, 3, 4), random_state=0)
    expected = [proportion_of_ambiguous_pairs(samples[k]) for k in (2, 3)]
    np.testing.assert_allclose(found.pac[:2], expected)
    assert np.isnan(found.pac[2])


def test_frames_and_few_points_are_fine():
    """P may be a frame of text with fewer distinct rows than K."""
    P = pd.DataFrame({"a": list("xxxyy"), "b": list("uuuvv"), "c": list("uuuvv")})
    found = ct.choose_k(P, random_state=0)
    assert found.ks.tolist() == [2, 3, 4, 5]
    assert found.n_clusters.tolist() == [2, 2, 2, 2]
    assert found.best_k == 2


def test_the_order_of_ks_and_names_of_partitions_change_nothing(spoilt, choice):
    """Nor does repeating a K; a mapping of names to label vectors is no set of ensembles."""
    named = {f"run {v}": labels for v, labels in enumerate(spoilt.T)}
    for P, ks in ((spoilt, [4, 2, 3, 4]), (named, (2, 3, 4))):
        found = ct.choose_k(P, ks, random_state=0)
        assert found.ks.tolist() == [2, 3, 4]
        np.testing.assert_allclose(found.objective, choice.objective[:3])


@pytest.mark.parametrize(
    ("P", "X", "message"),
    [
        ({2: TWO, "a": TWO}, None, "'a'"),
        ({}, None, "empty"),
        (TWO, np.eye(3), "X has 3 rows for 2 points"),
    ],
)
def test_unusable_ensembles_and_features_are_refused(P, X, message):
    """P and X have the same points; the keys of a mapping are K."""
    with pytest.raises(InvalidParameterError, match=message):
        ct.choose_k(P, X=X)


def test_features_add_indices_and_change_nothing_else():
    """The indices of the best partition for each K are added; K and the criteria stay."""
    X, _ = make_blobs([40, 30, 30], 4, random_state=0)
    P = ct.make_partitions(X, 3, 12, ensemble="kmeans", random_state=0)
    P[5] = -1  # a point without a label has no index
    plain = ct.choose_k(P, [2, 3, 4], random_state=0)
    found = ct.choose_k(P, [2, 3, 4], X=X, random_state=0)
    for name, value in vars(plain).items():
        if isinstance(value, np.ndarray) and value.size:
            np.testing.assert_array_equal(getattr(found, name), value, err_msg=name)
    assert found.best_k == plain.best_k == 3
    est = ct.RobustConsensus(3, refine="search", random_state=0).fit(P)
    kept = est.labels_ >= 0
    assert found.silhouette[1] == pytest.approx(silhouette_score(X[kept], est.labels_[kept]))
    assert {"silhouette", "calinski_harabasz", "davies_bouldin"} <= set(found.to_frame())
    assert "silhouette" not in plain.to_frame()
    assert found.by_criterion["silhouette"] == found.ks[np.argmax(found.silhouette)]
    assert found.by_criterion["davies_bouldin"] == found.ks[np.argmin(found.davies_bouldin)]
