"""Load on a service: so many connections that ask without a pause, for so many seconds.

The load comes from a process of its own: from wrk where it is installed, else from
:mod:`benchmarks.serve_sockets`, which is slower itself and says less about a fast service.
Both work in a folder that holds ``bodies.txt``, one body a line, and leave ``load.json`` there;
asked to look at answers they count them by the version of the model that gave them, and leave
every so many of them in ``kept.txt``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import serve_sockets
from benchmarks.harness import error_line
from coterie.errors import CoterieError

__all__ = ["LoadRun", "generator_in_words", "run_load"]

# beyond the load itself: starting, reading the bodies, answers still under way
_SPARE_SECONDS = 60.0
_WRK_TIMEOUT = "10s"
_SCRIPT = """
local every = {every}
local questions, asked, seen, kept = {{}}, 0, 0, nil
threads, counts = {{}}, {{}}

function setup(thread)
  table.insert(threads, thread)
end

function init()
  local headers = {{["Content-Type"] = "application/json"}}
  for line in io.lines("bodies.txt") do
    table.insert(questions, wrk.format("POST", "/v1/forecast", headers, line))
  end
  if every > 0 then kept = io.open("kept.txt", "w") end
end

function request()
  asked = asked % #questions + 1
  return questions[asked]
end

if every > 0 then
  function response(status, headers, body)
    local version = body:match('"version":%s*"(%x+)"') or "none"
    if status == 200 then counts[version] = (counts[version] or 0) + 1 end
    if status == 200 and seen % every == 0 then kept:write(body, "\\n"); kept:flush() end
    seen = seen + 1
  end
end

function done(summary, latency)
  local versions = {{}}
  for _, thread in ipairs(threads) do
    for version, count in pairs(thread:get("counts")) do
      table.insert(versions, string.format('"%s":%d', version, count))
    end
  end
  local failures = {{}}
  for kind, count in pairs(summary.errors) do
    table.insert(failures, string.format('"%s":%d', kind, count))
  end
  local out = io.open("load.json", "w")
  out:write(string.format(
    '{{"requests":%d,"seconds":%.6f,"p50":%.6f,"p99":%.6f,"slowest":%.6f',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6,
    latency:percentile(99) / 1e6, latency.max / 1e6))
  out:write(',"failures":{{', table.concat(failures, ","), '}}')
  out:write(',"versions":{{', table.concat(versions, ","), '}}}}')
  out:close()
end
"""


@dataclass(frozen=True)
class LoadRun:
    """What a load met with.

    Attributes
    ----------
    connections : int
    requests : int
        That were answered, whether well or not.
    seconds : float
    p50, p99, slowest : float
        Seconds from question to answer.
    failures : dict of str to int
        Answers other than 2xx or 3xx (``status``), and connections that broke.
    versions : dict of str to int
        Good answers by the version of the model, if they were looked at.
    kept : tuple of bytes
        Every so many answers, if they were.
    """

    connections: int
    requests: int
    seconds: float
    p50: float
    p99: float
    slowest: float
    failures: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    kept: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def a_second(self) -> float:
        """Requests a second.

        >>> LoadRun(8, 3000, 1.5, 0.001, 0.002, 0.1).a_second
        2000.0
        """
        return self.requests / self.seconds

    @property
    def failed(self) -> int:
        """How many failed, in whatever way."""
        return sum(self.failures.values())


def run_load(
    port: int,
    bodies: Sequence[bytes],
    connections: int,
    seconds: float,
    *,
    keep_every: int = 0,
    meanwhile: Callable[[], None] | None = None,
) -> LoadRun:
    """Ask a service on 127.0.0.1 as fast as it answers.

    Parameters
    ----------
    port : int
    bodies : sequence of bytes
        JSON on one line each, posted to ``/v1/forecast`` in turn, over and over.
    connections : int
    seconds : float
        Whole ones: wrk knows no others.
    keep_every : int
        Look at the answers and keep the first of every so many; 0 looks at none.
    meanwhile : callable, optional
        What is done here while the load runs.
    """
    with tempfile.TemporaryDirectory(prefix="coterie-load-") as name:
        folder = Path(name)
        (folder / "bodies.txt").write_bytes(b"\n".join(bodies) + b"\n")
        command = _command(folder, port, connections, round(seconds), keep_every)
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                if meanwhile is not None:
                    meanwhile()
                said, _ = process.communicate(timeout=seconds + _SPARE_SECONDS)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0 or not (folder / "load.json").exists():
            why = error_line(said.decode(errors="replace"))
            raise CoterieError(f"the load on the service could not be made: {why}")
        found: dict[str, Any] = json.loads((folder / "load.json").read_bytes())
        kept = (folder / "kept.txt").read_bytes().splitlines() if keep_every else []
    return LoadRun(connections, **found, kept=tuple(kept))


def generator_in_words() -> str:
    """Where the load comes from on this machine."""
    wrk = shutil.which("wrk")
    if wrk is None:
        return "sockets of a Python process (wrk is not installed)"
    # it takes the question for a mistake, and answers all the same
    told = subprocess.run([wrk, "--version"], capture_output=True, text=True, check=False)
    return f"{' '.join(told.stdout.split()[:2]) or 'wrk'} with one thread"


def _command(folder: Path, port: int, connections: int, seconds: int, keep_every: int) -> list[str]:
    wrk = shutil.which("wrk")
    if wrk is None:
        arguments = (port, connections, seconds, keep_every)
        return [sys.executable, "-I", serve_sockets.__file__, *map(str, arguments)]
    (folder / "load.lua").write_text(_SCRIPT.format(every=keep_every), encoding="utf-8")
    size = ["-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--timeout", _WRK_TIMEOUT]
    return [wrk, *size, "-s", "load.lua", f"http://127.0.0.1:{port}"]
