"""A service in a process of its own: started, asked whether it is there, weighed, ended.

Memory is read from ``/proc``: the resident set, the proportional set, which counts memory shared
with other processes by its share, and the highest resident set so far. Elsewhere than on Linux
they are None, as is time on processors.
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

__all__ = ["BARE", "Memory", "RunningService", "running_service", "serve_command"]

#: The command of :mod:`benchmarks.bare_service`.
BARE = (sys.executable, "-P", "-m", "benchmarks.bare_service")
_PROGRAM = (sys.executable, "-P", "-c", "from coterie.command_line import main; main()")
_ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)")
_START_SECONDS = 300.0
_END_SECONDS = 30.0
_PAUSE = 0.002


def serve_command(model: Path) -> tuple[str, ...]:
    """The command that serves a model on a free port, without a log line a request."""
    return (*_PROGRAM, "ads", "serve", str(model), "--port", "0", "--quiet")


@dataclass(frozen=True)
class Memory:
    """Bytes of a process: resident, proportional, and the highest resident so far."""

    resident: int | None
    proportional: int | None
    peak: int | None


@dataclass(frozen=True)
class RunningService:
    """A service that answers.

    Attributes
    ----------
    port : int
        On 127.0.0.1.
    process : the process
    start_seconds : float
        From its start to its first answer of 200 to ``GET /health``.
    """

    port: int
    process: subprocess.Popen[bytes]
    start_seconds: float

    def get(self, path: str) -> Any:
        """The JSON of a path; raises CoterieError where there is none."""
        return self._asked("GET", path, None)

    def post(self, path: str, body: bytes) -> Any:
        """The JSON that a body is answered with; raises CoterieError where it is refused."""
        return self._asked("POST", path, body)

    def memory(self) -> Memory:
        """What the process occupies now."""
        folder = Path(f"/proc/{self.process.pid}")
        return Memory(
            _kilobytes(folder / "status", "VmRSS"),
            _kilobytes(folder / "smaps_rollup", "Pss"),
            _kilobytes(folder / "status", "VmHWM"),
        )

    def processor_seconds(self) -> float | None:
        """Time on processors so far, of all its threads."""
        try:
            told = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return None
        user, system = told.rpartition(")")[2].split()[11:13]  # the name may hold anything
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _asked(self, method: str, path: str, body: bytes | None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_START_SECONDS)
        headers = {} if body is None else {"Content-Type": "application/json"}
        with contextlib.closing(connection):
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            except OSError as error:
                raise CoterieError(
                    f"the service did not answer {method} {path}: {error}"
                ) from error
        if answer.status != 200:
            raise CoterieError(f"the service answered {method} {path} with {answer.status}")
        return json.loads(content)


@contextlib.contextmanager
def running_service(command: Sequence[str]) -> Iterator[RunningService]:
    """Start a command that says ``http://127.0.0.1:PORT``, wait until it answers, end it after.

    It ends by SIGTERM, and by SIGKILL where that is not enough.
    """
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=_surroundings(),
            start_new_session=True,
        )
        try:
            port = _port_when_ready(process, said, started + _START_SECONDS)
            yield RunningService(port, process, time.perf_counter() - started)
        finally:
            _end(process)


def _surroundings() -> dict[str, str]:
    """Ours, less a token: whoever measures need not name it."""
    kept = {name: value for name, value in os.environ.items() if name != "COTERIE_TOKEN"}
    return kept | {"PYTHONUNBUFFERED": "1"}


def _port_when_ready(process: subprocess.Popen[bytes], said: IO[bytes], deadline: float) -> int:
    """The port that the process has named, once it answers there."""
    while True:
        words = os.pread(said.fileno(), 1 << 20, 0)
        named = _ADDRESS.search(words)
        if named is not None and _is_well(int(named[1])):
            return int(named[1])
        if process.poll() is not None or time.perf_counter() > deadline:
            why = error_line(words.decode(errors="replace")) or "it said nothing"
            raise CoterieError(f"the service did not start: {why}")
        time.sleep(_PAUSE)


def _is_well(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kilobytes(path: Path, name: str) -> int | None:
    """A figure of the kernel's in bytes; None where it does not tell."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(found[0]) * 1024 if found else None
