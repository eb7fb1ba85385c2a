"""``coterie consensus``: the consensus of the partitions in a table, in memory or in an engine."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.cli import options
from coterie.cli.inputs import factors_in, read_labels, run_factor_tests
from coterie.cli.outputs import Outputs, index_of, input_name, is_stream, refuse_json
from coterie.cli.progress import progress_unless, shown_notes
from coterie.cli.summary import Run, print_run
from coterie.consensus.registry import DEFAULT_METHOD, consensus_method
from coterie.errors import CoterieWarning, InvalidParameterError
from coterie.runtime.messages import warn_user

if TYPE_CHECKING:
    from coterie.tables import TableConsensus

#: From so many labels on, an engine is worth a note.
_MANY_LABELS = 50_000_000


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
            "each by its distance to the result, equal treats all alike.",
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
            "relaxation is the rounded relaxation, sizes is the search or linkage, by the sizes of "
            "clusters.",
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

    With --engine the table stays in DuckDB or Spark, and may be larger than
    memory. LABELS may then also be a folder, a quoted glob or a table of a
    database.

    Example: coterie consensus labels.csv --id name -k 3 -o consensus.csv
    In a pipe: coterie consensus - --id name -k 3 -o - < labels.csv | sort
    """
    chosen = consensus_method(method)
    parameters = inspect.signature(chosen.estimator_class()).parameters
    settings: dict[str, Any] = {
        "partition_weights": partition_weights,
        "relaxation": relaxation,
        "refine": refine,
        "device": device,
    }
    settings = {name: text for name, text in settings.items() if text is not None}
    if partition_weights == "equal" and "partition_weights" in parameters:
        settings["partition_weights"] = None
    if method != DEFAULT_METHOD:
        clash = [f"--{name.replace('_', '-')} {text}" for name, text in settings.items() if text]
        if clash:
            raise typer.BadParameter(
                f"{' and '.join(clash)} works only with --method {DEFAULT_METHOD}, not with "
                f"--method {method}; leave out one of them",
                param_hint="'--method'",
            )
        settings = {}  # other methods with weights use equal ones by default
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
    limits = {"memory_limit": memory_limit, "threads": threads}
    if engine is None:
        for name, value in limits.items():
            if value is not None:
                raise typer.BadParameter(
                    "it needs an engine; add, for example, --engine duckdb://",
                    param_hint=f"'--{name.replace('_', '-')}'",
                )
        outputs.check(Path(labels), ids)
    elif tested:
        raise typer.BadParameter(
            "factors are tested in memory; leave out --engine", param_hint="'--factors'"
        )
    from coterie.consensus.results import consensus_facts, table_facts

    with shown_notes() as notes, progress_unless(quiet):
        started = time.perf_counter()
        if engine is None:
            id_values, factor_values, P = read_labels(Path(labels), ids, column_names, tested)
            n_labels = P.n_points * P.n_partitions
            if n_labels > _MANY_LABELS:
                warn_user(
                    f"{n_labels:,} labels are in memory; --engine duckdb:// needs less memory and "
                    "time, and writes Parquet",
                    CoterieWarning,
                )
            estimator = chosen.make(n_clusters, seed, **settings).fit(P)
            seconds = time.perf_counter() - started
            outputs.write_consensus(estimator, id_values, P=P)
            run = Run(
                input_name(labels),
                consensus_facts(
                    estimator, index=index_of(id_values), method=method, find_dissent=False
                ),
                seconds,
                outputs.written,
                notes,
                run_factor_tests(estimator.labels_, factor_values, seed, coded),
            )
        else:
            result = _fit_in_engine(
                labels,
                outputs,
                engine=engine,
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
                notes,
                engine={**result.as_dict(), "url": engine},
                cost=result.cost_in_words(),
            )
    print_run(run, as_json, quiet, outputs.to_stdout)


def _fit_in_engine(labels: str, outputs: Outputs, **arguments: Any) -> TableConsensus:
    """Fit a table in an engine, which writes the table, and save the model."""
    from coterie.models import save_model
    from coterie.tables import consensus_table
    from coterie.tables.sources import local_files

    if is_stream(labels):
        raise InvalidParameterError(
            "--engine cannot read standard input; name a file, or leave out --engine"
        )
    if outputs.to_stdout:
        raise InvalidParameterError(
            "--engine cannot write to standard output; give -o a .parquet file or a folder, or "
            "leave out --engine"
        )
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
