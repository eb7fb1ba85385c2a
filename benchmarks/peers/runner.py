"""Run one method of one package on one task, inside the environment of the package.

    python runner.py METHOD TASK ANSWER MEMORY

TASK is a folder with ``task.json`` (``n_clusters``, ``n_runs``) and arrays: ``P.npy`` (n, V)
labels, ``X.npy`` (n, p) features, or ``view_0.npy``, ``view_1.npy`` … ANSWER is a folder; the
script creates ``started`` in it when the clock starts, then ``labels.npy`` and ``answer.json``.
MEMORY is the limit of the address space in bytes. Linux only.

Only the standard library and NumPy are imported here. The function that wraps a package imports
it; a first call on a few rows does so before the clock starts.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

#: A method runs once on so many rows before the clock starts, so that nothing is imported or
#: compiled later …
WARM_UP_ROWS = 60
#: … except these, in plain Python, where it would take as long as the work: only their package is
#: imported.
WITHOUT_WARM_UP = {"ensembleclustering.mcla", "openensembles.graph", "openensembles.mixture"}
#: From so many distinct tuples on coterie uses its single-precision kernels.
_SINGLE_PRECISION_ROWS = 4200


@dataclass(frozen=True)
class Data:
    """A task: number of clusters, number of runs (a view), and labels, features or views."""

    n_clusters: int
    n_runs: int
    P: Any = None
    X: Any = None
    views: tuple[Any, ...] = ()

    @property
    def n_points(self) -> int:
        """Number of points, one row each."""
        return len(next(rows for rows in (self.P, self.X, *self.views) if rows is not None))

    def head(self, n: int) -> Data:
        """Return the first n points."""
        P, X = (rows if rows is None else rows[:n] for rows in (self.P, self.X))
        return replace(self, P=P, X=X, views=tuple(view[:n] for view in self.views))


def main(arguments: list[str]) -> None:
    """Run a method and write its answer or its error."""
    method, task, answer, memory = arguments
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    folder = Path(answer)
    try:
        found = _measured(method, _load(Path(task)), folder)
    except Exception as error:
        status = "memory" if isinstance(error, MemoryError) else "crash"
        lines = str(error).strip().splitlines() or [""]
        found = {"status": status, "message": f"{type(error).__name__}: {lines[-1]}"}
    (folder / "answer.json").write_text(json.dumps(found), encoding="utf-8")


def _measured(method: str, data: Data, folder: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    np.random.seed(0)  # noqa: NPY002 (some packages use only this generator)
    warm_up(method, data)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _peak_resident_bytes()
    (folder / "started").touch()
    start = time.perf_counter()
    labels = METHODS[method](data)
    seconds = time.perf_counter() - start
    peak = _peak_resident_bytes()
    np.save(folder / "labels.npy", np.asarray(labels), allow_pickle=False)
    return {"seconds": seconds, "peak_bytes": peak, "bytes_before": before}


def _load(folder: Path) -> Data:
    described = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    paths = {name: folder / f"{name}.npy" for name in ("P", "X")}
    arrays = {name: np.load(path) for name, path in paths.items() if path.exists()}
    views = tuple(np.load(path) for path in sorted(folder.glob("view_*.npy")))
    return Data(**described, views=views, **arrays)


def _peak_resident_bytes() -> int:
    """Return the peak of this process alone: ``ru_maxrss`` may be that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def warm_up(method: str, data: Data) -> None:
    """Import the package of a method and compile what it compiles."""
    if method in WITHOUT_WARM_UP:
        import_module(method.partition(".")[0])
    else:
        METHODS[method](data.head(WARM_UP_ROWS))


def _ensembleclustering(data: Data, solver: str) -> Any:
    package, P = import_module("ensembleclustering"), np.ascontiguousarray(data.P.T)
    return package.cluster_ensembles(P, nclass=data.n_clusters, solver=solver, random_state=0)


def _openensembles(data: Data, finish: Callable[[Any, Data], Any]) -> Any:
    package, pandas = import_module("openensembles"), import_module("pandas")
    # the package makes its own partitions; ours are put in their place
    points = package.data(pandas.DataFrame(np.zeros((data.n_points, 1))), [0])
    ensemble = package.cluster(points)
    for v, column in enumerate(data.P.T):
        ensemble.labels[f"run {v}"] = column
        ensemble.params[f"run {v}"] = {}
    (labels,) = finish(ensemble, data).labels.values()
    return labels


def _scikit_network(data: Data, algorithm: str) -> Any:
    """Cluster by a Potts model at 1/2 on the co-association graph M: M_ij > 1/2 attracts."""
    from scipy import sparse

    model = getattr(import_module("sknetwork.clustering"), algorithm)
    n, V = data.P.shape
    first = np.concatenate(([0], np.cumsum(data.P.max(axis=0) + 1)))
    columns = (data.P + first[:-1]).ravel()
    ends = np.arange(0, n * V + 1, V)
    # B has one column for each base cluster
    B = sparse.csr_matrix((np.ones(n * V), columns, ends), shape=(n, first[-1]))
    M = (B @ B.T).tocsr() / V
    M.setdiag(0)
    M.eliminate_zeros()
    resolution = 0.5 * n * n / M.sum()
    return model(resolution, modularity="potts", random_state=0).fit_predict(M)


def _one_hot_kmeans(data: Data) -> Any:
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import OneHotEncoder

    model = KMeans(data.n_clusters, n_init=10, random_state=0)
    return model.fit_predict(OneHotEncoder().fit_transform(data.P))


def _consensusclustering(data: Data) -> Any:
    """Cut the consensus matrix by average linkage, the last step of Monti et al."""
    from sklearn.cluster import AgglomerativeClustering, KMeans

    K, package = data.n_clusters, import_module("consensusclustering")
    base = KMeans(n_init=1, random_state=0)
    runs = package.ConsensusClustering(base, K, K, data.n_runs, resample_frac=0.8, rng=0)
    runs.fit(data.X)
    last = AgglomerativeClustering(K, metric="precomputed", linkage="average")
    return last.fit_predict(1.0 - runs.consensus_k(K))


def _pyckmeans(data: Data) -> Any:
    # no metrics: silhouettes of every run are not used here
    settings = {"n_rep": data.n_runs, "metrics": (), "n_init": 1, "random_state": 0}
    model = import_module("pyckmeans").CKmeans(data.n_clusters, **settings)
    model.fit(data.X)
    return model.predict(data.X).cl


def _mvlearn(data: Data, name: str, n_views: int | None = None, many_starts: bool = False) -> Any:
    model = getattr(import_module("mvlearn.cluster"), name)
    starts = {"n_init": data.n_runs} if many_starts else {}
    fitted = model(n_clusters=data.n_clusters, random_state=0, **starts)
    return fitted.fit_predict(list(data.views[:n_views]))


def _coterie(data: Data, name: str, **settings: Any) -> Any:
    model = getattr(import_module("coterie"), name)
    given = data.P if data.P is not None else data.X if data.X is not None else list(data.views)
    if data.P is None:
        settings["n_partitions"] = data.n_runs
    return model(data.n_clusters, random_state=0, **settings).fit(given).labels_


#: From the data to labels.
METHODS: dict[str, Callable[[Data], Any]] = {
    **{
        f"ensembleclustering.{solver}": partial(_ensembleclustering, solver=solver)
        for solver in ("cspa", "hgpa", "mcla", "hbgf", "nmf")
    },
    **{
        f"openensembles.{name}": partial(_openensembles, finish=finish)
        for name, finish in {
            "graph": lambda c, _: c.finish_graph_closure(0.5),
            "mixture": lambda c, data: c.mixture_model(data.n_clusters),
            "linkage": lambda c, _: c.finish_co_occ_linkage(0.5, linkage="average"),
            "majority": lambda c, _: c.finish_majority_vote(threshold=0.5),
        }.items()
    },
    "scikit-network.louvain": partial(_scikit_network, algorithm="Louvain"),
    "scikit-network.leiden": partial(_scikit_network, algorithm="Leiden"),
    "scikit-learn.one-hot": _one_hot_kmeans,
    "consensusclustering": _consensusclustering,
    "pyckmeans": _pyckmeans,
    "mvlearn.kmeans": partial(_mvlearn, name="MultiviewKMeans", n_views=2, many_starts=True),
    "mvlearn.spectral": partial(_mvlearn, name="MultiviewSpectralClustering"),
    "mvlearn.co-regularised": partial(_mvlearn, name="MultiviewCoRegSpectralClustering"),
    "coterie.robust": partial(_coterie, name="RobustConsensus"),
    "coterie.robust-l2": partial(_coterie, name="RobustConsensus", relaxation="l2"),
    "coterie.l2": partial(_coterie, name="L2Consensus"),
    "coterie.features": partial(_coterie, name="ConsensusClusterer"),
    "coterie.views": partial(_coterie, name="MultiViewClusterer", standardize=True),
}


if __name__ == "__main__":
    main(sys.argv[1:])
