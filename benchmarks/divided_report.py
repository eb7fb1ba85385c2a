"""Results of the divided relaxation as JSON, as a table, as a page and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.divided import DividedRow
from benchmarks.environment import in_words
from benchmarks.result_tables import ResultTable
from benchmarks.speed_report import seconds_in_short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["METHOD", "as_json", "as_page", "as_picture", "as_table", "summary_lines"]

METHOD = (
    "The robust relaxation of *u* distinct label tuples, at once and in parts of at most *part "
    "size*. *CPU s* is processor time. *Above undivided* is by how much ‖M − F Fᵀ‖₁ over all pairs "
    "exceeds what the undivided relaxation reaches: of least squares, where both start, and of the "
    "parts. *θ* is how far the answer lies from least squares (0) towards the parts' rows (1). "
    "*ARI* is the agreement of the labels with those of the undivided one. *Polished* are the "
    "labels of the parts after the search over all tuples. All partitions have an equal vote; "
    "one draw of each cell."
)

_TITLES = {
    "l2": "ℓ2",
    "undivided": "undivided",
    "divided": "divided",
    "polished": "polished",
}
# Okabe and Ito's colours, which colour-blind readers tell apart; a marker each as well
_STYLES = {
    "l2": ("#E69F00", "s"),
    "undivided": ("#D55E00", "D"),
    "divided": ("#0072B2", "o"),
    "polished": ("#56B4E9", "^"),
}


def as_json(results: Sequence[DividedRow], described: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"rows": [{title, n_points, n_tuples, part_size, n_parts, theta, seconds, excess, accuracy,
    agreement}], "method": …, "environment": …}``; fields as in
    :class:`~benchmarks.divided.DividedRow`.
    """
    return {
        "rows": [asdict(row) for row in results],
        "method": METHOD,
        "environment": described,
    }


def as_table(results: Sequence[DividedRow]) -> ResultTable:
    """A row for each cell and size of parts."""
    headings = (
        "cell", "n", "u", "part size", "parts", "θ", "CPU s undivided", "divided",
        "above undivided: ℓ2", "divided", "ARI",
        *(f"accuracy: {title}" if name == "l2" else title for name, title in _TITLES.items()),
    )  # fmt: skip
    rows = [
        (
            row.title,
            f"{row.n_points:,}",
            f"{row.n_tuples:,}",
            f"{row.part_size:,}",
            str(row.n_parts),
            f"{row.theta:.1f}",
            *(_text(row.seconds.get(name), seconds_in_short) for name in ("undivided", "divided")),
            *(_text(row.excess.get(name), _percent) for name in ("l2", "divided")),
            _text(row.agreement, _three_digits),
            *(_text(row.accuracy.get(name), _three_digits) for name in _TITLES),
        )
        for row in results
    ]
    return ResultTable("Divided and undivided", headings, rows)


def summary_lines(results: Sequence[DividedRow]) -> list[str]:
    """How far from the undivided relaxation, at most and typically, and what search makes of it."""
    both = [row for row in results if row.excess]
    if not both:
        return []
    excess = [row.excess["divided"] for row in both]
    lower = sum(row.excess["divided"] < row.excess["l2"] for row in both)
    gap = max(row.accuracy["undivided"] - row.accuracy["divided"] for row in both)
    short = max(max(row.accuracy.values()) - row.accuracy["polished"] for row in results)
    return [
        f"Objective of the parts above that of the undivided relaxation: median "
        f"{_percent(median(excess))}, at most {_percent(max(excess))}; below that of "
        f"least squares in {lower} of {len(both)} rows.",
        f"Accuracy of the parts below that of the undivided relaxation: at most "
        f"{max(gap, 0.0):.3f}. After the search, accuracy is below the best of the row by at most "
        f"{short:.3f}.",
    ]


def as_page(results: Sequence[DividedRow], described: dict[str, Any]) -> str:
    """A page in Markdown, with the picture ``divided.png`` beside it."""
    parts = [
        "# The robust relaxation in parts",
        METHOD,
        as_table(results).markdown(),
        "![Objective and accuracy, divided and undivided](divided.png)",
        *summary_lines(results),
        f"Measured {in_words(described)}.",
    ]
    return "\n\n".join(parts) + "\n"


def as_picture(results: Sequence[DividedRow]) -> Figure:
    """Two dot plots side by side: the objective above the undivided one's, and accuracy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.6 + 0.36 * len(results)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _dots(left, results, ("l2", "divided"), lambda row: row.excess)
    left.set_xscale("symlog", linthresh=1e-3)
    left.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    left.set_xlabel("objective above that of the undivided relaxation")
    _dots(right, results, tuple(_TITLES), lambda row: row.accuracy)
    right.set_xlabel("accuracy")
    names = [f"{row.title}; {row.n_parts} parts of {row.part_size:,}" for row in results]
    left.set_yticks(range(len(results)), names, fontsize=8)
    left.set_ylim(len(results) - 0.5, -0.5)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    return figure


def _dots(
    axes: Axes,
    results: Sequence[DividedRow],
    names: Sequence[str],
    figures: Callable[[DividedRow], dict[str, float]],
) -> None:
    """Rows from top to bottom, figures to the right, a lane for each name."""
    for place in range(0, len(results), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
    for lane, name in enumerate(names):
        height = 0.7 * ((lane + 0.5) / len(names) - 0.5)
        found = [(place, figures(row).get(name)) for place, row in enumerate(results)]
        shown = [(place + height, value) for place, value in found if value is not None]
        colour, marker = _STYLES[name]
        axes.plot(
            [value for _, value in shown],
            [place for place, _ in shown],
            marker,
            color=colour,
            markersize=4.5,
            label=_TITLES[name],
        )
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _text(value: float | None, shown: Callable[[float], str]) -> str:
    return "" if value is None else shown(value)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _three_digits(value: float) -> str:
    return f"{value:.3f}"
