"""Stored rows: the values of a log are converted from text once, and kept while the log is open.

Reading numbers, truth values and times from text takes many times as long as all that is computed
from them, and a log is checked, counted and counted by its dimensions. DuckDB therefore writes the
converted rows of such a log, or of a query of the user, to a temporary Parquet file, some bytes a
row. Logs whose columns have the canonical types already are read as they are, and so is everything
on Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.tables.engines import engine_errors
from coterie.tables.reading import TemporaryCopy

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: Prefix of the columns with the original values of the log.
WRITTEN = "written_"


class StoredRows:
    """The rows of a log and, while it exists, the file that holds them."""

    def __init__(self, is_query: bool = False) -> None:
        self._is_query = is_query  # a query of the user, which may take long
        self._table: ir.Table | None = None
        self._rows: ir.Table | None = None
        self._copy: TemporaryCopy | None = None

    def of(self, table: ir.Table, is_json: bool) -> ir.Table:
        """Return the columns of a table of canonical columns, and ``written_X`` where X is null.

        There is a column ``written_X`` for each X that may be unreadable; it has the value in the
        log. ``is_json`` is whether texts may be other values of JSON.
        """
        if self._rows is None or self._table is not table:
            self._table, self._rows = table, self._read(table, is_json)
        return self._rows

    def _read(self, table: ir.Table, is_json: bool) -> ir.Table:
        from ibis.expr.operations import Field, Project

        node = table.op()
        if not isinstance(node, Project):
            return table
        raw = node.parent.to_expr()
        values = {name: value.to_expr() for name, value in node.values.items()}
        written = {
            WRITTEN + name: value.isnull().ifelse(raw[field.name], None)
            for name, value in values.items()
            for field in value.op().find(Field)
            if field.rel == raw.op()
            and _may_be_unreadable(raw[field.name].type(), value.type(), is_json)
        }
        rows = raw.select(**values, **written)
        backend: Any = rows.get_backend()
        if not (written or self._is_query) or backend.name != "duckdb":
            return rows
        self._copy = TemporaryCopy()
        file = str(self._copy.path)
        with engine_errors(f"{backend.name} cannot read the table"):
            backend.to_parquet(rows, file, use_tmp_file=False)
            return backend.read_parquet(file)


def _may_be_unreadable(original: Any, canonical: Any, is_json: bool) -> bool:
    if canonical.is_date():
        return not original.is_temporal()
    if canonical.is_floating():
        return not original.is_numeric()
    if canonical.is_integer():
        return not original.is_integer()
    if canonical.is_string():
        return is_json and original.is_string()  # a list is not a text
    return not (canonical.is_boolean() and original.is_boolean())
