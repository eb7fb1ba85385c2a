"""A service in a separate process, measured by Linux's ``/proc``, and load on it by wrk."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import error_line
from coterie.errors import CoterieError

_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
_START_SECONDS = 300.0
# asks the bodies in turn, and keeps the first of every so many answers
_SCRIPT = """
local every = {every}
local questions, asked, seen, kept = {{}}, 0, 0, nil

function init()
  local headers = {{["Content-Type"] = "application/json"}}
  for line in io.lines("bodies.txt") do
    table.insert(questions, wrk.format("POST", "/v1/forecast", headers, line))
  end
  kept = io.open("kept.txt", "w")
end

function request()
  asked = asked % #questions + 1
  return questions[asked]
end

if every > 0 then
  function response(status, headers, body)
    if status == 200 and seen % every == 0 then kept:write(body, "\\n"); kept:flush() end
    seen = seen + 1
  end
end

function done(summary, latency)
  local failed = 0
  for _, count in pairs(summary.errors) do failed = failed + count end
  local out = io.open("load.json", "w")
  out:write(string.format(
    '{{"requests":%d,"seconds":%.6f,"p50":%.6f,"p99":%.6f,"slowest":%.6f,"failed":%d}}',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6,
    latency:percentile(99) / 1e6, latency.max / 1e6, failed))
  out:close()
end
"""


def serve_command(model: Path, workers: int = 1) -> tuple[str, ...]:
    """Return the command that serves a model on a free port, without a log line per request."""
    command = (sys.executable, "-m", "coterie", "ads", "serve", str(model), "--port", "0")
    return (*command, "--quiet", "--workers", str(workers), "--drain-seconds", "0")


@dataclass(frozen=True)
class RunningService:
    """A service that answers on a port of 127.0.0.1.

    ``start_seconds`` is the time from its start to its first answer to ``GET /health/ready``.
    """

    port: int
    pid: int
    start_seconds: float

    def memory(self) -> dict[str, int]:
        """Return the bytes the process occupies: resident, proportional, peak resident."""
        folder = Path(f"/proc/{self.pid}")
        text = (folder / "status").read_text() + (folder / "smaps_rollup").read_text()
        names = {"resident": "VmRSS", "proportional": "Pss", "peak": "VmHWM"}
        found = {key: re.search(rf"^{name}:\s+(\d+) kB", text, re.M) for key, name in names.items()}
        return {key: int(match[1]) * 1024 for key, match in found.items() if match}

    def cpu_seconds(self) -> float:
        """Return the CPU time so far, over all threads and workers."""
        return sum(map(_cpu_seconds, [self.pid, *self.workers()]))

    def workers(self) -> list[int]:
        """Return the processes that answer, if there are several."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        found = []
        for pid in children:
            with contextlib.suppress(FileNotFoundError):  # it ended since it was listed
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
        return found


def get(port: int, path: str) -> dict[str, Any] | None:
    """Return what a service answers to GET, or None if there is no good answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        content: dict[str, Any] = json.loads(answer.read())
        return content if answer.status == 200 else None
    return None


@contextlib.contextmanager
def running_service(command: Sequence[str]) -> Iterator[RunningService]:
    """Start a command that prints ``http://127.0.0.1:PORT``; stop it at the end of the block."""
    # the service must not ask for a token that the environment happens to name
    environment = {name: v for name, v in os.environ.items() if name != "COTERIE_TOKEN"}
    with tempfile.NamedTemporaryFile() as output:
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
            port = _port_when_ready(process, Path(output.name))
            yield RunningService(port, process.pid, time.perf_counter() - started)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_load(
    port: int,
    bodies: Sequence[bytes],
    connections: int,
    seconds: int,
    *,
    keep_every: int = 0,
    meanwhile: Callable[[], None] | None = None,
) -> tuple[dict[str, Any], list[bytes]]:
    """Post bodies to ``/v1/forecast`` of 127.0.0.1 in turn, as fast as they are answered.

    Return ``requests`` answered, ``seconds``, latencies ``p50``, ``p99`` and ``slowest`` in
    seconds, and ``failed``; and one of every ``keep_every`` answers.
    """
    wrk = shutil.which("wrk")
    if wrk is None:
        raise CoterieError("the load is made by wrk, which is not installed; install it")
    with tempfile.TemporaryDirectory(prefix="coterie-load-") as name:
        folder = Path(name)
        (folder / "bodies.txt").write_bytes(b"\n".join(bodies) + b"\n")
        (folder / "load.lua").write_text(_SCRIPT.format(every=keep_every), encoding="utf-8")
        command = [wrk, "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--timeout", "10s"]
        command += ["-s", "load.lua", f"http://127.0.0.1:{port}"]
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                if meanwhile is not None:
                    meanwhile()
                output, _ = process.communicate(timeout=seconds + 60)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0 or not (folder / "load.json").exists():
            raise CoterieError(f"the load on the service could not be made: {error_line(output)}")
        found = json.loads((folder / "load.json").read_bytes())
        return found, (folder / "kept.txt").read_bytes().splitlines()


def _cpu_seconds(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]  # the name may contain spaces
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _port_when_ready(process: subprocess.Popen[bytes], output: Path) -> int:
    deadline = time.perf_counter() + _START_SECONDS
    while True:
        printed = output.read_text(errors="replace")
        named = _ADDRESS.search(printed)
        if named is not None and get(int(named[1]), "/health/ready") is not None:
            return int(named[1])
        if process.poll() is not None or time.perf_counter() > deadline:
            raise CoterieError(f"the service did not start: {error_line(printed) or 'no output'}")
        time.sleep(0.002)
