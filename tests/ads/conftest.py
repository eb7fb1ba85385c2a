"""What the tests of the advertising part share."""

from __future__ import annotations

import pytest

from coterie.tables.engines import connect


@pytest.fixture
def duckdb_connection():
    """An embedded DuckDB, closed afterwards."""
    connection = connect("duckdb://", threads=1)
    yield connection
    connection.disconnect()
