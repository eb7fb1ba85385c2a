"""Time and memory of the program on label tables of ten thousand to ten million rows.

Every trial runs ``coterie consensus TABLE --id id -k K -o OUT --quiet --json`` in a new process
(:mod:`benchmarks.program_runs`) and compares the written labels, joined by id, with the truth.
There are two families of tables (:mod:`benchmarks.scale_tables`).
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.program_runs import PROGRAM, ProgramRun, busy_notes, failure_text, run_program
from benchmarks.results import OKABE_ITO, Result, Table, seconds_text
from benchmarks.scale_tables import N_CLUSTERS, write_table
from coterie.errors import TableError
from coterie.inspection.scores import clustering_accuracy
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAMILIES = {"fixed": "fixed K", "diverse": "diverse K"}
#: Growth is fitted from this size on; below it, starting the program takes most of the time.
GROWTH_FROM = 100_000
PEERS = Path(__file__).parents[1] / "docs/benchmarks/generated/peers.json"

_OUT_OF_MEMORY = ("MemoryError", "std::bad_alloc", "Out of Memory", "Unable to allocate")
_STYLES = {"fixed": (OKABE_ITO["blue"], "o"), "diverse": (OKABE_ITO["vermilion"], "s")}

Trial = dict[str, Any]


def run(
    context: Context, *, most: int | None = None, seconds: float = 600.0, peers: str = str(PEERS)
) -> Result:
    """Run the program on growing tables of both families; keep the trials that succeed.

    ``most`` is the largest n: 10⁷, with ``--quick`` 10⁵. A trial may take ``seconds``; one that is
    expected to take longer is not started. ``peers`` is a file written by the benchmark ``peers``;
    its curves are drawn too.
    """
    sizes = sizes_up_to(most or (10**5 if context.quick else 10**7))
    data: dict[str, Any] = {"trials": [], "not_run": [], "peers": read_peers(Path(peers))}
    data |= {"load": round(os.getloadavg()[0], 2), "seconds": seconds}
    kept = context.trials("scale")

    def find_or_run(family: str, n: int) -> Trial:
        key = {"family": family, "n_points": n}
        found = kept.find(key)
        if found is None:
            found = {**key, **run_trial(Path(folder), seconds, family, n)}
            if found["status"] == "done":
                kept.add(key, found)
        return found

    with tempfile.TemporaryDirectory(prefix="coterie-scale-") as folder:
        for family in context.track(FAMILIES, "running the program"):
            trials, not_run = run_family(family, sizes, seconds, find_or_run)
            data["trials"] += trials
            data["not_run"] += not_run
    data["growth"] = {family: growth_of(_done(data["trials"], family)) for family in FAMILIES}
    return result_of(data)


def sizes_up_to(most: int) -> list[int]:
    """Return the sizes, two for each power of ten.

    >>> sizes_up_to(10**6)
    [10000, 31623, 100000, 316228, 1000000]
    """
    powers = range(8, 2 * len(str(most)))
    return [n for n in (round(10 ** (power / 2)) for power in powers) if n <= most]


def run_family(
    family: str, sizes: Sequence[int], limit: float, run_trial: Callable[[str, int], Trial]
) -> tuple[list[Trial], list[dict[str, Any]]]:
    """Run trials until one fails or would take too long; return them and the sizes left out."""
    trials: list[Trial] = []
    why = ""
    for n in sizes:
        expected = expected_seconds(trials, n)
        if expected > limit:
            why = f"about {expected:,.0f} s expected, more than {limit:,g} s"
            break
        trials.append(run_trial(family, n))
        if trials[-1]["status"] != "done":
            why = f"{trials[-1]['status']} at {n:,}"
            break
    left = sizes[len(trials) :]
    return trials, [{"family": family, "n_points": n, "why": why} for n in left]


def expected_seconds(done: Sequence[Trial], n_points: int) -> float:
    """Extrapolate the time from smaller trials of a family.

    The last two give the exponent. It is at least 1, because starting the program dominates small
    tables, and at most 2, so that one disturbed trial does not end the family.

    >>> trials = [{"n_points": n, "seconds": s} for n, s in ((100, 3.0), (1000, 12.0))]
    >>> expected_seconds(trials, 10_000)
    120.0
    """
    if not done:
        return 0.0
    n, seconds = done[-1]["n_points"], done[-1]["seconds"]
    exponent = 1.0
    if len(done) > 1:
        growth = np.log(seconds / done[-2]["seconds"]) / np.log(n / done[-2]["n_points"])
        exponent = float(np.clip(growth, 1.0, 2.0))
    return float(seconds * (n_points / n) ** exponent)


def growth_of(done: Sequence[Trial]) -> dict[str, float | None]:
    """Return least-squares slopes of log(seconds) and log(memory) on log(n).

    >>> trials = [{"n_points": n, "seconds": n / 1e4, "peak_bytes": 7} for n in (10**5, 10**6)]
    >>> {what: round(exponent, 6) + 0.0 for what, exponent in growth_of(trials).items()}
    {'seconds': 1.0, 'peak_bytes': 0.0}
    """
    large = [trial for trial in done if trial["n_points"] >= GROWTH_FROM]
    log_n = np.log([trial["n_points"] for trial in large])
    return {
        what: float(np.polyfit(log_n, np.log([trial[what] for trial in large]), 1)[0])
        if len(large) > 1
        else None
        for what in ("seconds", "peak_bytes")
    }


def read_peers(path: Path) -> dict[str, Any] | None:
    """Return the curves of other packages on labels, from a result of the benchmark ``peers``."""
    if not path.exists():
        return None
    try:
        everything = json.loads(path.read_text(encoding="utf-8"))
        curves: dict[str, dict[str, Any]] = {}
        for trial in everything["trials"]:
            if not trial["growing"] or trial["kind"] != "labels" or trial["package"] == "coterie":
                continue
            curve = curves.setdefault(trial["method"], {"points": [], "stopped": None})
            point = [trial["n"], trial["seconds"], trial["peak_bytes"]]
            if trial["status"] == "done":
                curve["points"].append(point)
            elif trial["status"] != "not installed":
                curve["stopped"] = curve["stopped"] or [trial["n"], trial["status"]]
        limits = {name: everything["limits"][name] for name in ("seconds", "memory")}
        return {"curves": curves, **limits, "date": everything["environment"]["date"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(
            f"{path} is not a result of `python -m benchmarks peers` ({error!r}); set peers to "
            "another file"
        ) from error


def run_trial(folder: Path, limit: float, family: str, n: int) -> Trial:
    """Write a table, run the program on it, and score its output."""
    table, out, kernels = (folder / name for name in ("t.parquet", "out.parquet", "kernels"))
    y = write_table(table, family, n)
    command = [*PROGRAM, "consensus", str(table), "--id", "id", "-k", str(N_CLUSTERS)]
    command += ["-o", str(out), "--quiet", "--json"]
    first_seconds, before = None, _n_files(kernels)
    run = run_program(command, limit, {"NUMBA_CACHE_DIR": str(kernels)})
    # kernels are compiled once on a machine, so a run that compiles is repeated
    if run.status == 0 and _n_files(kernels) > before:
        first_seconds = run.seconds
        run = run_program(command, limit, {"NUMBA_CACHE_DIR": str(kernels)})
    try:
        return {
            "seconds": run.seconds,
            "processor_seconds": run.processor_seconds,
            "peak_bytes": run.peak_bytes,
            "first_seconds": first_seconds,
            **judge(run, out, y, folder),
        }
    finally:
        out.unlink(missing_ok=True)


def judge(run: ProgramRun, out: Path, y: NDArray[np.uint8], folder: Path) -> Trial:
    """Return status, message, accuracy and the facts that the program printed."""
    if run.status == 0:
        labels = _labels_by_id(out, len(y))
        if isinstance(labels, str):
            return {"status": "wrong labels", "message": labels}
        accuracy = clustering_accuracy(y, labels)
        return {"status": "done", "message": "", "accuracy": accuracy, **_facts(run.output)}
    if not run.in_time:
        return {"status": "time-out", "message": f"no answer in {run.seconds:.0f} s"}
    memory = run.status == -signal.SIGKILL or any(sign in run.error for sign in _OUT_OF_MEMORY)
    return {"status": "memory" if memory else "crash", "message": failure_text(run, folder)}


def _facts(output: str) -> dict[str, Any]:
    """Return facts of a run in memory, or of one in an engine, which prints more of them."""
    facts = json.loads(output)
    engine = facts.get("engine")
    engine = engine if isinstance(engine, dict) else {}
    return {
        "n_clusters": facts.get("clusters"),
        "n_tuples": engine.get("tuples", facts.get("tuples")),
        "tuples_exact": engine.get("tuples_exact", True),
        "path": engine.get("path"),
        "stages": engine.get("seconds", {}),
    }


def _labels_by_id(out: Path, n_points: int) -> NDArray[np.int64] | str:
    """Return the labels in the order of the ids, or what is wrong with the table."""
    try:
        table = pq.read_table(out, columns=["id", "label"])
        ids, written = table["id"].to_numpy(), table["label"].to_numpy()
    except (OSError, KeyError, pa.ArrowException) as error:
        return f"the written table cannot be read: {error}"
    if not np.array_equal(np.sort(ids), np.arange(n_points)):
        return f"{len(ids):,} rows, which are not the {n_points:,} ids, each once"
    if written.dtype.kind not in "iu":
        return f"labels of type {written.dtype}, not integers"
    labels = np.empty(n_points, dtype=np.int64)
    labels[ids] = written
    return labels


def _n_files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*")) if folder.exists() else 0


def _done(trials: Sequence[Trial], family: str) -> list[Trial]:
    return [t for t in trials if t["family"] == family and t["status"] == "done"]


def result_of(data: dict[str, Any], **others: Any) -> Result:
    """Return tables, notes and picture of the measured trials."""
    notes = [
        f"{FAMILIES[t['family']]}, {t['n_points']:,} points: {t['status']}: {t['message']}"
        for t in data["trials"]
        if t["status"] != "done"
    ]
    notes += [
        f"{FAMILIES[left['family']]}, {left['n_points']:,} points: not run: {left['why']}"
        for left in data["not_run"]
    ]
    notes += busy_notes(data["load"])
    plots = {"": lambda: draw(data)}
    return Result("scale", tables_of(data), data, notes, plots, **others)


def tables_of(data: dict[str, Any]) -> list[Table]:
    """Return the trials, the stages that the program printed, and the exponents of growth."""
    headings = (
        "family", "path", "n", "tuples", "seconds", "processor s", "peak memory", "accuracy",
        "clusters", "first run, s",
    )  # fmt: skip
    trials = [(*_name_texts(t), *_trial_texts(t)) for t in data["trials"]]
    staged = [t for t in data["trials"] if t.get("stages")]
    stages = list(dict.fromkeys(stage for t in staged for stage in t["stages"]))
    stage_rows = [
        (*_name_texts(t), *(_seconds_or_blank(t["stages"].get(stage)) for stage in stages))
        for t in staged
    ]
    growth = [
        (FAMILIES[family], *(f"{exponent:.2f}" for exponent in exponents.values()))
        for family, exponents in data["growth"].items()
        if exponents["seconds"] is not None
    ]
    title = f"Exponent of growth with n, from {GROWTH_FROM:,} points on"
    tables = [
        Table("Time and memory", headings, trials, n_named=2),
        Table("Stages in seconds", (*headings[:3], *stages), stage_rows, n_named=2),
        Table(title, ("family", "seconds", "peak memory"), growth),
    ]
    return [table for table in tables if table.rows]


def _name_texts(trial: Trial) -> tuple[str, ...]:
    return FAMILIES[trial["family"]], trial.get("path") or "in memory", f"{trial['n_points']:,}"


def _trial_texts(trial: Trial) -> tuple[str, ...]:
    if trial["status"] != "done":
        return ("", trial["status"], "", "", "", "", "")
    about = "" if trial["tuples_exact"] else "≈ "
    return (
        f"{about}{trial['n_tuples']:,}",
        seconds_text(trial["seconds"]),
        seconds_text(trial["processor_seconds"]),
        readable_bytes(trial["peak_bytes"]),
        f"{trial['accuracy']:.4f}",
        str(trial["n_clusters"]),
        _seconds_or_blank(trial["first_seconds"]),
    )


def _seconds_or_blank(seconds: float | None) -> str:
    return "" if seconds is None else seconds_text(seconds)


def draw(data: dict[str, Any]) -> Figure:
    """Draw seconds and peak memory against n: the program and other packages."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.4, 5.6), layout="constrained")
    titles = {"seconds": "Seconds", "peak_bytes": "Peak memory, GB"}
    for axes, (what, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        unit = 1e9 if what == "peak_bytes" else 1.0
        _draw_peers(axes, data["peers"] or {"curves": {}}, 1 if what == "seconds" else 2, unit)
        for family, name in FAMILIES.items():
            done = _done(data["trials"], family)
            colour, marker = _STYLES[family]
            axes.plot(
                [trial["n_points"] for trial in done],
                [trial[what] / unit for trial in done],
                color=colour, marker=marker, markersize=5, linewidth=2.4, label=f"coterie, {name}",
            )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="n", title=title)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(color="#e4e4e4", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="lower right", fontsize=8, frameon=False)
    return figure


def _draw_peers(axes: Axes, peers: dict[str, Any], place: int, unit: float) -> None:
    """Draw a thin line for each method, with a cross where it stopped.

    ``place`` is the index of the figure in a point (n, seconds, bytes).
    """
    names: dict[tuple[int, str], str] = {}  # methods that end at the same place share a label
    for method, curve in peers["curves"].items():
        points = [(point[0], point[place] / unit) for point in curve["points"]]
        if points:
            axes.plot(*zip(*points, strict=True), color=OKABE_ITO["grey"], linewidth=0.9)
            n, value = points[-1]
            axes.plot(n, value, "x" if curve["stopped"] else ".", color=OKABE_ITO["grey"])
            names[n, f"{value:.2g}"] = ", ".join(
                filter(None, (names.get((n, f"{value:.2g}")), method))
            )
    for (n, value), label in names.items():
        axes.annotate(label, (n, float(value)), (5, 3), textcoords="offset points", fontsize=7)
