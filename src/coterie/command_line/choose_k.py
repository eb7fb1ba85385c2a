"""``coterie choose-k``: how many clusters the partitions, or the features, speak for."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.command_line import options
from coterie.command_line.cluster import read_features
from coterie.command_line.consensus import read_labels
from coterie.command_line.outputs import Outputs
from coterie.command_line.progress import shown_notes, shown_stages
from coterie.command_line.report import print_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from coterie.choosing_k import KChoice

__all__ = ["choice_facts", "choose_k"]

#: Columns of the table: attribute of the choice, heading, how a number is written.
_COLUMNS = (
    ("n_clusters", "used", "d"),
    ("objective", "objective J", ",.1f"),
    ("information", "information", ".3f"),
    ("eigengap", "eigengap", ",.2f"),
    ("pac", "PAC", ".3f"),
    ("cdf_area", "CDF area", ".3f"),
    ("delta_area", "Δ area", ".3f"),
)


def choose_k(
    source: Annotated[
        Path,
        typer.Argument(metavar="LABELS", help="A row a point, a column a partition."),
    ],
    smallest: Annotated[int, typer.Option("--from", min=2, metavar="K", help="The fewest.")] = 2,
    largest: Annotated[int, typer.Option("--to", min=2, metavar="K", help="The most.")] = 10,
    features: Annotated[
        bool,
        typer.Option(
            "--features", help="The columns are features: cluster samples of the rows for each K."
        ),
    ] = False,
    id_column: options.IdColumn = None,
    columns: options.Columns = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Picture = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare numbers of clusters, and recommend one.

    LABELS is a table as for coterie consensus, or, with --features, as for coterie cluster;
    then many samples of the rows are clustered for each K, and how well they agree is told too.

    Example: coterie choose-k labels.csv --id name --from 2 --to 8
    """
    if smallest > largest:
        raise typer.BadParameter(f"{smallest} is more than --to {largest}", param_hint="'--from'")
    outputs, wanted = Outputs(picture=plot), options.names_in(columns)
    outputs.check(source)
    ks = range(smallest, largest + 1)
    with shown_notes() as notes:
        started = time.perf_counter()
        with shown_stages(quiet):
            if features:
                choice = _choose_by_features(read_features(source, id_column, wanted)[1], ks, seed)
            else:
                choice = _choose_by_labels(read_labels(source, id_column, wanted)[1], ks, seed)
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
