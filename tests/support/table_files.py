"""Tables in files, as lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.tables.reading import read_table

__all__ = ["columns_of"]


def columns_of(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a file; missing values are None."""
    table = read_table(path)
    return {name: values.tolist() for name, values in table.values(table.columns).items()}
