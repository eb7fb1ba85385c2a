"""Run one method of one package on one task, inside the environment of the package.

    python runner.py METHOD TASK ANSWER MEMORY SECONDS

TASK is a folder with ``task.json`` (``n_clusters``, ``n_runs``) and arrays: ``P.npy`` (n, V)
labels, ``X.npy`` (n, p) features, or ``view_0.npy``, ``view_1.npy`` … ANSWER is a folder; the
script creates ``started`` in it when the clock starts, then ``labels.npy`` and ``answer.json``.
MEMORY is the limit of the address space in bytes. SECONDS ends the process if its parent is gone.

Only the standard library and NumPy are imported here. The function that wraps a package imports
it, before the clock starts.
"""

from __future__ import annotations

import contextlib
import gc
import json
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

#: A method runs once on so many rows before the clock starts, so that nothing is compiled later …
WARM_UP_ROWS = 60
#: … except these, in plain Python, where it would take as long as the work.
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


Solver = Callable[[Data], Any]


def main(arguments: list[str]) -> int:
    """Run a method and write its answer or its error; return the exit status."""
    method, task, answer, memory, seconds = arguments
    signal.alarm(int(seconds))
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    folder = Path(answer)
    try:
        found = _measured(method, _load(Path(task)), folder)
    except MemoryError as error:
        found = {"failure": "memory", "message": f"MemoryError: {error}".rstrip(": ")}
    except Exception as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines() or [""]
        found = {"failure": "crash", "message": f"{type(error).__name__}: {lines[-1]}".rstrip(": ")}
    (folder / "answer.json").write_text(json.dumps(found), encoding="utf-8")
    return 1 if "failure" in found else 0


def _measured(method: str, data: Data, folder: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    np.random.seed(0)  # noqa: NPY002 (some packages use only this generator)
    solve = METHODS[method]()
    if method not in WITHOUT_WARM_UP:
        solve(data.head(WARM_UP_ROWS))
    gc.collect()
    with contextlib.suppress(OSError):  # resets the peak where the system allows it
        Path("/proc/self/clear_refs").write_text("5")
    before = _peak_resident_bytes()
    (folder / "started").touch()
    start = time.perf_counter()
    labels = solve(data)
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
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def _ensembleclustering(solver: str) -> Solver:
    package = import_module("ensembleclustering")

    def solve(data: Data) -> Any:
        return package.cluster_ensembles(
            np.ascontiguousarray(data.P.T), nclass=data.n_clusters, solver=solver, random_state=0
        )

    return solve


def _openensembles(finish: Callable[[Any, Data], Any]) -> Solver:
    package, pandas = import_module("openensembles"), import_module("pandas")

    def solve(data: Data) -> Any:
        # the package makes its own partitions; ours are put in their place
        points = package.data(pandas.DataFrame(np.zeros((data.n_points, 1))), [0])
        ensemble = package.cluster(points)
        for v, column in enumerate(data.P.T):
            ensemble.labels[f"run {v}"] = column
            ensemble.params[f"run {v}"] = {}
        (labels,) = finish(ensemble, data).labels.values()
        return labels

    return solve


def _scikit_network(algorithm: str) -> Solver:
    """Return a Potts model at 1/2 on the co-association graph M: M_ij > 1/2 attracts."""
    from scipy import sparse

    model = getattr(import_module("sknetwork.clustering"), algorithm)

    def solve(data: Data) -> Any:
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

    return solve


def _one_hot_kmeans() -> Solver:
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import OneHotEncoder

    def solve(data: Data) -> Any:
        model = KMeans(data.n_clusters, n_init=10, random_state=0)
        return model.fit_predict(OneHotEncoder().fit_transform(data.P))

    return solve


def _consensusclustering() -> Solver:
    """Return the consensus matrix cut by average linkage, the last step of Monti et al."""
    from sklearn.cluster import AgglomerativeClustering, KMeans

    package = import_module("consensusclustering")

    def solve(data: Data) -> Any:
        K = data.n_clusters
        runs = package.ConsensusClustering(
            KMeans(n_init=1, random_state=0), K, K, data.n_runs, resample_frac=0.8, rng=0
        )
        runs.fit(data.X)
        last = AgglomerativeClustering(K, metric="precomputed", linkage="average")
        return last.fit_predict(1.0 - runs.consensus_k(K))

    return solve


def _pyckmeans() -> Solver:
    package = import_module("pyckmeans")

    def solve(data: Data) -> Any:
        # no metrics: silhouettes of every run are not used here
        settings = {"n_rep": data.n_runs, "metrics": (), "n_init": 1, "random_state": 0}
        model = package.CKmeans(data.n_clusters, **settings)
        model.fit(data.X)
        return model.predict(data.X).cl

    return solve


def _mvlearn(name: str, n_views: int | None = None, many_starts: bool = False) -> Solver:
    model = getattr(import_module("mvlearn.cluster"), name)

    def solve(data: Data) -> Any:
        starts = {"n_init": data.n_runs} if many_starts else {}
        fitted = model(n_clusters=data.n_clusters, random_state=0, **starts)
        return fitted.fit_predict(list(data.views[:n_views]))

    return solve


def _coterie(name: str, **settings: Any) -> Solver:
    import coterie

    def solve(data: Data) -> Any:
        model = getattr(coterie, name)(data.n_clusters, random_state=0, **settings)
        return model.fit(data.P).labels_

    return solve


def _coterie_robust() -> Solver:
    """Return RobustConsensus, with the kernels for many distinct tuples compiled."""
    many = np.random.default_rng(0).integers(3, size=(_SINGLE_PRECISION_ROWS, 12))
    _coterie("RobustConsensus", max_iter=2, refine=False)(Data(3, 12, P=many))
    return _coterie("RobustConsensus")


def _coterie_features(name: str) -> Solver:
    import coterie

    def solve(data: Data) -> Any:
        model = getattr(coterie, name)(data.n_clusters, n_partitions=data.n_runs, random_state=0)
        return model.fit(data.X if data.X is not None else list(data.views)).labels_

    return solve


#: Each value imports its package and returns the function from the data to labels.
METHODS: dict[str, Callable[[], Solver]] = {
    **{
        f"ensembleclustering.{solver}": partial(_ensembleclustering, solver)
        for solver in ("cspa", "hgpa", "mcla", "hbgf", "nmf")
    },
    "openensembles.graph": lambda: _openensembles(lambda c, _: c.finish_graph_closure(0.5)),
    "openensembles.mixture": lambda: _openensembles(lambda c, d: c.mixture_model(d.n_clusters)),
    "openensembles.linkage": lambda: _openensembles(
        lambda c, _: c.finish_co_occ_linkage(0.5, linkage="average")
    ),
    "openensembles.majority": lambda: _openensembles(
        lambda c, _: c.finish_majority_vote(threshold=0.5)
    ),
    "scikit-network.louvain": partial(_scikit_network, "Louvain"),
    "scikit-network.leiden": partial(_scikit_network, "Leiden"),
    "scikit-learn.one-hot": _one_hot_kmeans,
    "consensusclustering": _consensusclustering,
    "pyckmeans": _pyckmeans,
    "mvlearn.kmeans": partial(_mvlearn, "MultiviewKMeans", 2, many_starts=True),
    "mvlearn.spectral": partial(_mvlearn, "MultiviewSpectralClustering"),
    "mvlearn.co-regularised": partial(_mvlearn, "MultiviewCoRegSpectralClustering"),
    "coterie.robust": _coterie_robust,
    "coterie.robust-l2": partial(_coterie, "RobustConsensus", relaxation="l2"),
    "coterie.l2": partial(_coterie, "L2Consensus"),
    "coterie.features": partial(_coterie_features, "ConsensusClusterer"),
    "coterie.views": partial(_coterie_features, "MultiViewClusterer"),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
