"""A service in a separate process: started, waited for, measured, stopped.

Memory and CPU time are read from ``/proc`` and are None on other systems than Linux.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.harness import error_line
from coterie.errors import CoterieError

BARE = (sys.executable, "-m", "benchmarks.serve.bare_service")
_ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)")
_START_SECONDS = 300.0


def serve_command(model: Path) -> tuple[str, ...]:
    """Return the command that serves a model on a free port, without a log line per request."""
    return (sys.executable, "-m", "coterie", "ads", "serve", str(model), "--port", "0", "--quiet")


@dataclass(frozen=True)
class RunningService:
    """A service that answers on a port of 127.0.0.1.

    ``start_seconds`` is the time from its start to its first answer to ``GET /health``.
    """

    port: int
    process: subprocess.Popen[bytes]
    start_seconds: float

    def get(self, path: str) -> Any:
        """Return the JSON of a path."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_START_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            content = answer.read()
        if answer.status != 200:
            raise CoterieError(f"the service answered GET {path} with {answer.status}")
        return json.loads(content)

    def memory(self) -> dict[str, int | None]:
        """Return the bytes the process occupies: resident, proportional, peak resident."""
        folder = Path(f"/proc/{self.process.pid}")
        return {
            "resident": _bytes(folder / "status", "VmRSS"),
            "proportional": _bytes(folder / "smaps_rollup", "Pss"),
            "peak": _bytes(folder / "status", "VmHWM"),
        }

    def cpu_seconds(self) -> float | None:
        """Return the CPU time so far, over all threads."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return None
        user, system = stat.rpartition(")")[2].split()[11:13]  # the name may contain spaces
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running_service(command: Sequence[str]) -> Iterator[RunningService]:
    """Start a command that prints ``http://127.0.0.1:PORT``; stop it at the end of the block."""
    # the service must not ask for a token that the environment happens to name
    environment = {name: v for name, v in os.environ.items() if name != "COTERIE_TOKEN"}
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment | {"PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        try:
            port = _port_when_ready(process, output, started + _START_SECONDS)
            yield RunningService(port, process, time.perf_counter() - started)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _port_when_ready(process: subprocess.Popen[bytes], output: IO[bytes], deadline: float) -> int:
    while True:
        printed = os.pread(output.fileno(), 1 << 20, 0)
        named = _ADDRESS.search(printed)
        if named is not None:
            service = RunningService(int(named[1]), process, 0.0)
            with contextlib.suppress(OSError, http.client.HTTPException, CoterieError):
                service.get("/health")
                return service.port
        if process.poll() is not None or time.perf_counter() > deadline:
            why = error_line(printed.decode(errors="replace")) or "no output"
            raise CoterieError(f"the service did not start: {why}")
        time.sleep(0.002)


def _bytes(path: Path, name: str) -> int | None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(found[0]) * 1024 if found else None
