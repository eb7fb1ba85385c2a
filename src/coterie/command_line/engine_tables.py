"""``coterie consensus`` on a table that stays in an engine: when it is used, and what is told."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.command_line.terminal.outputs import Outputs
from coterie.command_line.terminal.summary import consensus_facts, print_json, print_summary
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from coterie.consensus.registry import Method
    from coterie.engines.label_tables import TableConsensus

__all__ = ["EngineChoice", "EngineResult", "EngineTask", "choose_engine"]

_MOST_CELLS_IN_MEMORY = 50_000_000
_DEFAULT = "duckdb://"


@dataclass(frozen=True)
class EngineChoice:
    """An engine's URL, and why it is used where nobody asked for it."""

    url: str
    why: str = ""


@dataclass(frozen=True, eq=False)
class EngineResult:
    """The consensus of a table, on its way out."""

    found: TableConsensus
    choice: EngineChoice
    method: str
    seconds: float

    def tell(self, outputs: Outputs, notes: list[str], as_json: bool, quiet: bool) -> None:
        """Print what there is to know: as JSON if asked for, else for a person unless quiet."""
        if quiet and not as_json:
            return
        facts = {
            "input": self.found.source,
            **_facts(self.found, self.method),
            "engine": {**self.found.as_dict(), "url": self.choice.url, "chosen": self.choice.why},
            "cost": self.found.cost_in_words(),
            "seconds": round(self.seconds, 3),
            "written": {kind: str(path) for kind, path in outputs.paths.items()},
            "notes": notes,
        }
        print_json(facts) if as_json else print_summary(facts)


@dataclass(frozen=True, eq=False)
class EngineTask:
    """What is asked of an engine.

    Attributes
    ----------
    labels : str
        The table.
    method : :class:`~coterie.consensus.registry.Method`
    n_clusters : int or None
    seed : int
    settings : mapping
        Of the method.
    ids : sequence of str
    columns : list of str or None
    limits : mapping
        ``memory_limit`` and ``threads``.
    """

    labels: str
    method: Method
    n_clusters: int | None
    seed: int
    settings: Mapping[str, Any]
    ids: Sequence[str]
    columns: list[str] | None
    limits: Mapping[str, Any]

    def run(self, choice: EngineChoice, outputs: Outputs) -> EngineResult:
        """Fit, and write what was asked for; a picture would need all rows and is refused."""
        from coterie.engines.label_tables import consensus_table
        from coterie.engines.label_tables.label_sources import local_files
        from coterie.files.model_files import save_model

        if outputs.picture is not None:
            raise InvalidParameterError(
                "--plot draws all rows, which an engine keeps to itself; leave it or --engine out"
            )
        outputs.check_apart(local_files(self.labels))
        Outputs(model=outputs.model).check(Path(self.labels))
        started = time.perf_counter()
        found = consensus_table(
            self.labels,
            self.columns,
            self.n_clusters,
            engine=choice.url,
            ids=self.ids,
            out=outputs.table,
            method=self.method.key,
            random_state=self.seed,
            parse_text=True,
            **self.limits,
            **self.settings,
        )
        if outputs.model is not None:
            save_model(found.estimator, outputs.model)
        return EngineResult(found, choice, self.method.key, time.perf_counter() - started)


def choose_engine(
    asked: str | None,
    labels: str,
    ids: Sequence[str],
    columns: Sequence[str] | None,
    outputs: Outputs,
) -> EngineChoice | None:
    """The engine that was asked for, or DuckDB where a Parquet table is large; None for memory.

    Parameters
    ----------
    asked : str or None
        A URL, or "none" for memory.
    labels : str
        The table.
    ids, columns
        What is used of it.
    outputs : Outputs
        Those that memory alone can serve keep a table there unless an engine is asked for.
    """
    if asked is not None:
        return None if asked == "none" else EngineChoice(asked)
    table = outputs.table
    # without ids it is the order that tells rows apart, which engines do not keep
    served = table is None or (table.suffix.lower() == ".parquet" and bool(ids))
    if not served or outputs.picture is not None:
        return None
    if importlib.util.find_spec("ibis") is None:
        return None
    cells = _parquet_cells(Path(labels), ids, columns)
    if cells <= _MOST_CELLS_IN_MEMORY:
        return None
    why = f"{cells:,} labels are more than {_MOST_CELLS_IN_MEMORY:,}; --engine none reads them all"
    return EngineChoice(_DEFAULT, why)


def _parquet_cells(path: Path, ids: Sequence[str], columns: Sequence[str] | None) -> int:
    """Labels in a Parquet file or a folder of them; 0 where that cannot be told."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    is_folder = path.is_dir()
    if not is_folder and path.suffix.lower() != ".parquet":
        return 0
    try:
        files = sorted(path.rglob("*.parquet")) if is_folder else [path]
        shapes = [pq.read_metadata(file) for file in files]
    except (OSError, pa.ArrowException):
        return 0  # reading it tells what is wrong
    n_columns = shapes[0].num_columns - len(ids) if shapes else 0
    return sum(shape.num_rows for shape in shapes) * (len(columns) if columns else n_columns)


def _facts(found: TableConsensus, method: str) -> dict[str, Any]:
    """The facts of the consensus function, over all rows instead of those it was fitted on."""
    facts = consensus_facts(found.estimator, found.partitions, method)
    if facts.get("gap") != facts.get("gap"):  # NaN: a sample bounds nothing
        del facts["gap"], facts["lower_bound"]
    n = found.n_rows
    return facts | {
        "points": n,
        "tuples": found.n_tuples,
        "clusters": len(found.sizes),
        "sizes": found.sizes.tolist(),
        "mean_confidence": found.mean_confidence,
        "share_of_pairs": found.objective / max(n * (n - 1), 1),
    }
