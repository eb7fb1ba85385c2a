"""Views: four descriptions of the same advertisers, each clustered several times.

========  =====================================================================================
text      clusters of the words of the advertiser's text
win       as in the paper: Kolmogorov–Smirnov similarity of the win-rate c.d.f., normalised cut
cost      as in the paper: the same for the eCPM-cost c.d.f.
market    not in the paper: a mixture of win curves fitted to the auctions; it also places
          advertisers with a dozen bids, and does not depend on how they bid
========  =====================================================================================

Each view has a partition for every number of clusters and, for win and cost, for every level α of
the test. The consensus decides which of them to trust.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score
from sklearn.utils import check_random_state

from coterie.ads.curves.landscapes import Evidence, share_of_cost, share_of_wins
from coterie.ads.histograms.bid_histograms import DenseCounts
from coterie.ads.segments.memberships import learn_memberships
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.similarity import compare_curves
from coterie.ads.segments.text_vectors import scale_rows
from coterie.arrays import Floats, Ints
from coterie.labels.encode import renumber_by_appearance
from coterie.relaxation.spectral import dense_eigenpairs, eigsh_rng_option, refined_eigenpairs
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import ignore_duplicate_points_warning

#: Up to so many advertisers all similar pairs are kept, of more the nearest of each.
_MOST_IN_ALL_PAIRS, _NEAREST = 5000, 50
_DENSE = 300  # up to this many vertices, dense eigensolvers are faster
_STARTS = 5  # of k-means
#: Of themes: the most of them, the most texts compared, the least silhouette of clear ones.
_MOST_THEMES, _MOST_COMPARED, _LEAST_SILHOUETTE = 24, 2000, 0.05
_TOLERANCE = 1e-6
_STEPS = 100

_LOG = logging.getLogger("coterie")


@dataclass(frozen=True)
class View:
    """Partitions of the advertisers by one view."""

    name: str
    partitions: Ints  # (A, V), −1 for an advertiser without text, win or bid
    settings: list[dict[str, Any]]  # of each partition: k, and alpha or start
    # similar pairs at each alpha, and leader clusters of all of them
    edges: dict[float, int] = field(default_factory=dict)
    leaders: dict[float, int] = field(default_factory=dict)

    def column(self, **wanted: object) -> Ints:
        """Return the first partition with these settings."""
        for index, settings in enumerate(self.settings):
            if wanted.items() <= settings.items():
                return self.partitions[:, index]
        raise KeyError(f"the view {self.name} has no partition with {wanted}")


def make_views(
    counts: DenseCounts, evidence: Evidence, vectors: Floats | None, settings: SegmentSettings
) -> dict[str, View]:
    """Make every view that the data allow.

    ``counts`` and ``evidence`` are of the same days. ``vectors`` (A, d) of the texts have rows of
    length 1, or zeros for a missing text; without them there is no text view.
    """
    has_bids = evidence.observations > 0
    ks = settings.possible_numbers(int(has_bids.sum()))
    alphas, seed = list(settings.alphas), settings.random_state
    views: dict[str, View] = {}
    if vectors is not None and np.any(vectors):
        _LOG.info("Grouping advertisers by their texts")
        # as many partitions as the other views have, so that views have equal weight
        starts = range(seed, seed + len(alphas))
        views["text"] = View(
            "text",
            np.hstack([text_clusters(vectors, ks, random_state=start) for start in starts]),
            [{"k": k, "start": start} for start in starts for k in ks],
        )
    wins = counts.wins.sum(axis=1)
    n_winners = int((wins > 0).sum())
    n_neighbors = settings.n_neighbors
    if isinstance(n_neighbors, str):  # "auto"
        n_neighbors = _NEAREST if n_winners > _MOST_IN_ALL_PAIRS else None
    both = {"win": share_of_wins(counts, settings.wins_over), "cost": share_of_cost(counts)}
    for name, curves in both.items() if n_winners > 1 else ():
        _LOG.info("Comparing the %s curves of all pairs of advertisers", name)
        found = compare_curves(
            curves,
            wins,
            alphas,
            max_observations=settings.max_observations,
            tolerance=settings.tolerance,
            n_neighbors=n_neighbors,
        )
        views[name] = View(
            name,
            np.hstack([normalised_cuts(graph, ks, random_state=seed) for graph in found.graphs]),
            [{"alpha": alpha, "k": k} for alpha in alphas for k in ks],
            dict(zip(alphas, found.pairs, strict=True)),
            dict(zip(alphas, found.leaders(), strict=True)),
        )
    if views and has_bids.sum() > 1:
        _LOG.info("Grouping advertisers by their markets")
        # mixtures of win curves, started from one partition of every other view
        columns = [
            learn_memberships(
                evidence, start.column(k=k), max_observations=settings.max_observations
            ).labels
            for start in views.values()
            for k in ks
        ]
        views["market"] = View(
            "market",
            np.where(has_bids[:, None], np.stack(columns, axis=1), -1),
            [{"k": k, "start": name} for name in views for k in ks],
        )
    return views


def text_clusters(vectors: ArrayLike, ks: Sequence[int], random_state: Any = None) -> Ints:
    """Cluster unit vectors (A, p) by k-means for several K; on unit rows it compares cosines.

    Returns labels (A, len(ks)) from 0 in order of appearance, −1 for a row of zeros (no text). With
    at most K texts, each is one cluster. A column does not depend on the other K.

    >>> text_clusters([[1, 0], [0.8, 0.6], [0, 0], [0, 1]], [2, 9], random_state=0).T
    array([[ 0,  0, -1,  1],
           [ 0,  1, -1,  2]])
    """
    rows = np.asarray(vectors, dtype=np.float64)
    present = np.flatnonzero(rows.any(axis=1))
    labels = np.full((len(rows), len(ks)), -1, dtype=np.int64)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    for column, k in enumerate(ks):
        labels[present, column] = _kmeans_labels(rows[present], k, seed)
    return labels


def text_themes(vectors: ArrayLike, random_state: int = 0) -> Ints:
    """Cluster unit vectors (A, p) into themes, as many as have the highest mean silhouette.

    The silhouette is that of up to 2,000 texts. All texts have one theme if none is clear. Returns
    labels (A,), −1 for a row of zeros (no text).
    """
    rows = np.asarray(vectors, dtype=np.float64)
    present = np.flatnonzero(rows.any(axis=1))
    rng = np.random.default_rng(random_state)
    sample = rows[np.sort(rng.permutation(present)[:_MOST_COMPARED])]
    themes, best = np.full(len(rows), -1, dtype=np.int64), _LEAST_SILHOUETTE
    themes[present] = 0
    n_distinct = len(np.unique(sample, axis=0))
    for k in range(2, min(_MOST_THEMES, n_distinct - 1) + 1):
        with on_one_thread(), ignore_duplicate_points_warning():
            means = KMeans(k, n_init=1, random_state=random_state).fit(sample)
        if len(np.unique(means.labels_)) > 1:
            score = silhouette_score(sample, means.labels_)
            if score > best:
                themes[present], best = means.predict(rows[present]), score
    return themes


def normalised_cuts(graph: Any, ks: Sequence[int], random_state: Any = None) -> Ints:
    """Cut a graph S (A, A) into several numbers of clusters by normalised cuts.

    A normalised cut minimises Σ_k cut(k, rest) / volume(k). Its relaxation is k-means on the
    rows, scaled to length 1, of the K leading eigenvectors of

        N = D^-½ (S + I + τ/A · 1 1ᵀ) D^-½,   D = diag of the row sums,

    where S is scaled so that its largest entry is 1, the similarity of a vertex with itself. The
    term with τ, the mean row sum, joins all vertices weakly; without it the cheapest cuts separate
    a few loosely connected vertices (Qin and Rohe, 2013). Eigenvectors are computed once for all K.

    The graph is symmetric, without loops, with similarities from 0 up. Returns labels (A, len(ks))
    from 0 in order of appearance, −1 for a vertex without neighbours. With at most K vertices with
    neighbours, each is one cluster; there may be fewer than K if vertices have equal rows.

    >>> two_triangles = np.kron(np.eye(2), 1 - np.eye(3))
    >>> normalised_cuts(two_triangles, [1, 2], random_state=0).T
    array([[0, 0, 0, 0, 0, 0],
           [0, 0, 0, 1, 1, 1]])
    """
    S = sp.csr_array(graph).astype(np.float64)
    vertices = np.flatnonzero(np.diff(S.indptr))
    labels = np.full((S.shape[0], len(ks)), -1, dtype=np.int64)
    if not len(vertices):
        return labels
    if len(vertices) < S.shape[0]:
        S = S[vertices][:, vertices]
    S.data /= S.data.max()
    n, k_most, N = len(vertices), max(ks), _Normalised(S)
    with on_one_thread():
        if n <= max(_DENSE, 4 * k_most):
            vectors, _ = dense_eigenpairs(N @ np.eye(n), min(k_most, n))
        else:
            rng = np.random.default_rng(0)
            start = rng.standard_normal(n)
            settings = {"v0": start, "tol": _TOLERANCE, "maxiter": _STEPS} | eigsh_rng_option(rng)
            operator = LinearOperator(
                (n, n), matvec=lambda x: (N @ x.reshape(n, 1)).ravel(), dtype=float
            )
            try:
                values, vectors = eigsh(operator, k=k_most, which="LA", **settings)
                vectors = vectors[:, np.argsort(-values, kind="stable")]
            except ArpackNoConvergence:
                # N + I has no negative eigenvalues, which power steps would confuse with large ones
                block = rng.standard_normal((n, 2 * k_most))
                vectors, _, _, _ = refined_eigenpairs(
                    block, lambda X: N @ X + X, k_most, _TOLERANCE, _STEPS
                )
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    for column, k in enumerate(ks):
        labels[vertices, column] = _kmeans_labels(scale_rows(vectors[:, :k]), k, seed)
    return labels


class _Normalised:
    """The operator N = R (S + I + τ/n · 1 1ᵀ) R, R = D^-½, without forming the dense matrix."""

    def __init__(self, S: sp.csr_array) -> None:
        self.S = S
        sums = S.sum(axis=1) + 1.0
        tau = sums.mean()
        self.uniform = tau / len(sums)
        self.roots = (1.0 / np.sqrt(sums + tau))[:, np.newaxis]

    def __matmul__(self, X: Floats) -> Floats:
        scaled = self.roots * X
        return self.roots * (self.S @ scaled + scaled + self.uniform * scaled.sum(axis=0))


def _kmeans_labels(rows: Floats, k: int, seed: int) -> Ints:
    """Cluster rows by k-means; with at most k rows, each is a cluster."""
    if len(rows) <= k:
        return np.arange(len(rows))
    with on_one_thread(), ignore_duplicate_points_warning():
        labels = KMeans(k, n_init=_STARTS, random_state=seed).fit(rows).labels_
    return renumber_by_appearance(labels)
