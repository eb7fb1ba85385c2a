"""Clusterers of features by the consensus of many different runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils import ClassifierTags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie.arrays import AnyArray, Floats
from coterie.consensus.choice_of_k import FeatureSample, KChoice, warn_if_weak
from coterie.consensus.registry import make_consensus
from coterie.consensus.results import ConsensusResults, KindTrust, partition_names
from coterie.consensus.robust import RobustConsensus
from coterie.consensus.trust import (
    FEWEST_RUNS,
    MOST_ROWS,
    Evidence,
    compare_kinds,
    shared_errors,
)
from coterie.ensembles.generate import Ensemble, fit_ensemble
from coterie.ensembles.input_checks import (
    check_choice,
    check_finite,
    check_row_weights,
    check_whole,
    refuse_text,
)
from coterie.ensembles.runs import SEVERAL, draw_rows, draws_depend_on
from coterie.ensembles.scalings import (
    DistanceEmbedding,
    Scaling,
    check_distances,
    notes_on_units,
    standard_and_min_max,
    units_differ,
)
from coterie.errors import InvalidParameterError
from coterie.labels.encode import as_label_matrix, row_index_of
from coterie.runtime.messages import ignore_label_warnings, shows_stages

#: Runs of each kind of "auto", and of other ensembles.
_RUNS_OF_KIND, _RUNS = 16, 32
#: What is added to the names of kinds that cluster standardised columns.
_SCALED = ", standardised"
#: Above this number of rows the kinds are compared on a sample.
_MOST_JUDGED = 10_000


@dataclass(eq=False, repr=False)
class RunsClusterer(ConsensusResults, ClusterMixin, BaseEstimator):
    """Base class of the clusterers that combine runs, with the parameters that they share."""

    n_clusters: int | None = None
    _: KW_ONLY
    n_partitions: int | None = None
    ensemble: Any = "mixed"
    consensus: Any = None
    subsample: float | None = None
    subspace: float | None = None
    standardize: bool = False
    n_jobs: int | None = None
    verbose: bool = False
    random_state: Any = None

    def predict(self, X: Any) -> AnyArray:
        """Return the labels of new points, from the labels that every run predicts.

        Parameters
        ----------
        X : new points, as in ``fit``
        """
        P = self._labels_of_runs(X)  # refuses an estimator that is not fitted
        return self.consensus_.predict(P)

    def predict_proba(self, X: Any) -> Floats:
        """Return the estimated probability of each cluster for new points, (m, K).

        See :meth:`coterie.RobustConsensus.predict_proba`.

        Parameters
        ----------
        X : new points, as in ``fit``
        """
        P = self._labels_of_runs(X)
        return self.consensus_.predict_proba(P)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002 (y is scikit-learn's convention)
        """Return how well the runs agree with the predicted labels, at most 1.

        It is :meth:`coterie.RobustConsensus.score` of the labels that each run predicts.

        Parameters
        ----------
        X : points, as in ``fit``
        y : ignored
        """
        P = self._labels_of_runs(X)
        return self.consensus_.score(P)

    @abstractmethod
    def _labels_of_runs(self, X: Any) -> AnyArray:
        """Return the labels (m, V) that the runs predict for new points."""

    def _fit_runs(
        self,
        ensemble: Any,
        X: Any,
        n_clusters: int | None,
        n_partitions: int,
        rng: np.random.RandomState | int,
        sample_weight: Any,
        **odds: Any,
    ) -> Ensemble:
        """Cluster X by the settings of this clusterer; ``odds`` are weights for drawing."""
        return fit_ensemble(
            X,
            n_clusters,
            n_partitions,
            ensemble=ensemble,
            subsample=self.subsample,
            subspace=self.subspace,
            sample_weight=sample_weight,
            **odds,
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
            random_state=rng,
        )

    def _consensus_function(
        self, default: RobustConsensus, n_clusters: int | None, rng: np.random.RandomState
    ) -> Any:
        """Return the consensus function, not fitted: ``default`` unless one is given."""
        if isinstance(self.consensus, str):
            function = make_consensus(self.consensus, None)
        else:
            function = clone(default if self.consensus is None else self.consensus)
        settings = function.get_params()
        wanted = {"n_clusters": n_clusters, "random_state": rng.randint(2**31 - 1)}
        # a number that the user gave to the consensus function stays
        return function.set_params(
            **{k: v for k, v in wanted.items() if settings.get(k, v) is None}
        )

    def _keep_consensus(self, function: Any) -> None:
        """Set the attributes that are those of the fitted consensus function."""
        self.consensus_, self.labels_ = function, function.labels_
        self.n_clusters_, self.confidence_ = function.n_clusters_, function.confidence_
        for name in ("k_choice_", "constraints_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))


def fit_to_runs(
    function: Any,
    P: AnyArray,
    names: Sequence[str],
    sample_weight: Any,
    features: FeatureSample | None = None,
    **links: Any,
) -> Any:
    """Fit a consensus function to the runs P (n, V), and return it."""
    with ignore_label_warnings():
        matrix = as_label_matrix(P, names=names, allow_unlabelled_rows=True)
        # a consensus function of the user may not know these parameters
        given = {"sample_weight": sample_weight, **links}
        function._features = features
        function.fit(matrix, **{k: v for k, v in given.items() if v is not None})
    del function._features  # it may be large, and is needed only by the fit
    return function


@dataclass(eq=False, repr=False)
class ConsensusClusterer(RunsClusterer):
    """Clusterer of features by the consensus of many different runs.

    X (n, p) is clustered many times, by five kinds of runs that fail on different data: cuts of
    graphs and linkage follow clusters of any shape, mixtures follow clusters of different size and
    direction, k-means round ones. Where columns have different units, each kind also clusters the
    standardised columns. Each kind a has answers of its own for every number of clusters K. The
    kind that deserves most trust decides:

        trust_a(K) = (stability_a(K)⁴ + agreement_a(K)²) / 2.

    The stability is the adjusted Rand index (ARI) between the answers of one half of its runs and
    of the other half. The agreement is the mean ARI of its answer with those of the other kinds on
    the same columns, the least alike left out. In one vote of all runs, kinds that fail would
    outvote the others. If K is not given, it is the largest number whose trust is within 1% of the
    best; if no trust reaches 0.5, there is no structure, and K = 1. The same K has the same result
    whether it is given or chosen.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters, K. None: the most trusted number; if ``ensemble`` is not "auto", the
        one that :func:`~coterie.choose_k` recommends for the runs.
    n_partitions : int or None, default=None
        Number of partitions, V. None: 80, which are 16 of each kind of "auto"; with another
        ``ensemble`` 32. If standardised columns are tried, they have as many.
    ensemble : str, scikit-learn clusterer, or sequence of these, default="auto"
        The kinds of runs, as in :func:`~coterie.make_partitions`. Of "auto" the most trusted kind
        decides; with fewer than 4 runs of each kind they vote together, as the runs of other
        ensembles do. "mixed": one spectral run and three mixtures, one of them with diagonal
        covariances. "kmeans" are the runs of the paper, with K clusters each. The label −1 of a
        clusterer is noise: a missing label.
    consensus : consensus function, str or None, default=None
        A string is a key of :mod:`coterie.consensus.registry`; None is
        :class:`~coterie.RobustConsensus`. A consensus function is cloned. A number of clusters and
        a seed of its own are kept; if they are None, they are those of the clusterer.
    subsample, subspace : float in (0, 1] or None, default=None
        The shares of the rows and of the columns that each run uses. Every kind of ``ensemble``
        clusters the same samples of rows.
    standardize : bool, default=False
        Scale every column to mean 0 and variance 1; columns of sparse X only to variance 1. If it
        is False and a column of dense X varies more than three times as much as another one, each
        kind of "auto" clusters both the given and the standardised columns. To cluster only the
        given ones, name the kinds in ``ensemble``.
    metric : {"euclidean", "precomputed"}, default="euclidean"
        "precomputed": X are the distances (n, n) of all pairs of rows. The runs cluster up to 50
        coordinates whose Euclidean distances are near the given ones, or near their roots if these
        are not Euclidean (classical scaling, above 2,000 rows by 2,000 landmarks). ``predict``
        takes distances (m, n) to the fitted rows.
    n_jobs : int or None, default=None
        Number of parallel runs, as in joblib. It does not change the result.
    random_state, verbose : as in :class:`~coterie.RobustConsensus`

    Attributes
    ----------
    labels_ : (n,) int
        Cluster 0 is the largest. −1 for rows that every run classified as noise.
    n_clusters_, k_choice_, constraints_, index_
        As in :class:`~coterie.RobustConsensus`.
    confidence_ : (n,) in [0, 1]
        Estimated probability that the label is right. With "auto", the probability 0.05 of errors
        that all runs share becomes 1 − 0.97 √trust in the formula of
        :meth:`RobustConsensus.predict_proba`.
    kinds_ : list of :class:`~coterie.consensus.results.KindTrust`
        Stability, agreement and trust of each kind of "auto", the kind that decides first; empty
        if all runs vote together. Above 1,000 rows they are measured on a sample of 1,000.
    selected_ : dict
        That of the consensus function, if it has one, with the ``kind`` that decides.
    kind_agreement_ : dict of str to float
        Mean adjusted Rand index of the runs of each kind with the consensus.
    feature_indices_ : dict of str to float
        ``silhouette``, ``calinski_harabasz`` and ``davies_bouldin`` of the clusters on the scaled
        columns, as in scikit-learn; above 5,000 rows on a sample of 5,000. nan if there is one
        cluster; of sparse X only the silhouette is known. ``k_choice_`` has them for each K.
    consensus_, ensemble_
        The fitted consensus function and its runs, those of the kind that decides
        (:class:`~coterie.ensembles.generate.Ensemble`).
    shortcuts_, notes_ : tuple of str
        What was done differently because there are many rows; and columns that vary far more than
        others and are not scaled, in words.
    n_features_in_, feature_names_in_ : int, (p,)
        The number of columns, and their names if all are texts.

    Notes
    -----
    **Limits.** Time is linear in n: above some thousand rows the runs are fitted to samples, and
    the other rows are labelled like new rows; ``shortcuts_`` says so. Runs that all fail in the
    same way give a wrong consensus. Clusters much smaller than n/(20 K) points are joined to
    others.

    Examples
    --------
    >>> import numpy as np
    >>> from coterie import ConsensusClusterer
    >>> X = np.array([[0.0], [0.2], [0.1], [5.0], [5.1]])
    >>> est = ConsensusClusterer(2, n_partitions=8, random_state=0).fit(X)
    >>> est.labels_, est.predict([[4.9]])
    (array([0, 0, 0, 1, 1], dtype=int32), array([1], dtype=int32))
    """

    _: KW_ONLY
    ensemble: Any = "auto"
    metric: str = "euclidean"

    @shows_stages
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 (y is scikit-learn's convention)
        sample_weight: Any = None,
        *,
        must_link: Any = None,
        cannot_link: Any = None,
        subsample_weight: Any = None,
        subspace_weight: Any = None,
    ) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : (n, p), dense or sparse; (n, n) distances if ``metric="precomputed"``
        y : ignored
        sample_weight : (n,) numbers, optional
            Number of points that each row represents, by default 1. Rows of weight 0 do not
            influence the fit and are labelled like new rows.
        must_link, cannot_link : (m, 2) row numbers, optional
            As in :meth:`RobustConsensus.fit`. They do not change the runs.
        subsample_weight, subspace_weight : (n,) and (p,) numbers, optional
            How often rows and columns are drawn if runs use samples of them (``subsample``,
            ``subspace``), as in :func:`~coterie.make_partitions`.
        """
        index = row_index_of(X)
        X = self._validated(X, reset=True)
        rng = check_random_state(self.random_state)
        weights = check_row_weights(sample_weight, X.shape[0])
        by_kind = isinstance(self.ensemble, str) and self.ensemble == "auto"
        V, n_kinds = self.n_partitions, len(SEVERAL["auto"])
        if V is None:
            V = n_kinds * _RUNS_OF_KIND if by_kind else _RUNS
        check_whole("n_partitions", V)
        by_kind = by_kind and V >= n_kinds * FEWEST_RUNS

        # the coordinates that runs cluster: standardised columns are tried if their units differ
        used, notes = rows_with_weight(X, weights), []
        scalings: dict[str, Scaling | DistanceEmbedding] = {"": Scaling()}
        if self.metric == "precomputed":
            if self.standardize:
                raise InvalidParameterError(
                    "standardize=True scales columns, but metric='precomputed' has distances; "
                    "standardize before computing them"
                )
            embedding = DistanceEmbedding.fit(X, rng, None if weights is None else weights > 0)
            scalings = {"": embedding}
        elif self.standardize:
            scalings = {"": standard_and_min_max(used)[0]}
        elif by_kind:
            if units_differ(used):
                scalings[_SCALED] = standard_and_min_max(used)[0]
        else:
            notes = notes_on_units(used, getattr(self, "feature_names_in_", None))

        odds = {"subsample_weight": subsample_weight, "subspace_weight": subspace_weight}
        K, k_choice = self.n_clusters, None
        ranked: list[KindTrust] = []
        if by_kind:
            if K is None:  # a number of the consensus function stays
                own = getattr(self.consensus, "n_clusters", None)
                K = int(own) if isinstance(own, Integral) else None
            seed, given = rng.randint(2**31 - 1), (X, scalings, V, weights, odds)
            runs, scaling, k_choice, ranked = self._most_trusted_runs(K, seed, *given)
            if k_choice is not None:
                K = k_choice.best_k
        else:
            (scaling,) = scalings.values()
            Z = scaling.transform(X)
            runs = self._fit_runs(self.ensemble, Z, K, V, rng, sample_weight, **odds)
        has_distances = self.metric == "precomputed"
        features = FeatureSample.draw(X if has_distances else scaling.transform(X), self.metric)
        links = {"must_link": must_link, "cannot_link": cannot_link}
        function = self._consensus_function(RobustConsensus(), K, rng)
        if ranked:
            function._shared_errors = shared_errors(ranked[0].trust)
        fit_to_runs(function, runs.labels, runs.names, sample_weight, features, **links)
        self._keep_consensus(function)
        if k_choice is not None:
            warn_if_weak(k_choice)
            self.k_choice_ = k_choice
        self.feature_indices_ = features.indices(self.labels_[features.rows])
        # set together, so that a fit that fails does not change an earlier fit
        self._scaling, self.ensemble_, self.index_ = scaling, runs, index
        self.shortcuts_, self.notes_, self.kinds_ = runs.shortcuts, tuple(notes), ranked
        self.selected_ = {
            **getattr(self.consensus_, "selected_", {}),
            **({"kind": ranked[0].kind} if ranked else {}),
        }
        # partitions without labels are left out by the consensus
        kind_of = dict(zip(runs.names, runs.kinds, strict=True))
        kinds = [kind_of[name] for name in partition_names(self.consensus_)]
        agreement = self.consensus_.partition_agreement_
        self.kind_agreement_ = {
            kind: float(agreement[[other == kind for other in kinds]].mean())
            for kind in dict.fromkeys(kinds)
        }
        return self

    def _most_trusted_runs(
        self,
        n_clusters: int | None,
        seed: int,
        X: Any,
        scalings: Mapping[str, Scaling | DistanceEmbedding],
        n_partitions: int,
        weights: Floats | None,
        odds: dict[str, Any],
    ) -> tuple[Ensemble, Scaling | DistanceEmbedding, KChoice | None, list[KindTrust]]:
        """Return the runs of the most trusted kind, their scaling, the choice of K, and all kinds.

        Above 10,000 rows all kinds cluster a sample, and only the chosen one all rows. A number
        that is chosen gives the runs of the same number if it is given. ``weights`` (n,) are those
        of the rows, checked.
        """
        n, rng, random = X.shape[0], np.random.RandomState(seed), np.random.default_rng(seed)
        rows, judged_weights, judged_odds = None, weights, odds
        if n > _MOST_JUDGED:
            rows = draw_rows(n, _MOST_JUDGED, weights, random)  # in proportion to their weights
            drawn = odds["subsample_weight"]
            drawn = None if drawn is None else np.asarray(drawn)[rows]
            judged_weights, judged_odds = None, {**odds, "subsample_weight": drawn}
        tables = {
            name: scaling.transform(X if rows is None else X[rows])
            for name, scaling in scalings.items()
        }
        run_seed = rng.randint(2**31 - 1)
        judged = {
            name: self._fit_runs(
                "auto", Z, n_clusters, n_partitions, run_seed, judged_weights, **judged_odds
            )
            for name, Z in tables.items()
        }

        # the kinds are compared on a smaller sample
        masses = np.ones(tables[""].shape[0]) if judged_weights is None else judged_weights
        compared = np.flatnonzero(masses)
        n_judged = len(compared)
        if n_judged > MOST_ROWS:
            compared = np.sort(rng.permutation(compared)[:MOST_ROWS])
        most = 1 + max(int(runs.labels.max(initial=0)) for runs in judged.values())
        ks = np.arange(2, max(2, min(most, len(compared) - 1)) + 1)
        if n_clusters is not None:
            ks = np.array([n_clusters])
        evidence = Evidence.joined(
            [
                compare_kinds(
                    {
                        kind + scaled: runs.of_kind(kind).sample(tables[scaled], compared)
                        for kind in SEVERAL["auto"]
                    },
                    ks,
                    masses[compared],
                    rng,
                )
                for scaled, runs in judged.items()
            ]
        )
        K, k_choice, ranked = n_clusters, None, evidence.ranked()
        if K is None:
            sample = FeatureSample(np.arange(len(compared)), tables[""][compared])
            k_choice = evidence.choose_k(sample)
            K = k_choice.best_k
            if draws_depend_on(K, n_judged):
                given = (X, scalings, n_partitions, weights, odds)
                runs, scaling, _, ranked = self._most_trusted_runs(K, seed, *given)
                return runs, scaling, k_choice, ranked
        kind, *rest = ranked[0].kind.split(_SCALED)
        scaled = _SCALED if rest else ""
        runs, scaling = judged[scaled].of_kind(kind), scalings[scaled]
        if rows is None and n_clusters is None:  # runs with a given number are cut already
            runs = runs.cut(tables[scaled], K)
        elif rows is not None:
            V, Z = len(runs.members), scaling.transform(X)
            runs = self._fit_runs(kind, Z, K, V, rng.randint(2**31 - 1), weights, **odds)
            note = f"the kinds of runs are compared on {len(rows):,} of {n:,} rows"
            runs = replace(runs, shortcuts=(note, *runs.shortcuts))
        return runs, scaling, k_choice, ranked

    def _labels_of_runs(self, X: Any) -> AnyArray:
        check_is_fitted(self)
        return self.ensemble_.predict(self._scaling.transform(self._validated(X, reset=False)))

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Return features or distances after scikit-learn's checks."""
        check_choice("metric", self.metric, ("euclidean", "precomputed"))
        if self.metric == "precomputed":
            if reset and getattr(X, "ndim", 0) == 1:
                check_distances(np.asarray(X))  # it knows condensed distances
            D = validate_data(self, X, reset=reset, dtype=np.float64)
            check_distances(D, square=reset)
            return D
        checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
        try:
            X_checked = validate_data(self, X, reset=reset, ensure_all_finite=False, **checks)
        except ValueError:
            refuse_text(X)
            raise
        check_finite(X_checked, "X", getattr(self, "feature_names_in_", None))
        return X_checked

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        has_distances = self.metric == "precomputed"
        tags.input_tags.sparse = not has_distances
        tags.input_tags.pairwise = tags.input_tags.positive_only = has_distances
        # checks of scikit-learn read these tags of every estimator with predict_proba
        tags.classifier_tags = ClassifierTags()
        return tags


def rows_with_weight(X: Any, weights: AnyArray | None) -> Any:
    """Return the rows of X (n, p) that have a positive weight; without weights, all rows."""
    return X if weights is None or weights.all() else X[weights > 0]
