"""What a new user waits for: importing the package, and the first fit, which compiles.

Compiled kernels are kept on disk. So each is measured twice in fresh processes: with an empty
store of compiled code (the first time ever) and with the one that this left behind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from coterie.errors import CoterieError

__all__ = ["FirstUse", "measure_first_use"]

_SCRIPT = """
import json, time
clock = time.perf_counter
began = clock()
import coterie
imported = clock()
from coterie import RobustConsensus, planted_partitions
loaded = clock()
P, _ = planted_partitions([60, 30, 10], 10, 4, 0.1, random_state=0)
seconds = []
for _ in range(2):
    start = clock()
    RobustConsensus(3, random_state=0).fit(P)
    seconds.append(clock() - start)
print(json.dumps([imported - began, loaded - imported, *seconds]))
"""


@dataclass(frozen=True)
class FirstUse:
    """Seconds in a fresh process.

    Attributes
    ----------
    import_package : ``import coterie``
    import_estimator : then ``from coterie import RobustConsensus``, with all it needs
    first_fit, second_fit : of 100 points in 10 partitions
    """

    import_package: float
    import_estimator: float
    first_fit: float
    second_fit: float


def measure_first_use() -> dict[str, FirstUse]:
    """First use with nothing compiled yet (``"cold"``) and with kernels on disk (``"warm"``)."""
    with tempfile.TemporaryDirectory(prefix="coterie-kernels-") as folder:
        return {state: _in_fresh_process(folder) for state in ("cold", "warm")}


def _in_fresh_process(cache: str) -> FirstUse:
    child = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode != 0:
        lines = child.stderr.strip().splitlines() or [f"exit code {child.returncode}"]
        raise CoterieError(f"the first use could not be measured: {lines[-1]}")
    return FirstUse(*json.loads(child.stdout))
