"""A Spark cluster on this machine for the time of a benchmark."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import error_line
from coterie.errors import CoterieError, InvalidParameterError, MissingExtraError

_HOST = "127.0.0.1"


def check_spark(spark: str | None) -> None:
    """Refuse a setting that cannot run on Spark.

    >>> check_spark("spark://host:7077")
    Traceback (most recent call last):
    coterie.errors.InvalidParameterError: spark=spark://host:7077: ...
    """
    if spark is None:
        return
    if spark != "local" and not spark.startswith("pyspark://"):
        raise InvalidParameterError(
            f"spark={spark}: give local, or the URL of a cluster such as pyspark://host:7077"
        )
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtraError("Spark needs PySpark: pip install 'coterie[spark]'")
    if not shutil.which("java") and "JAVA_HOME" not in os.environ:
        raise MissingExtraError("Spark needs Java 17 or later on the PATH or in JAVA_HOME")


class LocalSpark:
    """A standalone Spark cluster, a master and two workers, that listens on loopback only.

    A ``with`` block gives the URL of the engine; at its end all processes are killed. They write to
    ``folder``. The cluster must start within ``seconds``.
    """

    n_workers = 2

    def __init__(self, folder: Path, seconds: float = 120.0) -> None:
        self.folder, self.seconds = folder, seconds
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        port, web_port = _free_ports(2)
        end = time.monotonic() + self.seconds
        try:
            self._start("Master", "--port", str(port), "--webui-port", str(web_port))
            self._wait(lambda: _is_open(port), end)
            for n in range(self.n_workers):
                place = ("--work-dir", str(self.folder / f"worker-{n}"), "--webui-port", "0")
                limits = ("--cores", "1", "--memory", "1g")
                self._start("Worker", *limits, *place, f"spark://{_HOST}:{port}")
            self._wait(lambda: _n_alive(web_port) == self.n_workers, end)
        except BaseException:
            self.__exit__()
            raise
        settings = {
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.local.dir": str(self.folder),
        }
        return f"pyspark://{_HOST}:{port}?{urllib.parse.urlencode(settings)}"

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, role: str, *arguments: str) -> None:
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None and spec.origin is not None  # check_spark has looked
        home = Path(spec.origin).parent
        variables = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_LOCAL_DIRS": str(self.folder),
        }
        name = f"org.apache.spark.deploy.{role.lower()}.{role}"
        with (self.folder / f"{role.lower()}-{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), name, "--host", _HOST, *arguments],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)

    def _wait(self, is_ready: Callable[[], bool], end: float) -> None:
        while not is_ready():
            ended = any(process.poll() is not None for process in self._processes)
            if ended or time.monotonic() > end:
                logs = [path.read_text(errors="replace") for path in self.folder.glob("*.log")]
                message = error_line("\n".join(logs))
                raise CoterieError(f"no Spark cluster within {self.seconds:g} s: {message}")
            time.sleep(0.2)


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((_HOST, 0))) for _ in range(n)]
        return [one.getsockname()[1] for one in sockets]


def _is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((_HOST, port)) == 0


def _n_alive(web_port: int) -> int:
    """Return the number of workers that the master reports as alive."""
    try:
        # an empty handler bypasses proxies of the environment
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{_HOST}:{web_port}/json/", timeout=5) as page:
            return sum(worker["state"] == "ALIVE" for worker in json.load(page)["workers"])
    except (OSError, ValueError):
        return 0
