"""``coterie consensus``: the partition that the columns of a table agree on."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.command_line import options
from coterie.command_line.outputs import Outputs
from coterie.command_line.progress import shown_notes, shown_stages
from coterie.command_line.results import Result
from coterie.errors import InvalidLabelsError, TableError

if TYPE_CHECKING:
    from coterie.labels import LabelMatrix
    from coterie.robust_consensus import RobustConsensus

__all__ = ["consensus", "read_labels"]

_log = logging.getLogger(__name__)

_REFINE: dict[str, bool | str] = {"auto": "auto", "yes": True, "no": False}


def consensus(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="A row a point, a column a partition.")
    ],
    n_clusters: Annotated[
        int | None,
        typer.Option(
            "-k", min=1, metavar="K", help="The most clusters; by default as many as fit."
        ),
    ] = None,
    output: options.Table = None,
    id_column: options.IdColumn = None,
    columns: options.Columns = None,
    weights: Annotated[
        Literal["agreement", "equal", "learned"],
        typer.Option(help="Who votes: the largest camp, all alike, or each by its distance."),
    ] = "agreement",
    relaxation: Annotated[
        Literal["admm", "l2"], typer.Option(help="The relaxation: robust, or least squares.")
    ] = "admm",
    refine: Annotated[
        Literal["auto", "yes", "no"],
        typer.Option(help="Whether a search's answer replaces the relaxation's."),
    ] = "auto",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Picture = None,
    save_model: options.Model = None,
    quiet: options.Quiet = False,
) -> None:
    """Find the partition that many partitions agree on.

    LABELS is a CSV, Parquet or NPY table: a row a point, a column a
    partition. Labels are whole numbers or text; a blank is missing.
    Partitions that agree with the others no better than chance lose
    their vote.

    Example: coterie consensus labels.csv --id name -k 3 -o consensus.csv
    """
    outputs, wanted = Outputs(output, plot, save_model), options.names_in(columns)
    outputs.check(labels, id_column)
    with shown_notes() as notes:
        with shown_stages(quiet):
            started = time.perf_counter()
            ids, P = read_labels(labels, id_column, wanted)
            estimator = _fitted(P, n_clusters, weights, relaxation, refine, seed)
            seconds = time.perf_counter() - started
        result = Result(labels, estimator, P, P.names, ids, seconds)
        result.write(outputs)
    result.tell(outputs, notes, as_json, quiet)


def read_labels(
    path: Path, id_column: str | None, columns: list[str] | None
) -> tuple[dict[str, Any], LabelMatrix]:
    """The id column of a table by its name, if there is one, and its partitions.

    Parameters
    ----------
    path : Path
        The table.
    id_column : str or None
    columns : list of str or None
        The partitions; None for all columns but the id.
    """
    _log.info("reading %s", path)
    import pyarrow as pa

    from coterie.command_line.tables import label_columns, read_table
    from coterie.labels import as_label_matrix

    ids, names, labels = label_columns(read_table(path), id_column, columns)
    try:
        P = as_label_matrix(pa.table(labels, names=names))
    except InvalidLabelsError as error:
        raise TableError(
            f"{path}: {error} (rows are counted from 0, without the header)"
        ) from error
    return ({} if id_column is None else {id_column: ids}), P


def _fitted(
    P: LabelMatrix, n_clusters: int | None, weights: str, relaxation: str, refine: str, seed: int
) -> RobustConsensus:
    from coterie.robust_consensus import RobustConsensus

    return RobustConsensus(
        n_clusters,
        relaxation=relaxation,
        refine=_REFINE[refine],
        partition_weights=None if weights == "equal" else weights,
        random_state=seed,
    ).fit(P)
