"""A Spark cluster on this machine, with a master and two workers.

It starts slowly, so all tests of this folder share it; ``tests/conftest.py`` gives them to one
worker of pytest-xdist.
"""

from __future__ import annotations

import gc
import shutil
import warnings

import pytest

from benchmarks.local_spark import local_spark
from coterie.tables.engines import connect

#: For Java processes that run for seconds: compile quickly, collect garbage with one thread.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="package")
def cluster(tmp_path_factory):
    """The processes of a cluster; the Python of its executors is this one."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if not shutil.which("java"):
        pytest.skip("Java is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", _SHORT_LIVED)
        with local_spark(tmp_path_factory.mktemp("spark")) as running:
            yield running


@pytest.fixture(scope="package")
def spark(cluster):
    """A connection to the cluster, with the session that all tests share."""
    connection = connect(cluster.url)
    yield connection
    _stop_session(connection._session)


def _stop_session(session: object) -> None:
    """Stop a Spark session and its Java process, which PySpark would keep."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.kill()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
    with warnings.catch_warnings():
        # PySpark leaves sockets to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
