"""ConsensusClusterer: shapes, noise, weights, new rows, choice of K, consensus functions."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score, pairwise_distances, silhouette_score
from sklearn.preprocessing import StandardScaler

import coterie as ct
from coterie.ensembles.runs import ENSEMBLES, SEVERAL
from coterie.errors import InvalidParameterError, WeakEvidenceWarning
from coterie.estimators import clusterer


@pytest.fixture(scope="module")
def blobs():
    """Three blobs in eight dimensions."""
    return make_blobs([60, 40, 30], centers=3 * np.eye(3, 8) - 3 * np.eye(3, 8, 5), random_state=0)


def anisotropic_blobs():
    """Three parallel long blobs."""
    X, y = make_blobs(300, centers=3, random_state=170)
    return X @ [[0.6, -0.6], [-0.4, 0.8]], y


SHAPES = {
    "moons": make_moons(300, noise=0.05, random_state=0),
    "circles": make_circles(500, noise=0.04, factor=0.5, random_state=0),
    "anisotropic": anisotropic_blobs(),
    "unequal": make_blobs(
        [300, 60, 30],
        centers=[[0, 0], [6, 0], [0, 6]],
        cluster_std=[1.5, 0.5, 0.5],
        random_state=0,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_clusters_are_found_where_k_means_fails(shape):
    """Clusters that are not round, or of different size, are found; k-means does not find them."""
    X, y = SHAPES[shape]
    K = y.max() + 1
    est = ct.ConsensusClusterer(K, n_partitions=16, random_state=0).fit(X)
    assert adjusted_rand_score(y, est.labels_) > 0.95
    assert adjusted_rand_score(y, KMeans(K, n_init=5, random_state=0).fit_predict(X)) < 0.7
    assert (est.predict(X) == est.labels_).all()


@pytest.mark.parametrize("ensemble", [*ENSEMBLES, ("kmeans", "diverse")], ids=str)
def test_every_ensemble_finds_clear_clusters_and_predicts(blobs, ensemble, tmp_path):
    """Clear clusters are found by every kind of run; a loaded model predicts the same labels."""
    X, y = blobs
    est = ct.ConsensusClusterer(3, n_partitions=8, ensemble=ensemble, random_state=0).fit(X)
    assert ct.clustering_accuracy(y, est.labels_) > 0.95
    if ensemble != "subsample":  # runs label rows that they did not draw like new rows
        assert (est.predict(X) == est.labels_).all()
    ct.save_model(est, tmp_path / "model.coterie")
    loaded = ct.load_model(tmp_path / "model.coterie")
    assert (loaded.predict(X + 0.01) == est.predict(X + 0.01)).all()
    np.testing.assert_array_equal(loaded.predict_proba(X), est.predict_proba(X))


def spirals():
    """Two spirals around each other, which mixtures and k-means cut in many different ways."""
    rng = np.random.default_rng(0)
    turn, y = np.sqrt(rng.random(800)) * 3 * np.pi, np.repeat([0, 1], 400)
    arms = np.column_stack([np.cos(turn), np.sin(turn)]) * (np.where(y, -1, 1) * turn)[:, None]
    return arms / 5 + rng.normal(0, 0.05, (800, 2)), y


def test_the_most_trusted_kind_decides():
    """One kind that is right decides although most kinds fail; a vote of all runs fails."""
    X, y = spirals()
    est = ct.ConsensusClusterer(2, random_state=0).fit(X)
    assert adjusted_rand_score(y, est.labels_) == 1
    first, *others = est.kinds_
    assert est.selected_["kind"] == first.kind and set(est.ensemble_.kinds) == {first.kind}
    assert {one.kind for one in others} | {first.kind} == set(SEVERAL["auto"])
    assert all(one.trust <= first.trust for one in others)
    assert (est.predict(X) == est.labels_).all()
    assert f"{first.kind} runs decide" in est.summary()
    mixed = clone(est).set_params(ensemble="mixed").fit(X)
    assert mixed.kinds_ == [] and adjusted_rand_score(y, mixed.labels_) < 0.5


def test_kinds_of_many_rows_are_compared_on_a_sample(monkeypatch):
    """One kind labels all rows, as a fit of that kind does; rows are drawn by their weights."""
    monkeypatch.setattr(clusterer, "_MOST_JUDGED", 700)
    X, y = spirals()
    weights = np.random.default_rng(1).integers(1, 4, len(X))
    est = ct.ConsensusClusterer(2, random_state=0).fit(X, sample_weight=weights)
    assert adjusted_rand_score(y, est.labels_) > 0.9
    assert est.ensemble_.labels.shape == (800, 16)
    assert est.shortcuts_[0] == "the kinds of runs are compared on 700 of 800 rows"


def test_the_scale_of_weights_does_not_matter(blobs):
    """Kinds are compared with weights of any scale: fractions are as good as their multiples."""
    weights = np.random.default_rng(0).random(len(blobs[0]))
    est = ct.ConsensusClusterer(3, n_partitions=20, random_state=0)
    small, large = (
        clone(est).fit(blobs[0], sample_weight=scale * weights).kinds_
        for scale in (2.0**-9, 2.0**9)
    )
    assert small == large and all(0 < one.agreement <= 1 for one in small)


def test_few_runs_vote_together(blobs):
    """With fewer than four runs of each kind their halves tell nothing."""
    est = ct.ConsensusClusterer(3, n_partitions=19, random_state=0).fit(blobs[0])
    assert est.kinds_ == [] and est.ensemble_.labels.shape[1] == 19
    est.set_params(n_partitions=20).fit(blobs[0])
    assert len(est.kinds_) == 5 and est.ensemble_.labels.shape[1] == 4


@pytest.mark.parametrize(("n", "K"), [(60, 3), (120, 8), (300, 5)])
def test_a_chosen_number_gives_the_fit_with_that_number(n, K):
    """The same labels have the same confidence whether K is given or chosen, and predict alike."""
    X, _ = make_blobs(n, centers=K, n_features=4, center_box=(-40, 40), random_state=1)
    chosen = ct.ConsensusClusterer(n_partitions=40, random_state=0).fit(X)
    assert chosen.n_clusters_ == chosen.k_choice_.best_k == K
    given = clone(chosen).set_params(n_clusters=K).fit(X)
    np.testing.assert_array_equal(given.labels_, chosen.labels_)
    np.testing.assert_array_equal(given.confidence_, chosen.confidence_)
    np.testing.assert_array_equal(given.predict_proba(X + 0.1), chosen.predict_proba(X + 0.1))
    assert given.kinds_ == chosen.kinds_


def test_a_cloud_has_no_structure():
    """One Gaussian cloud is one cluster; if K is given, the labels have little confidence."""
    X = np.random.default_rng(0).normal(size=(500, 5))
    with pytest.warns(WeakEvidenceWarning, match="no structure was found"):
        est = ct.ConsensusClusterer(random_state=0).fit(X)
    assert est.n_clusters_ == est.k_choice_.best_k == 1 and est.k_choice_.is_weak
    given = clone(est).set_params(n_clusters=3).fit(X)
    assert given.confidence_.mean() < 0.65
    blobs, _ = make_blobs(500, centers=3, n_features=5, random_state=0)
    assert given.fit(blobs).confidence_.mean() > 0.9


def test_standardised_columns_are_tried_where_units_differ(tmp_path):
    """A column of large units hides the clusters of others; the standardised kinds find them."""
    X, y = make_blobs(300, centers=3, n_features=4, random_state=0)
    X = np.column_stack([X, np.random.default_rng(0).normal(0, 1000, (300, 2))])
    est = ct.ConsensusClusterer(3, n_partitions=40, random_state=0).fit(X)
    assert adjusted_rand_score(y, est.labels_) > 0.95
    assert est.kinds_[0].kind.endswith(", standardised") and len(est.kinds_) == 10
    assert est.notes_ == () and (est.predict(X) == est.labels_).all()
    ct.save_model(est, tmp_path / "model.coterie")
    assert (ct.load_model(tmp_path / "model.coterie").predict(X) == est.labels_).all()
    raw = clone(est).set_params(ensemble=SEVERAL["auto"]).fit(X)
    assert adjusted_rand_score(y, raw.labels_) < 0.5
    assert "set standardize=True" in raw.notes_[0]


@pytest.mark.slow
@pytest.mark.parametrize("K", [50, 100])
def test_many_round_clusters_are_found_as_by_k_means(K):
    """With many clusters the runs are finer, so that no cluster is hidden."""
    X, y = make_blobs(40 * K, centers=K, n_features=3, center_box=(-30, 30), random_state=0)
    est = ct.ConsensusClusterer(K, random_state=0).fit(X)
    k_means = KMeans(K, n_init=10, random_state=0).fit_predict(X)
    assert adjusted_rand_score(y, est.labels_) >= adjusted_rand_score(y, k_means) - 0.02


def test_rows_that_are_noise_in_all_runs_have_no_label(blobs):
    """Noise of every run gets −1 and confidence 0; other rows do not."""
    X = np.vstack([blobs[0], 100 + 40 * np.eye(5, 8)])
    runs = [HDBSCAN(min_cluster_size=8, copy=True), HDBSCAN(min_cluster_size=12, copy=True)]
    est = ct.ConsensusClusterer(3, n_partitions=4, ensemble=runs, random_state=0).fit(X)
    noise = (est.ensemble_.labels < 0).all(axis=1)
    assert noise[-5:].all() and not noise.all()
    np.testing.assert_array_equal(est.labels_ == -1, noise)
    np.testing.assert_array_equal(est.confidence_ == 0, noise)
    assert (est.predict(X) == est.labels_).all()
    assert est.to_frame("clusters")["size"].sum() == (~noise).sum()


def test_the_number_of_clusters_is_chosen(blobs):
    """n_clusters=None keeps the comparison in k_choice_; a later fit with K removes it."""
    X, y = blobs
    est = ct.ConsensusClusterer(n_partitions=16, random_state=0).fit(X)
    assert est.n_clusters_ == est.k_choice_.best_k == 3
    assert adjusted_rand_score(y, est.labels_) > 0.95
    assert est.to_frame("k").index.tolist() == est.k_choice_.ks.tolist()
    est.set_params(n_clusters=4).fit(X)
    assert not hasattr(est, "k_choice_") and est.n_clusters_ == 4


@pytest.mark.parametrize(
    "settings",
    [{}, {"standardize": True}, {"subsample": 0.8}, {"n_partitions": 20}],
    ids=str,
)
def test_rows_of_weight_0_have_no_influence(blobs, settings, monkeypatch):
    """The fit is that without these rows, also for outliers, and they are labelled like new."""
    monkeypatch.setattr(clusterer, "MOST_ROWS", 60)
    X, _ = blobs
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 3, len(X))
    est = ct.ConsensusClusterer(3, random_state=0, **{"n_partitions": 8, **settings})
    less = clone(est).fit(X, sample_weight=weights)
    outliers = rng.normal(0, 300, (50, 8))
    more = est.fit(np.vstack([outliers, X]), sample_weight=np.append(np.zeros(50), weights))
    np.testing.assert_array_equal(more.labels_[50:], less.labels_)
    np.testing.assert_array_equal(more.confidence_[50:], less.confidence_)
    np.testing.assert_array_equal(more.labels_[:50], less.predict(outliers))
    np.testing.assert_array_equal(more.predict(outliers), less.predict(outliers))


def test_standardize_is_scaling_beforehand(blobs):
    """standardize=True is the fit of standardised columns; sparse columns are not shifted."""
    X = blobs[0] * 10.0 ** np.arange(-3, 5)
    est = ct.ConsensusClusterer(3, n_partitions=8, standardize=True, random_state=0).fit(X)
    before = clone(est).set_params(standardize=False)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(est.labels_, before.fit(scaled).labels_)
    np.testing.assert_array_equal(est.predict(X), before.predict(scaled))
    sparse = csr_array(np.where(abs(X) > 1, X, 0.0))
    divided = StandardScaler(with_mean=False).fit_transform(sparse)
    np.testing.assert_array_equal(est.fit(sparse).labels_, before.fit(divided).labels_)


def test_partitions_are_named_by_kind_and_number(blobs):
    """Names are in frames and reports; kind_agreement_ is the mean over the runs of a kind."""
    X, _ = blobs
    est = ct.ConsensusClusterer(3, n_partitions=6, ensemble="mixed", random_state=0).fit(X)
    names = ["spectral 0", "mixture 0", "diagonal mixture 0", "mixture 1", "spectral 1"]
    assert est.ensemble_.names[:5] == tuple(names)
    agreement = est.to_frame("partitions")["agreement"]
    assert set(agreement.index) == set(est.ensemble_.names)
    assert list(est.kind_agreement_) == ["spectral", "mixture", "diagonal mixture"]
    for kind, mean in est.kind_agreement_.items():
        runs = [agreement[name] for name in agreement.index if name[: -len(" 0")] == kind]
        assert mean == pytest.approx(np.mean(runs))


def test_a_frame_keeps_its_index_and_the_names_of_its_columns(blobs):
    """to_frame() has the index of the table; predict and messages know the names of columns."""
    X, _ = blobs
    table = pd.DataFrame(
        X.copy(), columns=list("abcdefgh"), index=[f"row {i}" for i in range(len(X))]
    )
    est = ct.ConsensusClusterer(3, n_partitions=4, random_state=0).fit(table)
    assert est.to_frame().index.equals(table.index)
    np.testing.assert_array_equal(est.to_frame()["confidence"], est.confidence_)
    assert est.feature_names_in_.tolist() == list("abcdefgh")
    with pytest.raises(ValueError, match="feature names"):
        est.predict(table[table.columns[::-1]])
    table.iloc[[3, 5], 1] = np.nan
    with pytest.raises(InvalidParameterError, match=r"row 3, column 'b' \(2 such cells.*Imputer"):
        est.fit(table)
    with pytest.raises(InvalidParameterError, match=r"column 'city' holds text .*encode it"):
        est.fit(table.assign(city="Rome"))


def test_confidence_is_the_probability_of_the_label(blobs):
    """confidence_ is the entry of the label in predict_proba; predict returns the largest."""
    X = np.random.default_rng(0).normal(size=(120, 2))  # no clusters, so votes are divided
    est = ct.ConsensusClusterer(2, n_partitions=8, random_state=0).fit(X[:90])
    probabilities = est.predict_proba(X)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), est.predict(X))
    np.testing.assert_allclose(est.confidence_, probabilities[np.arange(90), est.labels_])
    assert est.confidence_.min() >= 0.5


def test_progress_is_shown_only_if_asked(blobs, capsys):
    """verbose writes to the standard error stream, and does not change the result."""
    X, _ = blobs
    quiet = ct.ConsensusClusterer(3, n_partitions=4, random_state=0).fit(X)
    assert capsys.readouterr() == ("", "")
    loud = ct.ConsensusClusterer(3, n_partitions=4, verbose=True, random_state=0).fit(X)
    out, err = capsys.readouterr()
    assert not out and "partitions" in err
    np.testing.assert_array_equal(quiet.labels_, loud.labels_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_partitions": 0}, "n_partitions=0"),
        ({"consensus": "cpsa"}, r"'cpsa' is not .*mean 'cspa'"),
    ],
)
def test_a_fit_that_fails_leaves_the_earlier_fit(blobs, settings, message):
    """Whether the runs or their consensus fail, predict gives the earlier labels."""
    X, _ = blobs
    est = ct.ConsensusClusterer(3, n_partitions=4, random_state=0).fit(X)
    before = est.predict(X)
    est.set_params(standardize=True, **settings)
    with pytest.raises(InvalidParameterError, match=message):
        est.fit(1000 * X + 5)
    np.testing.assert_array_equal(est.predict(X), before)


RUNS = {"ensemble": "diverse", "n_partitions": 8, "random_state": 0}


def test_a_consensus_function_may_be_named(blobs):
    """consensus= takes a key of the registry, and the fit is that of its class on the runs."""
    X, _ = blobs
    est = ct.ConsensusClusterer(3, consensus="l2", **RUNS).fit(X)
    assert isinstance(est.consensus_, ct.L2Consensus) and est.consensus_.n_clusters == 3
    assert est.consensus_.random_state is not None and est.consensus == "l2"
    direct = clone(est.consensus_).fit(est.ensemble_.labels)
    np.testing.assert_array_equal(direct.labels_, est.labels_)
    views = ct.MultiViewClusterer(3, consensus="median", **RUNS).fit([X[:, :4], X[:, 4:]])
    assert views.consensus_.refine == "search" and views.consensus_.relaxation == "l2"


@pytest.mark.parametrize(
    ("function", "n_clusters", "n_found"),
    [
        (ct.L2Consensus(), 3, 3),
        (ct.RobustConsensus(), 3, 3),
        (ct.L2Consensus(5), 3, 5),
        (ct.MCLA(8), 3, None),  # it may leave clusters empty
        (ct.L2Consensus(8), None, 8),
        (ct.OneHotKMeans(2, random_state=5), 2, 2),
    ],
)
def test_what_a_consensus_function_was_given_is_kept(blobs, function, n_clusters, n_found):
    """K and the seed are those of the clusterer only if those of the function are None."""
    before = function.get_params()
    est = ct.ConsensusClusterer(n_clusters, consensus=function, **RUNS).fit(blobs[0])
    assert est.n_clusters_ == est.consensus_.n_clusters_
    assert est.n_clusters_ == n_found or n_found is None
    assert est.consensus_.n_clusters == (function.n_clusters or n_clusters)
    seed = function.random_state
    assert est.consensus_.random_state == seed if seed else est.consensus_.random_state is not None
    assert function.get_params() == before and not hasattr(function, "labels_")


def test_score_is_the_agreement_of_the_runs_with_the_prediction(blobs):
    """It is the mean adjusted Rand index of the labels of new rows with those of each run."""
    X, _ = blobs
    est = ct.ConsensusClusterer(3, **RUNS).fit(X[::2])
    labels = est.predict(X[1::2])
    agreement = [adjusted_rand_score(run, labels) for run in est.ensemble_.predict(X[1::2]).T]
    assert est.score(X[1::2]) == pytest.approx(np.mean(agreement))
    assert est.score(X[::2]) == pytest.approx(est.consensus_.partition_agreement_.mean())


def test_indices_describe_the_clusters_on_the_scaled_columns(blobs):
    """The indices of scikit-learn are known for the labels and for each K, and are shown.

    Rows of weight 0 have a label, and so an index, but no place in the choice of K.
    """
    X = blobs[0] * np.r_[1, 1000, np.ones(6)]
    est = ct.ConsensusClusterer(n_partitions=12, standardize=True, random_state=0).fit(X)
    Z = StandardScaler().fit_transform(X)
    score = silhouette_score(Z, est.labels_)
    assert est.feature_indices_["silhouette"] == pytest.approx(score)
    choice = est.k_choice_
    assert choice.silhouette[choice.ks == est.n_clusters_] == pytest.approx([score], abs=0.1)
    assert f"silhouette {score:.3g}" in est.summary()
    assert not hasattr(est.consensus_, "_features") or est.consensus_._features is None
    est.set_params(standardize=False).fit(Z, sample_weight=np.arange(len(Z)) % 4 > 0)
    assert np.isfinite(est.k_choice_.silhouette).all()
    score = silhouette_score(Z, est.labels_)
    assert est.feature_indices_["silhouette"] == pytest.approx(score)


def test_rows_and_columns_are_drawn_by_weight(blobs):
    """Weights for drawing reach the runs; without samples they are refused."""
    X = blobs[0]
    est = ct.ConsensusClusterer(3, n_partitions=8, ensemble="kmeans", random_state=0)
    with pytest.raises(InvalidParameterError, match="draw no subspace"):
        est.fit(X, subspace_weight=np.ones(8))
    est.set_params(subspace=0.5, subsample=0.5)
    odds = np.where(np.arange(len(X)) < 65, 4.0, 1.0)
    est.fit(X, subspace_weight=[1, 1, 1, 1, 0, 0, 0, 0], subsample_weight=odds)
    assert all(member.features.max() < 4 for member in est.ensemble_.members)
    drawn = (est.ensemble_.labels >= 0).sum(axis=1)
    assert drawn[:65].mean() > 2.5 * drawn[65:].mean()


def test_distances_give_the_clusters_of_the_features(blobs, tmp_path):
    """Euclidean distances of all pairs are as good as the features, also for new rows."""
    X, y = blobs
    fitted, new = X[:100], X[100:]
    est = ct.ConsensusClusterer(3, n_partitions=8, metric="precomputed", random_state=0)
    D = pairwise_distances(fitted)
    est.fit(D)
    assert adjusted_rand_score(y[:100], est.labels_) > 0.9
    assert (est.predict(D) == est.labels_).all()
    labels = est.predict(pairwise_distances(new, fitted))
    assert adjusted_rand_score(y[100:], labels) > 0.9
    np.fill_diagonal(D, 0)
    silhouette = silhouette_score(D, est.labels_, metric="precomputed")
    assert est.feature_indices_["silhouette"] == pytest.approx(silhouette)
    ct.save_model(est, tmp_path / "model.coterie")
    loaded = ct.load_model(tmp_path / "model.coterie")
    np.testing.assert_array_equal(loaded.predict(D), est.labels_)
    weight = np.arange(100) % 5 > 0  # rows of weight 0 are no landmarks
    assert weight[est.fit(D, sample_weight=weight)._scaling.landmarks].all()


def test_unusable_metrics_are_refused(blobs):
    """Features are no distances, distances are not scaled, other metrics are unknown."""
    X = blobs[0]
    est = ct.ConsensusClusterer(3, metric="precomputed")
    with pytest.raises(InvalidParameterError, match=r"X has shape \(130, 8\)"):
        est.fit(X)
    with pytest.raises(InvalidParameterError, match=r"spatial\.distance\.squareform\(X\)"):
        est.fit(pdist(X))
    with pytest.raises(InvalidParameterError, match="standardize before computing"):
        est.set_params(standardize=True).fit(pairwise_distances(X))
    with pytest.raises(InvalidParameterError, match="metric='cosine'"):
        est.set_params(metric="cosine").fit(X)


def test_a_note_names_columns_of_very_different_spread(blobs):
    """Unscaled columns of different units give a note in the attribute and in the summary."""
    X = blobs[0] * np.array([1, 1, 1, 1000, 1, 1, 1, 1])
    settings = {"n_clusters": 3, "n_partitions": 4, "ensemble": "kmeans", "random_state": 0}
    names = [f"x{j}" for j in range(8)]
    est = ct.ConsensusClusterer(**settings).fit(pd.DataFrame(X, columns=names))
    (note,) = est.notes_
    assert note.startswith("column 'x3' varies ") and "set standardize=True" in note
    assert f"note        {note}" in est.summary().splitlines()
    outlier = np.vstack([blobs[0], 1e4 * np.eye(8)[:1]])
    weights = np.append(np.ones(len(blobs[0])), 0)  # rows of weight 0 do not count
    assert ct.ConsensusClusterer(**settings).fit(outlier, sample_weight=weights).notes_ == ()
    D = pairwise_distances(X)
    for other, rows in (({"standardize": True}, X), ({"metric": "precomputed"}, D)):
        assert ct.ConsensusClusterer(**settings, **other).fit(rows).notes_ == ()
