"""Where the labels of a table go: a Parquet file or a folder of them, which appears whole.

Everything is written to a hidden folder beside the output, named after this machine and process,
and renamed in the end. What a killed process has left there, the next one to write the same output
removes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.engines import engine_errors
from coterie.errors import InvalidParameterError, OutputError
from coterie.whole_files import check_writable

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend

__all__ = ["RESULT_COLUMNS", "PartWriter", "TableOutput", "check_carried", "plan_output"]

#: What is written beside the ids.
RESULT_COLUMNS = ("label", "confidence")

_ROWS_A_PART = 1 << 23
_LONGEST_STEM = 40


@dataclass(frozen=True)
class TableOutput:
    """A place for rows.

    Attributes
    ----------
    path : Path
    is_folder : bool
        A folder of Parquet files; else one file.
    """

    path: Path
    is_folder: bool

    @contextlib.contextmanager
    def unfinished(self) -> Iterator[Path]:
        """Give a hidden folder to work in; its ``rows`` take their place when all went well.

        On any failure, an interrupt included, the folder is removed and the output is as it was.
        """
        _remove_stale(self.path)
        name = f"{_prefix(self.path)}{_host()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.unfinished"
        folder = self.path.parent / name
        try:
            folder.mkdir()
            yield folder
            rows = self.rows_in(folder)
            if rows.exists():
                rows.replace(self.path)
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def rows_in(self, folder: Path) -> Path:
        """Where the rows are written meanwhile."""
        return folder / ("rows" if self.is_folder else "rows.parquet")

    def write(self, rows: ir.Table, connection: BaseBackend, folder: Path) -> None:
        """Let the engine write a table."""
        place = self.rows_in(folder)
        with engine_errors(f"cannot write {self.path}", OutputError):
            if connection.name == "pyspark":
                connection.to_parquet(rows, place.absolute().as_uri())
                return
            if self.is_folder:
                place.mkdir()
                place = place / "part-0.parquet"
            quoted = str(place).replace("'", "''")
            query = connection.compile(rows)
            connection.con.execute(f"COPY ({query}) TO '{quoted}' (FORMAT parquet)")

    def size(self) -> int:
        """Bytes of the output."""
        if not self.is_folder:
            return self.path.stat().st_size
        return sum(part.stat().st_size for part in self.path.rglob("*") if part.is_file())


class PartWriter:
    """Writes batches of rows to an output: one file, or a file of the folder every so many rows."""

    def __init__(self, output: TableOutput, folder: Path) -> None:
        self._place, self._is_folder = output.rows_in(folder), output.is_folder
        self._writer: Any = None
        self._n_parts = self._n_rows = 0
        if output.is_folder:
            self._place.mkdir()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if self._writer is not None and self._is_folder and self._n_rows >= _ROWS_A_PART:
            self.close()
        if self._writer is None:
            part = self._place / f"part-{self._n_parts}.parquet"
            self._writer = pq.ParquetWriter(part if self._is_folder else self._place, batch.schema)
            self._n_parts, self._n_rows = self._n_parts + 1, 0
        self._writer.write_batch(batch)
        self._n_rows += batch.num_rows

    def close(self) -> None:
        """Finish the file that is being written."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def plan_output(out: Any, engine: str, sources: Sequence[Path]) -> TableOutput:
    """Decide between file and folder, and refuse what cannot be written before the work is done.

    Parameters
    ----------
    out : path-like
        ``*.parquet``, or a folder: where it ends in / or has no suffix, and always on Spark.
    engine : str
        Its name.
    sources : sequence of Path
        What is read; it is never overwritten.
    """
    text = os.fspath(out)
    if "://" in text:
        raise OutputError(
            f"cannot write {text}: the output must lie in a file system, where it can be renamed "
            "when it is whole; write it there and copy it"
        )
    path = Path(text).expanduser()
    is_folder = engine == "pyspark" or text.endswith(os.sep) or not path.suffix
    _refuse_input(path, sources)
    if is_folder:
        _check_folder(path, engine)
    elif path.suffix.lower() != ".parquet":
        raise OutputError(
            f"cannot write {path}: an engine writes Parquet; end the name in .parquet, or in / for "
            "a folder of such files"
        )
    else:
        check_writable(path)
    return TableOutput(path, is_folder)


def check_carried(carried: Sequence[str], are_ids: bool) -> None:
    """Refuse columns that are named as those of the result, which engines tell apart by no case."""
    for name in carried:
        if name.casefold() in RESULT_COLUMNS:
            what = "an id" if are_ids else "a partition, carried through where there are no ids,"
            raise InvalidParameterError(
                f"{what} is named {name!r}, and so is a column of the result; rename it in the "
                f"input{'' if are_ids else ', or name ids'}"
            )


def _refuse_input(path: Path, sources: Sequence[Path]) -> None:
    target = path.resolve()
    for source in sources:
        read = source.resolve()
        if target == read or read in target.parents:
            where = "the input" if target == read else f"in {source}, which is read"
            raise OutputError(f"cannot write {path}: it is {where}; name another place")


def _check_folder(path: Path, engine: str) -> None:
    if path.is_dir():
        if any(path.iterdir()):
            raise OutputError(
                f"cannot write {path}: the folder is not empty; remove it, or name another"
            )
        # the folder takes the place of an empty one
        check_writable(path.parent / f".{uuid.uuid4().hex}")
        return
    if path.exists():
        why = " (Spark writes folders)" if engine == "pyspark" else ""
        raise OutputError(f"cannot write the folder {path}: it is a file{why}; name another")
    check_writable(path)


def _prefix(path: Path) -> str:
    return f".{path.name[:_LONGEST_STEM]}-"


def _host() -> str:
    return re.sub(r"\W", "_", socket.gethostname())[:_LONGEST_STEM]


def _remove_stale(path: Path) -> None:
    """Remove what processes of this machine that are no more have left beside an output."""
    named = re.compile(re.escape(f"{_prefix(path)}{_host()}-") + r"(\d+)-[0-9a-f]{8}\.unfinished")
    for beside in path.parent.iterdir():
        found = named.fullmatch(beside.name)
        if found and not _is_alive(int(found[1])):
            shutil.rmtree(beside, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
