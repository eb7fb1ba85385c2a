"""MultiViewClusterer: several views clustered by the consensus of runs in every view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from coterie.arrays import AnyArray
from coterie.consensus.robust import RobustConsensus
from coterie.ensembles.generate import Ensemble
from coterie.ensembles.input_checks import check_row_weights, names_of_columns
from coterie.ensembles.scalings import Scaling, notes_on_units
from coterie.errors import InvalidParameterError
from coterie.estimators.clusterer import (
    RunsClusterer,
    fit_to_runs,
    rows_with_weight,
)
from coterie.labels.encode import row_index_of
from coterie.multiview.view_input import check_same_views, named_views, view_scaling
from coterie.runtime.messages import shows_stages


@dataclass(eq=False, repr=False)
class MultiViewClusterer(RunsClusterer):
    """Clusterer of several views by the consensus of runs in every view.

    Each view is clustered ``n_partitions`` times, as :class:`ConsensusClusterer` does, and a
    consensus function combines all runs. Views are never concatenated, so their scales and numbers
    of columns do not matter.

    Parameters
    ----------
    n_clusters : as in :class:`ConsensusClusterer`
    n_partitions : int, default=12
        Number of runs in each view.
    ensemble : as in :class:`ConsensusClusterer`, or dict by view name, default="mixed"
    consensus : as in :class:`ConsensusClusterer`
        None is :class:`~coterie.RobustConsensus` with ``refine="sizes"``.
    subsample, subspace, n_jobs, verbose, random_state
        As in :class:`ConsensusClusterer`.
    standardize : bool, default=False
        Scale every column of every view to mean 0 and variance 1.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, k_choice_, consensus_, shortcuts_, notes_, index_
        As in :class:`ConsensusClusterer`.
    ensembles_ : dict of str to :class:`~coterie.ensembles.generate.Ensemble`
        Fitted runs, by the name of the view.
    view_names_ : list of str
    view_agreement_, view_weight_ : dict of str to float
        Mean adjusted Rand index of the view's runs with the consensus, and the share of them with
        positive weight; 0 if no run labels a row.

    Notes
    -----
    **Established.** The paper of :class:`RobustConsensus` compares the consensus of partitions from
    several views. The kinds of runs, the scaling and the consensus function are our choices.

    **Limits.** Only the largest camp of runs votes: if each view shows a different part of the
    structure, useful views get no weight. The rule that chooses between search and linkage was made
    on four sets of images and digits.

    **When to use.** For views of very different kind, width or scale, some of which may be noise;
    to see which views agree; to label new points.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie import MultiViewClusterer
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 30)
    >>> size, colour = (y[:, None] + rng.normal(0, 0.1, (60, 1)) for _ in range(2))
    >>> noise = rng.normal(size=(60, 2))
    >>> est = MultiViewClusterer(2, n_partitions=4, random_state=0)
    >>> est = est.fit({"size": size, "colour": colour, "noise": noise})
    >>> est.view_agreement_["size"] > est.view_agreement_["noise"]
    True
    """

    _: KW_ONLY
    n_partitions: int = 12

    @shows_stages
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 (y is scikit-learn's convention)
        sample_weight: Any = None,
    ) -> Self:
        """Cluster n points.

        Parameters
        ----------
        X : list of arrays (n, p_v), or dict of named ones
            The views, dense or sparse; row i is the same point in every view.
        y : ignored
        sample_weight : (n,) numbers, optional
            As in :meth:`ConsensusClusterer.fit`.
        """
        index, named = row_index_of(X), named_views(X)
        rng = check_random_state(self.random_state)
        ensembles: Mapping[str, Any] = dict.fromkeys(named, self.ensemble)
        if isinstance(self.ensemble, Mapping):
            ensembles = self.ensemble
            if set(ensembles) != set(named):
                raise InvalidParameterError(
                    f"ensemble has entries for {list(ensembles)}, but the views are {list(named)}; "
                    "give one entry per view"
                )
        weights = check_row_weights(sample_weight, next(iter(named.values())).shape[0])
        scalings: dict[str, Scaling] = {}
        fitted: dict[str, Ensemble] = {}
        notes: list[str] = []
        given = X.values() if isinstance(X, Mapping) else X
        for (name, view), table in zip(named.items(), given, strict=True):
            used = rows_with_weight(view, weights)
            scalings[name] = view_scaling(used, bool(self.standardize), name)
            if not self.standardize:
                notes += notes_on_units(used, names_of_columns(table), f"{name}: ")
        for name, view in named.items():
            Z = scalings[name].transform(view)
            fitted[name] = self._fit_runs(
                ensembles[name], Z, self.n_clusters, self.n_partitions, rng, sample_weight
            )
        P = np.hstack([runs.labels for runs in fitted.values()])
        names = tuple(f"{view}: {run}" for view, runs in fitted.items() for run in runs.names)
        function = self._consensus_function(RobustConsensus(refine="sizes"), self.n_clusters, rng)
        self._keep_consensus(fit_to_runs(function, P, names, sample_weight))
        # set together, so that a fit that fails does not change an earlier fit
        self._scalings, self.ensembles_, self.index_ = scalings, fitted, index
        self.view_names_, self.notes_ = list(named), tuple(notes)
        shortcuts = (shortcut for runs in fitted.values() for shortcut in runs.shortcuts)
        self.shortcuts_ = tuple(dict.fromkeys(shortcuts))
        # the consensus leaves out partitions without labels
        empty = set(self.consensus_._vocabulary.empty)
        of_view = [name for name, runs in fitted.items() for _ in runs.names]
        labelled = np.array([view for v, view in enumerate(of_view) if v not in empty])

        def means(values: AnyArray) -> dict[str, float]:
            own = {name: values[labelled == name] for name in fitted}
            return {name: float(each.mean()) if len(each) else 0.0 for name, each in own.items()}

        self.view_agreement_ = means(self.consensus_.partition_agreement_)
        self.view_weight_ = means(self.consensus_.partition_weights_ > 0)
        return self

    def _labels_of_runs(self, X: Any) -> AnyArray:
        check_is_fitted(self)
        named = named_views(X)
        n_columns = {name: runs.n_features for name, runs in self.ensembles_.items()}
        check_same_views(named, self.view_names_, n_columns)
        return np.hstack(
            [
                self.ensembles_[name].predict(self._scalings[name].transform(view))
                for name, view in named.items()
            ]
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a list or a dict of tables
        return tags
