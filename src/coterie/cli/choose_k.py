"""``coterie choose-k``: the number of clusters, from partitions or from features."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.inputs import read_features, read_labels, warn_of_units
from coterie.cli.outputs import Outputs, input_name
from coterie.cli.progress import progress_unless, shown_notes
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from coterie.arrays import Floats
    from coterie.consensus.robust.choice_of_k import KChoice

_log = logging.getLogger(__name__)

# The measures in the summary: heading and number format.
_SHOWN = {
    "n_clusters": ("clusters", "d"),
    "objective": ("objective", ",.0f"),
    "margin": ("margin", ".3f"),
    "relative_eigengap": ("gap", ".3f"),
    "agreement": ("agreement", ".3f"),
    "pac": ("ambiguous", ".1%"),
    "silhouette": ("silhouette", ".3f"),
}


def choose_k(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS",
            help="Table with a row per point and a column per partition; - for standard input.",
        ),
    ],
    smallest: Annotated[
        int, typer.Option("--from", min=2, metavar="K", help="Smallest number of clusters.")
    ] = 2,
    largest: Annotated[
        int | None,
        typer.Option(
            "--to",
            min=2,
            metavar="K",
            help="Largest number of clusters; by default 10, or the median number of clusters of "
            "the partitions if that is larger.",
        ),
    ] = None,
    features: Annotated[
        bool,
        typer.Option("--features", metavar="", help="The columns are features, not partitions."),
    ] = False,
    standardize: options.Standardize = False,
    impute: options.Impute = None,
    decimal_comma: options.DecimalComma = False,
    id_columns: options.IdColumns = None,
    columns: options.Columns = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Picture = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare numbers of clusters, and recommend one.

    LABELS is a table of partitions, as for coterie consensus. With --features
    it is a table of features, as for coterie cluster: random samples of the
    rows are clustered many times for each K, and the summary shows the share
    of ambiguous pairs of points, which are together in some runs only, and the
    silhouette of the clusters, which does not decide; --json has more indices.
    Features are not scaled unless you add --standardize.

    Example: coterie choose-k labels.csv --id name --from 2 --to 8
    """
    if largest is not None and smallest > largest:
        raise typer.BadParameter(f"{smallest} is more than --to {largest}", param_hint="'--from'")
    for_features = {"--standardize": standardize, "--impute": impute}
    for option, given in (for_features | {"--decimal-comma": decimal_comma}).items():
        if given and not features:
            raise typer.BadParameter("it is for features; add --features", param_hint=f"'{option}'")
    outputs = Outputs(picture=plot)
    ids, column_names = options.ids_in(id_columns), options.names_in(columns)
    outputs.check(source)
    with shown_notes() as notes:
        started = time.perf_counter()
        with progress_unless(quiet):
            table = (
                _read_scaled(source, ids, column_names, impute, decimal_comma, standardize)
                if features
                else read_labels(source, ids, column_names)[-1]
            )
            choice = _choose(source, table, smallest, largest, features, seed)
        seconds = time.perf_counter() - started
        outputs.write({}, None, lambda: _picture(choice))
    from coterie.consensus.facts import k_facts

    facts = {
        "input": input_name(source),
        **k_facts(choice).as_json(),
        "seconds": round(seconds, 3),
        "written": outputs.written,
        "notes": notes,
    }
    layout.print_answer(facts, _print_summary, as_json, quiet)


def _read_scaled(
    path: Path,
    ids: Sequence[str],
    columns: list[str] | None,
    impute: str | None,
    decimal_comma: bool,
    standardize: bool,
) -> Floats:
    """Return the features (n, p) of a table, scaled if asked; warn if they seem to need it."""
    from coterie.ensembles.scalings import standard_and_min_max

    read = read_features(path, ids, columns, impute=impute, decimal_comma=decimal_comma)
    if not standardize:
        warn_of_units(read.X, read.names)
        return read.X
    scaled: Floats = standard_and_min_max(read.X)[0].transform(read.X)
    return scaled


def _choose(
    source: Path, table: Any, smallest: int, largest: int | None, features: bool, seed: int
) -> KChoice:
    """Choose K by the partitions in a table (n, V), or by samples of its features."""
    from coterie.consensus.robust.choice_of_k import default_ks
    from coterie.inspection.choosing_k import choose_k as choose

    n_points, n_labels = (len(table), 1) if features else (table.n_points, table.n_labels)
    most = max(int(default_ks(n_labels, n_points)[-1]), smallest) if largest is None else largest
    if most > n_points:
        raise InvalidParameterError(
            f"{most} clusters are more than the {n_points} points in {input_name(source)}; give a "
            f"smaller {'--from' if largest is None else '--to'}"
        )
    ks = range(smallest, most + 1)
    partitions = _resampled(table, ks, seed) if features else table
    _log.info("comparing %d to %d clusters", ks[0], ks[-1])
    return choose(partitions, ks, X=table if features else None, random_state=seed)


def _resampled(X: Any, ks: range, seed: int) -> dict[int, Any]:
    """Cluster samples of the rows, the same samples for each K."""
    from coterie.inspection.stability import resampled_ensembles

    ensembles: dict[int, Any] = {}
    for k in ks:
        _log.info("clustering samples of the rows into %d clusters", k)
        ensembles |= resampled_ensembles(X, [k], random_state=seed)
    return ensembles


def _picture(choice: KChoice) -> Figure:
    from coterie.inspection.displays import ChooseKDisplay

    return ChooseKDisplay.from_choice(choice).figure_


def _print_summary(facts: dict[str, Any]) -> None:
    from rich.text import Text

    console = layout.stdout_console()
    heading = Text.assemble((facts["input"], "bold"), ": K by several criteria")
    console.print(heading, soft_wrap=True)
    layout.print_indented(console, _table(facts))
    console.print(
        Text.assemble((f"Take K = {facts['recommended']}", "bold"), f": {facts['reason']}")
    )
    by = ", ".join(f"{name} {k}" for name, k in facts["by_criterion"].items() if k is not None)
    console.print(f"By criterion: {by.replace('_', ' ')}", style="dim")
    if facts["written"]:
        console.print("Wrote " + ", ".join(facts["written"].values()), soft_wrap=True)


def _table(facts: dict[str, Any]) -> Table:
    """Return a table with a row per K; a measure without any value has no column."""
    shown = {
        name: form
        for name, form in _SHOWN.items()
        if any(row.get(name) is not None for row in facts["table"])
    }
    table = layout.figures_table((), ("K", *(heading for heading, _ in shown.values())))
    for row in facts["table"]:
        cells = [
            "–" if row[name] is None else format(row[name], f) for name, (_, f) in shown.items()
        ]
        chosen = row["k"] == facts["recommended"]
        table.add_row(str(row["k"]), *cells, style="bold green" if chosen else "")
    return table
