"""Results of the GPU benchmark as JSON, as a table, as a page and as a picture."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.environment import in_words
from benchmarks.gpu import GpuResults, GpuRow
from benchmarks.result_tables import ResultTable
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["METHOD", "as_json", "as_page", "as_picture", "as_table", "verdicts"]

METHOD = (
    "Milliseconds a step of the robust relaxation (median over all steps), K = 10, V = 40 planted "
    "partitions of which 16 are wrong together, 20% of all labels noise, so that no two points "
    "have the same labels. *State* is the pass that changes the state and multiplies it by the "
    "block of eigenvectors; *eigenvectors* are the refinements after it, one more pass each. "
    "*Plain* is the same in plain tensor code on full matrices, *CPU* the compiled kernels on all "
    "cores of the same machine. *Bytes* is the time that moving half of the state and of the "
    "counts alone would take at the copying speed measured in the same run. *Above CPU*: by how "
    "much the objective exceeds that of the CPU after ten steps."
)

_TARGET_POINTS, _TARGET_MS, _TARGET_BYTES = 100_000, 65.0, 60e9
_STYLES = {
    "fused": ("#0072B2", "o", "fused kernels"),
    "plain": ("#E69F00", "s", "plain tensor code"),
    "cpu": ("#D55E00", "D", "CPU, all cores"),
    "bytes": ("#888888", "", "bytes alone"),
}


def as_json(results: GpuResults, described: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`."""
    return {
        "rows": [asdict(row) for row in results.rows],
        "device": results.device,
        "copy_bytes_a_second": results.bandwidth,
        "method": METHOD,
        "environment": described,
    }


def as_table(results: GpuResults) -> ResultTable:
    """A row for each number of points."""
    headings = (
        "n", "fused, ms", "state", "eigenvectors", "passes", "bytes, ms", "plain, ms", "CPU, ms",
        "peak memory", "above CPU", "accuracy",
    )  # fmt: skip
    rows = [
        (
            f"{row.n_points:,}",
            *(
                _milliseconds(row, name)
                for name in ("fused", "fused: state", "fused: eigenvectors")
            ),
            f"{row.passes:.2f}",
            *(_milliseconds(row, name) for name in ("bytes", "plain", "cpu")),
            readable_bytes(row.peak_bytes),
            "–" if row.above_cpu is None else f"{row.above_cpu:+.1e}",
            f"{row.accuracy:.3f}",
        )
        for row in results.rows
    ]
    return ResultTable(f"Milliseconds a step on {results.device}", headings, rows)


def verdicts(results: GpuResults) -> list[str]:
    """What was aimed for at 100,000 points, and what came of it."""
    row = next((row for row in results.rows if row.n_points == _TARGET_POINTS), None)
    if row is None:
        return [f"{_TARGET_POINTS:,} points were not measured."]
    taken = row.milliseconds["fused"]
    return [
        f"{_TARGET_POINTS:,} points: {taken:.1f} ms a step, at most {_TARGET_MS:.0f} aimed for: "
        f"{'met' if taken <= _TARGET_MS else 'missed'}; "
        f"{taken / row.milliseconds['bytes']:.1f} × the bytes alone.",
        f"Peak memory {readable_bytes(row.peak_bytes)}, below "
        f"{readable_bytes(_TARGET_BYTES)} aimed for: "
        f"{'met' if row.peak_bytes < _TARGET_BYTES else 'missed'}.",
    ]


def as_page(results: GpuResults, described: dict[str, Any]) -> str:
    """A page in Markdown."""
    parts = [
        "# On a GPU",
        "`python -m benchmarks gpu -o FOLDER`",
        METHOD,
        as_table(results).markdown(),
        "![Milliseconds a step over the number of points](gpu.png)",
        "\n".join(f"- {line}" for line in verdicts(results)),
        f"{results.device}, copies at {results.bandwidth / 1e12:.2f} TB/s. "
        f"Measured {in_words(described)}.",
    ]
    return "\n\n".join(parts) + "\n"


def as_picture(results: GpuResults) -> Figure:
    """Milliseconds a step over the number of points, both logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, (colour, marker, title) in _STYLES.items():
        points = [
            (row.n_points, row.milliseconds[name])
            for row in results.rows
            if name in row.milliseconds
        ]
        if points:
            style: dict[str, Any] = {"marker": marker} if marker else {"linestyle": "--"}
            axes.plot(*zip(*points, strict=True), color=colour, label=title, **style)
    axes.plot(_TARGET_POINTS, _TARGET_MS, "_", color="black", markersize=14, label="aimed for")
    axes.set(xscale="log", yscale="log", xlabel="points, none alike", ylabel="milliseconds a step")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.set_title(f"The robust relaxation on {results.device}", loc="left", fontsize=11)
    return figure


def _milliseconds(row: GpuRow, name: str) -> str:
    value = row.milliseconds.get(name)
    return "–" if value is None else f"{value:.3g}"
