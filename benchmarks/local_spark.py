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
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import error_line
from coterie.errors import CoterieError, MissingExtraError
from coterie.runtime.imports import install_command

N_WORKERS = 2
_HOST = "127.0.0.1"


class LocalSpark(NamedTuple):
    """A running cluster."""

    url: str  # of the engine
    workers: tuple[subprocess.Popen[bytes], ...]
    events: Path | None = None  # folder of Spark's event logs

    def kill_worker(self) -> None:
        """Kill a worker with its executor, as a machine that fails."""
        os.killpg(self.workers[-1].pid, signal.SIGKILL)

    def task_result_bytes(self) -> int:
        """Return the size of the results that tasks of the last application sent to its driver."""
        assert self.events is not None
        logs = sorted(self.events.glob("app-*"), key=_age)
        total = 0
        with logs[-1].open(encoding="utf-8") as lines:
            for line in lines:
                if '"SparkListenerTaskEnd"' in line:
                    metrics = json.loads(line).get("Task Metrics") or {}
                    total += metrics.get("Result Size", 0)
        return total


@contextlib.contextmanager
def local_spark(
    folder: Path, seconds: float = 120.0, *, event_log: bool = False
) -> Iterator[LocalSpark]:
    """Start a standalone cluster that listens on loopback only.

    A master and two workers must start within ``seconds``. They write to ``folder``, and are killed
    at the end of the block. The executors use this Python, which has coterie.
    """
    spec = importlib.util.find_spec("pyspark")
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    if spec is None or spec.origin is None or not java:
        raise MissingExtraError(f"Spark needs Java 17 or later and {install_command('spark')}")
    folder.mkdir(parents=True, exist_ok=True)
    port, web_port = _free_ports(2)
    master = ["--port", str(port), "--webui-port", str(web_port)]
    worker = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder)]
    home, end = Path(spec.origin).parent, time.monotonic() + seconds
    processes = [_start(home, folder, "Master", master)]
    try:
        while (n_alive := _n_alive(web_port)) < N_WORKERS:
            if n_alive == 0 and len(processes) == 1:  # the master listens
                worker.append(f"spark://{_HOST}:{port}")
                processes += [_start(home, folder, "Worker", worker) for _ in range(N_WORKERS)]
            ended = any(process.poll() is not None for process in processes)
            if ended or time.monotonic() > end:
                message = error_line((folder / "log").read_text(errors="replace"))
                raise CoterieError(f"no Spark cluster within {seconds:g} s: {message}")
            time.sleep(0.2)
        settings = {
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder),
            "spark.pyspark.python": sys.executable,
        }
        events = folder / "events"
        if event_log:
            events.mkdir()
            settings |= {
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": events.as_uri(),
                "spark.eventLog.compress": "false",
                "spark.eventLog.rolling.enabled": "false",
            }
        url = f"pyspark://{_HOST}:{port}?{urllib.parse.urlencode(settings)}"
        yield LocalSpark(url, tuple(processes[1:]), events if event_log else None)
    finally:
        for process in reversed(processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _start(home: Path, folder: Path, role: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    variables = {"SPARK_HOME": home, "SPARK_LOCAL_IP": _HOST, "SPARK_LOCAL_DIRS": folder}
    name = f"org.apache.spark.deploy.{role.lower()}.{role}"
    with (folder / "log").open("ab") as log:
        inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), name, "--host", _HOST, *arguments],
            env={**inherited, **{key: str(value) for key, value in variables.items()}},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((_HOST, 0))) for _ in range(n)]
        return [one.getsockname()[1] for one in sockets]


def _n_alive(web_port: int) -> int:
    """Return the number of workers that the master reports as alive; −1 without a master."""
    try:
        # an empty handler bypasses proxies of the environment
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{_HOST}:{web_port}/json/", timeout=5) as page:
            return sum(worker["state"] == "ALIVE" for worker in json.load(page)["workers"])
    except (OSError, ValueError):
        return -1
