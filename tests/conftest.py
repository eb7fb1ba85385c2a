"""What several test modules share."""

import os

import pytest
from hypothesis import HealthCheck, settings

# how long an example takes, and how long it takes to draw, is the machine's and not the test's
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("patient", PATIENT)
# a hunt for new counter-examples is for people at work; a landing must not depend on its luck
settings.register_profile("repeatable", PATIENT, derandomize=True)
settings.load_profile("repeatable" if os.environ.get("CI") else "patient")

#: Files that take longest, and so begin first: a long one at the end would keep one worker waiting.
LONGEST = (
    *("test_tutorials.py", "engines/label_tables/test_spark.py", "ads/logs/test_spark.py"),
    *("command_line/test_warm.py", "benchmarks/test_serve.py", "ensembles/test_spark_backend.py"),
    *("test_foreign_logs.py", "ads/service/test_workers.py", "test_guide.py", "test_examples.py"),
)


def pytest_collection_modifyitems(items):
    """Begin with the longest files; ``make test`` keeps this order."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONGEST))


def pytest_make_parametrize_id(config, val, argname):
    """Name raw bytes by their number: some hold the time, and all workers must agree on names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL server, one for all tests of a module."""
    from postgres_server import postgres_server  # few modules need it

    with postgres_server() as running:
        yield running


@pytest.fixture
def database(server):
    """A connection to the PostgreSQL server as other programs make it."""
    connection = server.connect()
    yield connection
    connection.disconnect()
