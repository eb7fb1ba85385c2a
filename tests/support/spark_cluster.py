"""A Spark cluster on this machine: a master and two workers from the pip package."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.engines.backends import connect

HOST = "127.0.0.1"
WORKERS = 2
_STARTS_WITHIN = 120.0


@contextlib.contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """Start a cluster, give its address as ``host:port``, and leave no process behind.

    Parameters
    ----------
    folder : Path
        For what the processes write.
    """
    pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed")
    if not shutil.which("java"):
        pytest.skip("Java is not installed")
    port, web_port = _free_ports(2)
    home = Path(pyspark.__file__).parent
    processes: list[subprocess.Popen[bytes]] = []

    def start(role: str, *arguments: str) -> None:
        with (folder / f"{role.lower()}-{len(processes)}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [
                        str(home / "bin" / "spark-class"),
                        f"org.apache.spark.deploy.{role.lower()}.{role}",
                        *("--host", HOST),
                        *arguments,
                    ],
                    env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    try:
        start("Master", "--port", str(port), "--webui-port", str(web_port))
        _wait_until(lambda: _is_open(port), processes, folder)
        for n in range(WORKERS):
            work = ("--work-dir", str(folder / f"work-{n}"), "--webui-port", "0")
            start("Worker", "--cores", "1", "--memory", "1g", *work, f"spark://{HOST}:{port}")
        _wait_until(lambda: _n_workers(web_port) == WORKERS, processes, folder)
        yield f"{HOST}:{port}"
    finally:
        for process in reversed(processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def connected_cluster(folder: Path) -> Iterator[Any]:
    """Yield a connection to a cluster, and stop both afterwards."""
    settings = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder),
    }
    with spark_cluster(folder) as address:
        query = "&".join(f"{name}={value}" for name, value in settings.items())
        connection = connect(f"pyspark://{address}?{query}")
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


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def _is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((HOST, port)) == 0


def _n_workers(web_port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{web_port}/json/", timeout=5) as page:
            return page.read().count(b'"ALIVE"') - 1  # the master is alive too
    except OSError:
        return 0


def _wait_until(is_so, processes: list[subprocess.Popen[bytes]], folder: Path) -> None:
    end = time.monotonic() + _STARTS_WITHIN
    while not is_so():
        dead = [process for process in processes if process.poll() is not None]
        if dead or time.monotonic() > end:
            logs = [path.read_text(errors="replace")[-2000:] for path in folder.glob("*.log")]
            raise RuntimeError("the Spark cluster does not start:\n" + "\n".join(logs))
        time.sleep(0.2)
