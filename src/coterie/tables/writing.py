"""Write tables completely or not at all: from memory to CSV, TSV, Parquet and NPY, or by an engine.

An engine writes Parquet in a hidden folder next to the output, which is renamed at the end.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from coterie.arrays import AnyArray
from coterie.errors import InvalidParameterError, OutputError
from coterie.runtime.atomic_files import (
    atomic_file,
    check_writable,
    hidden_folder,
    output_errors,
    rename_durably,
)
from coterie.tables.columns import filled, first_repeated, sql_name, sql_text
from coterie.tables.reading import file_kind, is_tab_separated, memory_connection

if TYPE_CHECKING:
    import ibis.expr.types as ir

_ROWS_A_WRITE = 1 << 16
# every possible delimiter is quoted, so that the one in use can always be guessed
_NEEDS_QUOTES = re.compile('[,;\t|"\r\n\ufeff]|^$')
_RESULT_COLUMNS = ("label", "margin")
#: Names that are used while labels are packed.
_OWN_COLUMNS = re.compile(r"coterie_(value|label|digit|key)_\d+", re.IGNORECASE)


def check_table_output(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no table can be written to, so that callers can fail early."""
    check_writable(path)
    file_kind(Path(path), OutputError)


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> None:
    """Write columns to a file, completely or not at all.

    The suffix decides the format: text with a header, Parquet, or a NumPy structured array
    (fixed-width text, with missing text as blank). Columns are arrays, which may be masked, or
    lists, all of the same length. Missing values are masked or None.
    """
    path = Path(path)
    write = {"text": _write_text, "parquet": _write_parquet, "npy": _write_npy}
    write_to = write[file_kind(path, OutputError)]
    with atomic_file(path) as unfinished, _write_errors(str(path)):
        write_to(unfinished, _as_arrays(columns), path)


def csv_text(columns: Mapping[str, Any]) -> bytes:
    with _write_errors("the table"):
        return b"".join(_encoded_text(_as_arrays(columns), ","))


def _write_text(unfinished: Path, columns: Mapping[str, AnyArray], path: Path) -> None:
    with contextlib.ExitStack() as files:
        file: Any = files.enter_context(unfinished.open("wb"))
        if path.name.lower().endswith(".gz"):
            # without time stamp and name, equal tables are equal files
            file = files.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        file.writelines(_encoded_text(columns, "\t" if is_tab_separated(path.name) else ","))


def _encoded_text(columns: Mapping[str, AnyArray], delimiter: str) -> Iterator[bytes]:
    """Yield the header and the rows as UTF-8, in parts of many lines; missing cells are blank."""
    # a blank cell in a single column would be a blank line, which many readers skip
    blank = '""' if len(columns) == 1 else ""
    yield (delimiter.join(_cells(np.array(list(columns), object), blank)) + "\n").encode()
    n_rows = len(next(iter(columns.values())))
    for start in range(0, n_rows, _ROWS_A_WRITE):
        part = [_cells(c[start : start + _ROWS_A_WRITE], blank) for c in columns.values()]
        yield ("\n".join(map(delimiter.join, zip(*part, strict=True))) + "\n").encode()


def _cells(values: AnyArray, blank: str) -> list[str]:
    """Return values as they are written; only text may need quotes."""
    if values.dtype == bool:
        words = {None: blank, True: "true", False: "false"}
        return [words[value] for value in values.tolist()]
    if values.dtype != object:
        return [blank if text is None else text for text in values.astype(str).tolist()]
    return [blank if value is None else _quoted(str(value)) for value in values.tolist()]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


def _write_parquet(unfinished: Path, columns: Mapping[str, AnyArray], path: Path) -> None:
    names = [name.lower() for name in columns]
    if "" in names or first_repeated(names) is not None:
        raise OutputError(
            f"cannot write {path}: columns of .parquet need names that differ by more than upper "
            "and lower case; write .csv instead"
        )
    with memory_connection() as connection:
        connection.register("arrays", {f"c{i}": a for i, a in enumerate(columns.values())})
        # DuckDB takes NaN in an array for NULL
        cells = (
            f"coalesce(c{i}, 'nan') AS {sql_name(name)}"
            if array.dtype.kind == "f" and not np.ma.isMaskedArray(array)
            else f"c{i} AS {sql_name(name)}"
            for i, (name, array) in enumerate(columns.items())
        )
        target = sql_text(str(unfinished))
        connection.execute(
            f"COPY (SELECT {', '.join(cells)} FROM arrays) TO {target} (FORMAT parquet)"
        )


def _write_npy(unfinished: Path, columns: Mapping[str, AnyArray], path: Path) -> None:
    """Write a structured array; other missing values than those of text and floats are refused."""
    if "" in columns:
        raise OutputError(f"cannot write {path}: .npy fields need names, and one column has none")
    fields = {}
    for name, array in columns.items():
        if array.dtype.kind == "f":
            fields[name], holds = filled(array, np.nan), True
        elif array.dtype == object:
            texts = ["" if text is None else text for text in array.tolist()]
            fields[name] = np.array(texts, dtype=np.str_)
            holds = fields[name].tolist() == texts  # numpy drops NULs at the end of text
        else:
            fields[name], holds = np.ma.getdata(array), not np.ma.is_masked(array)
        if not holds:
            raise OutputError(
                f"cannot write {path}: column {name!r} ({array.dtype}) has values a .npy field "
                "cannot hold; write .parquet instead"
            )
    kinds = [(name, field.dtype) for name, field in fields.items()]
    rows = np.empty(len(next(iter(fields.values()))), kinds)
    for name, field in fields.items():
        rows[name] = field
    with unfinished.open("wb") as file:
        # only version 3 allows field names outside Latin-1
        np.lib.format.write_array(file, rows, version=(3, 0), allow_pickle=False)


def _as_arrays(columns: Mapping[str, Any]) -> dict[str, AnyArray]:
    """Return columns as arrays of numbers, truth values or objects, of one length."""
    arrays = {name: np.asanyarray(values) for name, values in columns.items()}
    if len({len(array) for array in arrays.values()}) != 1:
        lengths = ", ".join(f"{name!r}: {len(array)}" for name, array in arrays.items())
        raise InvalidParameterError(f"columns must be of one length; got {lengths or 'none'}")
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"column {name!r} has cells that are no numbers and no texts")
        if array.dtype.kind in "UO":  # text in an array of U has lost NULs at its end
            arrays[name] = _text_or_masked(name, np.array(columns[name], object))
    return arrays


def _text_or_masked(name: str, cells: AnyArray) -> AnyArray:
    """Return text, or numbers and truth values that are masked where they are None."""
    present = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, str) for cell in present):
        return cells
    if not all(isinstance(cell, int | float | np.number | np.bool_) for cell in present):
        raise ValueError(f"column {name!r} has cells that are no numbers and no texts")
    numbers = np.array([present[0] if cell is None else cell for cell in cells])
    return np.ma.masked_array(numbers, [cell is None for cell in cells])


@contextlib.contextmanager
def _write_errors(output: str) -> Iterator[None]:
    """Report values that the format of an output cannot hold."""
    try:
        yield
    except InvalidParameterError:
        raise
    except (duckdb.Error, ValueError) as error:
        raise OutputError(f"cannot write {output}: {' '.join(str(error).split())}") from error


# ---- The output of an engine


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
        with contextlib.ExitStack() as stack:
            with output_errors(self.path):  # executors of Spark may belong to another user
                folder = stack.enter_context(hidden_folder(self.path, mode=0o777))
            yield folder
            rows = self.rows_in(folder)
            with output_errors(self.path):
                if rows.exists():
                    rename_durably(rows, self.path)

    def rows_in(self, folder: Path) -> Path:
        return folder / ("rows" if self.is_folder else "rows.parquet")

    def new_file(self, folder: Path) -> Path:
        """Return the place of a file with all rows; make its folder if the output is one."""
        place = self.rows_in(folder)
        if self.is_folder:
            place.mkdir()
            place /= "part-0.parquet"
        return place

    def write(self, rows: ir.Table, folder: Path) -> None:
        from coterie.tables.engines import engine_errors

        connection: Any = rows.get_backend()
        with engine_errors(f"cannot write {self.path}", OutputError):
            if connection.name == "pyspark":
                connection.to_parquet(rows, self.rows_in(folder).absolute().as_uri())
            else:
                target = sql_text(str(self.new_file(folder)))
                query = connection.compile(rows)
                connection.con.execute(f"COPY ({query}) TO {target} (FORMAT parquet)")

    def size(self) -> int:
        if not self.is_folder:
            return self.path.stat().st_size
        return sum(part.stat().st_size for part in self.path.rglob("*") if part.is_file())


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
