"""The result of a benchmark: tables, figures and notes, written as JSON and pictures."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.environment import describe_environment
from coterie.errors import OutputError
from coterie.runtime.atomic_files import atomic_file, check_writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, distinguishable for colour-blind readers; use one marker each as well.
OKABE_ITO = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "purple": "#CC79A7",
    "grey": "#777777",
    "black": "#000000",
}


@dataclass(frozen=True)
class Table:
    r"""A table of texts: one row of texts per record, one text per heading.

    The first ``n_named`` columns say what a row is; the others hold figures. ``bold`` are (row,
    column) places.

    Examples
    --------
    >>> table = Table("Times", ("cell", "s"), [("a|b", "1.0")], bold={(0, 1)})
    >>> print(table.markdown())
    | cell | s |
    |:---|---:|
    | a\|b | **1.0** |
    >>> Table.of("Times", [1, 2], {"n": str, "n²": lambda n: n**2}).rows
    [('1', '1'), ('2', '4')]
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_named: int = 1
    bold: frozenset[tuple[int, int]] | set[tuple[int, int]] = frozenset()

    @classmethod
    def of(
        cls,
        title: str,
        records: Iterable[Any],
        columns: Mapping[str, Callable[[Any], object]],
        **others: Any,
    ) -> Table:
        """Return a table of records; for each heading a function gives the cell of a record."""
        rows = [tuple(str(cell(record)) for cell in columns.values()) for record in records]
        return cls(title, tuple(columns), rows, **others)

    def to_json(self) -> dict[str, Any]:
        """Return the table ready for JSON; :meth:`from_json` reads it."""
        return {
            "title": self.title,
            "headings": list(self.headings),
            "rows": [list(row) for row in self.rows],
            "n_named": self.n_named,
            "bold": sorted(map(list, self.bold)),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Table:
        """Return the table that :meth:`to_json` made ready."""
        return cls(**{**kept, "bold": {(row, column) for row, column in kept["bold"]}})

    def markdown(self) -> str:
        """Return the table, without its title, in Markdown."""
        rule = [":---" if c < self.n_named else "---:" for c in range(len(self.headings))]
        lines = [_line(self.headings), "|" + "|".join(rule) + "|"]
        for r, row in enumerate(self.rows):
            lines.append(
                _line([f"**{t}**" if (r, c) in self.bold else t for c, t in enumerate(row)])
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Result:
    """What a benchmark found.

    Its files are ``NAME.json`` and pictures. ``data`` is everything that was measured, ready for
    JSON. ``notes`` are facts in a sentence each. ``plots`` has, for each picture, the end of its
    file name and what draws it: ``""`` gives ``NAME.png``, ``"snap"`` ``NAME_snap.png``.
    """

    name: str
    tables: Sequence[Table]
    data: dict[str, Any]
    notes: Sequence[str] = ()
    plots: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=describe_environment)

    def json_text(self) -> str:
        """Return the measured data, tables, notes and the environment as one JSON object."""
        everything = {
            **self.data,
            "tables": [table.to_json() for table in self.tables],
            "notes": list(self.notes),
            "environment": self.environment,
        }
        return json.dumps(everything, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Write JSON and pictures; each file is complete or absent."""
        written = [folder / f"{self.name}.json"]
        with atomic_file(written[0]) as unfinished:
            unfinished.write_text(self.json_text(), encoding="utf-8")
        # pictures last: figures are not lost where matplotlib is missing
        for end, draw in self.plots.items():
            path = folder / self._picture(end)
            with atomic_file(path) as unfinished:
                draw().savefig(unfinished, dpi=120, format="png")
            written.append(path)
        return written

    def show(self) -> None:
        """Print tables with aligned columns, and notes."""
        for table in self.tables:
            rows = [table.headings, *table.rows]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            sides = [str.ljust if c < table.n_named else str.rjust for c in range(len(widths))]
            lines = [
                "  ".join(side(t, w) for side, t, w in zip(sides, row, widths, strict=True))
                for row in rows
            ]
            sys.stdout.write("\n".join([table.title, "", *lines, "", ""]))
        sys.stdout.writelines(f"Note: {note}\n" for note in self.notes)

    def _picture(self, end: str) -> str:
        return f"{self.name}_{end}.png" if end else f"{self.name}.png"


def check_folder(folder: Path, name: str) -> None:
    """Create the folder of a result; fail before the run if it cannot be written later."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from error
    check_writable(folder / f"{name}.json")


def seconds_text(seconds: float) -> str:
    """Return seconds with three significant digits, and at most milliseconds.

    >>> seconds_text(0.01234), seconds_text(3.456), seconds_text(123.4)
    ('0.012', '3.46', '123')
    """
    decimals = 3 if seconds < 1 else 2 if seconds < 10 else 1 if seconds < 100 else 0
    return f"{seconds:.{decimals}f}"


def standard_error(values: Sequence[float]) -> float | None:
    """Return s/√r, where s² is the unbiased variance of r values; None for a single value.

    >>> round(standard_error([0.8, 1.0]), 9), standard_error([0.8])
    (0.1, None)
    """
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def best_cells(
    figures: Sequence[Sequence[float | None]],
    first: int,
    *,
    by: str = "row",
    lowest: bool = False,
    digits: int = 3,
) -> set[tuple[int, int]]:
    """Return the (row, column) of the best figure of each row or column.

    ``first`` is the column of the first figure. Figures that are equal as printed are ties.

    >>> sorted(best_cells([[0.9, None, 0.90004], [0.1, 0.2, 0.3]], 1))
    [(0, 1), (0, 3), (1, 3)]
    """
    table = np.round(np.array(figures, dtype=np.float64), digits) * (-1 if lowest else 1)
    table = np.where(np.isnan(table), -np.inf, table)
    best = table.max(axis=1 if by == "row" else 0, keepdims=True)
    places = np.argwhere((table == best) & np.isfinite(table))
    return {(int(r), int(c) + first) for r, c in places}


def figure_text(figure: Any, form: str | Callable[[Any], str], missing: str = "–") -> str:
    """Return a figure by a format or a function, or the text for a missing one.

    >>> figure_text(0.257, ".0%"), figure_text(None, ".2f")
    ('26%', '–')
    """
    if figure is None:
        return missing
    return format(figure, form) if isinstance(form, str) else form(figure)


def item(*keys: str, form: str | Callable[[Any], str] = "", missing: str = "") -> Any:
    """Return a function that gives an item of a record as text, for :meth:`Table.of`.

    Several keys lead into a record within a record; None, or no item, is the missing text.

    >>> item("seconds", "fit", form=".1f")({"seconds": {"fit": 2.04}}), item("n")({})
    ('2.0', '')
    """

    def text(record: Any) -> str:
        for key in keys:
            record = None if record is None else record.get(key)
        return figure_text(record, form, missing)

    return text


def short_text(figure: float | None, digits: int = 3, missing: str = "–") -> str:
    """Return a figure without the zero before its point.

    >>> short_text(0.00512, 4), short_text(1.0), short_text(None)
    ('.0051', '1.000', '–')
    """
    return figure_text(figure, f".{digits}f", missing).removeprefix("0")


def score_text(found: Mapping[str, Any]) -> str:
    """Return ``mean ± se`` of a method; the error is left out where it is None.

    >>> score_text({"mean": 0.5, "se": 0.01}), score_text({"mean": 0.5, "se": None})
    ('.500 ± .010', '.500')
    """
    error = "" if found["se"] is None else f" ± {short_text(found['se'])}"
    return short_text(found["mean"]) + error


class Marks(NamedTuple):
    """Marks of one kind in a picture: label, colour, marker, places, and errors along x.

    Without ``y`` there is one mark per row of a dot plot; ``height`` moves marks off their rows.
    ``settings`` are passed to matplotlib.
    """

    label: str
    colour: str
    marker: str
    x: Sequence[float | None]
    y: Sequence[float] | None = None
    error: Sequence[float | None] | None = None
    height: float = 0.0
    settings: Mapping[str, Any] = {}


def lane_heights(n: int, share: float = 0.74) -> list[float]:
    """Return one height a kind of marks, so that equal figures of a row do not hide each other.

    >>> lane_heights(2, 0.5)
    [-0.125, 0.125]
    """
    return [share * ((lane + 0.5) / n - 0.5) for lane in range(n)]


def dot_plot(
    names: Sequence[str],
    panels: Mapping[str, Sequence[Marks]],
    xlabel: str,
    *,
    width: float = 9.5,
    row_height: float = 0.36,
    **legend: Any,
) -> Figure:
    """Draw a row for each name, from top to bottom, and panels by title side by side."""
    figure, all_axes = _panels(panels, (width, 1.5 + row_height * len(names)), sharey=True)
    for axes, kinds in zip(all_axes, panels.values(), strict=False):
        for marks in kinds:
            y = np.arange(len(names)) if marks.y is None else np.asarray(marks.y)
            axes.errorbar(
                np.array(marks.x, dtype=np.float64),
                y + marks.height,
                xerr=None if marks.error is None else [error or 0.0 for error in marks.error],
                fmt=marks.marker,
                color=OKABE_ITO[marks.colour],
                label=marks.label,
                **{"markersize": 5, "elinewidth": 1, **marks.settings},
            )
        for place in range(0, len(names), 2):
            axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.set_ylim(max(1, len(names)) - 0.5, -0.5)
        axes.set_xlabel(xlabel)
        axes.grid(axis="y", visible=False)
        axes.tick_params(length=0)
        axes.spines["left"].set_visible(False)
    add_legend(figure, **legend)
    return figure


def exponents(
    trials: Sequence[Mapping[str, Any]], size: str, figures: Iterable[str]
) -> dict[str, float]:
    """Return the least-squares slope of the logarithm of each figure on that of the size.

    It is empty for fewer than two trials.

    >>> exponents([{"n": 10, "s": 3.0}, {"n": 100, "s": 300.0}], "n", ["s"])["s"].__round__(6)
    2.0
    """
    if len(trials) < 2:
        return {}
    log_n = np.log([trial[size] for trial in trials])
    return {
        what: float(np.polyfit(log_n, np.log([trial[what] for trial in trials]), 1)[0])
        for what in figures
    }


def line_plot(
    panels: Mapping[str, Sequence[Marks]],
    size: tuple[float, float],
    *,
    n_columns: int | None = None,
    sharex: bool = False,
    sharey: bool = False,
    **axes_settings: Any,
) -> tuple[Figure, list[Axes]]:
    """Draw marks joined by lines, panels by title; return the figure and its axes."""
    figure, all_axes = _panels(panels, size, n_columns, sharex=sharex, sharey=sharey)
    for axes, kinds in zip(all_axes, panels.values(), strict=False):
        for line in kinds:
            shown = {"label": line.label, "color": OKABE_ITO[line.colour], "marker": line.marker}
            axes.plot(
                np.array(line.x, float), line.y or [], **{"markersize": 4, **shown, **line.settings}
            )
        axes.set(**axes_settings)
    return figure, all_axes


def add_legend(figure: Figure, loc: Any = "outside lower center", **settings: Any) -> None:
    """Add one legend to a figure, below its axes by default; each label appears once."""
    marks: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        marks |= zip(map(str, labels), handles, strict=True)
    look = {"frameon": False, "fontsize": 8, "title_fontsize": 8, "ncols": 6, **settings}
    figure.legend(list(marks.values()), list(marks), loc=loc, **look)


def _panels(
    titles: Iterable[str], size: tuple[float, float], n_columns: int | None = None, **shared: Any
) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    named = list(titles) or [""]
    n_columns = n_columns or len(named)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(-(-len(named) // n_columns), n_columns, squeeze=False, **shared)
    for axes, title in zip(grid.flat, named, strict=False):
        axes.set_title(title, fontsize=9, loc="left")
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid.flat[len(named) :]:
        axes.set_axis_off()
    return figure, list(grid.flat)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", r"\|") for text in cells) + " |"
