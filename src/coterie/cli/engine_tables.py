"""``coterie consensus`` on a table that stays in DuckDB or Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli.terminal.outputs import Outputs
from coterie.cli.terminal.streams import is_stream
from coterie.cli.terminal.summary import consensus_facts
from coterie.errors import InvalidParameterError, TableError
from coterie.runtime.imports import missing_packages

if TYPE_CHECKING:
    from coterie.engines.label_tables import TableConsensus

__all__ = ["EngineChoice", "choose_engine", "fit_in_engine"]

# A larger Parquet table is processed in DuckDB unless the user chooses.
_MOST_CELLS_IN_MEMORY = 50_000_000


@dataclass(frozen=True)
class EngineChoice:
    """The URL of an engine, and the reason for it (empty if the user asked for it)."""

    url: str
    reason: str = ""


def choose_engine(
    requested: str | None,
    labels: str,
    ids: Sequence[str],
    columns: Sequence[str] | None,
    outputs: Outputs,
) -> EngineChoice | None:
    """Return the requested engine, DuckDB for a large Parquet table, or None for memory.

    Engines write Parquet without a row order, no plot and no report. Other outputs use memory
    unless the user asks for an engine.
    """
    if requested == "none":
        return None
    if requested is not None:
        _refuse_streams(labels, outputs)
        return EngineChoice(requested)
    table = outputs.table
    # Without ids, only the order identifies the rows, and engines do not keep it.
    can_write = table is None or (table.suffix.lower() == ".parquet" and bool(ids))
    if not can_write or outputs.picture is not None or outputs.report is not None:
        return None
    if missing_packages(("ibis", "pyarrow")):
        return None
    cells = _parquet_cells(Path(labels), ids, columns)
    if cells <= _MOST_CELLS_IN_MEMORY:
        return None
    reason = f"{cells:,} labels are more than {_MOST_CELLS_IN_MEMORY:,}; --engine none uses memory"
    return EngineChoice("duckdb://", reason)


def fit_in_engine(
    choice: EngineChoice, labels: str, outputs: Outputs, *, method: str, **arguments: Any
) -> dict[str, Any]:
    """Fit a table in an engine, write the outputs, and return the facts.

    The arguments are those of :func:`coterie.consensus_table`.
    """
    from coterie.engines.label_tables import consensus_table
    from coterie.engines.label_tables.label_sources import local_files
    from coterie.models import save_model

    for option, path in (("--plot", outputs.picture), ("--report", outputs.report)):
        if path is not None:
            raise InvalidParameterError(
                f"{option} needs all rows in memory, which --engine avoids; leave out one of them"
            )
    outputs.check_apart(local_files(labels))
    Outputs(model=outputs.model).check(Path(labels))
    started = time.perf_counter()
    result = consensus_table(
        labels, engine=choice.url, out=outputs.table, method=method, parse_text=True, **arguments
    )
    if outputs.model is not None:
        save_model(result.estimator, outputs.model)
    return {
        "input": result.source,
        **_facts(result, method),
        "engine": {**result.as_dict(), "url": choice.url, "chosen": choice.reason},
        "cost": result.cost_in_words(),
        "seconds": round(time.perf_counter() - started, 3),
        "written": outputs.written,
    }


def _refuse_streams(labels: str, outputs: Outputs) -> None:
    if is_stream(labels):
        raise InvalidParameterError(
            "--engine cannot read standard input; name a file, or leave out --engine"
        )
    if outputs.to_stdout:
        raise InvalidParameterError(
            "--engine cannot write to standard output; give -o a .parquet file or a folder, or "
            "leave out --engine"
        )


def _parquet_cells(path: Path, ids: Sequence[str], columns: Sequence[str] | None) -> int:
    """Count the labels in a Parquet file or a folder of them; 0 if that is not possible."""
    if not path.is_dir() and path.suffix.lower() != ".parquet":
        return 0
    from coterie.files.tables import read_table

    try:
        table = read_table(path)
    except TableError:
        return 0  # reading the table raises a clear error
    return table.n_rows * (len(columns) if columns else len(table.columns) - len(ids))


def _facts(result: TableConsensus, method: str) -> dict[str, Any]:
    """Return the facts about the consensus over all rows, not only the rows it was fitted on."""
    facts = consensus_facts(result.estimator, result.partitions, method)
    if facts.get("gap") != facts.get("gap"):  # NaN: a sample gives no bound
        del facts["gap"], facts["lower_bound"]
    n = result.n_rows
    # a table has the margins of its rows, and only the fitted ones have a confidence
    del facts["mean_confidence"]
    return facts | {
        "points": n,
        "tuples": result.n_tuples,
        "clusters": len(result.sizes),
        "sizes": result.sizes.tolist(),
        "mean_margin": float(result.mean_margin),
        "share_of_pairs": result.objective / max(n * (n - 1), 1),
    }
