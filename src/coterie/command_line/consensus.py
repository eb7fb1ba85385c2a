"""``coterie consensus``: the partition that the columns of a table agree on."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.command_line.engine_tables import EngineResult, EngineTask, choose_engine
from coterie.command_line.terminal import options
from coterie.command_line.terminal.outputs import Outputs
from coterie.command_line.terminal.progress import shown_notes, shown_stages
from coterie.command_line.terminal.results import Result
from coterie.consensus.registry import FLAGSHIP, Method, consensus_method
from coterie.errors import InvalidLabelsError, TableError

if TYPE_CHECKING:
    from coterie.labels.label_matrix import LabelMatrix

__all__ = ["consensus", "read_labels"]

_log = logging.getLogger(__name__)

#: The flagship's own options: the parameter that is meant, and texts that stand for other values.
_SETTINGS: dict[str, tuple[str, dict[str, bool | None]]] = {
    "--weights": ("partition_weights", {"equal": None}),
    "--relaxation": ("relaxation", {}),
    "--refine": ("refine", {"yes": True, "no": False}),
    "--device": ("device", {}),
}


def consensus(
    labels: Annotated[
        str, typer.Argument(metavar="LABELS", help="A row a point, a column a partition.")
    ],
    n_clusters: Annotated[
        int | None,
        typer.Option(
            "-k", min=1, metavar="K", help="The number of clusters; by default as many as fit."
        ),
    ] = None,
    output: options.TableOrFolder = None,
    id_columns: options.IdColumns = None,
    columns: options.Columns = None,
    method: options.MethodKey = FLAGSHIP,
    weights: Annotated[
        Literal["agreement", "equal", "learned"] | None,
        typer.Option(
            help="Who votes: the largest camp, all alike, or each by its distance.",
            show_default="agreement",
        ),
    ] = None,
    relaxation: Annotated[
        Literal["auto", "admm", "divided", "l2"] | None,
        typer.Option(
            help="Robust, robust in parts, least squares; robust where it is quick.",
            show_default="auto",
        ),
    ] = None,
    refine: Annotated[
        Literal["auto", "yes", "no"] | None,
        typer.Option(
            help="The answer: the best separated of four kinds, a search's, or the relaxation's.",
            show_default="auto",
        ),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"] | None,
        typer.Option(help="Where the robust relaxation runs.", show_default="auto"),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Picture = None,
    save_model: options.Model = None,
    engine: options.Engine = None,
    memory_limit: options.MemoryLimit = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Find the partition that many partitions agree on.

    LABELS is a CSV, Parquet or NPY table: a row a point, a column a
    partition. Labels are whole numbers or text; a blank is missing.
    Partitions that agree with the others no better than chance lose
    their vote; of four answers the one best separated in the remaining
    votes is returned. --weights, --relaxation, --refine and --device are
    settings of this method, robust; coterie methods lists the others.
    With --engine the table stays in DuckDB or Spark, and LABELS may
    also be a folder, a quoted glob or a table of a database; a Parquet
    table of more than 50 million labels goes to DuckDB by itself.

    Example: coterie consensus labels.csv --id name -k 3 -o consensus.csv
    """
    chosen = consensus_method(method)
    given = {
        "--weights": weights,
        "--relaxation": relaxation,
        "--refine": refine,
        "--device": device,
    }
    settings = _settings(chosen, given)
    if n_clusters is None and not _finds_k(chosen):
        raise typer.BadParameter(
            f"--method {method} cannot find the number of clusters itself; give it",
            param_hint="'-k'",
        )
    outputs = Outputs(output, plot, save_model)
    ids, wanted = options.ids_in(id_columns), options.names_in(columns)
    choice = choose_engine(engine, labels, ids, wanted, outputs)
    if choice is None:
        _refuse_without_engine({"--memory-limit": memory_limit, "--threads": threads})
        outputs.check(Path(labels), ids)
    result: Result | EngineResult
    with shown_notes() as notes:
        if choice is not None:
            limits = {"memory_limit": memory_limit, "threads": threads}
            task = EngineTask(labels, chosen, n_clusters, seed, settings, ids, wanted, limits)
            with shown_stages(quiet):
                result = task.run(choice, outputs)
        else:
            with shown_stages(quiet):
                started = time.perf_counter()
                carried, P = read_labels(Path(labels), ids, wanted)
                estimator = chosen.make(n_clusters, seed, **settings).fit(P)
                seconds = time.perf_counter() - started
            result = Result(Path(labels), estimator, P, P.names, carried, seconds, method)
            result.write(outputs)
    result.tell(outputs, notes, as_json, quiet)


def read_labels(
    path: Path, ids: Sequence[str], columns: list[str] | None
) -> tuple[dict[str, Any], LabelMatrix]:
    """The id columns of a table by their names, and its partitions.

    Parameters
    ----------
    path : Path
        The table.
    ids : sequence of str
    columns : list of str or None
        The partitions; None for all columns but the ids.
    """
    _log.info("reading %s", path)
    import pyarrow as pa

    from coterie.files.tables import label_columns, read_table
    from coterie.labels.label_matrix import as_label_matrix

    carried, names, labels = label_columns(read_table(path), ids, columns)
    try:
        P = as_label_matrix(pa.table(labels, names=names))
    except InvalidLabelsError as error:
        raise TableError(
            f"{path}: {error} (rows are counted from 0, without the header)"
        ) from error
    return carried, P


def _settings(method: Method, options_given: Mapping[str, str | None]) -> dict[str, Any]:
    """Constructor arguments for the options that were given; refuse those it does not know."""
    given = {option: text for option, text in options_given.items() if text is not None}
    if method.key != FLAGSHIP:
        # all votes alike is how others count them, but for those that learn their weights
        if given.get("--weights") == "equal" and "partition_weights" in _parameters(method):
            del given["--weights"]
        if given:
            clash = " and ".join(f"{option} {text}" for option, text in given.items())
            raise typer.BadParameter(
                f"--method {method.key} has no {clash}, which is for --method {FLAGSHIP}; "
                "leave out one or the other",
                param_hint="'--method'",
            )
    settings: dict[str, Any] = {}
    for option, text in given.items():
        name, values = _SETTINGS[option]
        settings[name] = values.get(text, text)
    return settings


def _refuse_without_engine(limits: Mapping[str, Any]) -> None:
    for option, value in limits.items():
        if value is not None:
            raise typer.BadParameter(
                "it is for tables in an engine; say which, as in --engine duckdb://",
                param_hint=f"'{option}'",
            )


def _finds_k(method: Method) -> bool:
    """Whether the number of clusters may be None, or is not asked for at all."""
    asked = _parameters(method).get("n_clusters")
    return asked is None or "None" in str(asked.annotation)


def _parameters(method: Method) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(method.estimator_class()).parameters
