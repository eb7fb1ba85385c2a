"""The number of clusters that the votes recommend, its measures, and how it is shown."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn import metrics
from sklearn.datasets import make_blobs

import coterie as ct
from coterie.consensus.choice_of_k import (
    MOST_ROWS,
    FeatureSample,
    KChoice,
    choose_n_clusters,
    default_ks,
    measure_each_k,
    recommend,
    stability_of_halves,
    warn_if_weak,
)
from coterie.consensus.robust import Sample, Votes
from coterie.errors import WeakEvidenceWarning
from coterie.labels.tuples import as_label_tuples

KS = np.array([2, 3, 4])


def votes_of(P):
    """Return the votes of all partitions, with equal weights."""
    return Votes.from_tuples(as_label_tuples(P), None)


def fine_partitions(n_clusters=3, n=300, n_partitions=16):
    """Divide each of K lines of points into six intervals, from another start in each partition."""
    rng = np.random.default_rng(0)
    line, place = np.arange(n) % n_clusters, rng.random(n)
    starts = rng.random(n_partitions)
    return 6 * line[:, None] + np.floor(6 * ((place[:, None] + starts) % 1)).astype(int), line


def measures(**values):
    """Return measures of K = 2, 3 and 4; those not given are 1, and the stability is unknown."""
    names = ("relative_eigengap", "margin", "agreement")
    known = dict.fromkeys(names, np.ones(3)) | {"stability": np.full(3, np.nan)}
    return known | {name: np.array(value) for name, value in values.items()}


@pytest.mark.parametrize("seed", range(3))
def test_partitions_with_about_k_clusters_follow_the_product(seed):
    """K maximises √gap · margin · agreement²; the stability is not computed."""
    P, _ = ct.planted_partitions([50, 40, 30, 20], 9, 0, 0.35, random_state=seed)
    choice = choose_n_clusters(votes_of(P), np.arange(2, 8), 0)
    values = np.linalg.eigvalsh(ct.coassociation(P))[::-1]
    np.testing.assert_allclose(choice.eigengap, values[choice.ks - 1] - values[choice.ks])
    gap, agreement = choice.relative_eigengap, np.maximum(choice.agreement, 0)
    np.testing.assert_allclose(gap, choice.eigengap / (values[choice.ks - 1] + 1))
    score = np.sqrt(gap) * choice.margin * agreement**2
    assert choice.best_k == choice.ks[np.argmax(score)]
    assert np.isnan(choice.stability).all() and "stability" not in choice.by_criterion
    assert "relative eigengap" in choice.reason


def test_eigengaps_are_relative_to_a_share_of_the_points():
    """To the eigenvalue is added 1, or n/500 if this is more."""
    P, _ = ct.planted_partitions([500, 400, 300], 9, 0, 0.3, random_state=0)
    found = measure_each_k(votes_of(P), KS, 0)
    floor = found["eigengap"] / found["relative_eigengap"] - found["eigenvalues"][KS - 1]
    np.testing.assert_allclose(floor, 1200 / 500)


def test_fine_partitions_follow_the_stability():
    """K is the largest number whose stability is within 0.01 of the best: that of the lines."""
    P, _ = fine_partitions()
    choice = choose_n_clusters(votes_of(P), random_state=0)
    stable = choice.stability >= choice.stability.max() - 0.01
    assert choice.best_k == choice.ks[stable][-1] == 3
    assert "halves of the partitions" in choice.reason
    assert choice.by_criterion["stability"] == 3


@pytest.mark.parametrize(
    ("known", "n_labels", "k", "words"),
    [
        # two clusters that are unions of three stable ones do not hide these
        ({"stability": [1.0, 0.995, 0.5]}, 20, 3, "largest number"),
        # the most stable K decides only if it is much smaller than the K_v, else the product does
        ({"stability": [0.2, 0.3, 1.0], "agreement": [0.5, 1.0, 0.5]}, 20, 4, ""),
        ({"stability": [0.2, 0.3, 1.0], "agreement": [0.5, 1.0, 0.5]}, 6, 3, "relative eigengap"),
        # a negative agreement never wins, and of equal products the first K does
        (
            {"relative_eigengap": [0.9, 0.5, 0.5], "agreement": [-0.5, 0.9, 0.9]},
            *(3, 3, "4 clusters are almost as good"),
        ),
    ],
)
def test_stability_recommends_k_for_fine_partitions_and_the_product_for_others(
    known, n_labels, k, words
):
    """Of equally stable numbers the largest wins, of equal products the smallest."""
    best, why, _ = recommend(measures(**known), KS, np.full(8, n_labels))
    assert KS[best] == k and words in why


def test_a_single_number_has_no_rival():
    """If only one K is compared, the reason names no other one, whatever the measures."""
    for known in ({"stability": [0.0]}, {"agreement": [0.0]}):
        one = {name: values[:1] for name, values in measures(**known).items()}
        _, why, is_weak = recommend(one, np.array([2]), np.full(8, 20))
        assert is_weak and "almost as good" not in why


@pytest.mark.parametrize(
    ("known", "n_labels", "is_weak"),
    [
        ({"agreement": [0.5, 1.0, 0.5]}, 3, False),
        ({"agreement": [0.5, 1.0, 0.99]}, 3, True),
        ({"agreement": [0.1, 0.4, 0.1]}, 3, True),
        ({"stability": [0.5, 1.0, 0.5]}, 20, False),
        ({"stability": [0.98, 1.0, 0.5]}, 20, False),
        ({"stability": [0.5, 0.95, 0.93]}, 20, True),
        ({"stability": [0.5, 0.95, 0.92]}, 20, False),
        ({"stability": [0.5, 0.85, 0.5]}, 20, True),
    ],
)
def test_evidence_is_weak_if_another_k_is_close_or_the_clusters_are_not_confirmed(
    known, n_labels, is_weak
):
    """A rival has more than 94% of the product, or is larger and 1 − stability is < 1.5 times."""
    assert recommend(measures(**known), KS, np.full(5, n_labels))[2] is is_weak


@pytest.mark.slow
def test_weak_evidence_gives_a_warning():
    """Random partitions give a warning that names K and what to do; clear ones give none."""
    P = np.random.default_rng(0).integers(0, 5, (150, 8))
    weak = choose_n_clusters(votes_of(P), random_state=0)
    with pytest.warns(
        WeakEvidenceWarning, match=rf"for {weak.best_k} clusters is weak.*give the number"
    ):
        warn_if_weak(weak)
    with pytest.warns(WeakEvidenceWarning):
        ct.RobustConsensus(partition_weights=None, random_state=0).fit(P)
    clear, _ = ct.planted_partitions([40, 30, 20], 8, 0, 0.1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not ct.RobustConsensus(random_state=0).fit(clear).k_choice_.is_weak


def test_the_range_follows_the_partitions():
    """At least 2 to 10, to the median K_v if that is larger, at most 30, and never above n."""
    assert default_ks(np.array([4]), 100).tolist() == list(range(2, 11))
    assert default_ks(np.array([2, 17, 40]), 100)[-1] == 17
    assert default_ks(np.array([90]), 100)[-1] == 30
    assert default_ks(np.array([2]), 3).tolist() == [2, 3]


def stability_of(P, ks, seed=0, weights=None):
    """Return the stability of halves of the partitions."""
    votes = Votes.from_tuples(as_label_tuples(P), weights)
    rng = np.random.RandomState(seed)
    return stability_of_halves(Sample.draw(votes, rng, 1000), np.asarray(ks), rng)


def copies(sizes, n_partitions, seed=0):
    """Return copies of one partition with other names of labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    return np.column_stack([rng.permutation(len(sizes))[y] for _ in range(n_partitions)])


@pytest.mark.parametrize("n_partitions", [4, 5, 8])
def test_identical_partitions_are_stable(n_partitions):
    """All halves find their clusters, whatever the names of labels; so the stability is 1."""
    P = copies([50, 30, 20, 10], n_partitions)
    assert stability_of(P, [4]) == pytest.approx([1.0])
    # two distinct tuples have at most two clusters
    assert stability_of(copies([5, 5], n_partitions), [2, 9]) == pytest.approx([1.0, 1.0])
    # halves are compared on the points that both label
    P[::4, 1:] = -1
    assert stability_of(P, [4]) == pytest.approx([1.0])


def test_independent_partitions_are_not_stable():
    """Halves of random partitions agree as by chance."""
    P = np.random.default_rng(0).integers(0, 12, (300, 12))
    assert abs(stability_of(P, range(2, 8))).max() < 0.02


def test_halves_keep_the_weights_of_their_partitions():
    """Random partitions of little weight do not make clusters unstable."""
    noise = np.random.default_rng(0).integers(0, 12, (110, 8))
    P = np.column_stack([copies([50, 30, 20, 10], 8), noise])
    weights = np.repeat([1.0, 1e-6], 8)
    assert stability_of(P, [4]) < 0.9
    assert stability_of(P, [4], weights=weights) == pytest.approx([1.0])


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 2**31))
def test_order_and_names_change_nothing(seed):
    """Permuted points, partitions and names give the same stability with the same seed."""
    rng = np.random.default_rng(seed)
    P = copies([20, 15, 10, 5, 5], 6, seed)
    P[rng.random(P.shape) < 0.2] = 0
    other = (7 - P)[rng.permutation(len(P))][:, rng.permutation(6)]
    np.testing.assert_allclose(
        stability_of(P, [2, 3, 5]), stability_of(other, [2, 3, 5]), atol=1e-12
    )


@pytest.mark.parametrize("n_partitions", [3, 4])
def test_halves_need_four_partitions(n_partitions):
    """The stability of fewer partitions is unknown."""
    found = measure_each_k(votes_of(fine_partitions(n_partitions=n_partitions)[0]), KS, 0)
    assert np.isfinite(found["stability"]).all() == (n_partitions == 4)


def choice(**changes):
    """Return a comparison of K = 2, 3 and 4 that recommends 3."""
    three = np.array([3.0, 2.0, 1.0])
    values = {
        "best_k": 3,
        "reason": "the gap <b>&</b> the rest",
        "is_weak": False,
        "by_criterion": {"agreement": 3},
        "ks": np.array([2, 3, 4]),
        "objective": three,
        "n_clusters": np.array([2, 3, 3]),
        "lower_bound": 0.5,
        "information": three,
        "margin": three / 4,
        "eigenvalues": np.arange(5.0),
        "eigengap": three,
        "relative_eigengap": three / 5,
        "agreement": np.array([0.25, 1.0, np.nan]),
        "stability": np.full(3, np.nan),
    }
    return KChoice(**values | changes)


def test_the_frame_has_a_row_for_each_k():
    """Criteria without any value are left out, and so are the eigenvalues and single numbers."""
    frame = choice().to_frame()
    assert frame.index.tolist() == [2, 3, 4] and frame.index.name == "k"
    assert {"objective", "n_clusters", "agreement"} <= set(frame)
    assert not {"stability", "pac", "eigenvalues", "lower_bound", "best_k", "ks"} & set(frame)
    assert frame["objective"].tolist() == [3.0, 2.0, 1.0]
    # as many eigenvalues as K are no criterion
    assert "eigenvalues" not in choice(eigenvalues=np.arange(3.0)).to_frame()


def test_the_html_is_escaped_and_marks_the_recommended_k():
    """The table has a row for each K; only that of the recommended K is bold."""
    html = choice()._repr_html_()
    assert "&lt;b&gt;&amp;&lt;/b&gt;" in html and "<b>" not in html
    assert html.count("<tr") == 1 + 3 and html.count("font-weight:bold") == 1
    assert "<tr style='font-weight:bold'><td>3</td><td>2</td>" in html
    assert html.count("<th>") == 1 + len(choice().to_frame().columns)


@pytest.fixture(scope="module")
def blobs():
    """Four overlapping groups of points and their numbers."""
    return make_blobs(240, 5, centers=4, cluster_std=4, random_state=0)


def test_indices_are_those_of_scikit_learn(blobs):
    """With few rows, the indices are computed from all of them."""
    X, y = blobs
    assert FeatureSample.draw(X).indices(y) == pytest.approx(
        {
            "silhouette": metrics.silhouette_score(X, y),
            "calinski_harabasz": metrics.calinski_harabasz_score(X, y),
            "davies_bouldin": metrics.davies_bouldin_score(X, y),
        }
    )


def test_rows_without_a_label_are_left_out(blobs):
    """Labels of −1 have the same effect as rows that are not there."""
    X, y = blobs
    some = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    kept = np.flatnonzero(some >= 0)
    found = FeatureSample.draw(X).indices(some)
    assert found == pytest.approx(FeatureSample.draw(X[kept]).indices(y[kept]))
    assert found == pytest.approx(FeatureSample.draw(X).among(kept).indices(y[kept]))


def test_sparse_features_and_distances_have_a_silhouette(blobs):
    """The silhouette is that of the dense features; the others are unknown."""
    X, y = blobs
    dense = FeatureSample.draw(X).indices(y)["silhouette"]
    distances = metrics.pairwise_distances(X)
    np.fill_diagonal(distances, 0)
    for sample in (FeatureSample.draw(csr_array(X)), FeatureSample.draw(distances, "precomputed")):
        found = sample.indices(y)
        assert found["silhouette"] == pytest.approx(dense)
        assert np.isnan([found["calinski_harabasz"], found["davies_bouldin"]]).all()


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2], [-1, -1, 0]])
def test_trivial_clusters_have_no_index(labels):
    """One cluster, or one row in each, gives nan."""
    found = FeatureSample.draw(np.eye(3)).indices(np.array(labels))
    assert np.isnan(list(found.values())).all()


def test_many_rows_are_sampled():
    """Above the limit a fixed sample is used, and rows are found again among fewer."""
    X = np.arange(MOST_ROWS + 1000.0)[:, None]
    sample = FeatureSample.draw(X)
    assert len(sample.rows) == MOST_ROWS
    assert (sample.X[:, 0] == sample.rows).all()
    assert (FeatureSample.draw(X).rows == sample.rows).all()
    even = np.arange(0, len(X), 2)
    fewer = sample.among(even)
    assert (fewer.X[:, 0] == even[fewer.rows]).all()
    assert len(fewer.rows) == (sample.rows % 2 == 0).sum()


def test_rounded_diagonals_are_accepted_and_overflow_has_no_index(blobs):
    """Distances are not changed; features whose distances overflow give nan without a warning."""
    X, y = blobs
    D = metrics.pairwise_distances(X) + 1e-12
    before = D.copy()
    found = FeatureSample.draw(D, "precomputed").indices(y)
    assert found["silhouette"] == pytest.approx(FeatureSample.draw(X).indices(y)["silhouette"])
    assert (D == before).all()
    D[0, 1] = D[1, 0] = np.inf
    assert np.isnan(list(FeatureSample.draw(D, "precomputed").indices(y).values())).all()
