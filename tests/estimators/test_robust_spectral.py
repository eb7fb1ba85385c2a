"""RobustSpectral on any similarity."""

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import coterie as ct
from coterie.errors import InvalidParameterError
from coterie.estimators.robust_spectral import normalized_similarity


@pytest.fixture(scope="module")
def blobs():
    """A Gaussian similarity of three blobs, and the blobs."""
    X, y = make_blobs([40, 30, 20], centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    return rbf_kernel(X, gamma=0.2), y


def test_l2_on_a_normalised_similarity_is_normalised_cut(blobs):
    """The paper's lemma: the labels are those of scikit-learn's spectral clustering."""
    S, y = blobs
    ours = ct.RobustSpectral(3, loss="l2", random_state=0).fit(normalized_similarity(S))
    theirs = SpectralClustering(3, affinity="precomputed", random_state=0).fit_predict(S)
    assert ct.clustering_accuracy(theirs, ours.labels_) == 1
    assert ct.clustering_accuracy(y, ours.labels_) == 1


@pytest.mark.parametrize("assign_labels", ["kmeans", "cluster_qr"])
def test_l1_withstands_gross_errors(blobs, assign_labels):
    """Gross errors in a few similarities break the ℓ2 answer and leave the ℓ1 answer right."""
    y = blobs[1]
    S = (y[:, None] == y).astype(float)
    i, j = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    S[i, j] = S[j, i] = 45.0
    robust = ct.RobustSpectral(3, assign_labels=assign_labels, random_state=0, max_iter=2000).fit(S)
    least_squares = ct.RobustSpectral(3, loss="l2", random_state=0).fit(S)
    assert ct.clustering_accuracy(y, robust.labels_) > 0.95
    assert ct.clustering_accuracy(y, least_squares.labels_) < 0.9


def test_co_association_gives_the_papers_method():
    """On a co-association matrix it is RCC without compression."""
    P, _ = ct.planted_partitions([60, 40, 30], 10, 0, 0.2, random_state=0)
    spectral = ct.RobustSpectral(3, random_state=0).fit(ct.coassociation(P))
    paper = ct.RobustConsensus(3, refine="relaxation", partition_weights=None, random_state=0).fit(
        P
    )
    assert ct.clustering_accuracy(paper.labels_, spectral.labels_) == 1
    assert spectral.objective_ == pytest.approx(min(paper.history_["objective"]), rel=0.01)


@pytest.mark.parametrize(
    ("S", "settings", "message"),
    [
        (np.ones((2, 3)), {}, "square"),
        ([[1.0, 0.5], [0.2, 1.0]], {}, r"not symmetric: S\[0, 1\] = 0.5"),
        ([[np.nan, 1.0], [1.0, 1.0]], {}, "NaN"),
        (np.ones(4), {}, "cannot be used"),
        (np.eye(4), {"loss": "l0"}, "loss"),
        (np.eye(4), {"assign_labels": "dice"}, "assign_labels"),
        (np.eye(4), {"n_clusters": 5}, "n_clusters"),
    ],
)
def test_unusable_input_is_refused(S, settings, message):
    with pytest.raises(InvalidParameterError, match=message):
        ct.RobustSpectral(**{"n_clusters": 1} | settings).fit(S)


@pytest.mark.parametrize(("S", "message"), [(np.zeros((2, 2)), "row 0"), (np.zeros(2), "cannot")])
def test_rows_without_similarity_cannot_be_normalised(S, message):
    with pytest.raises(InvalidParameterError, match=message):
        normalized_similarity(S)


def test_too_few_steps_give_a_warning(blobs):
    """Without convergence there is a ConvergenceWarning at the call of fit."""
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        ct.RobustSpectral(3, max_iter=2, random_state=0).fit(blobs[0])
    assert caught[0].filename == __file__
    coarse, fine = (
        ct.RobustSpectral(3, tol=tol, random_state=0).fit(blobs[0]) for tol in (1, 1e-3)
    )
    assert coarse.n_iter_ < fine.n_iter_


def test_verbose_shows_the_steps(blobs, capsys):
    """With verbose the steps are lines of the standard error stream."""
    ct.RobustSpectral(3, random_state=0).fit(blobs[0])
    assert capsys.readouterr() == ("", "")
    ct.RobustSpectral(3, random_state=0, verbose=True).fit(blobs[0])
    assert "coterie: robust relaxation: step 10, objective" in capsys.readouterr().err
