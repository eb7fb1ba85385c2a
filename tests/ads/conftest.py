"""What the tests of the advertising part share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coterie.engines import connect

# tests are imported by file, not as a package: let them find the tables beside them
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def duckdb_connection():
    """An embedded DuckDB, closed afterwards."""
    connection = connect("duckdb://", threads=1)
    yield connection
    connection.disconnect()
