"""The output of a consensus: a Parquet file or a folder of them, written completely or not at all.

Everything is written to a hidden folder beside the output and renamed at the end. The next process
that writes the same output removes what a killed process left.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import InvalidParameterError, OutputError
from coterie.runtime.atomic_files import (
    check_writable,
    output_errors,
    remove_stale,
    rename_durably,
    unfinished_path,
)
from coterie.tables.columns import sql_text
from coterie.tables.engines import engine_errors

if TYPE_CHECKING:
    import ibis.expr.types as ir

_RESULT_COLUMNS = ("label", "margin")
#: Names that are used while labels are packed.
_OWN_COLUMNS = re.compile(r"coterie_(value|label|digit|key)_\d+", re.IGNORECASE)
_ROWS_A_PART = 1 << 23


@dataclass(frozen=True)
class TableOutput:
    """The place of the output: one Parquet file, or a folder of them."""

    path: Path
    is_folder: bool

    @contextlib.contextmanager
    def unfinished(self) -> Iterator[Path]:
        """Yield a hidden folder to work in, and move its ``rows`` to the output on success.

        On any failure, including an interrupt, the folder is removed and the output unchanged.
        """
        remove_stale(self.path)
        folder = unfinished_path(self.path)
        try:
            with output_errors(self.path):
                folder.mkdir()
            yield folder
            rows = self.rows_in(folder)
            with output_errors(self.path):
                if rows.exists():
                    rename_durably(rows, self.path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def rows_in(self, folder: Path) -> Path:
        """Return the place of the rows before they are complete."""
        return folder / ("rows" if self.is_folder else "rows.parquet")

    def write(self, rows: ir.Table, folder: Path) -> None:
        """Let the engine write a table."""
        place, connection = self.rows_in(folder), rows.get_backend()
        with engine_errors(f"cannot write {self.path}", OutputError):
            if connection.name == "pyspark":
                connection.to_parquet(rows, place.absolute().as_uri())
                return
            if self.is_folder:
                place.mkdir()
                place = place / "part-0.parquet"
            query = connection.compile(rows)
            connection.con.execute(f"COPY ({query}) TO {sql_text(str(place))} (FORMAT parquet)")

    def size(self) -> int:
        """Return the number of bytes of the output."""
        if not self.is_folder:
            return self.path.stat().st_size
        return sum(part.stat().st_size for part in self.path.rglob("*") if part.is_file())


class PartWriter:
    """A writer of batches of rows to one file, or to several files of a folder."""

    def __init__(self, output: TableOutput, folder: Path) -> None:
        self._output, self._place = output, output.rows_in(folder)
        self._writer: Any = None
        self._n_parts = self._n_rows = 0
        if output.is_folder:
            with output_errors(output.path):
                self._place.mkdir()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; in a folder, start a new file after every 8 million rows."""
        is_folder = self._output.is_folder
        if is_folder and self._n_rows >= _ROWS_A_PART:
            self.close()
        with output_errors(self._output.path):
            if self._writer is None:
                part = self._place / f"part-{self._n_parts}.parquet"
                self._writer = pq.ParquetWriter(part if is_folder else self._place, batch.schema)
                self._n_parts, self._n_rows = self._n_parts + 1, 0
            self._writer.write_batch(batch)
        self._n_rows += batch.num_rows

    def close(self) -> None:
        """Finish the current file."""
        if self._writer is not None:
            with output_errors(self._output.path):
                self._writer.close()
            self._writer = None


def plan_output(out: Any, engine: str, sources: Sequence[Path]) -> TableOutput:
    """Decide between file and folder; refuse an output that cannot be written, before any work.

    A name that ends in / or has no suffix is a folder, and so is every output of Spark. The files
    in ``sources`` are the input and are never overwritten.
    """
    text = os.fspath(out)
    if not text:
        raise InvalidParameterError(
            "out is empty; give a .parquet file or a folder, or None to write nothing"
        )
    if "://" in text:
        raise OutputError(
            f"cannot write {text}: the output must be in a local file system, where it can be "
            "renamed when it is complete; write it there and copy it"
        )
    path = Path(text).expanduser()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OutputError(
            f"cannot write {path}: it is a device or a pipe; name a .parquet file or a folder"
        )
    is_folder = engine == "pyspark" or text.endswith(os.sep) or not path.suffix
    target = path.resolve()
    for source in sources:
        read = source.resolve()
        if target == read or read in target.parents:
            where = "the input" if target == read else f"in the input folder {source}"
            raise OutputError(f"cannot write {path}: it is {where}; choose another place")
    if is_folder and path.is_dir():
        if any(path.iterdir()):
            raise OutputError(
                f"cannot write {path}: the folder is not empty; remove it or choose another"
            )
        # the rename replaces an empty folder, so only its parent must be writable
        check_writable(path.parent / f".{uuid.uuid4().hex}")
    elif is_folder and path.exists():
        hint = " (Spark writes folders)" if engine == "pyspark" else ""
        raise OutputError(
            f"cannot write the folder {path}: it is a file{hint}; choose another name"
        )
    elif not is_folder and path.suffix.lower() != ".parquet":
        raise OutputError(
            f"cannot write {path}: engines write Parquet; end the name in .parquet, or in / for a "
            "folder of such files"
        )
    else:
        check_writable(path)
    return TableOutput(path, is_folder)


def check_carried(carried: Sequence[str], are_ids: bool) -> None:
    """Refuse carried columns with names that are used here; engines ignore upper case."""
    for name in carried:
        is_own = _OWN_COLUMNS.fullmatch(name)
        if is_own or name.casefold() in _RESULT_COLUMNS:
            subject = (
                "an id" if are_ids else "a partition, which is copied because there are no ids,"
            )
            like = "that coterie adds to the table" if is_own else "of the result"
            raise InvalidParameterError(
                f"{subject} is named {name!r}, like a column {like}; rename it in the input"
                f"{'' if are_ids else ', or name ids'}"
            )
