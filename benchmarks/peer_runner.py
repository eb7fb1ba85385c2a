"""One method of one package on one task: the script that runs inside a peer's environment.

    python peer_runner.py METHOD TASK ANSWER MEMORY SECONDS

TASK is a folder with ``task.json`` (``n_clusters``, ``n_runs``) and arrays: ``P.npy`` (n, V)
labels, ``X.npy`` (n, p) features, or ``view_0.npy``, ``view_1.npy`` … ANSWER is a folder; the
script leaves ``started`` in it when the clock starts, then ``labels.npy`` and ``answer.json``.
MEMORY is the most bytes of address space the process may have, and SECONDS the longest it lives
should nobody be left to end it.

Nothing but the standard library and NumPy is imported here: a package is imported by the
function that wraps it, before the clock starts.
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
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["METHODS", "Data", "Method", "main"]

#: Rows of the task on which a method runs once before the clock starts.
WARM_UP_ROWS = 60
# from so many distinct tuples on coterie relaxes in single precision, by kernels of its own
_SINGLE_PRECISION_ROWS = 4200


@dataclass(frozen=True)
class Data:
    """A task: what is clustered, into how many clusters, by how many runs (a view)."""

    n_clusters: int
    n_runs: int
    P: Any = None
    X: Any = None
    views: tuple[Any, ...] = field(default=())

    @property
    def n_points(self) -> int:
        """Number of points; whatever is given has one row each."""
        rows = next(rows for rows in (self.P, self.X, *self.views) if rows is not None)
        return len(rows)

    def head(self, n: int) -> Data:
        """The first n points alone."""
        P, X = (rows if rows is None else rows[:n] for rows in (self.P, self.X))
        return replace(self, P=P, X=X, views=tuple(view[:n] for view in self.views))


Solver = Callable[[Data], Any]


@dataclass(frozen=True)
class Method:
    """How a method is called.

    Attributes
    ----------
    solver : function without arguments
        Imports the package and gives the function from the data to labels.
    warm_up_rows : int
        On how many rows it runs once before; 0 where there is nothing to warm up.
    compile_first : function without arguments, optional
        Runs before as well, for compilers whose work depends on the size.
    """

    solver: Callable[[], Solver]
    warm_up_rows: int = WARM_UP_ROWS
    compile_first: Callable[[], None] | None = None


def main(arguments: list[str]) -> int:
    """Run a method and leave its answer, or why there is none; the exit status tells which."""
    method, task, answer, memory, seconds = arguments
    signal.alarm(int(seconds))
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    folder = Path(answer)
    try:
        found = _measured(METHODS[method], _load(Path(task)), folder)
    except MemoryError as error:
        found = {"failure": "memory", "message": f"MemoryError: {error}".rstrip(": ")}
    except Exception as error:
        traceback.print_exc()
        said = str(error).strip().splitlines() or [""]
        found = {"failure": "crash", "message": f"{type(error).__name__}: {said[-1]}".rstrip(": ")}
    (folder / "answer.json").write_text(json.dumps(found), encoding="utf-8")
    return 1 if "failure" in found else 0


def _measured(method: Method, data: Data, folder: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    np.random.seed(0)  # noqa: NPY002 (some packages take their numbers from here alone)
    solve = method.solver()
    if method.compile_first is not None:
        method.compile_first()
    if method.warm_up_rows:
        solve(data.head(method.warm_up_rows))
    _forget_peak()
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
    arrays = {
        name: np.load(folder / f"{name}.npy")
        for name in ("P", "X")
        if (folder / f"{name}.npy").exists()
    }
    views = tuple(np.load(path) for path in sorted(folder.glob("view_*.npy")))
    return Data(described["n_clusters"], described["n_runs"], views=views, **arrays)


def _forget_peak() -> None:
    """Let the high-water mark start anew, so that warming up has no part in it."""
    gc.collect()
    with contextlib.suppress(OSError):  # where the system does not allow it, it stays
        Path("/proc/self/clear_refs").write_text("5")


def _peak_resident_bytes() -> int:
    """The high-water mark of this process alone: ``ru_maxrss`` may be that of its parent."""
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
        # it clusters by itself; labels made elsewhere go where it would have put its own
        points = package.data(pandas.DataFrame(np.zeros((data.n_points, 1))), [0])
        ensemble = package.cluster(points)
        for v, column in enumerate(data.P.T):
            ensemble.labels[f"run {v}"] = column
            ensemble.params[f"run {v}"] = {}
        (labels,) = finish(ensemble, data).labels.values()
        return labels

    return solve


def _scikit_network(algorithm: str) -> Solver:
    """Potts model at 1/2 on the co-association graph: M_ij > 1/2 pulls together."""
    from scipy import sparse

    model = getattr(import_module("sknetwork.clustering"), algorithm)

    def solve(data: Data) -> Any:
        n, V = data.P.shape
        first = np.concatenate(([0], np.cumsum(data.P.max(axis=0) + 1)))
        columns = (data.P + first[:-1]).ravel()
        ends = np.arange(0, n * V + 1, V)
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
    """It gives the consensus matrix; average linkage on it is Monti et al.'s own last step."""
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
        model = package.CKmeans(
            data.n_clusters,
            n_rep=data.n_runs,
            metrics=(),  # no silhouettes of every run, which nobody reads here
            n_init=1,
            random_state=0,
        )
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


def _compile_large_kernels() -> None:
    """Have coterie compile what only problems of many distinct tuples need."""
    many = np.random.default_rng(0).integers(3, size=(_SINGLE_PRECISION_ROWS, 12))
    _coterie("RobustConsensus", max_iter=2, refine=False)(Data(3, 12, P=many))


def _coterie_features(name: str) -> Solver:
    import coterie

    def solve(data: Data) -> Any:
        model = getattr(coterie, name)(data.n_clusters, n_partitions=data.n_runs, random_state=0)
        return model.fit(data.X if data.X is not None else list(data.views)).labels_

    return solve


METHODS = {
    **{
        f"ensembleclustering.{solver}": Method(partial(_ensembleclustering, solver))
        for solver in ("cspa", "hgpa", "hbgf", "nmf")
    },
    # in these, plain Python, a warm-up would take as long as the work itself
    "ensembleclustering.mcla": Method(partial(_ensembleclustering, "mcla"), warm_up_rows=0),
    "openensembles.graph": Method(
        lambda: _openensembles(lambda c, _: c.finish_graph_closure(0.5)), warm_up_rows=0
    ),
    "openensembles.mixture": Method(
        lambda: _openensembles(lambda c, data: c.mixture_model(data.n_clusters)), warm_up_rows=0
    ),
    "openensembles.linkage": Method(
        lambda: _openensembles(lambda c, _: c.finish_co_occ_linkage(0.5, linkage="average"))
    ),
    "openensembles.majority": Method(
        lambda: _openensembles(lambda c, _: c.finish_majority_vote(threshold=0.5))
    ),
    "scikit-network.louvain": Method(partial(_scikit_network, "Louvain")),
    "scikit-network.leiden": Method(partial(_scikit_network, "Leiden")),
    "scikit-learn.one-hot": Method(_one_hot_kmeans),
    "consensusclustering": Method(_consensusclustering),
    "pyckmeans": Method(_pyckmeans),
    "mvlearn.kmeans": Method(partial(_mvlearn, "MultiviewKMeans", 2, many_starts=True)),
    "mvlearn.spectral": Method(partial(_mvlearn, "MultiviewSpectralClustering")),
    "mvlearn.co-regularised": Method(partial(_mvlearn, "MultiviewCoRegSpectralClustering")),
    "coterie.robust": Method(
        partial(_coterie, "RobustConsensus"), compile_first=_compile_large_kernels
    ),
    "coterie.robust-l2": Method(partial(_coterie, "RobustConsensus", relaxation="l2")),
    "coterie.l2": Method(partial(_coterie, "L2Consensus")),
    "coterie.features": Method(partial(_coterie_features, "ConsensusClusterer")),
    "coterie.views": Method(partial(_coterie_features, "MultiViewClusterer")),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
