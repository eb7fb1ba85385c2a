"""Clusterers that start from features: an ensemble of partitions, then their consensus."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
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
from coterie.multiview.view_input import named_views

__all__ = ["MAJORITY_OF_VIEWS", "ConsensusClusterer", "MultiViewClusterer"]

#: Settings of :class:`~coterie.RobustConsensus` by which the runs in several views are combined.
MAJORITY_OF_VIEWS: Mapping[str, Any] = MappingProxyType({"relaxation": "l2", "refine": True})
_MOST_EMBEDDED = 5_000


def _can_predict(self: ConsensusClusterer) -> bool:
    return not hasattr(self, "ensemble_") or self.ensemble_.can_predict


class ConsensusClusterer(ClusterMixin, BaseEstimator):
    """Cluster features by the consensus of many runs.

    X (n, p) is clustered V times by :func:`~coterie.ensembles.making.fit_ensemble`, and a consensus
    function finds the partition the runs agree on. A new point is labelled by every run, then
    by their vote.

    Parameters
    ----------
    n_clusters : int, default=8
    n_partitions : int, default=40
        V.
    ensemble : str, sequence of str, or scikit-learn clusterer, default="kmeans"
        What varies from run to run: a strategy of :func:`~coterie.make_partitions` ("kmeans",
        "diverse", "subspaces", "subsample", "scalings"), several of them in turn, or a
        clusterer to be run with V seeds.
    consensus : consensus function, str or None, default=None
        Cloned; its ``n_clusters`` and ``random_state`` are set if they are None. A text is a key
        of :mod:`coterie.consensus.registry`, None is :class:`~coterie.RobustConsensus`.
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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_partitions: int = 40,
        ensemble: Any = "kmeans",
        consensus: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_partitions = n_partitions
        self.ensemble = ensemble
        self.consensus = consensus
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 (y is scikit-learn's convention)
        """Cluster the rows of X (n, p), dense or sparse."""
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        rng = check_random_state(self.random_state)
        self.ensemble_ = fit_ensemble(
            X,
            self.n_clusters,
            self.n_partitions,
            **_ensemble_settings(self.ensemble),
            n_jobs=self.n_jobs,
            progress=bool(self.verbose),
            random_state=rng,
        )
        self.consensus_ = _fitted_consensus(self, self.ensemble_.labels, rng)
        self.labels_ = self.consensus_.labels_
        self.n_clusters_ = self.consensus_.n_clusters_
        self.confidence_ = self.consensus_.confidence_
        return self

    @available_if(_can_predict)
    def predict(self, X: Any) -> NDArray[np.int32]:
        """Labels of new points: every run labels them, the consensus decides."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32))
        return self.consensus_.predict(self.ensemble_.predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class MultiViewClusterer(ClusterMixin, BaseEstimator):
    """Cluster things seen in several views: runs in every view, one consensus of all.

    Each view is looked at twice: as it is, and as the spectral embedding of its graph of
    neighbours. Every look is clustered ``n_partitions`` times, and the partition is sought on
    which most runs of all looks agree.

    Parameters
    ----------
    n_clusters : int, default=8
    n_partitions : int, default=10
        Runs in each look at each view.
    ensemble : as in :class:`ConsensusClusterer`, or a mapping from view names to such, \
default="diverse"
    consensus : as in :class:`ConsensusClusterer`; by default the search of \
:class:`~coterie.RobustConsensus` (``refine=True``)
    spectral : {"auto", True, False}, default="auto"
        Whether to look at the spectral embedding as well. "auto": up to 5,000 things, since time
        and memory grow with their square.
    standardize : bool, default=True
        Bring every column of every view to mean 0 and variance 1 first (sparse views are
        scaled without shifting).
    n_jobs, verbose, random_state : as in :class:`ConsensusClusterer`

    Attributes
    ----------
    labels_ : (n,) int
    n_clusters_ : int
    confidence_ : (n,)
    consensus_ : the fitted consensus function
    ensembles_ : dict of str to :class:`~coterie.ensembles.making.Ensemble`
        By view, and by "view (spectral)" for the second look.
    view_names_ : list of str
    view_agreement_ : dict of str to float
        Mean adjusted Rand index of the view's runs with the consensus.
    view_weight_ : dict of str to float
        Share of the view's runs that had a vote.

    Notes
    -----
    **Established.** The consensus of partitions from several views is in the paper's comparison.
    That every view is looked at twice and clustered several times, into how many clusters and on
    which scale, is our choice; so is the search: of runs with diverse numbers of clusters in
    several views the median partition was closer to the classes than relaxations.

    **Limits.** Time is that of the runs and of their consensus; the spectral look takes (n, n)
    matrices. The largest camp of runs decides:
    where every view sees another part of the truth, the camps are the views, and one of them may
    be set aside that should be heard.

    **When to use.** Views of very different kind, width or scale, some of them perhaps of noise; to
    learn which views agree; to label new things.

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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_partitions: int = 10,
        ensemble: Any = "diverse",
        consensus: Any = None,
        spectral: bool | str = "auto",
        standardize: bool = True,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_partitions = n_partitions
        self.ensemble = ensemble
        self.consensus = consensus
        self.spectral = spectral
        self.standardize = standardize
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, views: Any, y: Any = None) -> Self:  # noqa: ARG002 (y is scikit-learn's convention)
        """Cluster n things.

        Parameters
        ----------
        views : list of arrays (n, p_v), or dict of named ones
        y : ignored
        """
        named = named_views(views)
        rng = check_random_state(self.random_state)
        self.view_names_ = list(named)
        self._looks: dict[str, tuple[str, Scaling, SpectralFeatures | None]] = {}
        self.ensembles_: dict[str, Ensemble] = {}
        for name, X in named.items():
            self._look_at(name, X, rng)
        labels = np.hstack([ensemble.labels for ensemble in self.ensembles_.values()])
        self.consensus_ = _fitted_consensus(self, labels, rng, MAJORITY_OF_VIEWS)
        self.labels_ = self.consensus_.labels_
        self.n_clusters_ = self.consensus_.n_clusters_
        self.confidence_ = self.consensus_.confidence_
        agreement = self._by_view(self.consensus_.partition_agreement_)
        self.view_agreement_ = {name: float(a.mean()) for name, a in agreement.items()}
        votes = self._by_view(self.consensus_.partition_weights_)
        self.view_weight_ = {name: float((w > 0).mean()) for name, w in votes.items()}
        return self

    def predict(self, views: Any) -> NDArray[np.int32]:
        """Labels of new things seen in the same views."""
        check_is_fitted(self)
        named = named_views(views)
        if list(named) != self.view_names_:
            raise InvalidParameterError(
                f"the views are {list(named)}, fitted were {self.view_names_}; give the same"
            )
        for name, X in named.items():
            n_features = self.ensembles_[name].n_features
            if X.shape[1] != n_features:
                raise InvalidParameterError(
                    f"{name} has {X.shape[1]} columns, fitted were {n_features}; give the same"
                )
        labels = []
        for key, (name, scaling, look) in self._looks.items():
            Z = scaling.transform(named[name])
            labels.append(self.ensembles_[key].predict(Z if look is None else look.transform(Z)))
        return self.consensus_.predict(np.hstack(labels))

    def _look_at(self, name: str, X: Any, rng: np.random.RandomState) -> None:
        """Cluster one view in every look at it."""
        scaling = standard_and_min_max(X)[0] if self.standardize else Scaling()
        Z = scaling.transform(X)
        self._looks[name] = (name, scaling, None)
        self.ensembles_[name] = self._fit_view(name, Z, rng)
        if _wants_spectral(self.spectral, X.shape[0]):
            look = spectral_features(Z, self.n_clusters, rng)
            key = f"{name} (spectral)"
            self._looks[key] = (name, scaling, look)
            self.ensembles_[key] = self._fit_view(name, look.embedding, rng)

    def _by_view(self, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Values of all partitions, cut into those of each view."""
        ends = np.cumsum([ensemble.labels.shape[1] for ensemble in self.ensembles_.values()])
        parts = dict(zip(self.ensembles_, np.split(values, ends[:-1]), strict=True))
        return {
            name: np.concatenate([parts[key] for key in parts if self._looks[key][0] == name])
            for name in self.view_names_
        }

    def _fit_view(self, name: str, X: Any, rng: np.random.RandomState) -> Ensemble:
        ensemble = self.ensemble
        if isinstance(ensemble, Mapping):
            unknown = [key for key in ensemble if key not in self.view_names_]
            if name not in ensemble or unknown:
                raise InvalidParameterError(
                    f"ensemble has entries for {list(ensemble)}, the views are {self.view_names_}; "
                    "give one for each of them"
                )
            ensemble = ensemble[name]
        return fit_ensemble(
            X,
            self.n_clusters,
            self.n_partitions,
            **_ensemble_settings(ensemble),
            n_jobs=self.n_jobs,
            progress=bool(self.verbose),
            random_state=rng,
        )


def _ensemble_settings(ensemble: Any) -> dict[str, Any]:
    """Keywords of ``fit_ensemble``: a strategy by name, or a clusterer to be run."""
    if hasattr(ensemble, "fit"):
        return {"clusterer": ensemble}
    return {"strategy": ensemble}


def _wants_spectral(spectral: Any, n: int) -> bool:
    if isinstance(spectral, bool | np.bool_):
        return bool(spectral)
    if isinstance(spectral, str) and spectral == "auto":
        return n <= _MOST_EMBEDDED
    raise InvalidParameterError(f"spectral={spectral!r}: it may be 'auto', True or False")


def _fitted_consensus(
    self: Any,
    labels: NDArray[Any],
    rng: np.random.RandomState,
    default: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    if isinstance(self.consensus, str):
        consensus = make_consensus(self.consensus, None)
    elif self.consensus is None:
        consensus = RobustConsensus(**default)
    else:
        consensus = clone(self.consensus)
    settings = consensus.get_params()
    wanted = {"n_clusters": self.n_clusters, "random_state": rng.randint(2**31 - 1)}
    # what was left at its default was not chosen for these data
    defaults = inspect.signature(type(consensus)).parameters
    missing = {
        name: value
        for name, value in wanted.items()
        if name in settings and settings[name] in (None, defaults[name].default)
    }
    return consensus.set_params(**missing).fit(labels)
