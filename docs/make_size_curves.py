"""Draw docs/images/sizes.png, and write the table beside it: time and memory by size.

All figures are those of the benchmarks ``scale``, ``tables``, ``features``, ``ads-scale`` and
``gpu``, in ``docs/benchmarks/generated``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator
from PIL import Image

from coterie.runtime.devices import readable_bytes

DOCS = Path(__file__).parent
GENERATED = DOCS / "benchmarks" / "generated"
PICTURE = DOCS / "images" / "sizes.png"
TABLE = GENERATED / "sizes.md"

#: Colour and marker of each curve.
STYLES = {
    "labels, equal K": ("#0072B2", "o"),
    "labels, different K": ("#56B4E9", "s"),
    "label tables in DuckDB": ("#009E73", "D"),
    "features": ("#D55E00", "^"),
    "views": ("#CC79A7", "v"),
    "advertisers": ("#E69F00", "P"),
}


class Point(NamedTuple):
    """One run."""

    curve: str
    size: int  # rows, or advertisers
    what: str
    seconds: float
    peak_bytes: int


def main(generated: Path = GENERATED, picture: Path = PICTURE, table: Path = TABLE) -> None:
    """Read the figures, draw them and write the largest of each curve."""
    points = sorted(read_points(generated), key=lambda one: (one.curve, one.size))
    figure = draw(points)
    figure.savefig(picture, dpi=110, facecolor="white")
    # a palette needs a third of the space
    Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(
        picture, optimize=True
    )
    table.write_text("\n".join(table_lines(points, generated)) + "\n", encoding="utf-8")


def read_points(generated: Path) -> Iterator[Point]:
    """Yield the runs that gave an answer."""
    families = {"fixed": "labels, equal K", "diverse": "labels, different K"}
    for one in _read(generated, "scale")["trials"]:
        if one["status"] == "done":
            what = f"{one['n_points']:,} × 40 labels"
            yield _point(families[one["family"]], one["n_points"], what, one)
    for one in _read(generated, "tables")["runs"]:
        if one["engine"] == "DuckDB" and one.get("peak_bytes") and one["n_rows"] >= 10**7:
            what = f"{one['n_rows']:,} × {one['n_partitions']} labels, {_tuples(one)} tuples"
            yield _point("label tables in DuckDB", one["n_rows"], what, one)
    for one in _read(generated, "features")["sizes"]["trials"]:
        if one["method"] == "consensus":
            what = f"{one['n']:,} × 20, V = 20" if one["kind"] == "features" else _views(one["n"])
            yield _point(one["kind"], one["n"], what, one)
    for one in _read(generated, "ads_scale")["trials"]:
        if one["status"] == "done" and one["auction"] == "second":
            what = f"{one['advertisers']:,}, {one['rows']:,} bids"
            yield _point("advertisers", one["advertisers"], what, one)


def draw(points: list[Point]) -> plt.Figure:
    """Draw seconds and memory against size, both axes logarithmic."""
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.6), layout="constrained")
    for axes, title, value in (
        (panels[0], "seconds", lambda one: one.seconds),
        (panels[1], "peak memory, GB", lambda one: one.peak_bytes / 1e9),
    ):
        for curve, (colour, marker) in STYLES.items():
            own = [one for one in points if one.curve == curve]
            # tables have several runs of one size, so they are not joined
            line = "none" if curve.startswith("label tables") else "-"
            sizes, values = [one.size for one in own], [value(one) for one in own]
            axes.plot(sizes, values, marker, color=colour, linestyle=line, label=curve)
        axes.set(xscale="log", yscale="log", xlabel="rows, or advertisers", title=title)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.grid(color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def table_lines(points: list[Point], generated: Path) -> Iterator[str]:
    """Yield the lines of a table with the largest run of each curve, and that of a GPU."""
    yield "| data | size | time | peak memory |"
    yield "|:---|:---|---:|---:|"
    for curve in STYLES:
        own = [one for one in points if one.curve == curve]
        most = max((one.size for one in own), default=0)
        for one in (one for one in own if one.size == most):
            memory = readable_bytes(one.peak_bytes)
            yield f"| {curve} | {one.what} | {_time(one.seconds)} | {memory} |"
    gpu = _read(generated, "gpu")
    largest = max(gpu["rows"], key=lambda one: one["n_tuples"])
    step = largest["milliseconds"]["fused"] / 1000
    yield (
        f"| ADMM on one {gpu['device']} | {largest['n_tuples']:,} distinct tuples | "
        f"{_time(step * largest['n_iter'])} | {readable_bytes(largest['peak_bytes'])} of the GPU |"
    )


def _read(generated: Path, name: str) -> Any:
    return json.loads((generated / f"{name}.json").read_text(encoding="utf-8"))


def _point(curve: str, size: int, what: str, run: dict[str, Any]) -> Point:
    return Point(curve, size, what, run["seconds"], run["peak_bytes"])


def _tuples(run: dict[str, Any]) -> str:
    two_digits = float(f"{run['n_tuples']:.2g}")
    return f"{two_digits:,.0f}"


def _views(n: int) -> str:
    return f"{n:,} in 3 views"


def _time(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.0f} s"


if __name__ == "__main__":
    main()
