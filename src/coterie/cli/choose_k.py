"""``coterie choose-k``: the number of clusters, from partitions or from features."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.inputs import read_features, read_labels, warn_of_units
from coterie.cli.outputs import Outputs, input_name
from coterie.cli.progress import progress_unless, shown_notes
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from rich.table import Table


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
        bool, options.flag("The columns are features, not partitions.", "--features")
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
    from coterie.consensus.choice_of_k import default_ks
    from coterie.inspection.choose_k import choose_k as choose
    from coterie.inspection.stability import resampled_ensembles

    X = None
    with shown_notes() as notes:
        started = time.perf_counter()
        with progress_unless(quiet):
            partitions: Any
            if features:
                cells: dict[str, Any] = {"impute": impute, "decimal_comma": decimal_comma}
                read = read_features(source, ids, column_names, **cells)
                X, n_points, n_labels = read.X, len(read.X), 1
                if standardize:
                    from coterie.ensembles.scalings import standard_and_min_max

                    X = standard_and_min_max(X)[0].transform(X)
                else:
                    warn_of_units(X, read.names)
            else:
                partitions = read_labels(source, ids, column_names)[-1]
                n_points, n_labels = partitions.n_points, partitions.n_labels
            most = largest
            if most is None:
                most = max(int(default_ks(n_labels, n_points)[-1]), smallest)
            if most > n_points:
                raise InvalidParameterError(
                    f"{most} clusters are more than the {n_points} points in {input_name(source)}; "
                    f"give a smaller {'--from' if largest is None else '--to'}"
                )
            if features:  # samples of the rows, the same for each K
                partitions = {}
                for k in range(smallest, most + 1):
                    _log.info("clustering samples of the rows into %d clusters", k)
                    partitions |= resampled_ensembles(X, [k], random_state=seed)
            _log.info("comparing %d to %d clusters", smallest, most)
            choice = choose(partitions, range(smallest, most + 1), X=X, random_state=seed)
        seconds = time.perf_counter() - started

        if plot is not None:
            from coterie.inspection.displays import ChooseKDisplay

            outputs.write({}, None, ChooseKDisplay.from_choice(choice).figure_)
    facts = {
        "input": input_name(source),
        **choice.as_json(),
        "seconds": round(seconds, 3),
        "written": outputs.written,
        "notes": notes,
    }
    layout.print_answer(facts, _print_summary, as_json, quiet)


def _print_summary(facts: dict[str, Any]) -> None:
    from rich.text import Text

    console = layout.stdout_console()
    layout.print_heading(console, facts["input"], ": K by several criteria")
    layout.print_indented(console, _table(facts))
    console.print(
        Text.assemble((f"Take K = {facts['recommended']}", "bold"), f": {facts['reason']}")
    )
    by = ", ".join(f"{name} {k}" for name, k in facts["by_criterion"].items() if k is not None)
    console.print(f"By criterion: {by.replace('_', ' ')}", style="dim")
    if facts["written"]:
        layout.print_written(console, facts["written"])


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
