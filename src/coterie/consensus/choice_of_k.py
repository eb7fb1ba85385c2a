"""The number of clusters K: measures of the votes for each K, and the K that they recommend.

The rules for the recommendation are in :func:`recommend`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import product
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.metrics import (
    calinski_harabasz_score,
    davies_bouldin_score,
    pairwise_distances,
    silhouette_score,
)
from sklearn.utils import check_random_state

from coterie.arrays import AnyArray, Floats, Ints
from coterie.consensus.base import voting_tuples
from coterie.consensus.linkage import (
    cluster_weights,
    cut_into,
    locally_weighted_embedding,
    locally_weighted_tree,
    sizable_answers,
    vote_linkage,
)
from coterie.consensus.robust import (
    FINE,
    Sample,
    Votes,
    mean_agreement,
    random_halves,
    weighted_rand_index,
)
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import WeakEvidenceWarning
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.spectral import least_squares_factor, round_by_kmeans, round_by_pivoted_qr
from coterie.runtime.imports import import_pandas
from coterie.runtime.messages import warn_user
from coterie.runtime.wording import short_repr
from coterie.search.median_search import SearchResult

_log = logging.getLogger(__name__)

#: Added to an eigenvalue, as a share of n, in the relative gap. A cluster of s points has an
#: eigenvalue of at most s, so the gaps of eigenvalues below n/500 are damped.
_EIGENVALUE_FLOOR = 0.002
_FEWEST_TOP, _MOST_TOP = 10, 30  # by default the largest K compared is between these
#: Numbers of clusters whose stability differs by at most this are equally stable.
_EQUALLY_STABLE = 0.01
#: The evidence is weak if another K has more than this share of the best score, …
_CLOSE_SCORE = 0.94
#: … or if 1 − stability of a larger K is less than this number of times that of the best, …
_CLOSE_INSTABILITY = 1.5
#: … or if halves of the partitions, or methods, agree less than this on the clusters.
_CLEAR_STABILITY = 0.9
_CLEAR_AGREEMENT = 0.5
#: Splits of the partitions into halves, and the tuples of a sample that each half clusters.
_SPLITS_INTO_HALVES, _TUPLES_OF_HALVES = 3, 1_000
_STARTS_OF_CUT = 2
_FEWEST_IN_HALVES = 4
#: The indices, and whether a large value is good.
FEATURE_INDICES = {"silhouette": True, "calinski_harabasz": True, "davies_bouldin": False}
#: Above this number of rows a sample is used: the silhouette takes time and memory O(n²).
MOST_ROWS = 5_000


@dataclass(frozen=True)
class KChoice:
    """Criteria for each K and the recommended K. Arrays run over ``ks``; nan means unavailable.

    Attributes
    ----------
    best_k : int
        The recommended K.
    reason : str
        Why, in one sentence.
    is_weak : bool
        Whether the evidence is weak: another number of clusters is almost as good, or halves of the
        partitions, or methods, agree little on the clusters.
    by_criterion : dict of str to int or None
        The K that each criterion alone chooses, mostly that of its best value; None if it is
        unavailable or chooses none.
    ks : (L,) int
        The K compared, in rising order.
    objective, n_clusters : (L,)
        J and number of clusters of the best partition found with at most K clusters: by the search
        or, if the given partitions have many more clusters, by locally weighted linkage of at most
        1,000 tuples.
    lower_bound : float
        Lower bound of J over all partitions, for any K.
    information, margin : (L,)
        Mean mutual information, in nats, between that partition and the given ones; mean over
        points of the share of votes for the point's cluster minus that for the next best one.
    eigenvalues : (max K + 1,)
        The largest eigenvalues λ_1 ≥ λ_2 ≥ … of M.
    eigengap, relative_eigengap : (L,)
        λ_K − λ_{K+1}, and the same divided by λ_K + max(n/500, 1), in [0, 1).
    agreement : (L,)
        Mean adjusted Rand index between the answers of linkage, locally weighted linkage and
        locally weighted cut with K clusters.
    stability : (L,)
        Mean adjusted Rand index between the answers of random halves of the partitions; nan unless
        some of them are much finer than the smallest K.
    trust : (L,)
        Of kinds of runs: the largest trust in a kind, as in
        :class:`~coterie.ConsensusClusterer`; ``stability`` and ``agreement`` are its own.
    pac, cdf_area, delta_area : (L,)
        Of resampled points: proportion of ambiguous pairs; area A(K) under the consensus CDF; its
        growth relative to the largest area at a smaller K, and A(K) at the first K.
    silhouette, calinski_harabasz, davies_bouldin : (L,)
        Indices of that partition on features, if these are known, as in scikit-learn; above 5,000
        rows on a sample of 5,000. K is never chosen by them: they favour round clusters.
    """

    best_k: int
    reason: str
    is_weak: bool
    by_criterion: dict[str, int | None]
    ks: Ints
    objective: Floats
    n_clusters: Ints
    lower_bound: float
    information: Floats
    margin: Floats
    eigenvalues: Floats
    eigengap: Floats
    relative_eigengap: Floats
    agreement: Floats
    stability: Floats
    trust: Floats = field(default_factory=lambda: np.empty(0))
    pac: Floats = field(default_factory=lambda: np.empty(0))
    cdf_area: Floats = field(default_factory=lambda: np.empty(0))
    delta_area: Floats = field(default_factory=lambda: np.empty(0))
    silhouette: Floats = field(default_factory=lambda: np.empty(0))
    calinski_harabasz: Floats = field(default_factory=lambda: np.empty(0))
    davies_bouldin: Floats = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        compared = f"{self.ks[0]} to {self.ks[-1]}" if len(self.ks) > 1 else str(self.ks[0])
        weak = ", weak evidence" if self.is_weak else ""
        return f"KChoice(best_k={self.best_k} of {compared}{weak}: {self.reason})"

    def to_frame(self) -> Any:
        """Return the criteria that are known for some K as a pandas DataFrame, a row for each K."""
        pandas = import_pandas()
        return pandas.DataFrame(self.columns(), index=pandas.Index(self.ks, name="k"))

    def _repr_html_(self) -> str:
        columns = self.columns()
        weak = " (weak evidence)" if self.is_weak else ""
        head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
        rows = []
        for row, k in enumerate(self.ks.tolist()):
            cells = "".join(f"<td>{values[row]:.4g}</td>" for values in columns.values())
            bold = " style='font-weight:bold'" if k == self.best_k else ""
            rows.append(f"<tr{bold}><td>{k}</td>{cells}</tr>")
        return (
            f"<p>{self.best_k} clusters{weak}: {escape(self.reason)}</p>"
            f"<table><thead><tr><th>K</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        )

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays over ``ks``, those of unavailable criteria of one length included."""
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("ks", "eigenvalues") and np.shape(value) == self.ks.shape
        }

    @property
    def curves(self) -> dict[str, list[float | None]]:
        """The criteria that are known for some K: a value, or None, for each of ``ks``."""
        return {
            name: [value if np.isfinite(value) else None for value in values.tolist()]
            for name, values in self.columns().items()
        }

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as values for JSON, with a row for each K."""
        names, arrays = zip(*self.arrays().items(), strict=True)
        rows = zip(*(np.where(np.isfinite(a), a, None) for a in arrays), strict=True)
        return {
            "recommended": self.best_k,
            "reason": self.reason,
            "is_weak": self.is_weak,
            "by_criterion": self.by_criterion,
            "lower_bound": self.lower_bound if np.isfinite(self.lower_bound) else None,
            "table": [
                {"k": k, **dict(zip(names, row, strict=True))}
                for k, row in zip(self.ks.tolist(), rows, strict=True)
            ],
        }

    def columns(self) -> dict[str, AnyArray]:
        """Return the criteria that are available for some K."""
        return {name: a for name, a in self.arrays().items() if np.isfinite(a).any()}


def choose_n_clusters(
    votes: Votes,
    ks: Ints | None = None,
    random_state: Any = None,
    resampled: Mapping[str, Any] | None = None,
    features: FeatureSample | None = None,
) -> KChoice:
    """Compare numbers of clusters ``ks`` (L,), by default :func:`default_ks`; recommend one.

    ``resampled`` are ``pac``, ``cdf_area`` and ``delta_area`` (L,) of resampled points, and the
    indices on ``features`` inform but do not decide.
    """
    if ks is None:
        ks = default_ks(votes.tuples.n_labels, votes.tuples.n_points)
    measures = measure_each_k(votes, ks, random_state, features)
    best, reason, is_weak = recommend(measures, ks, np.asarray(votes.tuples.n_labels))
    by_criterion: dict[str, int | None] = {
        name: int(ks[_largest(measures[name])])
        for name in ("eigengap", "relative_eigengap", "margin", "agreement", "stability")
        if np.isfinite(measures[name]).all()
    }
    for name, is_high in FEATURE_INDICES.items():
        if np.isfinite(values := measures.get(name, np.empty(0))).any():
            worth = np.where(np.isnan(values), -np.inf, values if is_high else -values)
            by_criterion[name] = int(ks[_largest(worth)])
    return KChoice(
        int(ks[best]),
        reason,
        is_weak,
        by_criterion,
        ks,
        lower_bound=votes.lower_bound,
        **measures,
        **(resampled or {}),
    )


def warn_if_weak(choice: KChoice) -> None:
    """Warn if the recommended number of clusters has weak evidence."""
    if choice.is_weak:
        warn_user(
            f"the evidence for {choice.best_k} clusters is weak: {choice.reason}; compare other "
            "numbers, or give the number of clusters",
            WeakEvidenceWarning,
        )


def default_ks(n_labels: ArrayLike, n_points: float) -> Ints:
    """Return the K to compare: 2 to 10, or to the median K_v (at most 30) if it is larger."""
    top = int(np.clip(np.median(np.asarray(n_labels)), _FEWEST_TOP, _MOST_TOP))
    return np.arange(2, max(2, min(top, int(n_points))) + 1)


def measure_each_k(
    votes: Votes, ks: Ints, random_state: Any = None, features: FeatureSample | None = None
) -> dict[str, Any]:
    """Measure the best consensus found with at most K clusters for each K, see :class:`KChoice`."""
    rng = check_random_state(random_state)
    tuples, weights = votes.tuples, votes.weights
    factor = least_squares_factor(tuples, weights, int(ks[-1]) + 1, votes.contingencies)
    eigenvalues = tuples.weights @ factor**2
    gap = eigenvalues[ks - 1] - eigenvalues[ks]
    floor = max(_EIGENVALUE_FLOOR * tuples.n_points, 1.0)

    # the best consensus for each K: linkage of a sample if the partitions are fine, else a search
    stability, sample = np.full(len(ks), np.nan), None
    if _some_are_fine(tuples.n_labels, int(ks[0])) and tuples.n_partitions >= _FEWEST_IN_HALVES:
        sample = Sample.draw(votes, rng, _TUPLES_OF_HALVES)
        tuples = sample.tuples
        stability = stability_of_halves(sample, ks, rng)
        labels = sizable_answers(tuples, weights, ks)
        thresholds = [0.5] * len(ks)
    else:
        found: list[SearchResult] = []  # that of the previous K is one of the starts of the next
        for k in ks.tolist():
            _log.info("searching with at most %d clusters", k)
            K = min(k, tuples.n_tuples)
            columns, seeded = factor[:, :K], check_random_state(random_state)
            answers = {} if not found else {"fewer clusters": found[-1].labels}
            answers["pivoted QR"] = round_by_pivoted_qr(columns, tuples.weights)
            answers["k-means"] = round_by_kmeans(columns, tuples.weights, K, seeded)
            found.append(votes.search(K, answers))
        labels, thresholds = [f.labels for f in found], [f.threshold for f in found]

    tables = [ClusterTables.of(tuples, z, weights) for z in labels]
    margins = [
        table.assign(tuples.codes, threshold, z, tuples.memberships)[1]
        for table, z, threshold in zip(tables, labels, thresholds, strict=True)
    ]
    measures = {
        "objective": np.array([table.objective() for table in tables]),
        "n_clusters": np.array([table.n_clusters for table in tables]),
        "information": np.array([t.information() @ (weights / weights.sum()) for t in tables]),
        "margin": np.array([each @ tuples.weights / tuples.n_points for each in margins]),
        "eigenvalues": eigenvalues,
        "eigengap": gap,
        "relative_eigengap": gap / (eigenvalues[ks - 1] + floor),
        "agreement": _agreement_of_methods(votes, ks, check_random_state(random_state)),
        "stability": stability,
    }
    if features is not None:
        places, point = np.unique(votes.tuples.inverse[features.rows], return_inverse=True)
        at = [z[places] if sample is None else sample.spread(z, places) for z in labels]
        each = [features.indices(z[point]) for z in at]
        measures |= {name: np.array([one[name] for one in each]) for name in FEATURE_INDICES}
    return measures


def recommend(measures: Mapping[str, Any], ks: Ints, n_labels: AnyArray) -> tuple[int, str, bool]:
    """Return the index of the recommended K, why, and whether the evidence is weak.

    If some partitions are much finer than K clusters, or than others, K is the largest number
    whose stability is within 0.01 of the best: halves of the partitions have the same K clusters.
    Such partitions are made from features.

    Otherwise it maximises √gap · margin · agreement²: M has K dominant eigenvalues, the votes
    assign the points clearly to K clusters, and different methods find the same K clusters. The
    agreement decides under noise, where small clusters have small eigenvalues. The gap is the
    relative eigengap.
    """

    def with_rival(
        best: int, reason: str, rivals: Floats, close: float, is_weak: bool
    ) -> tuple[int, str, bool]:
        if rivals.max() > close:
            return best, f"{reason}; {ks[np.argmax(rivals)]} clusters are almost as good", True
        return best, reason, is_weak

    gap, margin, agreement, stability = (
        np.maximum(measures[name], 0.0)
        for name in ("relative_eigengap", "margin", "agreement", "stability")
    )
    if np.isfinite(stability).all():
        best = int(np.flatnonzero(stability >= stability.max() - _EQUALLY_STABLE)[-1])
        if _some_are_fine(n_labels, int(ks[best])):
            reason = (
                "it is the largest number of clusters on which random halves of the partitions "
                f"agree best (adjusted Rand index {stability[best]:.2f})"
            )
            if is_weak := bool(stability[best] < _CLEAR_STABILITY):
                reason += f", less than {_CLEAR_STABILITY:g}"
            # fewer clusters that are as stable are no contradiction: they are unions of these
            rivals = np.where(ks > ks[best], stability, -np.inf)
            close = 1.0 - _CLOSE_INSTABILITY * (1.0 - stability[best])
            return with_rival(best, reason, rivals, close, is_weak)
    score = np.sqrt(gap) * margin * agreement**2
    best = _largest(score)
    reason = (
        "the votes show this number of clusters most clearly (relative eigengap "
        f"{gap[best]:.2f}, mean margin {margin[best]:.2f}, agreement of methods "
        f"{agreement[best]:.2f})"
    )
    if is_weak := bool(agreement[best] < _CLEAR_AGREEMENT):
        reason += f"; the methods agree less than {_CLEAR_AGREEMENT:g}"
    rivals = np.where(ks == ks[best], -np.inf, score)
    return with_rival(best, reason, rivals, _CLOSE_SCORE * score[best], is_weak)


def _some_are_fine(n_labels: ArrayLike, k: int) -> bool:
    """Return whether some partitions are much finer than K clusters, or than other partitions."""
    few, many = np.quantile(np.asarray(n_labels), [0.1, 0.9])
    return bool(many > FINE * min(few, k))


def _largest(score: Floats) -> int:
    # rounded, so that values equal up to rounding errors are ties, which the smaller K wins
    return int(np.argmax(np.round(score, 9)))


def stability_of_halves(sample: Sample, ks: Ints, rng: np.random.RandomState) -> Floats:
    """Return the mean agreement of the answers of two halves of the partitions for each K, (L,).

    Locally weighted linkage and cut cluster the points by each of two random halves. The stability
    is the mean adjusted Rand index between an answer of one half and an answer of the other.
    """
    tuples, weights = sample.tuples, sample.votes.weights
    stability = []
    for _ in range(_SPLITS_INTO_HALVES):
        here, there = (
            _fine_answers(tuples, half * weights, ks, rng)
            for half in random_halves(tuples.n_partitions, rng)
        )
        for a, b in product(here, there):
            pairs = zip(a, b, strict=True)
            stability.append([weighted_rand_index(*pair, tuples.weights) for pair in pairs])
    split = np.reshape(stability, (_SPLITS_INTO_HALVES, -1, len(ks)))
    return np.asarray(split.mean(axis=1).mean(axis=0))


def _fine_answers(
    tuples: LabelTuples, weights: Floats, ks: Ints, rng: np.random.RandomState
) -> list[list[Ints]]:
    """Return the answers of linkage, and of the cut, for each K, from partitions with weight."""
    voting, group = voting_tuples(tuples, weights)
    alpha = weights[weights > 0]
    sizes = np.minimum(ks, voting.n_tuples).tolist()
    rows = locally_weighted_embedding(voting, alpha, cluster_weights(voting, alpha), sizes[-1])
    cuts = [_cut_rows(rows, voting.weights, k, rng, _STARTS_OF_CUT) for k in sizes]
    return [sizable_answers(tuples, weights, ks), [np.append(cut, -1)[group] for cut in cuts]]


def _cut_rows(
    rows: Floats, weights: Floats, k: int, rng: np.random.RandomState, *n_starts: int
) -> Ints:
    """Return k clusters of an embedding: of its first k columns, with rows of unit length."""
    leading = rows[:, :k]
    leading = leading / np.maximum(np.linalg.norm(leading, axis=1), 1e-12)[:, None]
    return round_by_kmeans(leading, weights, k, rng, *n_starts)


def _agreement_of_methods(votes: Votes, ks: Ints, rng: np.random.RandomState) -> Floats:
    """Return the mean adjusted Rand index between three methods for each K, (L,).

    They are linkage on 1 − M, locally weighted linkage, and the locally weighted cut.
    """
    sample = Sample.draw(votes, rng)
    tuples, weights = sample.tuples, votes.weights
    omega = cluster_weights(tuples, weights, contingencies=sample.contingencies)
    trees = vote_linkage(tuples, weights), locally_weighted_tree(tuples, weights, omega)
    rows = locally_weighted_embedding(tuples, weights, omega, int(ks[-1]))
    agreement = []
    for k in np.minimum(ks, tuples.n_tuples).tolist():
        answers = {str(t): cut_into(tree, k) for t, tree in enumerate(trees)}
        answers["cut"] = _cut_rows(rows, tuples.weights, k, rng)
        agreement.append(np.mean(list(mean_agreement(answers, tuples.weights).values())))
    return np.array(agreement)


@dataclass(frozen=True, eq=False)
class FeatureSample:
    """At most 5,000 rows on which the indices of many clusterings are computed.

    The sample is always the same for the same n. Row weights are not used: every row counts once.
    """

    rows: Ints  # (s,)
    X: Any  # (s, p) array or sparse matrix, or (s, s) distances
    metric: str = "euclidean"  # or "precomputed"

    __repr__ = short_repr

    @classmethod
    def draw(cls, X: Any, metric: str = "euclidean") -> Self:
        """Draw a sample of the rows of features, or of a matrix of distances."""
        n = X.shape[0]
        rows = np.arange(n)
        if n > MOST_ROWS:
            drawn = np.random.default_rng(0).choice(n, MOST_ROWS, replace=False)
            rows, X = np.sort(drawn), X[np.sort(drawn)]
            X = X[:, rows] if metric == "precomputed" else X
        return cls(rows, X, metric)

    def among(self, kept: Ints) -> FeatureSample:
        """Return the rows of the sample that are kept, numbered by their places among ``kept``."""
        places = np.searchsorted(kept, self.rows)
        inside = np.append(kept, -1)[places] == self.rows
        X = self.X[inside]
        X = X[:, inside] if self.metric == "precomputed" else X
        return FeatureSample(places[inside], X, self.metric)

    def indices(self, labels: AnyArray) -> dict[str, float]:
        """Return the indices of labels (s,) of the sample; rows with −1 are left out.

        A single cluster, and clusters of one row each, have no index: nan. Calinski–Harabasz and
        Davies–Bouldin need dense features; they are nan for sparse features and distances.
        """
        known = np.flatnonzero(labels >= 0)
        labels = labels[known]
        values = dict.fromkeys(FEATURE_INDICES, np.nan)
        if not 1 < len(np.unique(labels)) < len(labels) or not np.isfinite(self._distances).all():
            return values
        D = self._distances if len(known) == len(self.rows) else self._distances[known][:, known]
        values["silhouette"] = float(silhouette_score(D, labels, metric="precomputed"))
        if self.metric != "precomputed" and not sp.issparse(self.X):
            X = self.X[known]
            values["calinski_harabasz"] = float(calinski_harabasz_score(X, labels))
            values["davies_bouldin"] = float(davies_bouldin_score(X, labels))
        return values

    @cached_property
    def _distances(self) -> AnyArray:
        """Return the distances of the rows, (s, s), computed once for all clusterings."""
        given = self.metric == "precomputed"
        if given and not self.X.diagonal().any():
            D: AnyArray = self.X
            return D
        D = self.X.copy() if given else pairwise_distances(self.X)
        np.fill_diagonal(D, 0.0)  # rounded otherwise, and refused by scikit-learn
        return D
