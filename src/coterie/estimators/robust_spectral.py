"""RobustSpectral: the ℓ1 and ℓ2 relaxations for any symmetric similarity matrix."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from coterie.arrays import Floats
from coterie.counts.coassociation import TupleCoassociation
from coterie.ensembles.input_checks import check_choice, check_whole
from coterie.errors import InvalidParameterError
from coterie.relaxation.admm import robust_factor
from coterie.relaxation.spectral import dense_eigenpairs, round_by_kmeans, round_by_pivoted_qr
from coterie.runtime.messages import shows_stages, warn_user

_CLIPPED_FROM = 0.99  # quantile of |S|


@dataclass(eq=False, repr=False)
class RobustSpectral(ClusterMixin, BaseEstimator):
    """Spectral clustering of a similarity matrix S (n, n) with an ℓ1 or ℓ2 loss.

        min ‖S − H D Hᵀ‖   s.t.  HᵀH = I_K, D ≥ 0 diagonal

    With ``loss="l2"`` on :func:`normalized_similarity` of S this is the normalised cut. With
    ``loss="l1"`` a few wrong similarities have little influence, however large they are. The start
    is the ℓ2 solution of S with the largest 1 % of the entries clipped.

    Parameters
    ----------
    n_clusters : int, default=None
        Number of clusters, K. It must be given.
    loss : {"l1", "l2"}, default="l1"
    assign_labels : {"kmeans", "cluster_qr"}, default="kmeans"
        How labels are found from the rows of H√D.
    max_iter : int, default=300
    tol : float, default=1e-3
        Largest number of steps and relative residual of the ℓ1 solver.
    random_state, verbose : as in :class:`~coterie.RobustConsensus`

    Attributes
    ----------
    labels_ : (n,) int
    embedding_ : (n, K)
        Rows of H√D.
    objective_ : float
        The loss at the solution: ‖S − H D Hᵀ‖₁ or ‖S − H D Hᵀ‖²_F.
    n_iter_ : int
        Steps of the ℓ1 solver; 1 for ``loss="l2"``, which is solved directly.
    history_ : dict of lists
    n_features_in_, feature_names_in_ : int, (n,)
        The number of points, and the names of the columns if all are texts.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie import RobustSpectral
    >>> S = np.kron(np.eye(2), np.ones((3, 3)))
    >>> RobustSpectral(2, random_state=0).fit(S).labels_
    array([0, 0, 0, 1, 1, 1], dtype=int32)
    """

    n_clusters: int | None = None
    _: KW_ONLY
    loss: str = "l1"
    assign_labels: str = "kmeans"
    max_iter: int = 300
    tol: float = 1e-3
    random_state: Any = None
    verbose: bool = False

    @shows_stages
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 (y is scikit-learn's convention)
        """Cluster n points by their similarities.

        Parameters
        ----------
        X : (n, n) array-like
            Symmetric similarities S, dense or sparse.
        y : ignored
        """
        try:
            S = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        except ValueError as error:
            raise InvalidParameterError(f"the similarity cannot be used: {error}") from error
        S = _symmetric(S)
        check_choice("loss", self.loss, ("l1", "l2"))
        check_choice("assign_labels", self.assign_labels, ("kmeans", "cluster_qr"))
        K = check_whole("n_clusters", self.n_clusters, most=len(S))
        if self.loss == "l1":
            largest = np.quantile(np.abs(S), _CLIPPED_FROM)
            start = _leading_factor(np.clip(S, -largest, largest), K)
            M = TupleCoassociation(S, 1.0, np.ones(len(S)))  # scale 1, one point per row
            result = robust_factor(M, start, max_iter=self.max_iter, tol=self.tol)
            if not result.converged:
                warn_user(
                    f"RobustSpectral did not reach tol={self.tol} in {result.n_iter} steps; "
                    "raise max_iter or tol",
                    ConvergenceWarning,
                )
            self.embedding_, self.objective_ = result.factor, result.objective
            self.n_iter_, self.history_ = result.n_iter, result.history
        else:
            self.embedding_ = _leading_factor(S, K)
            self.objective_ = float(((S - self.embedding_ @ self.embedding_.T) ** 2).sum())
            self.n_iter_, self.history_ = 1, {"objective": [self.objective_]}
        if self.assign_labels == "cluster_qr":
            labels = round_by_pivoted_qr(self.embedding_)
        else:
            rng = check_random_state(self.random_state)
            labels = round_by_kmeans(self.embedding_, np.ones(len(S)), K, rng)
        self.labels_ = labels.astype(np.int32)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.sparse = True
        return tags


def normalized_similarity(S: Any) -> Floats:
    """Return D^−½ S D^−½, where D is the diagonal matrix of the row sums of S.

    >>> normalized_similarity([[2.0, 0.0], [0.0, 4.0]])
    array([[1., 0.],
           [0., 1.]])
    """
    try:
        S = check_array(S, accept_sparse="csr", dtype=np.float64, input_name="S")
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"the similarity cannot be used: {error}") from error
    S = _symmetric(S)
    degree = S.sum(axis=1)
    if (degree <= 0).any():
        row = int(np.argmax(degree <= 0))
        raise InvalidParameterError(
            f"row {row} of the similarity has sum {degree[row]:g}; every row sum must be positive"
        )
    root = 1.0 / np.sqrt(degree)
    return root[:, None] * S * root


def _leading_factor(S: Floats, k: int) -> Floats:
    """Return H√D of the k largest eigenpairs, with negative eigenvalues set to zero."""
    vectors, values = dense_eigenpairs(S, k)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _symmetric(S: Any) -> Floats:
    """Return a similarity as a dense array; refuse one that is not square or not symmetric."""
    dense: Floats = S.toarray() if hasattr(S, "toarray") else S
    if dense.shape[0] != dense.shape[1]:
        raise InvalidParameterError(f"the similarity has shape {dense.shape}; it must be square")
    gap = np.abs(dense - dense.T)
    # relative to the largest entry, so that rounding errors are accepted
    if gap.max() > 1e-8 * max(1.0, float(np.abs(dense).max())):
        row, column = np.unravel_index(np.argmax(gap), gap.shape)
        raise InvalidParameterError(
            f"the similarity is not symmetric: S[{row}, {column}] = {dense[row, column]:g} but "
            f"S[{column}, {row}] = {dense[column, row]:g}; use (S + S.T) / 2"
        )
    return dense
