"""Draw docs/images/sizes.png: time and memory by size.

All figures are those of the benchmarks ``scale``, ``tables``, ``features`` and ``ads-scale``, in
``docs/benchmarks/generated``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator
from PIL import Image

DOCS = Path(__file__).parent
GENERATED = DOCS / "benchmarks" / "generated"
PICTURE = DOCS / "images" / "sizes.png"

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
    seconds: float
    peak_bytes: int


def main(generated: Path = GENERATED, picture: Path = PICTURE) -> None:
    """Read the figures and draw them."""
    points = sorted(read_points(generated), key=lambda one: (one.curve, one.size))
    figure = draw(points)
    figure.savefig(picture, dpi=110, facecolor="white")
    # a palette needs a third of the space
    Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(
        picture, optimize=True
    )


def read_points(generated: Path) -> Iterator[Point]:
    """Yield the runs that gave an answer."""
    families = {"fixed": "labels, equal K", "diverse": "labels, different K"}
    for one in _read(generated, "scale")["trials"]:
        if one["status"] == "done":
            yield _point(families[one["family"]], one["n_points"], one)
    for one in _read(generated, "tables")["runs"]:
        if one["engine"] == "DuckDB" and one.get("peak_bytes") and one["n_rows"] >= 10**7:
            yield _point("label tables in DuckDB", one["n_rows"], one)
    for one in _read(generated, "features")["sizes"]["trials"]:
        if one["method"] == "consensus":
            yield _point(one["kind"], one["n"], one)
    for one in _read(generated, "ads_scale")["trials"]:
        if one["status"] == "done" and one["auction"] == "second":
            yield _point("advertisers", one["advertisers"], one)


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


def _read(generated: Path, name: str) -> Any:
    return json.loads((generated / f"{name}.json").read_text(encoding="utf-8"))


def _point(curve: str, size: int, run: dict[str, Any]) -> Point:
    return Point(curve, size, run["seconds"], run["peak_bytes"])


if __name__ == "__main__":
    main()
