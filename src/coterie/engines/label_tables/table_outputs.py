"""Where the labels of a table go: a Parquet file or a folder of them, which appears whole.

Everything is written to a hidden folder beside the output, named after this machine and process,
and renamed in the end. What a killed process has left there, the next one to write the same output
removes: at once if it can tell that the process is no more, else when it is old.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.engines.queries import engine_errors
from coterie.errors import InvalidParameterError, OutputError
from coterie.runtime.atomic_files import check_writable

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend

__all__ = ["RESULT_COLUMNS", "PartWriter", "TableOutput", "check_carried", "plan_output"]

#: What is written beside the ids.
RESULT_COLUMNS = ("label", "confidence")

_ROWS_A_PART = 1 << 23
_LONGEST_STEM = 40
_OLD = 7 * 24 * 3600.0


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
        name = f"{_prefix(self.path)}{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.unfinished"
        folder = self.path.parent / name
        try:
            with _writing(self.path):
                folder.mkdir()
            yield folder
            rows = self.rows_in(folder)
            with _writing(self.path):
                if rows.exists():
                    rows.replace(self.path)
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
            if connection.name != "duckdb":
                writer = PartWriter(self, folder)
                for batch in connection.to_pyarrow_batches(rows):
                    writer.write(batch)
                writer.close()
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
        self._path = output.path
        self._writer: Any = None
        self._n_parts = self._n_rows = 0
        if output.is_folder:
            with _writing(self._path):
                self._place.mkdir()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if self._writer is not None and self._is_folder and self._n_rows >= _ROWS_A_PART:
            self.close()
        with _writing(self._path):
            if self._writer is None:
                part = self._place / f"part-{self._n_parts}.parquet"
                place = part if self._is_folder else self._place
                self._writer = pq.ParquetWriter(place, batch.schema)
                self._n_parts, self._n_rows = self._n_parts + 1, 0
            self._writer.write_batch(batch)
        self._n_rows += batch.num_rows

    def close(self) -> None:
        """Finish the file that is being written."""
        if self._writer is not None:
            with _writing(self._path):
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


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Tell of a disk that is full or gone by the name of the output."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


@functools.cache
def _machine() -> str:
    """What all processes that this one can see have in common, and no others.

    The name of a machine may be that of others that share a disk with it; what it drew when it
    started is not. The numbers of processes are those of a container.
    """
    marks = [socket.gethostname(), str(uuid.getnode())]
    with contextlib.suppress(OSError):  # where there is no such thing, the name has to do
        marks = [
            Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"),
            str(Path("/proc/self/ns/pid").readlink()),
        ]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]


def _remove_stale(path: Path) -> None:
    """Remove what processes that are no more have left beside an output."""
    named = re.compile(re.escape(_prefix(path)) + r"(\w+)-(\d+)-[0-9a-f]{8}\.unfinished")
    for beside in path.parent.iterdir():
        found = named.fullmatch(beside.name)
        if not found:
            continue
        is_ours = found[1] == _machine()
        is_left = not _is_alive(int(found[2])) if is_ours else _is_old(beside)
        if is_left:
            shutil.rmtree(beside, ignore_errors=True)


def _is_old(folder: Path) -> bool:
    """Whether nothing in a folder has changed for a week."""
    try:
        latest = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
    except OSError:  # somebody is at work there
        return False
    return time.time() - latest > _OLD


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
