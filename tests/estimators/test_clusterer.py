"""ConsensusClusterer and MultiViewClusterer."""

import numpy as np
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn.cluster import AgglomerativeClustering, MiniBatchKMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import coterie as ct
from coterie.errors import InvalidParameterError


# The checks cluster noise: camps may be equally large, and the relaxation may not converge. Both
# give warnings, which do not matter here.
@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([ct.ConsensusClusterer(n_clusters=3, n_partitions=3)])
def test_consensus_clusterer_passes_scikit_learns_checks(estimator, check):
    """All of scikit-learn's estimator checks pass."""
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    """Three blobs in eight dimensions."""
    return make_blobs([60, 40, 30], centers=3 * np.eye(3, 8) - 3 * np.eye(3, 8, 5), random_state=0)


@pytest.mark.parametrize(
    "ensemble", ["kmeans", "diverse", "subspaces", "subsample", "scalings", ("kmeans", "diverse")]
)
def test_every_strategy_finds_clear_clusters_and_predicts(blobs, ensemble):
    """Clear clusters are found by every kind of ensemble, and new points join them."""
    X, y = blobs
    est = ct.ConsensusClusterer(3, n_partitions=8, ensemble=ensemble, random_state=0).fit(X)
    assert ct.clustering_accuracy(y, est.labels_) > 0.95
    assert ct.clustering_accuracy(y, est.predict(X + 0.01)) > 0.95
    if ensemble == "kmeans":
        assert (est.predict(X) == est.labels_).all()


def test_any_clusterer_can_be_the_base(blobs):
    """A scikit-learn clusterer makes the runs; without its predict there is no predict."""
    X, y = blobs
    est = ct.ConsensusClusterer(
        3, n_partitions=4, ensemble=MiniBatchKMeans(3, n_init=1), random_state=0
    )
    assert ct.clustering_accuracy(y, est.fit(X).labels_) > 0.95 and hasattr(est, "predict")
    linkage = ct.ConsensusClusterer(3, n_partitions=2, ensemble=AgglomerativeClustering(3)).fit(X)
    assert not hasattr(linkage, "predict")


def test_a_consensus_function_may_be_named(blobs):
    """consensus= takes a key of the registry; K and seed are set."""
    X, y = blobs
    est = ct.ConsensusClusterer(3, n_partitions=8, consensus="l2", random_state=0).fit(X)
    assert isinstance(est.consensus_, ct.L2Consensus) and est.consensus_.n_clusters == 3
    assert est.consensus_.random_state is not None
    assert ct.clustering_accuracy(y, est.labels_) > 0.95 and est.consensus == "l2"
    several = ct.MultiViewClusterer(3, n_partitions=4, consensus="median", random_state=0)
    several.fit([X[:, :4], X[:, 4:]])
    assert several.consensus_.refine is True and several.consensus_.relaxation == "l2"
    with pytest.raises(InvalidParameterError, match=r"'cpsa' is not .*mean 'cspa'"):
        ct.ConsensusClusterer(3, n_partitions=2, consensus="cpsa").fit(X)


def test_one_seed_fixes_everything(blobs):
    """The same seed gives the same labels for any number of jobs."""
    with parallel_config(backend="threading"):
        a, b = (
            ct.ConsensusClusterer(3, n_partitions=6, n_jobs=jobs, random_state=7).fit_predict(
                blobs[0]
            )
            for jobs in (1, 2)
        )
    assert (a == b).all()


def test_it_works_in_a_pipeline():
    """It can be the last step of a scikit-learn pipeline."""
    X, y = load_iris(return_X_y=True)
    pipe = make_pipeline(
        StandardScaler(), ct.ConsensusClusterer(3, n_partitions=10, random_state=0)
    )
    assert ct.clustering_accuracy(y, pipe.fit_predict(X)) > 0.75


def test_fitted_clusterers_can_be_saved(blobs, tmp_path):
    """A saved and loaded clusterer gives the same predictions."""
    X, _ = blobs
    one = ct.ConsensusClusterer(3, n_partitions=5, ensemble="scalings", random_state=0).fit(X)
    several = ct.MultiViewClusterer(3, n_partitions=3, random_state=0).fit({"a": X, "b": X[:, :1]})
    ct.save_model(one, tmp_path / "one.coterie")
    ct.save_model(several, tmp_path / "several.coterie")
    assert (ct.load_model(tmp_path / "one.coterie").predict(X) == one.predict(X)).all()
    loaded = ct.load_model(tmp_path / "several.coterie")
    assert (loaded.predict({"a": X, "b": X[:, :1]}) == several.labels_).all()


@pytest.fixture(scope="module")
def views():
    """Two views of three groups, and one that shows something else."""
    rng = np.random.default_rng(0)
    y, other = rng.integers(0, 3, 150), rng.integers(0, 3, 150)
    centres = np.array([[0, 0], [6, 0], [0, 6]])
    return {
        "shape": centres[y] + rng.normal(size=(150, 2)),
        "colour": 100 * centres[y] + rng.normal(0, 120, (150, 2)),
        "weather": centres[other] + rng.normal(size=(150, 2)),
    }, y


def test_views_agree_on_what_they_share(views):
    """Two views out of three decide; the third is reported to disagree."""
    named, y = views
    est = ct.MultiViewClusterer(3, n_partitions=6, random_state=0).fit(named)
    assert ct.clustering_accuracy(y, est.labels_) > 0.95
    assert est.view_names_ == ["shape", "colour", "weather"]
    assert est.view_agreement_["weather"] < 0.1
    assert est.view_agreement_["colour"] > 0.5
    assert est.view_weight_["weather"] == 0 and est.view_weight_["shape"] == 1
    assert (est.predict(named) == est.labels_).all()


def test_views_may_come_as_a_list_and_sparse(views):
    """Views may be a list, and sparse."""
    named, y = views
    listed = ct.MultiViewClusterer(3, n_partitions=6, random_state=0).fit(list(named.values()))
    assert listed.view_names_ == ["view 0", "view 1", "view 2"]
    assert ct.clustering_accuracy(y, listed.labels_) > 0.95
    sparse = [csr_array(named["shape"]), named["colour"]]
    est = ct.MultiViewClusterer(3, n_partitions=6, random_state=0).fit(sparse)
    assert ct.clustering_accuracy(y, est.labels_) > 0.95
    assert (est.predict(sparse) == est.labels_).all()


def test_each_view_may_have_its_own_ensemble(views):
    """A dict has the ensemble of each view; a missing view is refused."""
    named, _ = views
    two = {"shape": named["shape"], "colour": named["colour"]}
    ensembles = {"shape": "kmeans", "colour": "diverse"}
    est = ct.MultiViewClusterer(3, n_partitions=4, ensemble=ensembles, random_state=0).fit(two)
    assert est.ensembles_["colour"].labels.max() > est.ensembles_["shape"].labels.max()
    with pytest.raises(InvalidParameterError, match=r"the views are .*'weather'"):
        ct.MultiViewClusterer(3, ensemble=ensembles, random_state=0).fit(named)


def test_k_of_a_consensus_function_is_set_unless_it_was_chosen():
    """K is that of the clusterer if the consensus function has the default or None."""
    X = ct.load_dataset("iris")[0]
    settings = {"ensemble": "diverse", "n_partitions": 8, "random_state": 0}
    left = ct.ConsensusClusterer(3, consensus=ct.L2Consensus(), **settings).fit(X)
    none = ct.ConsensusClusterer(3, consensus=ct.L2Consensus(None), **settings).fit(X)
    given = ct.ConsensusClusterer(3, consensus=ct.L2Consensus(5), **settings).fit(X)
    assert (left.n_clusters_, none.n_clusters_, given.n_clusters_) == (3, 3, 5)


def test_views_other_than_those_of_the_fit_are_refused():
    """predict needs the views of fit, with the same columns; the message names the view."""
    X = ct.load_dataset("iris")[0]
    est = ct.MultiViewClusterer(3, n_partitions=2, random_state=0).fit(
        {"a": X[:, :2], "b": X[:, 2:]}
    )
    with pytest.raises(InvalidParameterError, match="those of the fit were"):
        est.predict({"a": X[:, :2]})
    with pytest.raises(InvalidParameterError, match="b has 1 columns"):
        est.predict({"a": X[:, :2], "b": X[:, 2:3]})
    with pytest.raises(InvalidParameterError, match="the views are"):
        ct.MultiViewClusterer(3, ensemble={"a": "kmeans", "c": "kmeans"}).fit({"a": X, "b": X})
