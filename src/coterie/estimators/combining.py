"""The consensus of the runs of a clusterer, and what all clusterers of features share."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, clone

from coterie.consensus.registry import make_consensus
from coterie.consensus.results import ConsensusResults
from coterie.consensus.robust.feature_indices import FeatureSample
from coterie.consensus.robust.robust_consensus import RobustConsensus
from coterie.ensembles.generate import Ensemble, fit_ensemble
from coterie.ensembles.input_checks import check_row_weights
from coterie.labels.encode import as_label_matrix
from coterie.runtime.messages import ignore_label_warnings

__all__ = ["RunsClusterer", "fit_consensus", "rows_with_weight"]


@dataclass(eq=False, repr=False)
class RunsClusterer(ConsensusResults, ClusterMixin, BaseEstimator):
    """Base class of the clusterers that combine runs, with the parameters that they share."""

    n_clusters: int | None = None
    _: KW_ONLY
    n_partitions: int = 32
    ensemble: Any = "mixed"
    consensus: Any = None
    subsample: float | None = None
    subspace: float | None = None
    standardize: bool = False
    n_jobs: int | None = None
    verbose: bool = False
    random_state: Any = None

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the labels of new points, from the labels that every run predicts.

        Parameters
        ----------
        X : new points, as in ``fit``
        """
        P = self._labels_of_runs(X)
        return self.consensus_.predict(P)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the estimated probability of each cluster for new points, (m, K).

        See :meth:`coterie.RobustConsensus.predict_proba`.

        Parameters
        ----------
        X : new points, as in ``fit``
        """
        P = self._labels_of_runs(X)
        return self.consensus_.predict_proba(P)

    @abstractmethod
    def _labels_of_runs(self, X: Any) -> NDArray[np.int32]:
        """Return the labels (m, V) that the runs predict for new points."""

    def _default_consensus(self) -> RobustConsensus:
        """Return the consensus function for ``consensus=None``."""
        return RobustConsensus()

    def _fit_runs(
        self, ensemble: Any, X: Any, rng: np.random.RandomState, sample_weight: Any, **odds: Any
    ) -> Ensemble:
        """Cluster X by the settings of this clusterer; ``odds`` are weights for drawing."""
        return fit_ensemble(
            X,
            self.n_clusters,
            self.n_partitions,
            ensemble=ensemble,
            subsample=self.subsample,
            subspace=self.subspace,
            sample_weight=sample_weight,
            **odds,
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
            random_state=rng,
        )

    def _combine_runs(
        self,
        labels: NDArray[Any],
        names: tuple[str, ...],
        rng: np.random.RandomState,
        sample_weight: Any,
        features: FeatureSample | None = None,
        **constraints: Any,
    ) -> None:
        """Fit the consensus of the runs and set the attributes that come from it."""
        consensus = self._default_consensus() if self.consensus is None else self.consensus
        self.consensus_ = fit_consensus(
            consensus, labels, names, self.n_clusters, rng, sample_weight, features, **constraints
        )
        self.labels_ = self.consensus_.labels_
        self.n_clusters_ = self.consensus_.n_clusters_
        self.confidence_ = self.consensus_.confidence_
        for name in ("k_choice_", "constraints_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if hasattr(self.consensus_, name):
                setattr(self, name, getattr(self.consensus_, name))


def fit_consensus(
    consensus: Any,
    labels: NDArray[Any],
    names: tuple[str, ...],
    n_clusters: int | None,
    rng: np.random.RandomState,
    sample_weight: Any = None,
    features: FeatureSample | None = None,
    **constraints: Any,
) -> Any:
    """Fit a consensus function to partitions (n, V).

    Parameters
    ----------
    consensus : consensus function or key of :mod:`coterie.consensus.registry`
    labels : (n, V)
    names : V names of the partitions
    n_clusters : int or None
    rng : RandomState
    sample_weight : (n,), optional
    features : FeatureSample, optional
        Features of the points, to describe the choice of K.
    **constraints : ``must_link`` and ``cannot_link`` of the consensus function

    Returns
    -------
    The fitted consensus function.
    """
    is_key = isinstance(consensus, str)
    function = make_consensus(consensus, None) if is_key else clone(consensus)
    settings = function.get_params()
    wanted = {"n_clusters": n_clusters, "random_state": rng.randint(2**31 - 1)}
    # replace only what the user did not choose: parameters with their default value
    defaults = inspect.signature(type(function)).parameters
    missing = {
        name: value
        for name, value in wanted.items()
        if name in settings and settings[name] in (None, defaults[name].default)
    }
    with ignore_label_warnings():
        P = as_label_matrix(labels, names=names, allow_unlabelled_rows=True)
        given = {"sample_weight": sample_weight, **constraints}
        # a consensus function of the user may not know these parameters
        given = {name: value for name, value in given.items() if value is not None}
        function.set_params(**missing)._features = features
        function.fit(P, **given)
    del function._features  # it may be large, and is needed only by the fit
    return function


def rows_with_weight(X: Any, sample_weight: Any) -> Any:
    """Return the rows of X (n, p) that have a positive weight; without weights, all rows.

    >>> rows_with_weight(np.array([[1.0], [2.0]]), [0, 3])
    array([[2.]])
    """
    weights = check_row_weights(sample_weight, X.shape[0])
    return X if weights is None or weights.all() else X[weights > 0]
