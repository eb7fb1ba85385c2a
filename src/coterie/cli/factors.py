"""``--factors``: columns of a table that are tested against the clusters, and not clustered."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from coterie.cli import options
from coterie.errors import TableError

if TYPE_CHECKING:
    from coterie.inspection.factor_tests import FactorTests
    from coterie.tables.columns import Table


def factors_in(factors: str | None, categories: str | None) -> tuple[list[str], list[str] | None]:
    """Return the names in ``--factors``, and those in ``--categories``, which must be among them.

    >>> factors_in("age,sex", "sex")
    (['age', 'sex'], ['sex'])
    """
    tested = options.names_in(factors, "--factors") or []
    coded = options.names_in(categories, "--categories")
    for name in coded or ():
        if name not in tested:
            raise typer.BadParameter(
                f"{name!r} is not in --factors; name it there too", param_hint="'--categories'"
            )
    return tested, coded


def without_factors(table: Table, factors: Sequence[str]) -> tuple[Table, dict[str, Any]]:
    """Return a table without the columns of factors, and these columns by name."""
    for name in factors:
        if name not in table.columns:
            known = ", ".join(map(repr, table.columns))
            raise TableError(f"{table.path} has no column {name!r} for --factors; it has {known}")
    rest = {name: column for name, column in table.columns.items() if name not in factors}
    if not rest:
        raise TableError(f"{table.path} has only factors; leave columns to cluster")
    return replace(table, columns=rest), table.values(factors)


def tests_of_factors(
    labels: Any, factors: Mapping[str, Any], seed: int, categories: Sequence[str] | None = None
) -> FactorTests | None:
    """Return the tests of columns that may hold numbers as text; None without factors."""
    if not factors:
        return None
    from coterie.inspection.factor_tests import factor_tests

    values = {name: _values(column) for name, column in factors.items()}
    return factor_tests(labels, values, categories=categories, random_state=seed)


def _values(values: Any) -> Any:
    """Return the numbers in a column of text, or its texts; missing numbers are NaN."""
    import numpy as np

    from coterie.tables.columns import MISSING_TEXTS, NUMBER_PATTERN

    if values.dtype != object:
        is_masked = np.ma.isMaskedArray(values)
        return np.ma.filled(values.astype(float), math.nan) if is_masked else values
    texts = [None if v is None or v.strip() in MISSING_TEXTS else v.strip() for v in values]
    if all(text is None or re.match(NUMBER_PATTERN, text) for text in texts):
        return np.array([math.nan if text is None else float(text) for text in texts])
    return np.array(texts, dtype=object)
