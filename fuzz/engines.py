"""The two engines: structured inputs by Hypothesis, mutated bytes by atheris."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from benchmarks.harness import error_line
from coterie.errors import CoterieError, MissingExtraError
from fuzz.contract import MOST_SECONDS, Record, Target

__all__ = ["mutate_bytes", "run_in_atheris", "try_properties"]

_EXAMPLES = 500
_DONE = re.compile(r"DONE\s+cov: (\d+) ft: (\d+) corp: (\d+)/")


def try_properties(target: Target, seconds: float, folder: Path | None = None) -> dict[str, Any]:
    """Draw structured inputs until the time is over; every round has another seed."""
    record, end, seed = Record(target, folder), time.perf_counter() + seconds, 0

    class OverError(Exception):
        pass

    while time.perf_counter() < end:
        seed += 1

        @hypothesis.seed(seed)
        @settings(
            max_examples=_EXAMPLES,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(target.inputs)
        def one_round(value: Any) -> None:
            if time.perf_counter() > end:
                raise OverError
            record.run(value)

        try:
            one_round()
        except OverError:
            break
    return record.summary()


def mutate_bytes(target: Target, seconds: float, folder: Path | None = None) -> dict[str, Any]:
    """Mutate seeds in a new process, and keep what reaches new branches.

    ``branches`` are the branches that were reached, ``corpus`` the inputs that were kept.
    """
    if find_spec("atheris") is None:
        raise MissingExtraError(
            "mutated bytes need the package atheris: pip install atheris, or --engine properties"
        )
    with tempfile.TemporaryDirectory(prefix="coterie-fuzz-") as name:
        found = folder or Path(name)
        corpus = Path(name) / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(target.seeds()):
            (corpus / f"seed-{number}").write_bytes(seed)
        command = [sys.executable, "-m", "fuzz.engines", target.name, str(found)]
        command += [f"-max_total_time={int(seconds)}", f"-timeout={int(3 * MOST_SECONDS)}"]
        command += ["-rss_limit_mb=4096", f"-artifact_prefix={found}/", str(corpus)]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        if not (found / "counts.json").exists():
            raise CoterieError(f"{target.name} could not be run: {error_line(done.stderr)}")
        counts: dict[str, Any] = json.loads((found / "counts.json").read_text(encoding="utf-8"))
        last = _DONE.search(done.stderr)
        if last is None or done.returncode != 0:
            counts["findings"].append(f"the process ended: {done.stderr.strip()[-300:]}")
        else:
            counts["branches"], counts["corpus"] = int(last[1]), int(last[3])
    return counts


def run_in_atheris(name: str, folder: Path, arguments: list[str]) -> None:
    """Run a target in this process, which ends with it."""
    import atheris

    # entered for good: coterie imports many modules when they are first needed
    atheris.instrument_imports(include=["coterie"]).__enter__()
    from fuzz.targets import make_target

    target = make_target(name)
    record = Record(target, folder)

    def one_input(data: bytes) -> None:
        record.run(target.from_bytes(data))

    atheris.Setup([name, *arguments], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    run_in_atheris(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
