"""Size bounds of model files, checked before anything of the size in question is read.

The manifest and the tree of the attributes are text; the arrays are ``.npy`` members. A file that
exceeds a bound was not written by :func:`~coterie.files.model_files.save_model`.
"""

from __future__ import annotations

import io
import math
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ModelFileError

__all__ = [
    "MOST_BYTES",
    "MOST_JSON_BYTES",
    "MOST_MEMBERS",
    "ArrayHeader",
    "BoundedReader",
    "read_header",
    "refuse_large_tree",
    "refuse_nested_text",
]

#: Of the file, of one JSON member, and how many members there are.
MOST_BYTES, MOST_JSON_BYTES, MOST_MEMBERS = 1 << 34, 1 << 26, 100_000
#: Of a JSON tree: values and names in all, and lists or objects within each other.
_MOST_NODES, _MOST_DEPTH = 2_000_000, 200
#: JSON inside an array holds the values of one level of a pandas index.
_MOST_DEPTH_OF_VALUES = 4
_MOST_HEADER_BYTES = 4_096
#: zipfile reads the directory of an archive at once; an entry has about 60 bytes.
_MOST_DIRECTORY_BYTES = 1 << 24


class BoundedReader(io.BufferedReader):
    """An open file of which no large part is read at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read some bytes; refuse to read more than the directory of an archive may have."""
        if size is not None and size > _MOST_DIRECTORY_BYTES:
            raise ModelFileError(f"its directory of members has {size:,} bytes")
        return super().read(size)


class ArrayHeader(NamedTuple):
    """What the header of an ``.npy`` member says of its array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_column: bool
    begin: int  # place of the first byte of data

    def outline(self) -> NDArray[Any]:
        """Return an array of this shape and type that takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def array(self, content: bytearray) -> NDArray[Any]:
        """Return the array of a member without a copy of its memory."""
        order: Any = "F" if self.by_column else "C"
        size = math.prod(self.shape)
        if not size:
            return np.empty(self.shape, self.dtype, order=order)
        return np.frombuffer(content, self.dtype, size, self.begin).reshape(self.shape, order=order)


def read_header(member: IO[bytes], size: int) -> ArrayHeader:
    """Return the header of a member of ``size`` bytes; refuse an array of another size."""
    start = io.BytesIO(member.read(_MOST_HEADER_BYTES))
    if np.lib.format.read_magic(start) != (1, 0):
        raise ValueError("an array is of a form that save_model does not write")
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(start)
    if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} is not written by save_model")
    if math.prod(shape) * dtype.itemsize != size - start.tell():
        raise ValueError("an array is not as large as it claims to be")
    return ArrayHeader(shape, dtype, by_column, start.tell())


def refuse_large_tree(text: bytes | bytearray) -> None:
    """Refuse JSON text with too many values, or with values nested too deep.

    >>> refuse_large_tree(b'{"a": [1, "[[["]}')
    >>> refuse_large_tree(b"[" * 1000)
    Traceback (most recent call last):
    ...
    ValueError: its lists are 1,000 deep; at most 200 are allowed
    """
    nodes, depth = _extent(text)
    if nodes > _MOST_NODES:
        raise ValueError(f"its tree has {nodes:,} values; at most {_MOST_NODES:,} are allowed")
    _refuse_depth(depth, _MOST_DEPTH)


def refuse_nested_text(text: bytes) -> None:
    """Refuse JSON text that is more than a list of plain values."""
    _refuse_depth(_extent(text)[1], _MOST_DEPTH_OF_VALUES)


def _refuse_depth(depth: int, most: int) -> None:
    if depth > most:
        raise ValueError(f"its lists are {depth:,} deep; at most {most:,} are allowed")


def _extent(text: bytes | bytearray) -> tuple[int, int]:
    """Return the number of values in a JSON text and their depth, without parsing it."""
    # without escaped characters, every quotation mark begins or ends a string
    plain = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    is_outside = np.cumsum(plain == ord('"'), dtype=np.uint8) % 2 == 0
    marks = plain[is_outside]
    opens, closes = np.isin(marks, list(b"[{")), np.isin(marks, list(b"]}"))
    steps = opens.astype(np.int8) - closes.astype(np.int8)
    depth = np.cumsum(steps[steps != 0], dtype=np.int32).max(initial=0)
    return int(opens.sum() + np.count_nonzero(marks == ord(",")) + 1), int(depth)
