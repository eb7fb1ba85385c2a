"""Checks of parameters and features; messages name the parameter, or the row and the column."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from coterie.arrays import Floats
from coterie.errors import InvalidParameterError, LabelWarning
from coterie.runtime.messages import warn_user
from coterie.runtime.wording import number_of

# float64 represents every whole number up to this one
_LARGEST_EXACT_COUNT = 2.0**53
# row weights below this share of the largest one count as 0
_NEGLIGIBLE_WEIGHT = 1e-12


def check_whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return a parameter as an int, or raise an error unless ``least`` ≤ value ≤ ``most``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least or (most is not None and int(value) > most):
        bounds = f"≥ {least}" if most is None else f"from {least} to {most}"
        raise InvalidParameterError(f"{name}={value!r}: give a whole number {bounds}")
    return int(value)


def check_number(
    name: str, value: Any, above: float, *, or_equal: bool = False, most: float | None = None
) -> float:
    """Return a parameter as a float, or raise an error unless ``above`` < value ≤ ``most``.

    With ``or_equal``, the value ``above`` is allowed. Infinity and NaN are refused.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    x = float(value) if is_number else np.nan
    high_enough = x >= above if or_equal else x > above
    if not (high_enough and np.isfinite(x) and (most is None or x <= most)):
        bounds = f"{above:g} or more" if or_equal else f"above {above:g}"
        bounds += "" if most is None else f", at most {most:g}"
        raise InvalidParameterError(f"{name}={value!r}: give a finite number {bounds}")
    return x


def check_features(X: Any, name: str) -> Any:
    """Return ``X`` as a finite C-ordered float array, or CSR matrix without duplicate entries."""
    columns = names_of_columns(X)
    try:
        X = check_array(
            X,
            accept_sparse="csr",
            accept_large_sparse=False,
            dtype=(np.float64, np.float32),
            order="C",
            ensure_all_finite=False,
            input_name=name,
        )
    except (TypeError, ValueError) as error:
        refuse_text(X)
        raise InvalidParameterError(f"{name} is not a table of numbers: {error}") from error
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    check_finite(X, name, columns)
    return X


def names_of_columns(table: Any) -> list[str] | None:
    """Return the names of the columns of a pandas, polars or arrow table, None for other input."""
    # the columns of an arrow table are their values
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return None if names is None else list(map(str, names))


def refuse_text(X: Any, table: str = "") -> None:
    """Raise an error that names the first column of X with text, if there is one."""
    cells, names = np.asarray(X, dtype=object), names_of_columns(X)
    for column, values in enumerate(cells.T if cells.ndim == 2 else ()):
        for row, value in enumerate(values):
            if isinstance(value, str) and not _is_number(value):
                shown = column if names is None else repr(names[column])
                raise InvalidParameterError(
                    f"{table}column {shown} holds text ({value!r} in row {row}): leave it out or "
                    "encode it"
                )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_finite(X: Any, name: str, columns: Sequence[str] | None = None) -> None:
    """Refuse a dense or sparse table with NaN or infinity; ``columns`` are names of its columns."""
    values = X.data if sp.issparse(X) else X.ravel()
    # the sum of finite numbers may overflow, but is fast and needs no memory
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size == 0:
        return
    first = bad[0]
    if sp.issparse(X):
        row, column = np.searchsorted(X.indptr, first, "right") - 1, X.indices[first]
    else:
        row, column = divmod(first, X.shape[1])
    value = "NaN" if np.isnan(values[first]) else "infinity (inf)"
    where = column if columns is None else repr(str(columns[column]))
    raise InvalidParameterError(
        f"{name} has {value} at row {row}, column {where} ({number_of(bad.size, 'such cell')} in "
        "all); fill these cells, for example by sklearn.impute.SimpleImputer, or drop their rows"
    )


def check_odds(
    name: str, odds: Any, size: int, of: str, *, positive: bool = False
) -> Floats | None:
    """Return finite numbers ≥ 0, one for each row or column, as floats; None stays None.

    They may be relative frequencies or weights. With ``positive``, 0 is refused.
    """
    if odds is None:
        return None
    try:
        array = np.asarray(odds, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError(f"{name}: give one number for each {of}") from None
    if array.shape != (size,):
        raise InvalidParameterError(
            f"{name} has shape {array.shape}; give one number for each of the {size} {of}s"
        )
    wrong = ~(np.isfinite(array) & (array > 0 if positive else array >= 0))
    if wrong.any():
        place, least = int(np.argmax(wrong)), "positive numbers" if positive else "numbers ≥ 0"
        raise InvalidParameterError(f"{name}[{place}] is {array[place]}; give finite {least}")
    if not array.any():
        raise InvalidParameterError(f"{name} is all zero; give a {of} a positive number")
    return array


def check_row_weights(sample_weight: Any, n_rows: int) -> Floats | None:
    """Return row weights as floats, not negative and not all zero; None stays None.

    Weights that are not whole numbers are scaled to a mean of 1.
    """
    weights = check_odds("sample_weight", sample_weight, n_rows, "row")
    if weights is None:
        return None
    shares = weights / weights.max()  # the sum of large weights would overflow
    # sums of pairs would lose smaller weights, and products of them would become 0
    negligible = shares < _NEGLIGIBLE_WEIGHT
    if (dropped := int(np.count_nonzero(weights[negligible]))) > 0:
        warn_user(
            f"{dropped} rows have less than {_NEGLIGIBLE_WEIGHT:g} of the largest sample_weight "
            "and count as rows of weight 0",
            LabelWarning,
        )
    weights, shares = np.where(negligible, 0.0, weights), np.where(negligible, 0.0, shares)
    countable = weights.max() * shares.sum() < _LARGEST_EXACT_COUNT
    if countable and (weights == np.floor(weights)).all():
        return weights
    return shares * (np.count_nonzero(weights) / shares.sum())


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices.

    >>> check_choice("linkage", "average", ("average", "single"))
    """
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise InvalidParameterError(f"{name}={value!r}: give {', '.join(others)} or {last}")
