"""A connection to a Spark cluster on this machine, with a master and two workers."""

from __future__ import annotations

import contextlib
import gc
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.local_spark import N_WORKERS, local_spark
from coterie.engines.backends import connect

WORKERS = N_WORKERS
#: For Java processes that run for seconds: compile quickly, collect garbage with one thread.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextlib.contextmanager
def connected_cluster(folder: Path, python: str | None = None) -> Iterator[Any]:
    """Yield a connection to a cluster, and stop both afterwards.

    Its attributes ``workers`` and ``kill_worker`` are those of the cluster. The executors use
    ``python``, by default one without coterie.
    """
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if not shutil.which("java"):
        pytest.skip("Java is not installed")
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("JAVA_TOOL_OPTIONS", _SHORT_LIVED)
        cluster = stack.enter_context(local_spark(folder, python=python))
        connection = connect(cluster.url)
        connection.workers, connection.kill_worker = cluster.workers, cluster.kill_worker
        try:
            yield connection
        finally:
            stop_session(connection._session)


def stop_session(session: object) -> None:
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
