"""Write tables in memory to CSV, TSV, Parquet and NPY files, completely or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from coterie.arrays import AnyArray
from coterie.errors import InvalidParameterError, OutputError
from coterie.runtime.atomic_files import atomic_file, check_writable
from coterie.tables.columns import filled, first_repeated, sql_name, sql_text
from coterie.tables.reading import file_kind, is_tab_separated, memory_connection

_ROWS_A_WRITE = 1 << 16
# every possible delimiter is quoted, so that the one in use can always be guessed
_NEEDS_QUOTES = re.compile('[,;\t|"\r\n\ufeff]|^$')


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
    """Return columns as the content of a CSV file."""
    with _write_errors("the table"):
        return b"".join(_encoded_text(_as_arrays(columns), ","))


def _write_text(unfinished: Path, columns: Mapping[str, AnyArray], path: Path) -> None:
    """Write columns to ``unfinished`` as the text file ``path``; its suffix decides the format."""
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
    """Write the structured array of ``path``.

    Text is fixed-width unicode, and blank if missing; a missing float is NaN. Other missing
    values are refused.
    """
    if "" in columns:
        raise OutputError(f"cannot write {path}: .npy fields need names, and one column has none")
    fields = {name: _field(path, name, array) for name, array in columns.items()}
    rows = np.empty(
        len(next(iter(fields.values()))), [(name, array.dtype) for name, array in fields.items()]
    )
    for name, array in fields.items():
        rows[name] = array
    with unfinished.open("wb") as file:
        # only version 3 allows field names outside Latin-1
        np.lib.format.write_array(file, rows, version=(3, 0), allow_pickle=False)


def _field(path: Path, name: str, array: AnyArray) -> AnyArray:
    if array.dtype.kind == "f":
        return filled(array, np.nan)
    if array.dtype == object:
        texts = ["" if text is None else text for text in array.tolist()]
        field = np.array(texts, dtype=np.str_)
        if field.tolist() == texts:  # numpy drops NULs at the end of text
            return field
    elif not np.ma.is_masked(array):
        return np.ma.getdata(array)
    raise OutputError(
        f"cannot write {path}: column {name!r} ({array.dtype}) has values a .npy field cannot "
        "hold; write .parquet instead"
    )


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
