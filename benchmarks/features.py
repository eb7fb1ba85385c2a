"""Clusters of feature tables: ConsensusClusterer next to the clusterers of others.

For each set (:mod:`benchmarks.feature_sets`): the adjusted Rand index with the true number of
clusters, the number of clusters that is chosen without it, and whether ``confidence_`` is the
probability that a label is right. Then: several views, time, and growing size
(:mod:`benchmarks.feature_scale`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import Cell, Score, run_cells, summarise
from benchmarks.feature_scale import run_sizes
from benchmarks.feature_sets import HALVES, LISTS, FeatureSet, clustbench_sets
from benchmarks.feature_tables import FLAGSHIP, METHODS, NUMBER, OURS, Found, Sets, make_result
from benchmarks.harness import ENSEMBLES, Context, data_folder
from benchmarks.measuring import Stopwatch, measure
from benchmarks.results import Result
from coterie.datasets import load_views
from coterie.errors import CoterieError
from coterie.estimators.clusterer import ConsensusClusterer
from coterie.estimators.view_clusterer import MultiViewClusterer
from coterie.inspection.scores import adjusted_rand_index, clustering_accuracy, contingency

#: Methods without a seed run once; so does the choice of the number of clusters.
_ONCE = ("ward", "hdbscan", "genie", NUMBER)
#: Gaussian mixtures have full covariances up to this number of columns, else diagonal ones.
_MOST_FULL = 200
_QUICK_SETS = ("wine", "iris", "breast cancer", "unequal blobs", "Lsun")
_N_BINS = 10
_VIEWS = ("msrc_v1", "uci_mfeat", "caltech101_7", "caltech101_20")
#: What is known of a score that others recorded.
_RECORDED = {"status": "ran", "seconds": 0.0, "message": "", "warnings": {}}
#: Rows of a sample for the silhouette.
_MOST_SILHOUETTE = 2_000
#: Rows, columns and methods of the timed sets.
_TIMED = {
    (2_000, 64): (FLAGSHIP, "kmeans", "mixture", "ward", "spectral"),
    (100_000, 20): (FLAGSHIP, "kmeans", "mixture"),
}
_QUICK_TIMED = {(1_000, 16): (FLAGSHIP, "kmeans")}

MEASURES = ENSEMBLES
FIGURES = {"sets": lambda data: str(len(data["sets"]))}


def run(
    context: Context, *, seeds: int | None = None, jobs: int = 2, most: int | None = None
) -> Result:
    """Measure clusterers on both lists of sets; a quick run has five small sets.

    ``seeds`` are 0, 1, …: 3 by default, 1 in a quick run. ``jobs`` is the number of worker
    processes, each on one thread. ``most`` is the largest number of rows of growing data: 10⁷.
    """
    n_seeds = seeds or (1 if context.quick else 3)
    lists = {**LISTS, "clustbench": clustbench_sets(Path(data_folder(context)) / "clustbench")}
    listed = [
        (one, {"name": one.name, "list": name, "half": HALVES[place % 2]})
        for name, sets in lists.items()
        for place, one in enumerate(sets)
        if one.name in _QUICK_SETS or not context.quick
    ]
    views = list(_VIEWS)[: 1 if context.quick else None]
    missing = context.missing_datasets(
        sorted({*views, *(one.dataset for one, _ in listed if one.dataset)})
    )
    listed = [(one, about) for one, about in listed if one.dataset not in missing]
    data: dict[str, Any] = {"seeds": n_seeds, "missing": missing}
    data["sets"] = _run_sets(listed, n_seeds, context, jobs)
    data["views"] = _run_views([v for v in views if v not in missing], context, jobs)
    data["times"] = _run_times(context)
    data["sizes"] = run_sizes(context, most)
    return make_result(data)


def reliability(confidence: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Return share of points, Σ confidence / n and Σ right / n for each of ten bins, (10, 3).

    >>> reliability(np.array([0.95, 1.0, 0.31, 0.39]), np.array([1, 1, 0, 1])).round(3)[[3, 9]]
    array([[0.5  , 0.175, 0.25 ],
           [0.5  , 0.488, 0.5  ]])
    """
    bins = np.minimum((confidence * _N_BINS).astype(int), _N_BINS - 1)
    sums = [np.bincount(bins, w, minlength=_N_BINS) for w in (None, confidence, right)]
    return np.stack(sums, axis=1) / len(confidence)


def is_right(y: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each point whether its cluster is matched with its class.

    >>> is_right(np.array(["a", "a", "b"]), np.array([1, 1, 1])).tolist()
    [True, True, False]
    """
    from scipy.optimize import linear_sum_assignment

    table = contingency(y, labels).toarray()
    matched = np.zeros(table.shape, dtype=bool)
    matched[linear_sum_assignment(table, maximize=True)] = True
    # the rows and columns of the table are the sorted distinct values
    codes = (np.unique(values, return_inverse=True)[1] for values in (y, labels))
    return matched[tuple(codes)]


def make_clusterer(method: str, X: NDArray[Any], K: int, seed: int) -> Any:
    """Return the clusterer of a key of :data:`METHODS`."""
    from sklearn import cluster
    from sklearn.mixture import GaussianMixture

    seeded: dict[str, Any] = {"random_state": seed}
    # with the default regularisation the covariances of few points are singular
    regular = {"n_init": 3, "reg_covar": 1e-4 * X.var(axis=0).mean()}
    # full covariances of many columns have more entries than the tables
    regular["covariance_type"] = "full" if X.shape[1] <= _MOST_FULL else "diag"
    make: dict[str, Callable[[], Any]] = {
        FLAGSHIP: lambda: ConsensusClusterer(K, **seeded),
        "consensus_kmeans": lambda: ConsensusClusterer(K, ensemble="kmeans", **seeded),
        "kmeans": lambda: cluster.KMeans(K, n_init=10, **seeded),
        "mixture": lambda: GaussianMixture(K, **regular, **seeded),
        "ward": lambda: cluster.AgglomerativeClustering(K),
        "spectral": lambda: cluster.SpectralClustering(K, affinity="nearest_neighbors", **seeded),
        "hdbscan": lambda: cluster.HDBSCAN(copy=True),
        "genie": lambda: _genie(K),
    }
    return make[method]()


def _genie(K: int) -> Any:
    """Return Genie with its defaults; its licence allows a comparison but no dependency."""
    return import_module("genieclust").Genie(n_clusters=K)


def _run_sets(
    listed: Sequence[tuple[FeatureSet, Found]], n_seeds: int, context: Context, jobs: int
) -> list[dict[str, Any]]:
    seeded = tuple(method for method in METHODS if method not in _ONCE)
    once = tuple(m for m in _ONCE if m != "genie" or find_spec("genieclust"))
    draws = []
    for methods, n, end in ((seeded, n_seeds, ""), (once, 1, "-once")):
        cells = [
            Cell(
                f"features-{one.name}{end}",
                # what others recorded is not run again
                tuple(m for m in methods if m not in (one.recorded or {})),
                partial(_load, one),
            )
            for one, _ in listed
        ]
        draws.append(run_cells(cells, n, context, jobs).values())
    return [
        _set_data(one, about, each, found)
        for (one, about), each, (found,) in zip(listed, *draws, strict=True)
    ]


def _set_data(one: FeatureSet, about: Found, each: Sets, once: Found) -> dict[str, Any]:
    """Combine the draws with each seed, the draw of methods without one, and recorded scores."""
    _check_ran(one.name, (*each, once), (*OURS, NUMBER))
    recorded = one.recorded or {}
    methods = {}
    for m in METHODS:
        if m in recorded:
            outcomes = [{**_RECORDED, "accuracy": recorded[m]}]
        else:
            outcomes = [draw[m] for draw in ([once] if m in _ONCE else each) if m in draw]
        if outcomes:
            methods[m] = summarise(outcomes)
    return {
        **about,
        **{key: once[NUMBER][key] for key in ("n", "p", "K")},
        "methods": methods,
        "recorded": sorted(recorded),
        NUMBER: once[NUMBER],
        "bins": np.mean(
            [draw[FLAGSHIP]["bins"] for draw in (*each, {FLAGSHIP: once[NUMBER]})], axis=0
        ).tolist(),
    }


def _check_ran(name: str, draws: Sets, methods: Sequence[str]) -> None:
    """Raise an error if one of the methods failed in a draw."""
    outcomes = [(method, draw[method]) for draw in draws for method in methods if method in draw]
    for method, outcome in outcomes:
        if outcome["status"] != "ran":
            raise CoterieError(f"{name}, {method}: {outcome['message']}")


def _load(one: FeatureSet) -> Callable[[int], Score]:
    X, y = one.load()
    # references are numbered from 1; 0 is noise, which is not scored
    references = list(y.T) if y.ndim == 2 else [np.unique(y, return_inverse=True)[1] + 1]
    return lambda seed: partial(_scores, X, references, seed)


def best_reference(references: Sequence[NDArray[Any]], labels: NDArray[Any]) -> tuple[float, int]:
    """Return the largest adjusted Rand index with one of the references, and its place.

    >>> best_reference([np.array([1, 1, 2, 2]), np.array([1, 2, 2, 0])], np.array([5, 6, 6, 6]))
    (1.0, 1)
    """
    scores = [adjusted_rand_index(y[y > 0], labels[y > 0]) for y in references]
    return float(max(scores)), int(np.argmax(scores))


def _scores(
    X: NDArray[Any], references: Sequence[NDArray[Any]], seed: int, method: str
) -> dict[str, Any]:
    """Return the best adjusted Rand index as "accuracy", and what else is asked of the method.

    If references have different numbers of clusters, each number is tried.
    """
    if method == NUMBER:
        return _chosen_number(X, references, seed)
    found: dict[str, Any] = {"accuracy": -1.0}
    for K in sorted({int(y.max()) for y in references}):
        est = make_clusterer(method, X, K, seed)
        labels = est.fit_predict(X)
        of_k = [y for y in references if y.max() == K]
        score, place = best_reference(of_k, labels)
        if score > found["accuracy"]:
            found["accuracy"] = score
            if method == FLAGSHIP:
                found["bins"] = _bins(est, of_k[place])
    return found


def _bins(est: Any, y: NDArray[Any]) -> list[list[float]]:
    """Return the reliability of the confidence in the points that are not noise."""
    right = is_right(y[y > 0], est.labels_[y > 0]) & (est.labels_[y > 0] >= 0)
    return reliability(est.confidence_[y > 0], right).tolist()


def _chosen_number(
    X: NDArray[Any], references: Sequence[NDArray[Any]], seed: int
) -> dict[str, Any]:
    """Choose K without the classes, and by the silhouette of k-means among the same K."""
    from sklearn.metrics import silhouette_score

    est = ConsensusClusterer(random_state=seed).fit(X)
    answers = {
        int(K): make_clusterer("kmeans", X, int(K), seed).fit_predict(X)
        for K in est.k_choice_.ks
        if len(X) > K
    }
    sample = min(len(X), _MOST_SILHOUETTE)
    best = max(
        answers,
        key=lambda K: silhouette_score(X, answers[K], sample_size=sample, random_state=0),
    )
    score, place = best_reference(references, est.labels_)
    return {
        **{"n": len(X), "p": X.shape[1]},
        "K": [int(y.max()) for y in references],
        "accuracy": score,
        "chosen": int(est.n_clusters_),
        "is_weak": bool(est.k_choice_.is_weak),
        "silhouette": best,
        "silhouette_ari": best_reference(references, answers[best])[0],
        "bins": _bins(est, references[place]),
    }


def _run_views(names: Sequence[str], context: Context, jobs: int) -> list[dict[str, Any]]:
    methods = ("views", "kmeans")
    cells = [Cell(f"features-views-{name}", methods, partial(_load_views, name)) for name in names]
    found = run_cells(cells, 1 if context.quick else 2, context, jobs).values()
    rows = []
    for name, draws in zip(names, found, strict=True):
        _check_ran(name, draws, methods)
        means = {method: summarise([draw[method] for draw in draws])["mean"] for method in methods}
        rows.append({"name": name, **means})
    return rows


def _load_views(name: str) -> Callable[[int], Score]:
    from sklearn.preprocessing import StandardScaler

    views, y = load_views(name)
    K, X = len(np.unique(y)), StandardScaler().fit_transform(np.hstack(views))

    def accuracy(seed: int, method: str) -> float:
        clusterer = MultiViewClusterer(K, standardize=True, random_state=seed)
        if method == "views":
            return clustering_accuracy(y, clusterer.fit_predict(views))
        return clustering_accuracy(y, make_clusterer(method, X, K, seed).fit_predict(X))

    return lambda seed: partial(accuracy, seed)


def _run_times(context: Context) -> list[dict[str, Any]]:
    def measured() -> dict[str, Any]:
        found = measure(partial(_timed, n, p, method))
        return {"seconds": found.seconds, **found.facts}

    kept, rows = context.trials("features-times"), []
    for (n, p), methods in (_QUICK_TIMED if context.quick else _TIMED).items():
        for method in methods:
            trial = {"n": n, "p": p, "method": method}
            rows.append({**trial, **kept.find_or_run(trial, measured)})
    return rows


def _timed(n: int, p: int, method: str, watch: Stopwatch) -> dict[str, float]:
    from sklearn.datasets import make_blobs

    settings = {"centers": 10, "cluster_std": 3.0, "center_box": (-4, 4), "random_state": 0}
    X, y = make_blobs(n, n_features=p, **settings)
    est = make_clusterer(method, X, 10, 0)
    if method == FLAGSHIP:
        est.set_params(n_jobs=2)
    with watch.warm_up():
        est.fit_predict(X[:300])
    with watch.measure():
        labels = est.fit_predict(X)
    return {"ari": adjusted_rand_index(y, labels)}
