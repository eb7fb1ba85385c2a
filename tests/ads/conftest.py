"""What the tests of the advertising part share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coterie.ads.connections import connect

# tests are imported by file, not as a package: let them find the tables beside them
sys.path.insert(0, str(Path(__file__).parent))

#: Ibis asks DuckDB for Arrow tables by a name that DuckDB means to drop.
IBIS_ON_DUCKDB = r"ignore:fetch_arrow_table\(\) is deprecated:DeprecationWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pass what Ibis, not this package, is warned of."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(IBIS_ON_DUCKDB))


@pytest.fixture
def duckdb_connection():
    """An embedded DuckDB, closed afterwards."""
    connection = connect("duckdb://", threads=1)
    yield connection
    connection.disconnect()
