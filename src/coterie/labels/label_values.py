"""What labels may be: whole numbers from 0, or texts; everything else is refused with its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.errors import InvalidLabelsError

__all__ = [
    "FEATURES_HINT",
    "MISSING",
    "SOFT_HINT",
    "integers_or_texts",
    "kind_of",
    "refuse_several_kinds",
    "unknown_type",
    "whole_numbers",
]

MISSING = -1
#: Part of error messages: how to pass soft partitions.
SOFT_HINT = "soft partitions are a list of membership matrices, one (n, K_v) for each partition"

#: Part of error messages: what clusters features.
FEATURES_HINT = (
    "labels are names of clusters, not measurements; to cluster features use ConsensusClusterer"
)

_FIRST_INEXACT_FLOAT = 2.0**53

RowOf = Callable[[int], int]


def whole_numbers(
    array: NDArray[Any], names: Sequence[str], row_of: RowOf = int
) -> NDArray[np.integer[Any]]:
    """Return booleans, integers or floats (n, V) as integers ≥ −1; NaN becomes −1.

    ``names`` are those of the columns. ``row_of`` returns the user's row of a row of the array.

    >>> whole_numbers(np.array([[3.0], [np.nan]]), ["a"]).tolist()
    [[3], [-1]]
    """
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind == "f":
        array = _from_floats(array, names, row_of)
    if array.dtype.kind != "u" and array.min(initial=0) < MISSING:
        row, column = np.argwhere(array < MISSING)[0]
        raise InvalidLabelsError(
            f"label {array[row, column]} at row {row_of(row)}, partition '{names[column]}' is "
            "negative; labels are 0 or larger, and -1 means missing"
        )
    return array


def integers_or_texts(
    labels: Sequence[Any] | NDArray[Any], name: str, row_of: RowOf
) -> NDArray[Any]:
    """Return labels that are not missing as an array of integers or of texts.

    ``row_of`` returns a row that has the label of this index.

    >>> integers_or_texts([True, False], "a", int).tolist()
    [1, 0]
    """
    refuse_several_kinds(labels, name, row_of)
    kind = kind_of(labels[0]) if len(labels) else "number"
    if kind == "text":
        texts = [_text(label, name) for label in labels]
        _refuse_half_characters(texts, name)
        return np.array(texts, dtype=np.str_)
    if kind not in ("number", "truth value"):
        raise unknown_type(kind, name)
    if all(isinstance(label, Integral | np.bool_) for label in labels):
        numbers = _integers([int(label) for label in labels], name)
    else:
        # fewer whole numbers are exact in single precision
        precision = np.float32 if isinstance(labels[0], np.float32) else np.float64
        numbers = np.array([float(label) for label in labels], precision)
    return whole_numbers(numbers[:, None], [name], row_of)[:, 0]


def refuse_several_kinds(
    cells: Sequence[Any] | NDArray[Any], name: str, row_of: RowOf = int
) -> None:
    """Refuse a column with, for example, numbers and texts; missing labels are of any kind."""
    kinds = [(row, cell, kind) for row, cell in enumerate(cells) if (kind := kind_of(cell))]
    odd = next((cell for cell in kinds if cell[2] != kinds[0][2]), None)
    if odd is not None:
        raise InvalidLabelsError(
            f"partition '{name}' mixes kinds of labels: {kinds[0][1]!r} at row "
            f"{row_of(kinds[0][0])}, {odd[1]!r} at row {row_of(odd[0])}; use one kind"
        )


def kind_of(cell: Any) -> str:
    """Return the kind of label in a cell, or an empty text for a missing label.

    >>> kind_of("a"), kind_of(3), kind_of(float("nan")), kind_of(1j)
    ('text', 'number', '', 'complex')
    """
    if isinstance(cell, str | bytes):
        return "text"
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, bool | np.bool_):
        return "truth value"
    # a time difference of numpy is an integer, too
    if isinstance(cell, Real) and not type(cell).__name__.startswith("timedelta"):
        return "number" if isinstance(cell, Rational) or not np.isnan(float(cell)) else ""
    return type(cell).__name__


def unknown_type(kind: Any, name: str) -> InvalidLabelsError:
    """Return the error for labels that are neither numbers nor texts."""
    return InvalidLabelsError(
        f"partition '{name}' has labels of type {kind}; turn them into whole numbers or texts"
    )


def _from_floats(array: NDArray[Any], names: Sequence[str], row_of: RowOf) -> NDArray[np.int64]:
    # above this bound, not every whole number is a float of this precision
    inexact_from = min(_FIRST_INEXACT_FLOAT, 2.0 ** (np.finfo(array.dtype).nmant + 1))
    fraction = np.isinf(array) | ((array != np.floor(array)) & ~np.isnan(array))
    inexact = np.abs(array) >= inexact_from
    if (wrong := fraction | inexact).any():
        row, column = np.argwhere(wrong)[0]
        reason = "is too large to be exact as a float; give texts, or an array of integers"
        if fraction[row, column]:
            # large numbers are excluded first, because their sums can overflow
            within = array.shape[1] > 1 and ((array >= 0) & (array <= 1)).all()
            shares = within and array.sum(axis=1).max() < 1.001
            hint = SOFT_HINT if shares else FEATURES_HINT
            reason = f"is not a whole number; {hint}"
        raise InvalidLabelsError(
            f"label {array[row, column]!s} at row {row_of(row)}, partition '{names[column]}' "
            f"{reason}"
        )
    return np.where(np.isnan(array), MISSING, array).astype(np.int64)


def _integers(labels: list[int], name: str) -> NDArray[Any]:
    for dtype in (np.int64, np.uint64):
        try:
            return np.array(labels, dtype=dtype)
        except OverflowError:
            pass
    raise _unreadable(name, f"{max(labels, key=abs)} is too large")


def _text(label: str | bytes, name: str) -> str:
    if isinstance(label, str):
        return label
    try:
        return label.decode()
    except UnicodeDecodeError:
        raise InvalidLabelsError(
            f"partition '{name}' has bytes that are not UTF-8 text; give texts as labels"
        ) from None


def _refuse_half_characters(texts: list[str], name: str) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise _unreadable(name, str(error)) from None


def _unreadable(name: str, reason: str) -> InvalidLabelsError:
    return InvalidLabelsError(
        f"partition '{name}' has labels that cannot be read as whole numbers or texts ({reason}); "
        "give integers of at most 64 bits, or texts"
    )
