"""What the speed benchmark measures: inputs on disk, our work on them, and that of others.

Every function here runs in a fresh process (:mod:`benchmarks.measuring`), so inputs
come from files and nothing is shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Work
from coterie.errors import InvalidLabelsError

__all__ = [
    "growing_consensus",
    "kmeans_labels",
    "one_hot_kmeans",
    "planted_labels",
    "reference_relaxation",
    "robust_consensus",
    "robust_relaxation",
]

N_FEATURES = 10
#: Standard deviation of the mixture's components; their centres are uniform in [−10, 10].
SPREAD = 6.0
_WARM_UP_ROWS = 1000
# more tuples than this are relaxed in single precision, by kernels compiled for it
_SINGLE_PRECISION_ROWS = 4100


@dataclass(frozen=True)
class LabelData:
    """A label matrix P (n, V) and the classes y (n,) it was made from."""

    P: NDArray[np.int32]
    y: NDArray[np.int32]


@dataclass(frozen=True)
class GrowingData:
    """The same with a consensus that is fitted on the first ``n_before`` columns."""

    labels: LabelData
    fitted: Any
    n_before: int


@dataclass(frozen=True)
class OneHotData:
    """The same with the one-hot encoding (n, ΣK_v) of the labels, sparse or dense."""

    P: NDArray[np.int32]
    y: NDArray[np.int32]
    encoded: Any


@dataclass(frozen=True)
class RelaxationData:
    """Co-association M of u tuples and the factor (u, K) from which to relax."""

    M: Any
    start: NDArray[np.float64]


def kmeans_labels(
    path: Path, n_rows: int, n_clusters: int, n_partitions: int, strategy: str
) -> Work:
    """Write labels of k-means runs on a Gaussian mixture to ``path``."""
    return Work(
        load=partial(Path, path),
        run=partial(
            _write_kmeans_labels,
            n_rows=n_rows,
            n_clusters=n_clusters,
            n_partitions=n_partitions,
            strategy=strategy,
        ),
    )


def planted_labels(
    path: Path, sizes: tuple[int, ...], n_partitions: int, n_bad: int, noise: float
) -> Work:
    """Write labels of planted partitions, the bad ones wrong together, to ``path``."""
    return Work(
        load=partial(Path, path),
        run=partial(
            _write_planted_labels, sizes=sizes, n_partitions=n_partitions, n_bad=n_bad, noise=noise
        ),
    )


def robust_consensus(path: Path, n_clusters: int, **settings: Any) -> Work:
    """:class:`~coterie.RobustConsensus` on the labels at ``path``."""
    settings = {"n_clusters": n_clusters, "random_state": 0, **settings}
    return Work(
        load=partial(_load_labels, path),
        warm_up=partial(_warm_up_consensus, **settings),
        run=partial(_fit_consensus, **settings),
        describe=_describe_consensus,
    )


def growing_consensus(path: Path, n_clusters: int, n_before: int) -> Work:
    """``partial_fit`` of the labels at ``path`` from that column on; what was before is fitted."""
    return Work(
        load=partial(_load_fitted, path, n_clusters=n_clusters, n_before=n_before),
        warm_up=_warm_up_growth,
        run=_grow,
        describe=_describe_grown,
    )


def one_hot_kmeans(path: Path, n_clusters: int, dense: bool) -> Work:
    """scikit-learn's k-means, ten starts, on one-hot labels; encoding is not measured.

    Sparse, what ``OneHotEncoder`` gives by default; dense, in single precision.
    """
    return Work(
        load=partial(_load_one_hot, path, dense=dense),
        warm_up=partial(_warm_up_kmeans, n_clusters=n_clusters),
        run=partial(_fit_kmeans, n_clusters=n_clusters, n_init=10),
        describe=_describe_kmeans,
    )


def robust_relaxation(path: Path, n_clusters: int, n_iter: int) -> Work:
    """``n_iter`` steps of the robust relaxation as this library does them."""
    return Work(
        load=partial(_load_relaxation, path, n_clusters=n_clusters),
        warm_up=partial(_relax, n_iter=2),
        run=partial(_relax, n_iter=n_iter),
        describe=_describe_relaxation,
    )


def reference_relaxation(path: Path, n_clusters: int, n_iter: int) -> Work:
    """The same steps in the textbook form."""
    return Work(
        load=partial(_load_dense_relaxation, path, n_clusters=n_clusters),
        run=partial(_relax_by_the_book, n_iter=n_iter),
        describe=_describe_reference,
    )


def _write_kmeans_labels(
    path: Path, n_rows: int, n_clusters: int, n_partitions: int, strategy: str
) -> None:
    from sklearn.datasets import make_blobs

    from coterie.ensembles.making import make_partitions

    X, y = make_blobs(n_rows, N_FEATURES, centers=n_clusters, cluster_std=SPREAD, random_state=0)
    P = make_partitions(X, n_clusters, n_partitions, strategy=strategy, n_jobs=-1, random_state=0)
    np.savez(path, P=P, y=y.astype(np.int32))


def _write_planted_labels(
    path: Path, sizes: tuple[int, ...], n_partitions: int, n_bad: int, noise: float
) -> None:
    from coterie.ensembles.planted import planted_partitions

    P, y = planted_partitions(sizes, n_partitions, n_bad, noise, random_state=0)
    np.savez(path, P=P, y=y)


def _load_labels(path: Path) -> LabelData:
    with np.load(path) as arrays:
        return LabelData(arrays["P"], arrays["y"])


def _fit_consensus(data: LabelData, **settings: Any) -> Any:
    from coterie.consensus.robust.estimator import RobustConsensus

    return RobustConsensus(**settings).fit(data.P)


def _warm_up_consensus(data: LabelData, **settings: Any) -> None:
    """Compile every kernel the fit may need: for few tuples, and for many in single precision."""
    from coterie.consensus.robust.estimator import RobustConsensus
    from coterie.ensembles.planted import planted_partitions

    RobustConsensus(**settings).fit(data.P[:_WARM_UP_ROWS])
    if settings.get("relaxation") == "admm" and len(data.P) > _SINGLE_PRECISION_ROWS:
        sizes = [_SINGLE_PRECISION_ROWS // settings["n_clusters"] + 1] * settings["n_clusters"]
        P, _ = planted_partitions(sizes, data.P.shape[1], 0, 0.5, random_state=0)
        RobustConsensus(**{**settings, "max_iter": 2, "refine": False}).fit(P)


def _load_fitted(path: Path, n_clusters: int, n_before: int) -> GrowingData:
    from coterie.consensus.robust.estimator import RobustConsensus

    data = _load_labels(path)
    fitted = RobustConsensus(n_clusters, random_state=0).fit(data.P[:, :n_before])
    return GrowingData(data, fitted, n_before)


def _warm_up_growth(data: GrowingData) -> None:
    from sklearn.base import clone

    P = data.labels.P[:_WARM_UP_ROWS]
    clone(data.fitted).fit(P[:, : data.n_before]).partial_fit(P[:, data.n_before :])


def _grow(data: GrowingData) -> Any:
    return data.fitted.partial_fit(data.labels.P[:, data.n_before :])


def _describe_grown(data: GrowingData, fitted: Any) -> dict[str, Any]:
    return _describe_consensus(data.labels, fitted)


def _describe_consensus(data: LabelData, fitted: Any) -> dict[str, Any]:
    return {
        "n_tuples": fitted.n_tuples_,
        "n_iter": fitted.n_iter_,
        "method": fitted.selected_["method"],
        **_quality(data, fitted.labels_),
    }


def _quality(data: LabelData | OneHotData, labels: NDArray[Any]) -> dict[str, Any]:
    """Accuracy against the classes, J, and the size of the label matrix, the same for all."""
    from coterie.inspection.scores import clustering_accuracy, mirkin_objective

    return {
        "accuracy": clustering_accuracy(data.y, labels),
        "objective": mirkin_objective(data.P, labels),
        "label_bytes": data.P.nbytes,
    }


def _load_one_hot(path: Path, dense: bool) -> OneHotData:
    from sklearn.preprocessing import OneHotEncoder

    data = _load_labels(path)
    encoder = OneHotEncoder(sparse_output=False, dtype=np.float32) if dense else OneHotEncoder()
    return OneHotData(data.P, data.y, encoder.fit_transform(data.P))


def _fit_kmeans(data: OneHotData, n_clusters: int, n_init: int) -> Any:
    from sklearn.cluster import KMeans

    return KMeans(n_clusters, n_init=n_init, random_state=0).fit(data.encoded)


def _warm_up_kmeans(data: OneHotData, n_clusters: int) -> None:
    few = OneHotData(data.P, data.y, data.encoded[:_WARM_UP_ROWS])
    _fit_kmeans(few, n_clusters, n_init=1)


def _describe_kmeans(data: OneHotData, fitted: Any) -> dict[str, Any]:
    return {"n_iter": fitted.n_iter_, **_quality(data, fitted.labels_)}


def _load_relaxation(path: Path, n_clusters: int) -> RelaxationData:
    from coterie.counts.coassociation import tuple_coassociation
    from coterie.labels.tuples import as_label_tuples
    from coterie.relaxation.least_squares import least_squares_factor

    tuples = as_label_tuples(_load_labels(path).P)
    equal = np.ones(tuples.n_partitions)
    M = tuple_coassociation(tuples, equal)
    return RelaxationData(M, least_squares_factor(tuples, equal, n_clusters))


def _load_dense_relaxation(path: Path, n_clusters: int) -> RelaxationData:
    data = _load_relaxation(path, n_clusters)
    if (data.M.weights != 1).any():
        raise InvalidLabelsError(
            f"some rows of {path} are equal and the reference counts each tuple once; "
            "plant more noise or more partitions"
        )
    return RelaxationData(data.M.dense(), data.start)


def _relax(data: RelaxationData, n_iter: int) -> Any:
    from coterie.relaxation.admm import robust_factor

    # no tolerance: exactly so many steps
    return robust_factor(data.M, data.start, max_iter=n_iter, tol=0.0)


def _relax_by_the_book(data: RelaxationData, n_iter: int) -> Any:
    from coterie.relaxation.reference_admm import reference_robust_relaxation

    return reference_robust_relaxation(data.M, data.start, n_iter=n_iter)


def _describe_relaxation(data: RelaxationData, result: Any) -> dict[str, Any]:
    return {
        "n_tuples": len(data.start),
        "n_iter": result.n_iter,
        "objective": result.objective,
    }


def _describe_reference(data: RelaxationData, result: Any) -> dict[str, Any]:
    return {
        "n_tuples": len(data.start),
        "n_iter": len(result.objective),
        "objective": min(result.objective),
    }
