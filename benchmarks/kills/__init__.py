"""Commands killed at random moments: what is then on the disk, and whether a second run succeeds.

Each command that writes files runs undisturbed twice, to know its time and its outputs. Then it is
started and killed (SIGKILL) at a random moment, once into an empty folder and once over earlier
outputs. An output must be absent, or whole; nothing else may be visible; and the same command must
then succeed, with the outputs of an undisturbed run and nothing left behind.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from benchmarks.harness import Context
from benchmarks.kills.commands import Writing, commands, make_inputs
from benchmarks.kills.processes import Program, error_of, run_whole
from benchmarks.results import Result, Table, item

#: Share of the kills that are aimed at the time of writing.
_AIMED = 0.75

MEASURES = ("cli", "runtime", "models.py")


def run(
    context: Context, *, times: int | None = None, only: str = "", seed: int = 0, jobs: int = 1
) -> Result:
    """Kill commands ``times`` times in all, ``jobs`` of them at a time.

    ``only`` chooses commands whose name contains a text. Those that take long get a smaller share.
    """
    chosen = [one for one in commands() if only in one.name]
    times = times or (2 * len(chosen) if context.quick else 200)
    with tempfile.TemporaryDirectory(prefix="coterie-kills-") as name:
        inputs = Path(name) / "inputs"
        inputs.mkdir()
        make_inputs(inputs, chosen)
        tasks = [
            (writing, share, inputs, Path(name) / f"place{number}", [seed, number])
            for number, (writing, share) in enumerate(_shares(chosen, times))
        ]
        kept = context.trials("kills")
        with ThreadPoolExecutor(jobs) as threads:
            works = [threads.submit(kill_often, *task) for task in tasks]
            for work in context.track(as_completed(works), "Killing", total=len(works)):
                kept.add({"command": work.result()["command"], "seed": seed}, work.result())
    found = [work.result() for work in works]
    return _result(found)


def kill_often(
    writing: Writing, times: int, inputs: Path, place: Path, seed: Sequence[int]
) -> dict[str, Any]:
    """Kill a command at random moments, every second time over earlier outputs."""
    whole, rng = place.with_name(f"{place.name}-whole"), np.random.default_rng(seed)
    _prepare(writing, inputs, whole, None)
    begun = time.perf_counter()
    run_whole(writing.command(inputs, whole), _notes(place))
    seconds = time.perf_counter() - begun
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for number in range(times):
        _prepare(writing, inputs, place, whole if number % 2 and not writing.fresh else None)
        before = _contents(place)
        when = _draw_moment(rng, seconds)
        state, problems = _kill_once(writing, inputs, place, whole, before, when)
        counts[state] += 1
        faults += [f"{when}: {one}" for one in problems]
    shutil.rmtree(place, ignore_errors=True)
    return {
        "command": writing.name,
        "times": times,
        "seconds": seconds,
        "states": dict(counts),
        "faults": faults,
    }


def _shares(chosen: Sequence[Writing], times: int) -> list[tuple[Writing, int]]:
    """Divide the kills between the commands."""
    weights = np.array([0.12 if one.slow else 1.0 for one in chosen])
    ends = np.concatenate([[0.0], np.cumsum(weights)]) / weights.sum() * times
    counts = np.diff(ends.round().astype(int)).tolist()
    return list(zip(chosen, counts, strict=True))


class Moment(NamedTuple):
    """When a command is killed: after some seconds, or so long after its folder first changes."""

    seconds: float
    after_change: bool

    def wait(self, program: Program, place: Path) -> None:
        """Return when the moment has come, or the command has ended."""
        if self.after_change:
            before = _listing(place)
            while not program.wait(0.0005) and _listing(place) == before:
                pass
        program.wait(self.seconds)


def _listing(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))  # noqa: PTH208 — asked very often


def _draw_moment(rng: Generator, seconds: float) -> Moment:
    """Draw a moment: most are aimed at the writing, the others at the whole run."""
    if rng.random() < _AIMED:
        return Moment(float(rng.choice([0.0, 0.0, 0.002, 0.02]) * rng.random()), True)
    return Moment(float(seconds * rng.random()), False)


def _kill_once(
    writing: Writing, inputs: Path, place: Path, whole: Path, before: dict[str, str], when: Moment
) -> tuple[str, list[str]]:
    """Kill a command once; return what it had done, and what is wrong."""
    program = Program(writing.command(inputs, place), _notes(place))
    when.wait(program, place)
    state = "" if program.kill() else "ended before the kill"
    left = _contents(place)
    hidden = {name for name in left if _is_hidden(name)}
    unfinished = any(map(_is_hidden, _listing(place)))  # also a folder without files
    changed = {name for name in left.keys() - hidden if left[name] != before.get(name)}
    if not state:
        state = "while writing" if unfinished else "after writing" if changed else "before writing"
    problems = _problems(writing, place, whole, {n: left[n] for n in left if n not in hidden})
    problems += [
        f"{name} is gone"
        for name in before.keys() - left.keys()
        if not writing.name.endswith("demo")
    ]
    return state, problems + _second_run(writing, inputs, place, whole)


def _second_run(writing: Writing, inputs: Path, place: Path, whole: Path) -> list[str]:
    """Run the command again; return what is wrong then."""
    if writing.fresh:
        # a whole output would be refused, because the folder must be new
        for name in writing.outputs:
            shutil.rmtree(place / name, ignore_errors=True)
    if writing.replaces:
        shutil.copy(inputs / writing.replaces, place / writing.replaces)
    failure = error_of(writing.command(inputs, place), _notes(place))
    if failure:
        return [f"the second run fails: {failure}"]
    found = _contents(place)
    problems = [f"the second run leaves {name}" for name in _listing(place) if _is_hidden(name)]
    problems += [f"the second run lacks {n}" for n in writing.outputs if not (place / n).exists()]
    return problems + _problems(writing, place, whole, found)


def _problems(writing: Writing, place: Path, whole: Path, visible: dict[str, str]) -> list[str]:
    """Return visible files that are no output of the command, or only a part of one."""
    known = _contents(whole)
    problems = []
    for name in visible:
        top = name.partition("/")[0]
        if top not in {*writing.outputs, writing.replaces, "demo.json"}:
            problems.append(f"{name} is visible")
        elif name not in known:
            problems.append(f"{name} is no output")
        elif not _is_whole(place / name):
            problems.append(f"{name} is not whole")
    for name in writing.outputs:
        if (place / name).is_dir():
            files = {one for one in known if one.startswith(f"{name}/")}
            missing = files - visible.keys()
            problems += [f"{one} is missing" for one in missing]
    return problems


def _is_whole(path: Path) -> bool:
    """Return whether a file can be read to its end, by its format."""
    content = path.read_bytes()
    name = path.name
    if name.endswith(".parquet"):
        return content[:4] == content[-4:] == b"PAR1"
    if name.endswith(".gz"):
        import gzip

        return gzip.decompress(content).endswith(b"\n")
    if name.endswith(".coterie"):
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    endings = {".html": b"</html>", ".png": b"IEND\xaeB`\x82", ".svg": b"</svg>", ".json": b"}"}
    if path.suffix in endings:
        return content.rstrip().endswith(endings[path.suffix])
    if name.endswith(".npy"):
        return len(np.load(path)) == 300
    return content.endswith(b"\n")


def _notes(place: Path) -> Path:
    return place.with_name(f"{place.name}-notes")


def _prepare(writing: Writing, inputs: Path, place: Path, earlier: Path | None) -> None:
    """Make the folder of a run: empty, or with the outputs of an earlier run."""
    shutil.rmtree(place, ignore_errors=True)
    if earlier is None:
        place.mkdir()
    else:
        shutil.copytree(earlier, place)
    if writing.replaces:
        shutil.copy(inputs / writing.replaces, place / writing.replaces)


def _contents(folder: Path) -> dict[str, str]:
    """Return the checksum of every file in a folder, by its path within it."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in Path(name).parts)


_STATES = ("before writing", "while writing", "after writing", "ended before the kill")


def _result(found: Sequence[dict[str, Any]]) -> Result:
    total = Counter[str]()
    for one in found:
        total.update(one["states"])
    faults = [f"{one['command']}: {fault}" for one in found for fault in one["faults"]]
    columns: dict[str, Any] = {"command": item("command"), "kills": item("times")}
    columns |= {
        state: lambda one, state=state: one["states"].get(state, 0) or "" for state in _STATES
    }
    columns["faults"] = lambda one: len(one["faults"])
    times = sum(one["times"] for one in found)
    whole = {"command": "all", "times": times, "states": total, "faults": faults}
    table = Table.of("Commands that were killed", [*found, whole], columns)
    notes = [
        "“While writing” means that a hidden, unfinished file or folder was there after the kill; "
        "“after writing” that an output had changed and none was hidden.",
        *faults,
    ]
    return Result("kills", [table], {"commands": list(found), "faults": faults}, notes)
