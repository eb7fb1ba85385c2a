"""Load on a service: connections that ask again as soon as they are answered.

The load comes from wrk where it is installed, else from a Python process with httpx, which is
slower itself and says less about a fast service. Both run in a folder with ``bodies.txt``, one body
a line, and write ``load.json``; with ``keep_every`` they also write the first of every so many
answers to ``kept.txt`` and count good answers by model version.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import error_line
from coterie.errors import CoterieError

_SCRIPT = """
local every = {every}
local questions, asked, seen, kept = {{}}, 0, 0, nil
threads, counts = {{}}, {{}}

function setup(thread) table.insert(threads, thread) end

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
  local versions, failed = {{}}, 0
  for _, thread in ipairs(threads) do
    for version, count in pairs(thread:get("counts")) do
      table.insert(versions, string.format('"%s":%d', version, count))
    end
  end
  for _, count in pairs(summary.errors) do failed = failed + count end
  local out = io.open("load.json", "w")
  out:write(string.format(
    '{{"requests":%d,"seconds":%.6f,"p50":%.6f,"p99":%.6f,"slowest":%.6f,"failed":%d',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6,
    latency:percentile(99) / 1e6, latency.max / 1e6, failed))
  out:write(',"versions":{{', table.concat(versions, ","), '}}}}')
  out:close()
end
"""


def run_load(
    port: int,
    bodies: Sequence[bytes],
    connections: int,
    seconds: int,
    *,
    keep_every: int = 0,
    meanwhile: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Post bodies to ``/v1/forecast`` of 127.0.0.1 in turn, as fast as they are answered.

    Returns
    -------
    dict
        ``requests`` answered, ``seconds``, latencies ``p50``, ``p99`` and ``slowest`` in seconds,
        ``failed``, ``versions`` (good answers by model version), and ``kept``, a list of bytes.
    """
    with tempfile.TemporaryDirectory(prefix="coterie-load-") as name:
        folder = Path(name)
        (folder / "bodies.txt").write_bytes(b"\n".join(bodies) + b"\n")
        command = _command(folder, port, connections, seconds, keep_every)
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                if meanwhile is not None:
                    meanwhile()
                output, _ = process.communicate(timeout=seconds + 60)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0 or not (folder / "load.json").exists():
            why = error_line(output.decode(errors="replace"))
            raise CoterieError(f"the load on the service could not be made: {why}")
        found: dict[str, Any] = json.loads((folder / "load.json").read_bytes())
        kept = (folder / "kept.txt").read_bytes().splitlines() if keep_every else []
    return {**found, "connections": connections, "kept": kept}


def generator_name() -> str:
    """Return the name of the load generator on this machine."""
    return "wrk with one thread" if shutil.which("wrk") else "httpx (wrk is not installed)"


def _command(folder: Path, port: int, connections: int, seconds: int, keep_every: int) -> list[str]:
    wrk = shutil.which("wrk")
    if wrk is None:
        arguments = map(str, (port, connections, seconds, keep_every))
        return [sys.executable, __file__, *arguments]
    (folder / "load.lua").write_text(_SCRIPT.format(every=keep_every), encoding="utf-8")
    size = ["-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--timeout", "10s"]
    return [wrk, *size, "-s", "load.lua", f"http://127.0.0.1:{port}"]


async def _ask_for(port: int, connections: int, seconds: int, keep_every: int) -> None:
    """Make the load from this process, and write the files."""
    import httpx

    bodies = itertools.cycle(Path("bodies.txt").read_bytes().splitlines())
    latencies: list[float] = []
    kept: list[bytes] = []
    versions: Counter[str] = Counter()
    failed, start = 0, time.perf_counter()

    async def ask(client: httpx.AsyncClient) -> None:
        nonlocal failed
        while time.perf_counter() < start + seconds:
            asked = time.perf_counter()
            try:
                answer = await client.post("/v1/forecast", content=next(bodies))
            except httpx.HTTPError:
                failed += 1
                continue
            latencies.append(time.perf_counter() - asked)
            failed += answer.status_code >= 400
            if keep_every and answer.status_code == 200:
                if versions.total() % keep_every == 0:
                    kept.append(answer.content)
                version = re.search(rb'"version":\s*"([0-9a-f]+)"', answer.content)
                versions[version[1].decode() if version else "none"] += 1

    limits = httpx.Limits(max_connections=connections)
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", limits=limits, headers=headers, timeout=10
    ) as client:
        await asyncio.gather(*(ask(client) for _ in range(connections)))
    ordered = sorted(latencies) or [0.0]
    found = {
        "requests": len(latencies),
        "seconds": time.perf_counter() - start,
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[int(0.99 * (len(ordered) - 1))],
        "slowest": ordered[-1],
        "failed": failed,
        "versions": versions,
    }
    if keep_every:
        Path("kept.txt").write_bytes(b"".join(body + b"\n" for body in kept))
    Path("load.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_ask_for(*map(int, sys.argv[1:])))
