"""Clusterers of features: they make an ensemble of partitions and compute its consensus."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie.consensus.registry import make_consensus
from coterie.consensus.robust.estimator import RobustConsensus
from coterie.ensembles.making import Ensemble, fit_ensemble
from coterie.ensembles.scalings import Scaling, standard_and_min_max
from coterie.errors import InvalidParameterError
from coterie.multiview.spectral_views import SpectralFeatures, spectral_features
from coterie.multiview.view_input import check_same_views, named_views
from coterie.runtime.user_warnings import ignore_label_warnings

__all__ = ["MAJORITY_OF_VIEWS", "ConsensusClusterer", "MultiViewClusterer"]

#: Settings of the :class:`~coterie.RobustConsensus` that combines runs in several views.
MAJORITY_OF_VIEWS: Mapping[str, Any] = MappingProxyType(
    {"relaxation": "l2", "refine": True, "threshold": "calibrated"}
)
_MOST_EMBEDDED = 5_000  # the spectral embedding needs (n, n) matrices


def _can_predict(self: ConsensusClusterer) -> bool:
    return not hasattr(self, "ensemble_") or self.ensemble_.can_predict


@dataclass(eq=False, repr=False)
class ConsensusClusterer(ClusterMixin, BaseEstimator):
    """Clusterer of features by the consensus of many runs.

    X (n, p) is clustered V times by :func:`~coterie.ensembles.making.fit_ensemble`, and a consensus
    function combines the runs. For a new point, every run predicts a label, and the consensus
    function combines these labels.

    Parameters
    ----------
    n_clusters : int, default=8
    n_partitions : int, default=40
        V.
    ensemble : str, sequence of str, or scikit-learn clusterer, default="kmeans"
        How the runs are made: by a strategy of :func:`~coterie.make_partitions` ("kmeans",
        "diverse", "subspaces", "subsample", "scalings"), by several strategies in turn, or by a
        clusterer with V different seeds.
    consensus : consensus function, str or None, default=None
        A string is a key of :mod:`coterie.consensus.registry`; None is
        :class:`~coterie.RobustConsensus`. A consensus function is cloned. Its ``n_clusters`` and
        ``random_state`` are replaced if they have their default values.
    n_jobs : int or None, default=None
    verbose : bool, default=False
        Show progress on the standard error stream.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_ : (n,) int
    n_clusters_ : int
    confidence_ : (n,) in [0, 1]
    consensus_ : the fitted consensus function
    ensemble_ : :class:`~coterie.ensembles.making.Ensemble`
        The fitted runs.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from coterie import ConsensusClusterer
    >>> X = np.array([[0.0], [0.2], [0.1], [5.0], [5.1]])
    >>> est = ConsensusClusterer(2, n_partitions=5, random_state=0).fit(X)
    >>> est.labels_, est.predict([[4.9]])
    (array([0, 0, 0, 1, 1], dtype=int32), array([1], dtype=int32))
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_partitions: int = 40
    ensemble: Any = "kmeans"
    consensus: Any = None
    n_jobs: int | None = None
    verbose: bool = False
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 (y is scikit-learn's convention)
        """Cluster the rows of X (n, p), dense or sparse."""
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        rng = check_random_state(self.random_state)
        self.ensemble_ = _fit_ensemble(self, self.ensemble, X, rng)
        _fit_consensus(self, self.ensemble_.labels, rng, {})
        return self

    @available_if(_can_predict)
    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the labels of new points, from the labels that every run predicts."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32))
        return self.consensus_.predict(self.ensemble_.predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False)
class MultiViewClusterer(ClusterMixin, BaseEstimator):
    """Clusterer of several views by the consensus of runs in every view.

    Each view is clustered ``n_partitions`` times by its features and ``n_partitions`` times by the
    spectral embedding of its neighbour graph. A consensus function combines all runs.

    Parameters
    ----------
    n_clusters : int, default=8
    n_partitions : int, default=10
        Number of runs for each kind of features of each view.
    ensemble : as in :class:`ConsensusClusterer`, or dict by view name, default="diverse"
    consensus : as in :class:`ConsensusClusterer`
        None is :class:`~coterie.RobustConsensus` with ``relaxation="l2", refine=True,
        threshold="calibrated"``.
    spectral : {"auto", True, False}, default="auto"
        Whether to use the spectral embedding too. "auto" does so up to 5,000 points, because time
        and memory grow with n².
    standardize : bool, default=True
        Scale every column to mean 0 and variance 1; columns of sparse views only to variance 1.
    n_jobs, verbose, random_state : as in :class:`ConsensusClusterer`

    Attributes
    ----------
    labels_ : (n,) int
    n_clusters_ : int
    confidence_ : (n,)
    consensus_ : the fitted consensus function
    ensembles_ : dict of str to :class:`~coterie.ensembles.making.Ensemble`
        Fitted runs, by the name of the view, and by "name (spectral)" for its embedding.
    view_names_ : list of str
    view_agreement_ : dict of str to float
        Mean adjusted Rand index of the view's runs with the consensus.
    view_weight_ : dict of str to float
        Share of the view's runs with positive weight.

    Notes
    -----
    **Established.** The paper compares the consensus of partitions from several views. Our choices:
    the spectral embedding, the number of runs and of their clusters, the scaling, and the search.
    If runs in several views have different numbers of clusters, the median partition was closer to
    the classes than relaxations.

    **Limits.** The spectral embedding needs (n, n) matrices. Only the largest camp of runs votes:
    if each view shows a different part of the structure, every view is a camp, and useful views
    get no weight.

    **When to use.** For views of very different kind, width or scale, some of which may be noise;
    to see which views agree; to label new points.

    References
    ----------
    D. Kong, M. Lu, K. Shmakov and J. Yang. Robust consensus clustering and its applications for
    advertising forecasting. arXiv:2301.00717, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie import MultiViewClusterer
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 30)
    >>> size, colour = (y[:, None] + rng.normal(0, 0.1, (60, 1)) for _ in range(2))
    >>> noise = rng.normal(size=(60, 2))
    >>> est = MultiViewClusterer(2, n_partitions=5, random_state=0)
    >>> est = est.fit({"size": size, "colour": colour, "noise": noise})
    >>> est.view_agreement_["size"] > est.view_agreement_["noise"]
    True
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_partitions: int = 10
    ensemble: Any = "diverse"
    consensus: Any = None
    spectral: bool | str = "auto"
    standardize: bool = True
    n_jobs: int | None = None
    verbose: bool = False
    random_state: Any = None

    def fit(self, views: Any, y: Any = None) -> Self:  # noqa: ARG002 (y is scikit-learn's convention)
        """Cluster n points.

        Parameters
        ----------
        views : list of arrays (n, p_v), or dict of named ones
        y : ignored
        """
        named = named_views(views)
        rng = check_random_state(self.random_state)
        self.view_names_ = list(named)
        # for each key of ensembles_: view name, scaling, spectral embedding
        self._view_features: dict[str, tuple[str, Scaling, SpectralFeatures | None]] = {}
        self.ensembles_: dict[str, Ensemble] = {}
        for name, X in named.items():
            self._cluster_view(name, X, rng)
        labels = np.hstack([ensemble.labels for ensemble in self.ensembles_.values()])
        _fit_consensus(self, labels, rng, MAJORITY_OF_VIEWS)
        agreement = self._by_view(self.consensus_.partition_agreement_)
        self.view_agreement_ = {name: float(a.mean()) for name, a in agreement.items()}
        votes = self._by_view(self.consensus_.partition_weights_)
        self.view_weight_ = {name: float((w > 0).mean()) for name, w in votes.items()}
        return self

    def predict(self, views: Any) -> NDArray[np.int32]:
        """Return the labels of new points from the same views."""
        check_is_fitted(self)
        named = named_views(views)
        n_columns = {name: self.ensembles_[name].n_features for name in self.view_names_}
        check_same_views(named, self.view_names_, n_columns)
        labels = []
        for key, (name, scaling, spectral) in self._view_features.items():
            Z = scaling.transform(named[name])
            labels.append(self.ensembles_[key].predict(spectral.transform(Z) if spectral else Z))
        return self.consensus_.predict(np.hstack(labels))

    def _cluster_view(self, name: str, X: Any, rng: np.random.RandomState) -> None:
        """Cluster one view by its features and by its spectral embedding."""
        scaling = standard_and_min_max(X)[0] if self.standardize else Scaling()
        Z = scaling.transform(X)
        self._view_features[name] = (name, scaling, None)
        self.ensembles_[name] = self._fit_view(name, Z, rng)
        if _wants_spectral(self.spectral, X.shape[0]):
            spectral = spectral_features(Z, self.n_clusters, rng)
            key = f"{name} (spectral)"
            self._view_features[key] = (name, scaling, spectral)
            self.ensembles_[key] = self._fit_view(name, spectral.embedding, rng)

    def _by_view(self, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Split values of all partitions (V,) by view."""
        ends = np.cumsum([ensemble.labels.shape[1] for ensemble in self.ensembles_.values()])
        parts = dict(zip(self.ensembles_, np.split(values, ends[:-1]), strict=True))
        return {
            name: np.concatenate(
                [parts[key] for key in parts if self._view_features[key][0] == name]
            )
            for name in self.view_names_
        }

    def _fit_view(self, name: str, X: Any, rng: np.random.RandomState) -> Ensemble:
        ensemble = self.ensemble
        if isinstance(ensemble, Mapping):
            unknown = [key for key in ensemble if key not in self.view_names_]
            if name not in ensemble or unknown:
                raise InvalidParameterError(
                    f"ensemble has entries for {list(ensemble)}, but the views are "
                    f"{self.view_names_}; give one entry per view"
                )
            ensemble = ensemble[name]
        return _fit_ensemble(self, ensemble, X, rng)


def _fit_ensemble(self: Any, ensemble: Any, X: Any, rng: np.random.RandomState) -> Ensemble:
    """Fit the runs of an estimator; ``ensemble`` is a strategy or a clusterer."""
    return fit_ensemble(
        X,
        self.n_clusters,
        self.n_partitions,
        **{"clusterer" if hasattr(ensemble, "fit") else "strategy": ensemble},
        n_jobs=self.n_jobs,
        progress=bool(self.verbose),
        random_state=rng,
    )


def _wants_spectral(spectral: Any, n: int) -> bool:
    if isinstance(spectral, bool | np.bool_):
        return bool(spectral)
    if isinstance(spectral, str) and spectral == "auto":
        return n <= _MOST_EMBEDDED
    raise InvalidParameterError(f"spectral={spectral!r}: give 'auto', True or False")


def _fit_consensus(
    self: Any, labels: NDArray[Any], rng: np.random.RandomState, default: Mapping[str, Any]
) -> None:
    """Fit the consensus of the runs; ``default`` are the settings for ``consensus=None``."""
    if isinstance(self.consensus, str):
        consensus = make_consensus(self.consensus, None)
    elif self.consensus is None:
        consensus = RobustConsensus(**default)
    else:
        consensus = clone(self.consensus)
    settings = consensus.get_params()
    wanted = {"n_clusters": self.n_clusters, "random_state": rng.randint(2**31 - 1)}
    # replace only what the user did not choose: parameters with their default value
    defaults = inspect.signature(type(consensus)).parameters
    missing = {
        name: value
        for name, value in wanted.items()
        if name in settings and settings[name] in (None, defaults[name].default)
    }
    with ignore_label_warnings():
        self.consensus_ = consensus.set_params(**missing).fit(labels)
    self.labels_ = self.consensus_.labels_
    self.n_clusters_ = self.consensus_.n_clusters_
    self.confidence_ = self.consensus_.confidence_
