"""Look up rows among the label tuples of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.labels.label_values import MISSING
from coterie.labels.tuples import LabelTuples, group_rows, slot_keys

__all__ = ["known_tuples"]


def known_tuples(
    codes: NDArray[Any], memberships: NDArray[np.float64] | None, tuples: LabelTuples
) -> NDArray[np.int64]:
    """Return the fitted tuple that each row equals, the first of several; −1 if there is none.

    ``codes`` are indicator columns (n', V), or (n', S) with ``memberships``.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 0], [0, 1]])
    >>> known_tuples(tuples.codes[::-1], None, tuples).tolist()
    [1, 0]
    """
    fitted = tuples.codes
    if memberships is not None:
        columns, shares = tuples.slots()
        width = max(columns.shape[1], codes.shape[1])
        fitted = _padded_keys(columns, shares, width)
        codes = _padded_keys(codes, memberships, width)
    _, group, _ = group_rows(np.vstack([fitted, codes]))
    u = len(fitted)
    tuple_of = np.full(int(group.max(initial=-1)) + 1, -1, dtype=np.int64)
    # backwards, so that the first of equal tuples remains
    tuple_of[group[:u][::-1]] = np.arange(u)[::-1]
    return tuple_of[group[u:]]


def _padded_keys(
    columns: NDArray[Any], shares: NDArray[np.float64], width: int
) -> NDArray[np.int64]:
    """Return comparable keys of soft rows, padded by empty slots to a common width."""
    padding = ((0, 0), (0, width - columns.shape[1]))
    columns = np.pad(columns, padding, constant_values=MISSING)
    return slot_keys(columns, np.pad(shares, padding))
