"""Checks of single values of a model: numbers, arrays, texts, within bounds and of the right kind.

Each raises a :class:`~coterie.errors.ModelFileError` that names the value and what it must be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from coterie.errors import ModelFileError

__all__ = [
    "MOST",
    "check_counts",
    "check_days",
    "check_indices",
    "check_number",
    "check_numbers",
    "check_one_of",
    "check_text",
    "is_number",
    "require",
]

#: No count, price or amount of money comes near it, and its square is far from overflowing.
MOST = 1e18
# so that the days after them have dates too
_FIRST_DAY, _LAST_DAY = np.datetime64("0001-01-01"), np.datetime64("9990-12-31")


def require(met: Any, what: str) -> None:
    """Refuse a model for which something is not met."""
    if not met:
        raise ModelFileError(what)


def check_one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse what is none of some texts."""
    told = ", ".join(repr(a) for a in allowed)
    require(isinstance(value, str) and value in allowed, f"{name} must be one of {told}")


def check_text(name: str, value: Any, most: int | None = None) -> None:
    """Refuse what is no text, or longer than ``most`` characters."""
    require(type(value) is str, f"{name} must be text")
    if most is not None:
        require(len(value) <= most, f"{name} must be of at most {most:,} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ModelFileError(f"{name} must be text that UTF-8 can write") from None


def is_number(value: Any) -> bool:
    """Whether a value is one number, of Python or of numpy."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def check_number(name: str, value: Any, most: float = MOST) -> None:
    """Refuse what is not a number from 0 to ``most``."""
    good = is_number(value) and 0 <= value <= most
    require(good, f"{name} must be a number from 0 to {most:g}")


def check_numbers(
    name: str,
    values: Any,
    shape: tuple[int, ...],
    least: float = 0.0,
    most: float = MOST,
    slack: float = 0.0,
    kind: Any = np.float64,
) -> None:
    """Refuse what is not an array of a shape and kind, within bounds but for some slack."""
    told = " × ".join(f"{size:,}" for size in shape)
    require(
        isinstance(values, np.ndarray) and values.dtype == kind and values.shape == shape,
        f"{name} must be an array of {told} numbers ({np.dtype(kind)})",
    )
    # NaN is neither
    within = not values.size or (values.min() >= least and values.max() <= most + slack)
    require(within, f"{name} must lie between {least:g} and {most:g}")


def check_indices(
    name: str, values: Any, shape: tuple[int, ...] | None, least: int, n: int
) -> None:
    """Refuse what is not an array of whole numbers from ``least`` to below ``n``."""
    good = isinstance(values, np.ndarray) and values.dtype.kind == "i"
    good = good and (values.ndim == 1 if shape is None else values.shape == shape)
    require(good, f"{name} must be an array of whole numbers")
    within = not values.size or (values.min() >= least and values.max() < n)
    require(within, f"{name} must lie between {least} and {n - 1}")


def check_days(name: str, days: Any) -> None:
    """Refuse what is not an array of days in order, each of them once, at least one."""
    require(
        isinstance(days, np.ndarray) and days.dtype == np.dtype("datetime64[D]") and days.ndim == 1,
        f"{name} must be an array of days",
    )
    require(
        days.size > 0 and not np.isnat(days).any() and bool((days[1:] > days[:-1]).all()),
        f"{name} must be dates in order, at least one",
    )
    within = days[0] >= _FIRST_DAY and days[-1] <= _LAST_DAY
    require(within, f"{name} must lie between {_FIRST_DAY} and {_LAST_DAY}")


def check_counts(name: str, matrix: Any, shape: tuple[int, int]) -> None:
    """Refuse what is not a CSR matrix of counts, its columns in order in every row."""
    require(isinstance(matrix, sp.csr_array | sp.csr_matrix), f"{name} must be a CSR matrix")
    require(matrix.shape == shape, f"{name} must be of {shape[0]:,} × {shape[1]:,} counts")
    indptr, indices = matrix.indptr, matrix.indices
    require(
        indptr.shape == (shape[0] + 1,)
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and bool((indptr[1:] >= indptr[:-1]).all()),
        f"{name} must have rows that follow one another",
    )
    check_numbers(f"the counts of {name}", matrix.data, indices.shape)
    check_indices(f"the columns of {name}", indices, None, 0, shape[1])
    rising = indices[1:] > indices[:-1]
    begins = indptr[1:-1]
    rising[begins[(begins > 0) & (begins < len(indices))] - 1] = True
    require(bool(rising.all()), f"{name} must have its columns in order, each of them once")
