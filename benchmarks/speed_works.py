"""The works that the benchmarks ``speed`` and ``growing`` measure, and the labels they read.

Every work runs in a new process, so its input is a file of labels P (n, V) and classes y (n,).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Stopwatch
from coterie.errors import InvalidLabelsError

N_FEATURES = 10
#: Standard deviation of the mixture's components; their centres are uniform in [−10, 10].
SPREAD = 6.0

_WARM_UP_ROWS, _WARM_UP_TUPLES = 1000, 20_000
# above 4,000 tuples the relaxation uses single precision, with kernels compiled for it
_SINGLE_PRECISION_ROWS = 4100
_MAJORITY = 0.5

Facts = dict[str, Any]
Labels = NDArray[np.int32]


def write_kmeans_labels(
    path: Path, n_rows: int, n_clusters: int, n_partitions: int, strategy: str
) -> None:
    """Write labels of k-means runs on a Gaussian mixture."""
    from sklearn.datasets import make_blobs

    from coterie.ensembles.making import make_partitions

    X, y = make_blobs(n_rows, N_FEATURES, centers=n_clusters, cluster_std=SPREAD, random_state=0)
    P = make_partitions(X, n_clusters, n_partitions, strategy=strategy, n_jobs=-1, random_state=0)
    np.savez(path, P=P, y=y.astype(np.int32))


def write_planted_labels(
    path: Path, sizes: tuple[int, ...], n_partitions: int, n_bad: int, noise: float
) -> None:
    """Write planted partitions; the bad ones agree on a wrong partition."""
    from coterie.ensembles.planted import planted_partitions

    P, y = planted_partitions(sizes, n_partitions, n_bad, noise, random_state=0)
    np.savez(path, P=P, y=y)


def fit_consensus(watch: Stopwatch, path: Path, n_clusters: int, **settings: Any) -> Facts:
    """Fit :class:`~coterie.RobustConsensus`."""
    from coterie import RobustConsensus
    from coterie.ensembles.planted import planted_partitions

    P, y = _load_labels(path)
    consensus = RobustConsensus(n_clusters, random_state=0, **settings)
    with watch.warm_up():
        consensus.fit(P[:_WARM_UP_ROWS])
        if consensus.relaxation == "admm" and len(P) > _SINGLE_PRECISION_ROWS:
            sizes = [_SINGLE_PRECISION_ROWS // n_clusters + 1] * n_clusters
            many = planted_partitions(sizes, P.shape[1], 0, 0.5, random_state=0)[0]
            RobustConsensus(n_clusters, random_state=0, **settings, max_iter=2, refine=False).fit(
                many
            )
    with watch.measure():
        consensus.fit(P)
    return _consensus_facts(consensus, P, y)


def grow_consensus(watch: Stopwatch, path: Path, n_clusters: int, n_before: int) -> Facts:
    """Add the partitions from ``n_before`` on by ``partial_fit`` to a fit on those before."""
    from coterie import RobustConsensus

    P, y = _load_labels(path)
    few, before, new = P[:_WARM_UP_ROWS], slice(None, n_before), slice(n_before, None)
    consensus = RobustConsensus(n_clusters, random_state=0).fit(P[:, before])
    with watch.warm_up():
        RobustConsensus(n_clusters, random_state=0).fit(few[:, before]).partial_fit(few[:, new])
    with watch.measure():
        consensus.partial_fit(P[:, new])
    return _consensus_facts(consensus, P, y)


def fit_one_hot_kmeans(watch: Stopwatch, path: Path, n_clusters: int, dense: bool) -> Facts:
    """Run scikit-learn's k-means, ten starts, on one-hot labels; encoding is not measured.

    The encoding is sparse in double precision, or dense in single precision.
    """
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import OneHotEncoder

    P, y = _load_labels(path)
    encoder = OneHotEncoder(sparse_output=False, dtype=np.float32) if dense else OneHotEncoder()
    encoded = encoder.fit_transform(P)
    with watch.warm_up():
        KMeans(n_clusters, n_init=1, random_state=0).fit(encoded[:_WARM_UP_ROWS])
    with watch.measure():
        fitted = KMeans(n_clusters, n_init=10, random_state=0).fit(encoded)
    return {"n_iter": fitted.n_iter_, **_quality(P, y, fitted.labels_)}


def relax(watch: Stopwatch, path: Path, n_clusters: int, n_iter: int) -> Facts:
    """Take ``n_iter`` steps of the robust relaxation."""
    from coterie.relaxation.admm import robust_factor

    M, start = _load_relaxation(path, n_clusters)
    with watch.warm_up():
        robust_factor(M, start, max_iter=2, tol=0.0)
    with watch.measure():
        found = robust_factor(M, start, max_iter=n_iter, tol=0.0)  # no tolerance: all the steps
    return {"n_tuples": len(start), "n_iter": found.n_iter, "objective": found.objective}


def relax_by_the_book(watch: Stopwatch, path: Path, n_clusters: int, n_iter: int) -> Facts:
    """Take the same steps in the textbook form."""
    from coterie.relaxation.reference_admm import reference_robust_relaxation

    M, start = _load_relaxation(path, n_clusters)
    if (M.weights != 1).any():
        raise InvalidLabelsError(
            f"some rows of {path} are equal, but the reference counts each tuple once; "
            "plant more noise or more partitions"
        )
    dense = M.dense()
    del M
    with watch.measure():
        steps = reference_robust_relaxation(dense, start, n_iter=n_iter).objective
    return {"n_tuples": len(start), "n_iter": len(steps), "objective": min(steps)}


def search(watch: Stopwatch, path: Path, n_clusters: int, in_blocks: bool) -> Facts:
    """Move tuples from the first partition until no single move improves the objective.

    The sweeps run in blocks on all cores, or over one tuple after the other in double precision.
    """
    from coterie.labels.tuples import as_label_tuples

    P, _ = _load_labels(path)
    tuples = as_label_tuples(P)
    with watch.warm_up():
        few = tuples.codes[:_WARM_UP_TUPLES] - tuples.offsets[:-1]
        _search(as_label_tuples(few), n_clusters, in_blocks)
    with watch.measure():
        n_sweeps, tables = _search(tuples, n_clusters, in_blocks)
    return {"n_tuples": tuples.n_tuples, "n_iter": n_sweeps, "objective": tables.objective()}


def _search(tuples: Any, n_clusters: int, in_blocks: bool) -> tuple[int, Any]:
    """Return the number of sweeps and the tables of the final clusters."""
    from coterie.counts.cluster_tables import ClusterTables
    from coterie.search.search_kernels import move_rows
    from coterie.search.sweeps import sweep

    labels = tuples.labels_of_partition(0)
    tables = ClusterTables.of(tuples, labels, np.ones(tuples.n_partitions), n_clusters)
    all_tuples = np.ones(tuples.n_tuples, dtype=np.bool_)
    n_sweeps, n_moved = 0, 1
    while n_moved:
        n_sweeps += 1
        n_moved = sweep(tuples, labels, tables, _MAJORITY) if in_blocks else move_rows(
            tuples.codes, tuples.weights, tables.alpha, _MAJORITY, tables.complete, 0,
            tuples.n_tuples, all_tuples, labels, tables.table, tables.present, tables.size,
        )  # fmt: skip
    return n_sweeps, tables


def _load_labels(path: Path) -> tuple[Labels, Labels]:
    with np.load(path) as arrays:
        return arrays["P"], arrays["y"]


def _load_relaxation(path: Path, n_clusters: int) -> tuple[Any, NDArray[np.float64]]:
    """Return the co-association M of u tuples and the start (u, K)."""
    from coterie.counts.coassociation import tuple_coassociation
    from coterie.labels.tuples import as_label_tuples
    from coterie.relaxation.least_squares import least_squares_factor

    tuples = as_label_tuples(_load_labels(path)[0])
    equal = np.ones(tuples.n_partitions)
    return tuple_coassociation(tuples, equal), least_squares_factor(tuples, equal, n_clusters)


def _consensus_facts(fitted: Any, P: Labels, y: Labels) -> Facts:
    return {
        "n_tuples": fitted.n_tuples_,
        "n_iter": fitted.n_iter_,
        "method": fitted.selected_["method"],
        **_quality(P, y, fitted.labels_),
    }


def _quality(P: Labels, y: Labels, found: NDArray[Any]) -> Facts:
    from coterie import clustering_accuracy, mirkin_objective

    accuracy, objective = clustering_accuracy(y, found), mirkin_objective(P, found)
    return {"accuracy": accuracy, "objective": objective, "label_bytes": P.nbytes}
