"""Tables in Parquet files, folders of Parquet files, and NPY files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import OutputError, TableError
from coterie.runtime.devices import available_memory, readable_bytes

__all__ = ["read_npy", "read_parquet", "write_npy", "write_parquet"]

_HEADER_BYTES = 1 << 20


def read_parquet(path: Path) -> tuple[list[str], list[Any]]:
    """Return the names and columns of a Parquet file, or of all such files in a folder.

    The files of a folder are read in the order of their names and must have the same columns.
    Subfolders named ``key=value`` become columns.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels.parquet"
    >>> write_parquet(file, {"run": pa.chunked_array([[1, None]])}, file)
    >>> names, columns = read_parquet(file)
    >>> names, columns[0].to_pylist()
    (['run'], [1, None])
    """
    try:
        if path.is_dir():
            table = _read_parquet_folder(path)
        else:
            with pq.ParquetFile(path) as file:
                _refuse_too_large(path, file.metadata.num_rows, file.schema_arrow)
                table = file.read()
        table.validate(full=True)
        return table.column_names, table.columns
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TableError(
            f"{path} is not a Parquet file, or is damaged or cut short; write or fetch it again "
            f"({' '.join(str(error).split())})"
        ) from error


def read_npy(path: Path) -> tuple[list[str], list[Any]]:
    """Return the columns of a 2-D array, named p0, p1, …, or the fields of a structured array.

    Pickled objects are refused. Blank text is missing.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels.npy"
    >>> np.save(file, np.array([[0, 1], [2, 3]]))
    >>> names, columns = read_npy(file)
    >>> names, columns[1].to_pylist()
    (['p0', 'p1'], [1, 3])
    """
    try:
        # mapped, so that a forged header that claims a huge array takes no memory
        array = np.lib.format.open_memmap(path, mode="r", max_header_size=_HEADER_BYTES)
    except OSError:
        raise
    except Exception as error:  # a damaged header raises many kinds of exceptions
        raise TableError(
            f"{path} is not a .npy file of numbers or text, or is cut short; write it with "
            f"numpy.save ({' '.join(str(error).split())})"
        ) from error
    if array.dtype.names is not None and array.ndim == 1:
        columns = {name: array[name] for name in array.dtype.names}
    elif array.dtype.names is None and array.ndim == 2:
        columns = {f"p{index}": column for index, column in enumerate(array.T)}
    else:
        raise TableError(
            f"{path} is an array of shape {array.shape}; a table is 2-D (rows × columns), or 1-D "
            "with named fields"
        )
    return list(columns), [_from_numpy(path, name, column) for name, column in columns.items()]


def write_parquet(unfinished: Path, columns: Mapping[str, Any], _path: Path) -> None:
    """Write columns to ``unfinished``, with their types."""
    pq.write_table(pa.table(dict(columns)), unfinished)


def write_npy(unfinished: Path, columns: Mapping[str, Any], path: Path) -> None:
    """Write columns to ``unfinished`` as the structured array of ``path``.

    Text is fixed-width unicode, and blank if missing; a missing float is NaN. Other missing
    values are refused.
    """
    if "" in columns:
        raise OutputError(f"cannot write {path}: .npy fields need names, and one column has none")
    arrays = {name: _to_numpy(path, name, column) for name, column in columns.items()}
    rows = np.empty(
        len(next(iter(arrays.values()))),
        dtype=[(name, array.dtype) for name, array in arrays.items()],
    )
    for name, array in arrays.items():
        rows[name] = array
    with unfinished.open("wb") as file:
        # only version 3 allows field names outside Latin-1
        np.lib.format.write_array(file, rows, version=(3, 0), allow_pickle=False)


def _read_parquet_folder(folder: Path) -> Any:
    """Read all Parquet files of a folder, which must have the same schema."""
    files = [
        str(file)
        for file in sorted(folder.rglob("*.parquet"))
        if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    if not files:
        raise TableError(f"{folder} is a folder without Parquet files; name a file")
    dataset = pyarrow.dataset.dataset(
        files, format="parquet", partitioning="hive", partition_base_dir=str(folder)
    )
    first, *others = dataset.get_fragments()
    for other in others:
        if not other.physical_schema.equals(first.physical_schema):
            raise TableError(
                f"{first.path} and {other.path} have different columns; all files of a folder must "
                "have the same"
            )
    _refuse_too_large(folder, dataset.count_rows(), dataset.schema)
    return dataset.to_table()


def _refuse_too_large(path: Path, n_rows: int, schema: pa.Schema) -> None:
    """Refuse a table that needs more than half of the free memory; equal values take no space."""
    free = available_memory()
    # of texts and lists at least the places where they begin
    widths = [one.bit_width if pa.types.is_primitive(one) else 64 for one in schema.types]
    needed = n_rows * sum(widths) // 8
    if needed > free // 2:
        raise TableError(
            f"{path} has {n_rows:,} rows, which take {readable_bytes(needed)} or more in memory; "
            f"{readable_bytes(free)} are free; use fewer columns or rows, or an engine"
        )


def _from_numpy(path: Path, name: str, column: NDArray[Any]) -> Any:
    # a copy, so that the file can be closed; pyarrow needs the native byte order
    column = column.astype(column.dtype.newbyteorder("="))
    try:
        values = pa.array(column)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise TableError(
            f"column {name!r} of {path} holds {column.dtype} values, not one number or text per "
            f"row; convert it ({error})"
        ) from error
    if column.dtype.kind == "U":
        values = pc.if_else(pc.equal(values, ""), None, values)
    return pa.chunked_array([values])


def _to_numpy(path: Path, name: str, column: Any) -> NDArray[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        texts = ["" if text is None else text for text in column.to_pylist()]
        array = np.array(texts, dtype=np.str_)
        is_exact = array.tolist() == texts  # numpy drops NULs at the end of text
    else:
        array = column.to_numpy()
        is_exact = not array.dtype.hasobject and (
            not column.null_count or pa.types.is_floating(kind)
        )
    if not is_exact:
        raise OutputError(
            f"cannot write {path}: column {name!r} ({kind}) has values a .npy field cannot hold; "
            "write .parquet instead"
        )
    return array
