"""``coterie consensus``: the consensus of the partitions in a table, in memory or in an engine."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.cli import options
from coterie.cli.inputs import factors_in, read_labels, run_factor_tests
from coterie.cli.outputs import Outputs, input_name, is_stream, refuse_json
from coterie.cli.progress import progress_unless, shown_notes
from coterie.cli.summary import Run, print_run
from coterie.consensus.registry import DEFAULT_METHOD, consensus_method
from coterie.errors import InvalidParameterError, TableError
from coterie.runtime.imports import missing_packages

if TYPE_CHECKING:
    from coterie.tables import TableConsensus

# A larger Parquet table is processed in DuckDB unless the user chooses.
_MOST_CELLS_IN_MEMORY = 50_000_000


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
    method: options.MethodKey = DEFAULT_METHOD,
    partition_weights: Annotated[
        Literal["agreement", "equal", "learned"] | None,
        typer.Option(
            metavar="RULE",
            help="Weights of the partitions: agreement uses only the largest camp, learned weighs "
            "each by its distance to the result, equal uses all alike.",
            show_default="agreement",
        ),
    ] = None,
    relaxation: Annotated[
        Literal["auto", "admm", "divided", "l2"] | None,
        typer.Option(
            metavar="NAME",
            help="Relaxation: admm is robust, divided is robust and solved in parts, l2 is least "
            "squares; auto chooses by size.",
            show_default="auto",
        ),
    ] = None,
    refine: Annotated[
        Literal["auto", "search", "relaxation", "sizes"] | None,
        typer.Option(
            metavar="RULE",
            help="Result to return: auto compares several methods, search is the discrete search, "
            "relaxation is its rounding, sizes is the search or linkage, by the sizes of clusters.",
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
    of clusters as coterie choose-k does. --partition-weights, --relaxation,
    --refine and --device are settings of robust. coterie methods lists all
    methods.

    With --engine the table stays in DuckDB or Spark. LABELS may then also be
    a folder, a quoted glob or a table of a database. A Parquet table of more
    than 50 million labels is processed in DuckDB by default.

    Example: coterie consensus labels.csv --id name -k 3 -o consensus.csv
    In a pipe: coterie consensus - --id name -k 3 -o - < labels.csv | sort
    """
    chosen = consensus_method(method)
    parameters = inspect.signature(chosen.estimator_class()).parameters
    # None means that the option was not given, so that other methods can refuse those that were.
    settings: dict[str, Any] = {
        "partition_weights": partition_weights,
        "relaxation": relaxation,
        "refine": refine,
        "device": device,
    }
    settings = {name: text for name, text in settings.items() if text is not None}
    if settings.get("partition_weights") == "equal" and "partition_weights" in parameters:
        settings["partition_weights"] = None
    if method != DEFAULT_METHOD:
        # Methods with this parameter use equal weights by default, so that changes nothing.
        settings = {name: text for name, text in settings.items() if text is not None}
        if settings:
            clash = [f"--{name.replace('_', '-')} {text}" for name, text in settings.items()]
            raise typer.BadParameter(
                f"{' and '.join(clash)} works only with --method {DEFAULT_METHOD}, not with "
                f"--method {method}; leave out one of them",
                param_hint="'--method'",
            )
    n_clusters = options.clusters_in(clusters)
    if n_clusters == "free" and "str" not in str(parameters["n_clusters"].annotation):
        raise typer.BadParameter(
            f"free does not work with --method {method}; write a number, or leave out -k",
            param_hint="'--clusters'",
        )
    outputs = Outputs(output, plot, save_model, report)
    refuse_json(as_json, outputs.table)
    ids, column_names = options.ids_in(id_columns), options.names_in(columns)
    tested, coded = factors_in(factors, categories)
    url, reason = _engine(engine, labels, ids, column_names, outputs)
    limits = {"memory_limit": memory_limit, "threads": threads}
    if url is None:
        for name, value in limits.items():
            if value is not None:
                raise typer.BadParameter(
                    "it needs an engine; add, for example, --engine duckdb://",
                    param_hint=f"'--{name.replace('_', '-')}'",
                )
        outputs.check(Path(labels), ids)
    elif tested:
        raise typer.BadParameter(
            "factors are tested in memory; add --engine none", param_hint="'--factors'"
        )
    from coterie.consensus.results import consensus_facts, table_facts

    with shown_notes() as notes, progress_unless(quiet):
        started = time.perf_counter()
        if url is None:
            id_values, factor_values, P = read_labels(Path(labels), ids, column_names, tested)
            estimator = chosen.make(n_clusters, seed, **settings).fit(P)
            seconds = time.perf_counter() - started
            outputs.write_consensus(estimator, P, P.names, id_values)
            run = Run(
                input_name(labels),
                consensus_facts(estimator, P.names, method=method, find_dissent=False),
                seconds,
                outputs.written,
                factors=run_factor_tests(estimator.labels_, factor_values, seed, coded),
            )
        else:
            result = _fit_in_engine(
                labels,
                outputs,
                engine=url,
                columns=column_names,
                n_clusters=n_clusters,
                ids=ids,
                method=method,
                random_state=seed,
                **limits,
                **settings,
            )
            run = Run(
                result.source,
                table_facts(result, method),
                time.perf_counter() - started,
                outputs.written,
                engine={**result.as_dict(), "url": url, "chosen": reason},
                cost=result.cost_in_words(),
            )
    print_run(replace(run, notes=notes), as_json, quiet, outputs.to_stdout)


def _engine(
    requested: str | None,
    labels: str,
    ids: Sequence[str],
    columns: Sequence[str] | None,
    outputs: Outputs,
) -> tuple[str | None, str]:
    """Return the URL of the engine, None for memory, and why it was chosen if nobody asked for it.

    Engines write Parquet without a row order, no plot and no report. Other outputs use memory
    unless the user asks for an engine.
    """
    if requested == "none":
        return None, ""
    if requested is not None:
        if is_stream(labels):
            raise InvalidParameterError(
                "--engine cannot read standard input; name a file, or leave out --engine"
            )
        if outputs.to_stdout:
            raise InvalidParameterError(
                "--engine cannot write to standard output; give -o a .parquet file or a folder, or "
                "leave out --engine"
            )
        return requested, ""
    table = outputs.table
    # Without ids, only the order identifies the rows, and engines do not keep it.
    can_write = table is None or (table.suffix.lower() == ".parquet" and bool(ids))
    if not can_write or outputs.picture is not None or outputs.report is not None:
        return None, ""
    if missing_packages(("ibis", "pyarrow")):
        return None, ""
    cells = _parquet_cells(Path(labels), ids, columns)
    if cells <= _MOST_CELLS_IN_MEMORY:
        return None, ""
    more = f"{cells:,} labels are more than {_MOST_CELLS_IN_MEMORY:,}"
    return "duckdb://", f"{more}; --engine none uses memory"


def _parquet_cells(path: Path, ids: Sequence[str], columns: Sequence[str] | None) -> int:
    """Count the labels in a Parquet file or a folder of them; 0 if that is not possible."""
    if not path.is_dir() and path.suffix.lower() != ".parquet":
        return 0
    from coterie.tables.reading import read_table

    try:
        table = read_table(path)
    except TableError:
        return 0  # reading the table raises a clear error
    return table.n_rows * (len(columns) if columns else len(table.columns) - len(ids))


def _fit_in_engine(labels: str, outputs: Outputs, **arguments: Any) -> TableConsensus:
    """Fit a table in an engine, which writes the table, and save the model."""
    from coterie.models import save_model
    from coterie.tables import consensus_table
    from coterie.tables.sources import local_files

    for option, path in (("--plot", outputs.picture), ("--report", outputs.report)):
        if path is not None:
            raise InvalidParameterError(
                f"{option} needs all rows in memory, which --engine avoids; leave out one of them"
            )
    outputs.check_apart(local_files(labels))
    Outputs(model=outputs.model).check(Path(labels))
    result = consensus_table(labels, out=outputs.table, parse_text=True, **arguments)
    if outputs.model is not None:
        save_model(result.estimator, outputs.model)
    return result
