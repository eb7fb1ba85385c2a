"""Results of the scale benchmark as a page and as a picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.environment import in_words
from benchmarks.scale import LEAST_POINTS, ScaleResults, ScaleTrial
from benchmarks.scale_labels import Family
from benchmarks.scale_peers import MeasuredPeers, PeerCurve
from benchmarks.scale_report import (
    FAMILIES,
    METHOD,
    TARGETS,
    as_tables,
    notes,
    summary_lines,
)
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["as_page", "as_picture", "caption"]

_Figure = Literal["seconds", "memory"]
# Okabe and Ito's colours, which colour-blind readers tell apart
_COLOURS: dict[Family, str] = {"fixed": "#0072B2", "diverse": "#D55E00"}
_MARKERS: dict[Family, str] = {"fixed": "o", "diverse": "s"}
_GREY = "#9a9a9a"
_WHY = {"time-out": "time", "memory": "memory"}
_WEAK = (
    "- One table a size and one run of it: times vary from run to run, more so on a busy machine.",
    "- The tables are drawn at random and made to be recovered; what real votes do to accuracy is "
    "measured elsewhere ({doc}`regret`, {doc}`table2`).",
    "- On small tables starting the program is most of the time, so the curve is flat at first; "
    "this is why growth is read off the larger ones only.",
    "- Files are read from the system's cache: a cold disk adds the time to read them.",
)


def as_page(
    results: ScaleResults, peers: MeasuredPeers | None, described: dict[str, Any], command: str
) -> str:
    """A page in Markdown, with the picture ``scale.png`` beside it."""
    parts = [
        "# How far it goes",
        METHOD,
        f"`{command}`",
        "![Seconds and peak memory against n](scale.png)",
        caption(results, peers),
        *summary_lines(results),
    ]
    for table in as_tables(results):
        parts += [f"## {table.title}", table.markdown()]
    told = [f"- {note}" for note in notes(results)]
    parts += ["## Notes", "\n".join(told)] if told else []
    parts += ["## What is weak", "\n".join([*_WEAK, *_weak_comparison(results, peers)])]
    parts.append(f"Measured {in_words(described)}.")
    return "\n\n".join(parts) + "\n"


def caption(results: ScaleResults, peers: MeasuredPeers | None) -> str:
    """What the lines are, and when and where each was measured."""
    days = sorted({trial.date[:10] for trial in results.trials})
    ours = f"Thick: coterie, the whole program, measured {' and '.join(days)}."
    targets = "Dotted: targets."
    if peers is None:
        return f"{ours} {targets} No measurement of other packages was at hand."
    return (
        f"{ours} {targets} Grey: other packages on labels in memory, the method alone, as coterie "
        f"bench peers found on {peers.date[:10]} ({peers.machine}) in a run of its own; there a "
        f"trial had {peers.seconds:g} s and {readable_bytes(peers.memory)}. A cross is where one "
        "stopped, with the reason."
    )


def as_picture(results: ScaleResults, peers: MeasuredPeers | None) -> Figure:
    """Seconds and peak memory against n, all logarithmic: ours, peers, targets."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.4, 6.2), layout="constrained")
    figures: tuple[_Figure, ...] = ("seconds", "memory")
    for axes, what in zip(figure.subplots(1, 2), figures, strict=True):
        _draw_peers(axes, peers, what)
        _draw_targets(axes, what)
        for family in FAMILIES:
            _draw_family(axes, results.done(family), family, what)
        _finish(axes, what)
    figure.supxlabel(_wrapped(caption(results, peers)), fontsize=7.5, color="#555555")
    return figure


def _weak_comparison(results: ScaleResults, peers: MeasuredPeers | None) -> list[str]:
    if peers is None:
        return []
    return [
        "- Other packages had labels in memory of five clusters, not ten, and neither Python's "
        "start nor files in their time, which is in their favour.",
        f"- They were allowed {peers.seconds:g} s, the program {results.effort.seconds:g} s: "
        "compare the curves, not where they end.",
    ]


def _draw_family(axes: Axes, done: Sequence[ScaleTrial], family: Family, what: _Figure) -> None:
    values = [t.seconds if what == "seconds" else t.peak_bytes / 1e9 for t in done]
    axes.plot(
        [trial.n_points for trial in done],
        values,
        color=_COLOURS[family],
        marker=_MARKERS[family],
        markersize=5,
        linewidth=2.4,
        label=f"coterie, {FAMILIES[family]}",
        zorder=4,
    )


def _draw_targets(axes: Axes, what: _Figure) -> None:
    """A dotted line up to the point where a target holds, and its figure beside it."""
    families: dict[tuple[int, float], list[Family]] = defaultdict(list)
    for target in TARGETS:
        limit = target.seconds if what == "seconds" else target.peak_bytes / 1e9
        families[target.n_points, limit].append(target.family)
    for (n, limit), whose in families.items():
        colour = _COLOURS[whose[0]] if len(whose) == 1 else "#333333"
        axes.plot([n / 8, n], [limit, limit], color=colour, linewidth=1.3, linestyle=":", zorder=3)
        axes.plot(n, limit, marker="v", color=colour, markersize=5, zorder=3)
        unit = "s" if what == "seconds" else "GB"
        name = f"target{'' if len(whose) > 1 else f', {FAMILIES[whose[0]]}'}: {limit:g} {unit}"
        axes.annotate(
            name, (n, limit), (0, 5), textcoords="offset points", ha="right", fontsize=7.5,
            color=colour,
        )  # fmt: skip


def _draw_peers(axes: Axes, peers: MeasuredPeers | None, what: _Figure) -> None:
    """Thin lines, a cross at each end; those that end at the same place share a label."""
    if peers is None:
        return
    ends: dict[tuple[int, float], list[str]] = defaultdict(list)
    for curve in peers.curves:
        points = [(n, s if what == "seconds" else b / 1e9) for n, s, b in curve.points]
        end = _end(curve, points, peers, what)
        if points:
            axes.plot(*zip(*points, strict=True), color=_GREY, linewidth=0.9)
        if end is not None:
            axes.plot(*zip(*points[-1:], end, strict=True), color=_GREY, linewidth=0.7, ls="--")
            axes.plot(*end, "x", color="#6b6b6b", markersize=6, mew=1.5)
            ends[end[0], float(f"{end[1]:.2g}")].append(_ending(curve))
    for (n, value), endings in ends.items():
        _label_ending(axes, (n, value), endings, upright=what == "seconds")


def _end(
    curve: PeerCurve, points: Sequence[tuple[int, float]], peers: MeasuredPeers, what: _Figure
) -> tuple[int, float] | None:
    """Where the cross is: at the limit that was reached, else at the last answer."""
    if curve.stopped is None:
        return None
    n, seconds, status = curve.stopped
    if what == "seconds":
        return n, min(seconds or peers.seconds, peers.seconds)
    if status == "memory":
        return n, peers.memory / 1e9
    return points[-1] if points else None


def _ending(curve: PeerCurve) -> str:
    status = "" if curve.stopped is None else curve.stopped[2]
    return f"{curve.method}: {_WHY.get(status, status)}"


def _label_ending(
    axes: Axes, place: tuple[int, float], endings: Sequence[str], *, upright: bool
) -> None:
    shift, turned = ((0, 6), 90) if upright else ((5, 0), 0)
    axes.annotate(
        "\n".join(endings),
        place,
        shift,
        textcoords="offset points",
        rotation=turned,
        ha="center" if upright else "left",
        va="bottom" if upright else "center",
        multialignment="left",
        fontsize=6.5,
        linespacing=1.0,
        color="#555555",
        # over the grey lines, under ours
        zorder=2.5,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.3},
    )


def _finish(axes: Axes, what: _Figure) -> None:
    title = "Seconds" if what == "seconds" else "Peak memory, GB"
    axes.set(xscale="log", yscale="log", xlabel="n", title=title)
    axes.set_xlim(700 if axes.dataLim.x0 < LEAST_POINTS else None, 1.6e7)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=8, frameon=False)


def _wrapped(text: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, 190))
