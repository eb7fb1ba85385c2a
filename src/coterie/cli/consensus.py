"""``coterie consensus``: the consensus of the partitions in a table."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.cli.engine_tables import choose_engine, fit_in_engine
from coterie.cli.factors import factor_facts, factors_in, without_factors
from coterie.cli.id_columns import find_ids
from coterie.cli.terminal import layout, options
from coterie.cli.terminal.outputs import Outputs
from coterie.cli.terminal.progress import shown_notes, shown_stages
from coterie.cli.terminal.streams import input_name, read_input, refuse_json
from coterie.cli.terminal.summary import consensus_facts, print_summary
from coterie.consensus.registry import FLAGSHIP, Method, consensus_method
from coterie.errors import InvalidLabelsError, TableError

if TYPE_CHECKING:
    from coterie.labels.encode import LabelMatrix

__all__ = ["consensus", "read_labels"]

_log = logging.getLogger(__name__)

# Options of the default method: the parameter in Python, and the option values that have another
# form there.
_SETTINGS: dict[str, tuple[str, dict[str, bool | None]]] = {
    "--weights": ("partition_weights", {"equal": None}),
    "--relaxation": ("relaxation", {}),
    "--refine": ("refine", {"yes": True, "no": False}),
    "--device": ("device", {}),
}


def consensus(
    labels: Annotated[
        str,
        typer.Argument(
            metavar="LABELS",
            help="Table with a row per point and a column per partition; - for standard input.",
        ),
    ],
    clusters: options.Clusters = None,
    output: options.TableOrFolder = None,
    id_columns: options.IdColumns = None,
    columns: options.Columns = None,
    factors: options.Factors = None,
    categories: options.Categories = None,
    method: options.MethodKey = FLAGSHIP,
    weights: Annotated[
        Literal["agreement", "equal", "learned"] | None,
        typer.Option(
            help="Weights of the partitions: agreement uses only the largest camp, learned weighs "
            "each by its distance to the result.",
            show_default="agreement",
        ),
    ] = None,
    relaxation: Annotated[
        Literal["auto", "admm", "divided", "l2"] | None,
        typer.Option(
            help="Relaxation: admm is robust, divided is robust and solved in parts, l2 is least "
            "squares; auto chooses by size.",
            show_default="auto",
        ),
    ] = None,
    refine: Annotated[
        Literal["auto", "yes", "no"] | None,
        typer.Option(
            help="Result to return: auto compares several methods, yes uses the discrete search, "
            "no uses the relaxation.",
            show_default="auto",
        ),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"] | None,
        typer.Option(help="Processor for the robust relaxation.", show_default="auto"),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Picture = None,
    save_model: options.Model = None,
    report: options.Report = None,
    engine: options.Engine = None,
    memory_limit: options.MemoryLimit = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Find the partition that many partitions agree on.

    LABELS is a CSV, Parquet or NPY table with a row per point and a column
    per partition. Labels are whole numbers or text; an empty cell is missing.

    The default method, robust, ignores partitions that agree with the others
    no better than chance. It runs several methods on the rest and returns the
    answer that the others agree with most. Without -k, it chooses the number
    of clusters as coterie choose-k does. --weights, --relaxation, --refine and
    --device are settings of robust. coterie methods lists all methods.

    With --engine the table stays in DuckDB or Spark. LABELS may then also be
    a folder, a quoted glob or a table of a database. A Parquet table of more
    than 50 million labels is processed in DuckDB by default.

    Example: coterie consensus labels.csv --id name -k 3 -o consensus.csv
    In a pipe: coterie consensus - --id name -k 3 -o - < labels.csv | sort
    """
    chosen = consensus_method(method)
    # None means that the option was not given, so that other methods can refuse those that were.
    given = {"--weights": weights, "--relaxation": relaxation}
    settings = _settings(chosen, given | {"--refine": refine, "--device": device})
    n_clusters = _n_clusters(chosen, options.clusters_in(clusters))
    outputs = Outputs(output, plot, save_model, report)
    refuse_json(as_json, outputs.table)
    ids, column_names = options.ids_in(id_columns), options.names_in(columns)
    choice = choose_engine(engine, labels, ids, column_names, outputs)
    limits = {"memory_limit": memory_limit, "threads": threads}
    tested, coded = factors_in(factors, categories)
    if choice is None:
        _refuse_without_engine(limits)
        outputs.check(Path(labels), ids)
    elif tested:
        raise _factors_in_engine()
    with shown_notes() as notes, shown_stages(quiet):
        if choice is None:
            estimator = chosen.make(n_clusters, seed, **settings)
            facts = _fit_in_memory(
                estimator, method, Path(labels), ids, column_names, tested, coded, outputs
            )
        else:
            facts = fit_in_engine(
                choice,
                labels,
                outputs,
                columns=column_names,
                n_clusters=n_clusters,
                ids=ids,
                method=method,
                random_state=seed,
                **limits,
                **settings,
            )
    facts["notes"] = notes
    layout.print_answer(facts, print_summary, as_json, quiet, outputs.to_stdout)


def read_labels(
    path: Path, ids: Sequence[str], columns: list[str] | None, factors: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any], LabelMatrix]:
    """Return the id columns of a table, its factors, and its partitions (None: all other columns).

    Without ids, a column that names the rows is the id; see :func:`find_ids`.
    """
    _log.info("reading %s", input_name(path))
    from coterie.files.tables import label_columns
    from coterie.labels.encode import as_label_matrix, warn_if_transposed

    table, tested = without_factors(read_input(path), factors)
    ids = find_ids(table, ids, columns, "labels")
    id_values, names, labels = label_columns(table, ids, columns)
    try:
        P = as_label_matrix(dict(zip(names, labels, strict=True)), allow_unlabelled_rows=True)
    except InvalidLabelsError as error:
        raise TableError(
            f"{table.path}: {error} (rows are counted from 0, without the header)"
        ) from error
    warn_if_transposed(P)  # find_ids has reported columns that may be ids
    return id_values, tested, P


def _fit_in_memory(
    estimator: Any,
    method: str,
    source: Path,
    ids: Sequence[str],
    columns: list[str] | None,
    factors: Sequence[str],
    categories: Sequence[str] | None,
    outputs: Outputs,
) -> dict[str, Any]:
    """Read a table, fit the estimator, write the outputs, and return the facts."""
    started = time.perf_counter()
    id_values, tested, P = read_labels(source, ids, columns, factors)
    estimator.fit(P)
    seconds = time.perf_counter() - started
    outputs.write_consensus(estimator, P, P.names, id_values)
    return {
        "input": input_name(source),
        **consensus_facts(estimator, P.names, method),
        **factor_facts(
            estimator.labels_, tested, getattr(estimator, "random_state", 0), categories
        ),
        "seconds": round(seconds, 3),
        "written": outputs.written,
    }


def _settings(method: Method, options_given: Mapping[str, str | None]) -> dict[str, Any]:
    """Return constructor arguments for the given options; refuse those the method lacks."""
    given = {option: text for option, text in options_given.items() if text is not None}
    if method.key != FLAGSHIP:
        # Methods with this parameter use equal weights by default, so the option changes nothing.
        if given.get("--weights") == "equal" and "partition_weights" in _parameters(method):
            del given["--weights"]
        if given:
            clash = " and ".join(f"{option} {text}" for option, text in given.items())
            raise typer.BadParameter(
                f"{clash} works only with --method {FLAGSHIP}, not with --method {method.key}; "
                "leave out one of them",
                param_hint="'--method'",
            )
    settings: dict[str, Any] = {}
    for option, text in given.items():
        name, values = _SETTINGS[option]
        settings[name] = values.get(text, text)
    return settings


def _factors_in_engine() -> typer.BadParameter:
    return typer.BadParameter(
        "factors are tested in memory; add --engine none", param_hint="'--factors'"
    )


def _refuse_without_engine(limits: Mapping[str, Any]) -> None:
    for name, value in limits.items():
        if value is not None:
            raise typer.BadParameter(
                "it needs an engine; add, for example, --engine duckdb://",
                param_hint=f"'--{name.replace('_', '-')}'",
            )


def _n_clusters(
    method: Method, requested: int | Literal["free"] | None
) -> int | Literal["free"] | None:
    """Return the number of clusters for the method; refuse free if the method does not know it."""
    if requested == "free" and "str" not in str(_parameters(method)["n_clusters"].annotation):
        raise typer.BadParameter(
            f"free does not work with --method {method.key}; write a number, or leave out -k",
            param_hint="'-k'",
        )
    return requested


def _parameters(method: Method) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(method.estimator_class()).parameters
