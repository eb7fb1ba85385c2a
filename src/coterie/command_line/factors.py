"""``--factors``: columns of a table that are tested against the clusters, and not clustered."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from coterie.errors import TableError

if TYPE_CHECKING:
    from coterie.files.tables import Table

__all__ = ["factor_facts", "without_factors"]


def without_factors(table: Table, factors: Sequence[str]) -> tuple[Table, dict[str, Any]]:
    """Return a table without the columns of factors, and these columns by name."""
    for name in factors:
        if name not in table.columns:
            known = ", ".join(map(repr, table.columns))
            raise TableError(f"{table.path} has no column {name!r} for --factors; it has {known}")
    rest = {name: column for name, column in table.columns.items() if name not in factors}
    if not rest:
        raise TableError(f"{table.path} has only factors; leave columns to cluster")
    return replace(table, columns=rest), {name: table.columns[name] for name in factors}


def factor_facts(labels: Any, factors: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the tests of the factors, ready for JSON; empty without factors."""
    from coterie.inspection.factor_tests import factor_tests

    if not factors:
        return {}
    values = {name: _values(column) for name, column in factors.items()}
    tests = factor_tests(labels, values, random_state=seed)
    return {
        "factors": [
            {
                name: None if isinstance(value, float) and math.isnan(value) else value
                for name, value in asdict(row).items()
            }
            for row in tests.rows
        ]
    }


def _values(column: Any) -> Any:
    """Return the numbers in a column of text, or its texts; columns of other types stay."""
    import numpy as np

    from coterie.files.tables import MISSING_TEXTS, NUMBER_PATTERN

    values = column.to_numpy()
    if values.dtype != object or not all(v is None or isinstance(v, str) for v in values):
        return values
    texts = [None if v is None or v.strip() in MISSING_TEXTS else v.strip() for v in values]
    if all(text is None or re.match(NUMBER_PATTERN, text) for text in texts):
        return np.array([math.nan if text is None else float(text) for text in texts])
    return np.array(texts, dtype=object)
