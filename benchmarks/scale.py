"""Time and memory of the program on label tables of ten thousand to ten million rows.

Every trial runs ``coterie consensus TABLE --id id -k K -o OUT --quiet --json`` in a new process
(:mod:`benchmarks.program_runs`), above 50 million labels with ``--engine duckdb://``, and compares
the written labels, joined by id, with the truth.

Tables are drawn in chunks. A truth y and one wrong partition z, both of K clusters, are drawn with
V partitions: the first ones copy y, the last ones copy z. In family ``fixed`` a copy has the same K
labels. In family ``diverse`` a copy splits every cluster into 1 to 4 parts, so that it has between
K and 4K labels. Then a share of all labels is redrawn and the labels of each column are renamed.
With 40 columns nearly all rows are distinct.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.harness import CONSENSUS, Context
from benchmarks.program_runs import PROGRAM, ProgramRun, busy_notes, failure_text, run_program
from benchmarks.results import (
    Marks,
    Result,
    Table,
    add_legend,
    exponents,
    item,
    line_plot,
    seconds_text,
)
from coterie.inspection.scores import clustering_accuracy
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILIES = {"fixed": "fixed K", "diverse": "diverse K"}
SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
N_PARTITIONS, N_CLUSTERS, N_WRONG, NOISE = 40, 10, 16, 0.2
#: Rows drawn from one seed, and rows of a row group in the file.
CHUNK_ROWS = 131_072
#: Number of labels above which the table stays in DuckDB.
ENGINE_FROM = 50_000_000
#: Growth is fitted from this size on; below it, starting the program takes most of the time.
GROWTH_FROM = 100_000
PEERS = Path(__file__).parents[1] / "docs/benchmarks/generated/peers.json"

_FAMILY_SEED = {"fixed": 0, "diverse": 1}
_MOST_PARTS = {"fixed": 1, "diverse": 4}

Trial = dict[str, Any]
Bytes = NDArray[np.uint8]
# how a partition copies K clusters: parts (K,) of each cluster, first label (K,) of each, new names
Copy = tuple[NDArray[np.uint16], Bytes, NDArray[np.int8]]

MEASURES = (*CONSENSUS, "tables")


def run(context: Context, *, most: int | None = None, seconds: float = 600.0) -> Result:
    """Run the program on growing tables of both families; keep the trials that succeed.

    ``most`` is the largest n: 10⁷, with ``--quick`` 10⁵. A family ends with the first trial that
    fails or takes longer than ``seconds``.
    """
    most = most or (10**5 if context.quick else 10**7)
    kept, load = context.trials("scale"), os.getloadavg()[0]
    trials: list[Trial] = []
    with tempfile.TemporaryDirectory(prefix="coterie-scale-") as folder:
        for family in context.track(FAMILIES, "running the program"):
            growing = [
                {"family": family, "title": FAMILIES[family], "n_points": n}
                for n in SIZES
                if n <= most
            ]
            trials += kept.run_growing(
                growing,
                lambda one: run_trial(Path(folder), seconds, one["family"], one["n_points"]),
            )
    notes = [
        f"{t['title']}, {t['n_points']:,} points: {t['status']}: {t['message']}"
        for t in trials
        if t["status"] != "done"
    ]
    data = {"trials": trials, "growth": [growth_of(trials, family) for family in FAMILIES]}
    plots = {"": lambda: draw(trials)}
    return Result("scale", tables_of(data), data, [*notes, *busy_notes(load)], plots)


def growth_of(trials: Sequence[Trial], family: str) -> dict[str, Any]:
    """Return least-squares slopes of log(seconds) and log(memory) on log(n)."""
    large = [trial for trial in done_of(trials, family) if trial["n_points"] >= GROWTH_FROM]
    return {"title": FAMILIES[family], **exponents(large, "n_points", ("seconds", "peak_bytes"))}


def done_of(trials: Sequence[Trial], family: str) -> list[Trial]:
    """Return the successful trials of a family."""
    return [t for t in trials if t["family"] == family and t["status"] == "done"]


def run_trial(folder: Path, limit: float, family: str, n: int) -> Trial:
    """Write a table, run the program on it, and score its output."""
    table, out = folder / "t.parquet", folder / "out.parquet"
    y = write_table(table, family, n)
    command = [*PROGRAM, "consensus", str(table), "--id", "id", "-k", str(N_CLUSTERS)]
    command += ["-o", str(out), "--quiet", "--json"]
    command += ["--engine", "duckdb://"] if n * N_PARTITIONS > ENGINE_FROM else []
    run = run_program(command, limit)
    found = {
        "seconds": run.seconds,
        "processor_seconds": run.processor_seconds,
        "peak_bytes": run.peak_bytes,
        **judge(run, out, y, folder),
    }
    out.unlink(missing_ok=True)
    return found


def judge(run: ProgramRun, out: Path, y: Bytes, folder: Path) -> Trial:
    """Return status, message, accuracy and the facts that the program printed."""
    if not run.in_time:
        return {"status": "time-out", "message": f"no answer in {run.seconds:.0f} s"}
    if run.status != 0:
        return {"status": "failed", "message": failure_text(run, folder)}
    written = pq.read_table(out, columns=["id", "label"])
    ids = written["id"].to_numpy()
    if not np.array_equal(np.sort(ids), np.arange(len(y))):
        message = f"{len(ids):,} rows, which are not the {len(y):,} ids, each once"
        return {"status": "wrong labels", "message": message}
    facts = json.loads(run.output)
    # a run in an engine prints more facts
    engine = facts["engine"] if isinstance(facts.get("engine"), dict) else {}
    return {
        "status": "done",
        "accuracy": clustering_accuracy(y[ids], written["label"].to_numpy()),
        "n_clusters": facts["clusters"],
        "n_tuples": engine.get("tuples", facts.get("tuples")),
        "tuples_exact": engine.get("tuples_exact", True),
        "path": engine.get("path", "in memory"),
        "stages": engine.get("seconds", {}),
    }


def tables_of(data: dict[str, Any]) -> list[Table]:
    """Return the trials, the stages that the program printed, and the exponents of growth."""
    trials = data["trials"]
    n_tuples = item("n_tuples", form=",")
    named = {"family": item("title"), "path": item("path"), "n": item("n_points", form=",")}
    columns = {
        **named,
        "tuples": lambda t: ("" if t.get("tuples_exact", True) else "≈ ") + n_tuples(t),
        "seconds": lambda t: seconds_text(t["seconds"]) if t["status"] == "done" else t["status"],
        "processor s": item("processor_seconds", form=seconds_text),
        "peak memory": item("peak_bytes", form=readable_bytes),
        "accuracy": item("accuracy", form=".4f"),
        "clusters": item("n_clusters"),
    }
    staged = [trial for trial in trials if trial.get("stages")]
    stages = dict.fromkeys(stage for trial in staged for stage in trial["stages"])
    stage_columns = {stage: item("stages", stage, form=seconds_text) for stage in stages}
    growth_columns = {
        "family": item("title"),
        "seconds": item("seconds", form=".2f", missing="–"),
        "peak memory": item("peak_bytes", form=".2f", missing="–"),
    }
    title = f"Exponent of growth with n, from {GROWTH_FROM:,} points on"
    tables = [
        Table.of("Time and memory", trials, columns, n_named=2),
        Table.of("Stages in seconds", staged, {**named, **stage_columns}, n_named=2),
        Table.of(title, data["growth"], growth_columns),
    ]
    return [table for table in tables if table.rows]


def draw(trials: Sequence[Trial]) -> Figure:
    """Draw seconds and peak memory against n: the program, and other packages in grey."""
    others: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(PEERS.read_text(encoding="utf-8"))["trials"]:
        if one["growing"] and one["kind"] == "labels" and one["status"] == "done":
            others.setdefault(f"{one['package']} {one['method']}", []).append(one)
    panels = {}
    for title, what, unit in (("Seconds", "seconds", 1), ("Peak memory, GB", "peak_bytes", 1e9)):
        # a cross at the last size with an answer
        last = {"linewidth": 0.9, "markevery": [-1]}
        marks = [
            Marks("other packages", "grey", "x", [one["n"] for one in own],
                  [one[what] / unit for one in own], settings=last)
            for name, own in others.items()
            if not name.startswith("coterie")
        ]  # fmt: skip
        for family, colour, marker in (("fixed", "blue", "o"), ("diverse", "vermilion", "s")):
            own = done_of(trials, family)
            n, values = [t["n_points"] for t in own], [t[what] / unit for t in own]
            label = f"coterie, {FAMILIES[family]}"
            marks.append(Marks(label, colour, marker, n, values, settings={"linewidth": 2.4}))
        panels[title] = marks
    figure, _ = line_plot(panels, (12.4, 5.6), xscale="log", yscale="log", xlabel="n")
    add_legend(figure)
    return figure


def write_table(path: Path, family: str, n_points: int) -> Bytes:
    """Write a table with an int64 ``id`` and one byte for each label; return the truth by id."""
    fields = [("id", pa.int64()), *((f"p{v}", pa.int8()) for v in range(N_PARTITIONS))]
    truth: list[Bytes] = []
    first = 0
    with pq.ParquetWriter(path, pa.schema(fields)) as writer:
        for y, columns in label_chunks(family, n_points):
            ids = np.arange(first, first + len(y))
            writer.write_table(pa.table([ids, *columns], schema=writer.schema))
            truth.append(y)
            first += len(y)
    return np.concatenate(truth)


def label_chunks(
    family: str, n_points: int, noise: float = NOISE
) -> Iterator[tuple[Bytes, list[NDArray[np.int8]]]]:
    """Yield the truth and the V columns of each chunk.

    A smaller table of the same family is the beginning of a larger one.

    Examples
    --------
    >>> ((y, columns),) = label_chunks("diverse", 1000)
    >>> y.shape, len(columns), columns[0].dtype.name
    ((1000,), 40, 'int8')
    >>> all(9 < len(np.unique(column)) <= 40 for column in columns)
    True
    """
    seeds = [0, _FAMILY_SEED[family]]
    copies = _draw_copies(_MOST_PARTS[family], np.random.default_rng([*seeds, 0]))
    for number, first in enumerate(range(0, n_points, CHUNK_ROWS)):
        rng = np.random.default_rng([*seeds, 1 + number])
        # a whole chunk is drawn, so that the rows do not depend on n
        n_rows = min(CHUNK_ROWS, n_points - first)
        y = _draw_truth(rng)
        z = rng.integers(N_CLUSTERS, size=CHUNK_ROWS, dtype=np.uint8)
        bases = [y] * (N_PARTITIONS - N_WRONG) + [z] * N_WRONG
        columns = [
            _draw_column(base, copy, noise, rng)[:n_rows]
            for base, copy in zip(bases, copies, strict=True)
        ]
        yield y[:n_rows], columns


def _draw_copies(most_parts: int, rng: np.random.Generator) -> list[Copy]:
    copies = []
    for _ in range(N_PARTITIONS):
        parts = rng.integers(1, most_parts + 1, size=N_CLUSTERS, dtype=np.uint16)
        ends = np.cumsum(parts)
        names = rng.permutation(int(ends[-1])).astype(np.int8)
        copies.append((parts, (ends - parts).astype(np.uint8), names))
    return copies


def _draw_truth(rng: np.random.Generator) -> Bytes:
    """Draw clusters with shares 1/2 : 1/3 : 1/4 …, here from 25% to 4.5%."""
    shares = 1.0 / np.arange(2, N_CLUSTERS + 2)
    ends = np.cumsum(shares / shares.sum())
    ends[-1] = 1.0
    return np.searchsorted(ends, rng.random(CHUNK_ROWS), side="right").astype(np.uint8)


def _draw_column(
    base: Bytes, copy: Copy, noise: float, rng: np.random.Generator
) -> NDArray[np.int8]:
    parts, first, names = copy
    where = rng.integers(256, size=len(base), dtype=np.uint16)
    labels = first[base] + ((where * parts[base]) >> 8).astype(np.uint8)
    fresh = rng.integers(len(names), size=len(base), dtype=np.uint8)
    redrawn = rng.random(len(base), dtype=np.float32) < noise
    return names[np.where(redrawn, fresh, labels)]
