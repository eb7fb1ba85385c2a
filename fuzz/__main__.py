"""Fuzz targets: ``python -m fuzz TARGET --seconds N [-o FOLDER]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.environment import code_digest
from benchmarks.results import Result, Table, check_folder, item
from coterie.errors import CoterieError
from coterie.runtime.devices import readable_bytes
from fuzz.engines import mutate_bytes, try_properties
from fuzz.targets import TARGETS, make_target

MEASURES = ("labels", "tables", "models.py", "ads/logs", "ads/protocol", "ads/service")
ENGINES = {"properties": try_properties, "bytes": mutate_bytes}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the targets named on the command line; return 1 if anything was found."""
    given = _parser().parse_args(arguments)
    names = list(TARGETS) if "all" in given.targets else given.targets
    engines = list(ENGINES) if given.engine == "both" else [given.engine]
    try:
        if given.output is not None:
            check_folder(given.output, "fuzz")
        result = fuzz(names, engines, given.seconds, given.keep)
    except CoterieError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    result.show()
    if given.output is not None:
        result.write(given.output)
    return int(any(run["findings"] for run in result.data["runs"]))


def fuzz(
    names: Sequence[str], engines: Sequence[str], seconds: float, keep: Path | None = None
) -> Result:
    """Fuzz targets one after the other, each with each engine for a share of the seconds."""
    share = seconds / (len(names) * len(engines))
    runs: list[dict[str, Any]] = []
    for name in names:
        for engine in engines:
            folder = None if keep is None else keep / f"{name}-{engine}"
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            counts = ENGINES[engine](make_target(name), share, folder)
            runs.append({"target": name, "engine": engine, "seconds": share, **counts})
            sys.stderr.write(f"{runs[-1]}\n")
    result = _result(runs)
    result.environment["code"] = code_digest(MEASURES)
    return result


def _result(runs: list[dict[str, Any]]) -> Result:
    columns = {
        "target": item("target"),
        "inputs by": lambda run: _ENGINE_NAMES[run["engine"]],
        "minutes": lambda run: f"{run['seconds'] / 60:.1f}",
        "inputs": item("executions", form=","),
        "refused": lambda run: f"{_share(run, 'refused'):.0%}",
        "branches": item("branches", form=",", missing="–"),
        "corpus": item("corpus", form=",", missing="–"),
        "slowest, CPU s": item("slowest", form=".2f"),
        "peak memory": item("peak_bytes", form=readable_bytes),
        "findings": lambda run: len(run["findings"]),
    }
    notes = [f"{what}: {why}." for what, (_, why) in TARGETS.items()]
    notes = [note.replace("..", ".") for note in notes]
    notes += [f"Found in {run['target']}: {one}." for run in runs for one in run["findings"]]
    table = Table.of("Inputs that were tried", runs, columns, n_named=2)
    return Result("fuzz", [table], {"runs": runs}, notes)


_ENGINE_NAMES = {"properties": "Hypothesis", "bytes": "atheris"}


def _share(run: dict[str, Any], start: str) -> float:
    found = sum(count for what, count in run["outcomes"].items() if what.startswith(start))
    return found / max(1, run["executions"])


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:8} {what}" for name, (_, what) in TARGETS.items())
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description=f"Try random and mutated inputs. Targets ('all' for every one):\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("targets", nargs="+", metavar="TARGET", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="in all")
    parser.add_argument("--engine", choices=[*ENGINES, "both"], default="both")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write findings to files")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write result files")
    return parser


if __name__ == "__main__":
    sys.exit(main())
