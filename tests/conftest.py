"""What several test modules share."""

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes, and how long it takes to draw, is the machine's and not the test's.
# Whether tests pass must not depend on luck: new examples are drawn only by make hunt.
settings.register_profile(
    "coterie",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("COTERIE_HUNT"),
)
settings.load_profile("coterie")

#: Folders of slow tests: those of a cluster, and of what is not part of the package.
SLOW = ("tests/benchmarks/", "tests/fuzz/", "tests/packaging/", "tests/spark/")
#: Folders that one worker runs, because their tests share what starts slowly.
TOGETHER = ("tests/browser/", "tests/spark/")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Begin with what is slow: a long test at the end of a run would keep one worker waiting."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
    quick = {item: item.get_closest_marker("slow") is None for item in items}
    items.sort(key=lambda item: (not item.nodeid.startswith(TOGETHER), quick[item]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each worker whole files, and whole folders where their files share a fixture."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            shared = [folder for folder in TOGETHER if nodeid.startswith(folder)]
            return shared[0] if shared else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


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
    connection.close()
