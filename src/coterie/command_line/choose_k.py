"""``coterie choose-k``: how many clusters the partitions, or the features, speak for."""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.command_line.cluster import read_features
from coterie.command_line.consensus import read_labels
from coterie.command_line.terminal import options
from coterie.command_line.terminal.outputs import Outputs
from coterie.command_line.terminal.progress import shown_notes, shown_stages
from coterie.command_line.terminal.summary import print_json
from coterie.command_line.terminal.terminal_text import summary_console
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from coterie.inspection.choosing_k import KChoice

__all__ = ["choice_facts", "choose_k"]

_log = logging.getLogger(__name__)

_MEASURES = (
    "n_clusters",
    "objective",
    "information",
    "confidence",
    "eigengap",
    "relative_eigengap",
    "pac",
    "cdf_area",
    "delta_area",
)
#: What a person is shown of them: heading, and how a number is written.
_SHOWN = {
    "n_clusters": ("clusters", "d"),
    "objective": ("objective", ",.0f"),
    "confidence": ("confidence", ".3f"),
    "relative_eigengap": ("eigengap", ".3f"),
    "pac": ("ambiguous", ".1%"),
}


def choose_k(
    source: Annotated[
        Path,
        typer.Argument(metavar="LABELS", help="A row a point, a column a partition."),
    ],
    smallest: Annotated[int, typer.Option("--from", min=2, metavar="K", help="The fewest.")] = 2,
    largest: Annotated[
        int | None,
        typer.Option("--to", min=2, metavar="K", help="The most; by default 10, or the points."),
    ] = None,
    features: Annotated[
        bool,
        typer.Option(
            "--features", help="The columns are features: cluster samples of the rows for each K."
        ),
    ] = False,
    id_columns: options.IdColumns = None,
    columns: options.Columns = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Picture = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare numbers of clusters, and recommend one.

    LABELS is a table as for coterie consensus. With --features it is one
    as for coterie cluster: samples of its rows are clustered many times
    for each K, and how many pairs of points that leaves ambiguous is shown.

    Example: coterie choose-k labels.csv --id name --from 2 --to 8
    """
    if largest is not None and smallest > largest:
        raise typer.BadParameter(f"{smallest} is more than --to {largest}", param_hint="'--from'")
    outputs = Outputs(picture=plot)
    ids, wanted = options.ids_in(id_columns), options.names_in(columns)
    outputs.check(source)
    with shown_notes() as notes:
        started = time.perf_counter()
        with shown_stages(quiet):
            read = read_features if features else read_labels
            _, table = read(source, ids, wanted)
            choice = _chosen(source, table, smallest, largest, features, seed)
        seconds = time.perf_counter() - started
        outputs.write({}, None, lambda: _picture(choice))
    facts = {
        "input": str(source),
        **choice_facts(choice),
        "seconds": round(seconds, 3),
        "written": {kind: str(path) for kind, path in outputs.paths.items()},
        "notes": notes,
    }
    if as_json:
        print_json(facts)
    elif not quiet:
        _print(facts)


def choice_facts(choice: KChoice) -> dict[str, Any]:
    """The facts of a choice of K, ready for JSON: None where a criterion cannot be had."""
    return {
        "recommended": int(choice.best_k),
        "reason": choice.reason,
        "by_criterion": {
            name: None if k is None else int(k) for name, k in choice.by_criterion.items()
        },
        "lower_bound": _number(choice.lower_bound),
        "table": [
            {"k": int(k)} | {name: _number(getattr(choice, name)[row]) for name in _MEASURES}
            for row, k in enumerate(choice.ks)
        ],
    }


def _chosen(
    source: Path, table: Any, smallest: int, largest: int | None, features: bool, seed: int
) -> KChoice:
    """The choice by partitions, or by samples of features, in a table (n, V)."""
    from coterie.inspection.choosing_k import choose_k as choose

    n_points = len(table) if features else table.n_points
    most = max(min(10, n_points), smallest) if largest is None else largest
    if most > n_points:
        raise InvalidParameterError(
            f"{most} clusters are more than the {n_points} points in {source}; give a smaller "
            f"{'--from' if largest is None else '--to'}"
        )
    ks = range(smallest, most + 1)
    partitions = _samples(table, ks, seed) if features else table
    _log.info("comparing %d to %d clusters", ks[0], ks[-1])
    return choose(partitions, ks, random_state=seed)


def _samples(X: Any, ks: range, seed: int) -> dict[int, Any]:
    """Partitions of samples of the rows, the same samples for each K."""
    from coterie.inspection.stability import resampled_ensembles

    ensembles: dict[int, Any] = {}
    for k in ks:
        _log.info("clustering samples of the rows into %d clusters", k)
        ensembles |= resampled_ensembles(X, [k], random_state=seed)
    return ensembles


def _picture(choice: KChoice) -> Figure:
    from coterie.inspection.displays import ChooseKDisplay

    return ChooseKDisplay.from_choice(choice).figure_


def _number(value: Any) -> int | float | None:
    """A number of Python, or None for what is not one."""
    number = value.item() if hasattr(value, "item") else value
    return None if isinstance(number, float) and not math.isfinite(number) else number


def _print(facts: dict[str, Any]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = summary_console()
    heading = Text.assemble((facts["input"], "bold"), ": K by several criteria")
    console.print(heading, soft_wrap=True)
    console.print(Padding(_table(facts), (1, 0, 1, 2), expand=False))
    console.print(
        Text.assemble((f"Take K = {facts['recommended']}", "bold"), f": {facts['reason']}")
    )
    by = ", ".join(f"{name} {k}" for name, k in facts["by_criterion"].items() if k is not None)
    console.print(Text(f"By criterion: {by}", style="dim"))
    if facts["written"]:
        console.print(Text("Wrote " + ", ".join(facts["written"].values())), soft_wrap=True)


def _table(facts: dict[str, Any]) -> Table:
    """A row a K; a measure that cannot be had for any K has no column."""
    from rich.table import Table

    shown = {
        name: form
        for name, form in _SHOWN.items()
        if any(row[name] is not None for row in facts["table"])
    }
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("K", *(heading for heading, _ in shown.values())):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in facts["table"]:
        cells = [
            "–" if row[name] is None else format(row[name], f) for name, (_, f) in shown.items()
        ]
        chosen = row["k"] == facts["recommended"]
        table.add_row(str(row["k"]), *cells, style="bold green" if chosen else "")
    return table
