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
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import error_line
from coterie.errors import CoterieError, MissingExtraError

N_WORKERS = 2
_HOST = "127.0.0.1"


@contextlib.contextmanager
def local_spark(folder: Path, seconds: float = 120.0) -> Iterator[str]:
    """Start a standalone cluster that listens on loopback only; yield the URL of the engine.

    A master and two workers must start within ``seconds``. They write to ``folder``, and are killed
    at the end of the block.
    """
    spec = importlib.util.find_spec("pyspark")
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    if spec is None or spec.origin is None or not java:
        raise MissingExtraError("Spark needs Java 17 or later and pip install 'coterie[spark]'")
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
        }
        yield f"pyspark://{_HOST}:{port}?{urllib.parse.urlencode(settings)}"
    finally:
        for process in reversed(processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(home: Path, folder: Path, role: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    variables = {"SPARK_HOME": home, "SPARK_LOCAL_IP": _HOST, "SPARK_LOCAL_DIRS": folder}
    name = f"org.apache.spark.deploy.{role.lower()}.{role}"
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), name, "--host", _HOST, *arguments],
            env={**os.environ, **{key: str(value) for key, value in variables.items()}},
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
