"""The result of a benchmark: tables, figures and notes, written as JSON, Markdown and pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Any

from benchmarks.environment import describe_environment, environment_line
from coterie.errors import OutputError
from coterie.runtime.atomic_files import atomic_file, check_writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table as TerminalTable

__all__ = [
    "OKABE_ITO",
    "Result",
    "Table",
    "best_places",
    "check_folder",
    "legend_below",
    "row_axes",
    "score_text",
    "seconds_text",
    "short_text",
    "standard_error",
]

#: Okabe and Ito's colours, distinguishable for colour-blind readers; use one marker each as well.
OKABE_ITO = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "purple": "#CC79A7",
    "grey": "#777777",
}


@dataclass(frozen=True)
class Table:
    r"""A table of texts.

    Attributes
    ----------
    title : str
    headings : sequence of str
    rows : sequence of sequences of str
        One text per heading.
    n_named : int
        How many columns on the left say what a row is; the others hold figures.
    bold : set of (row, column)

    Examples
    --------
    >>> table = Table("Times", ("cell", "s"), [("a|b", "1.0")], bold={(0, 1)})
    >>> print(table.markdown())
    | cell | s |
    |:---|---:|
    | a\|b | **1.0** |
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_named: int = 1
    bold: frozenset[tuple[int, int]] | set[tuple[int, int]] = frozenset()

    def markdown(self) -> str:
        """Return the table, without its title, in Markdown."""
        rule = [":---" if c < self.n_named else "---:" for c in range(len(self.headings))]
        lines = [_line(self.headings), "|" + "|".join(rule) + "|"]
        for r, row in enumerate(self.rows):
            lines.append(
                _line([f"**{t}**" if (r, c) in self.bold else t for c, t in enumerate(row)])
            )
        return "\n".join(lines)

    def for_terminal(self) -> TerminalTable:
        """Return the table as Rich prints it."""
        from rich import box
        from rich.table import Table as TerminalTable
        from rich.text import Text

        table = TerminalTable(
            title=self.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for c, heading in enumerate(self.headings):
            named = c < self.n_named
            table.add_column(Text(heading), justify="left" if named else "right", no_wrap=not named)
        for r, row in enumerate(self.rows):
            table.add_row(
                *(Text(t, "bold" if (r, c) in self.bold else "") for c, t in enumerate(row))
            )
        return table


@dataclass(frozen=True)
class Result:
    """What a benchmark found.

    Attributes
    ----------
    name : str
        The benchmark; its files are ``NAME.json``, ``NAME.md`` and ``NAME.png``.
    tables : sequence of Table
    data : dict
        Everything that was measured, ready for JSON.
    notes : sequence of str
        Facts in a sentence each: warnings counted, what was left out and why.
    plots : mapping of str to function
        For each picture the end of its file name and what draws it: ``""`` gives ``NAME.png``,
        ``"snap"`` gives ``NAME_snap.png``.
    environment : dict
        Machine, versions and date.
    """

    name: str
    tables: Sequence[Table]
    data: dict[str, Any]
    notes: Sequence[str] = ()
    plots: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=describe_environment)

    def json_text(self) -> str:
        """Return the measured data and the environment as one JSON object."""
        everything = {**self.data, "notes": list(self.notes), "environment": self.environment}
        return json.dumps(everything, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def markdown(self) -> str:
        """Return tables, pictures and notes; a page of the documentation includes them."""
        parts = []
        for table in self.tables:
            parts += [f"**{table.title}**", table.markdown()]
        parts += [f"![{self.name}]({self._picture(end)})" for end in self.plots]
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        parts.append(f"Measured {environment_line(self.environment)}.")
        return "\n\n".join(parts) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Write JSON, Markdown and pictures; each file is complete or absent."""
        written = []
        for path, text in (
            (folder / f"{self.name}.json", self.json_text()),
            (folder / f"{self.name}.md", self.markdown()),
        ):
            with atomic_file(path) as unfinished:
                unfinished.write_text(text, encoding="utf-8")
            written.append(path)
        # pictures last: figures are not lost where matplotlib is missing
        for end, draw in self.plots.items():
            path = folder / self._picture(end)
            with atomic_file(path) as unfinished:
                draw().savefig(unfinished, dpi=120, format="png")
            written.append(path)
        return written

    def show(self) -> None:
        """Print tables and notes."""
        from rich.console import Console

        console = Console(highlight=False, markup=False)
        if not console.is_terminal:
            console.width = 200
        for table in self.tables:
            console.print(table.for_terminal())
        for note in self.notes:
            console.print(f"Note: {note}")

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


def best_places(values: Sequence[float | None], digits: int = 3) -> list[int]:
    """Return the places of the largest value; values that are equal as printed are ties.

    >>> best_places([0.9, None, 0.90004])
    [0, 2]
    """
    rounded = {place: round(v, digits) for place, v in enumerate(values) if v is not None}
    return [place for place, value in rounded.items() if value == max(rounded.values())]


def short_text(figure: float | None, digits: int = 3, missing: str = "–") -> str:
    """Return a figure without the zero before its point.

    >>> short_text(0.00512, 4), short_text(1.0), short_text(None)
    ('.0051', '1.000', '–')
    """
    return missing if figure is None else f"{figure:.{digits}f}".removeprefix("0")


def score_text(found: Mapping[str, Any]) -> str:
    """Return ``mean ± se`` of a method; the error is left out where it is None.

    >>> score_text({"mean": 0.5, "se": 0.01}), score_text({"mean": 0.5, "se": None})
    ('.500 ± .010', '.500')
    """
    error = "" if found["se"] is None else f" ± {short_text(found['se'])}"
    return short_text(found["mean"]) + error


def row_axes(axes: Axes, names: Sequence[str], xlabel: str) -> None:
    """Give axes one named row per place 0, 1, … from top to bottom, every second one shaded."""
    for place in range(0, len(names), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(max(1, len(names)) - 0.5, -0.5)
    axes.set_xlabel(xlabel)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def legend_below(figure: Figure, **settings: Any) -> None:
    """Add one legend below the axes of a figure; each label appears once."""
    marks: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        marks |= {str(label): handle for label, handle in zip(labels, handles, strict=True)}
    figure.legend(
        list(marks.values()),
        list(marks),
        loc="outside lower center",
        frameon=False,
        fontsize=8,
        title_fontsize=8,
        **settings,
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"
