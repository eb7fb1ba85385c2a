"""Label matrices from arrays, lists and tables."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InvalidLabelsError
from coterie.labels.encode import as_label_matrix, encode_like
from coterie.labels.soft import as_memberships
from fuzz.contract import Target

__all__ = ["make"]

_INTEGERS = st.integers(-2, 5) | st.integers() | st.sampled_from([-(2**63), 2**63 - 1, 2**64])
_FLOATS = st.sampled_from([0.0, 1.0, -1.0, -0.0, 0.5, 1e308]) | st.floats()
_TEXTS = st.sampled_from(["", "a", "b", "-1", "1", "nan", " ", "\0", "\ud800"]) | st.text(
    max_size=4
)
_ODD = st.sampled_from(
    [
        None,
        float("nan"),
        True,
        b"a",
        1j,
        (),
        [1],
        {"a": 1},
        object,
        np.datetime64("2026-03-02"),
        np.timedelta64(1, "D"),
        np.float32(1),
        np.int8(-1),
        np.str_("a"),
        pd.NA,
        pd.NaT,
        decimal.Decimal("1"),
        datetime.date(2026, 3, 2),
    ]
)
_KINDS = (_INTEGERS, _FLOATS, _TEXTS, st.booleans(), st.none() | st.integers(-1, 3))
_CELLS = st.one_of(*_KINDS, _ODD)
_TYPES = ("int8", "uint64", "int64", "float32", "float64", "bool", "U3", "S3", "O", "M8[D]", "c16")


def make() -> Target:
    """Return the target."""
    shapes = st.tuples(st.integers(0, 6), st.integers(0, 4))
    values = shapes.flatmap(lambda shape: _tables(*shape))

    found: list[Any] = []

    @settings(database=None, deadline=None)
    @given(values)
    def catch(value: Any) -> None:
        found[:] = [value]

    def from_bytes(data: bytes) -> Any:
        found.clear()
        catch.hypothesis.fuzz_one_input(data)  # type: ignore[attr-defined]
        return found[0] if found else []

    return Target("labels", check, values, seeds, from_bytes, (InvalidLabelsError,))


def check(value: Any) -> str:
    """Read labels, or memberships; what is accepted must be consistent, and read again alike."""
    try:
        matrix = as_label_matrix(value, allow_unlabelled_rows=True)
    except InvalidLabelsError:
        as_memberships(value)
        return "read as memberships"
    codes = matrix.codes
    assert codes.ndim == 2 and codes.shape == (matrix.n_points, len(matrix.names))
    for v, categories in enumerate(matrix.categories):
        used = np.unique(codes[:, v])
        assert used.min(initial=0) >= -1 and used.max(initial=-1) < len(categories)
        assert set(used[used >= 0].tolist()) == set(range(len(categories)))
    np.testing.assert_array_equal(encode_like(value, matrix), codes)
    return "read as labels"


def seeds() -> Iterator[bytes]:
    """Yield bytes of several lengths: the engine makes choices of them."""
    for size in (0, 8, 64, 256, 1_024):
        yield bytes(range(256)) * (size // 256) + bytes(range(size % 256))


@cache
def _tables(n: int, V: int) -> st.SearchStrategy[Any]:
    """Return tables of n rows and V columns in every form that is accepted, and in others."""
    same = st.sampled_from(_KINDS).flatmap(lambda kind: _rows(n, V, kind))
    columns = st.lists(
        st.sampled_from(_KINDS).flatmap(lambda kind: st.lists(kind, min_size=n, max_size=n)),
        min_size=V,
        max_size=V,
    )
    rows = st.one_of(same, _rows(n, V, _CELLS))
    ragged = st.lists(st.lists(_CELLS, max_size=4), max_size=4)
    arrays = st.tuples(rows, st.sampled_from(_TYPES)).map(lambda drawn: _array(*drawn))
    frames = st.tuples(columns, st.sampled_from(sorted(_FRAMES))).map(lambda drawn: _frame(*drawn))
    soft = st.lists(_rows(n, V, _FLOATS).map(lambda m: _array(m, "float64")), max_size=3)
    return st.one_of(rows, ragged, arrays, frames, soft, columns, _CELLS)


def _rows(n: int, V: int, cells: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    row = st.lists(cells, min_size=V, max_size=V)
    return st.lists(row, min_size=n, max_size=n)


def _array(rows: list[list[Any]], kind: str) -> Any:
    """Return rows as an array of a type; or the rows, if the type cannot hold them."""
    try:
        with np.errstate(all="ignore"):
            return np.array(rows, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        return rows


_FRAMES: dict[str, Any] = {
    "pandas": lambda columns: pd.DataFrame(dict(enumerate(columns))),
    "pandas, names repeated": lambda columns: pd.concat(
        [pd.Series(c, name="x") for c in columns], axis=1
    ),
    "pandas, categories": lambda columns: pd.DataFrame(dict(enumerate(columns))).astype("category"),
    "pandas, nullable": lambda columns: pd.DataFrame(dict(enumerate(columns))).convert_dtypes(),
    "polars": lambda columns: pl.DataFrame(
        {str(v): c for v, c in enumerate(columns)}, strict=False
    ),
    "arrow": lambda columns: pa.table({str(v): c for v, c in enumerate(columns)}),
    "arrow, dictionaries": lambda columns: pa.table(
        {str(v): pa.array(c).dictionary_encode() for v, c in enumerate(columns)}
    ),
    "mapping": lambda columns: dict(enumerate(columns)),
    "series": lambda columns: [pd.Series(c) for c in columns],
    "masked": lambda columns: np.ma.masked_equal(np.array(columns).T, 0),
}


def _frame(columns: list[list[Any]], kind: str) -> Any:
    """Return columns as a table; or as they are, if that package cannot hold them."""
    try:
        return _FRAMES[kind](columns)
    except Exception:
        return columns
