"""Run benchmarks: ``python -m benchmarks NAME [--quick] [--json] [-o FOLDER]``.

``python -m benchmarks pages`` writes the figures of result files into the pages that show them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.environment import current_commit
from benchmarks.harness import BENCHMARKS, Context, run_benchmark
from benchmarks.pages import ROOT, confirm, write_pages
from benchmarks.results import check_folder
from coterie.errors import CoterieError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks named on the command line; return the exit code."""
    given = _parser().parse_args(arguments)
    if given.names == ["pages"]:
        changed = [str(page.relative_to(ROOT)) for page in write_pages()]
        sys.stdout.write(f"Changed: {', '.join(changed) or 'none'}\n")
        return 0
    if given.confirm is not None:
        for name in given.names:
            confirm(name, given.confirm, current_commit())
        return 0
    names = list(BENCHMARKS) if given.names == ["all"] else given.names
    if given.json and len(names) > 1:
        _parser().error("--json takes one benchmark")
    context = Context(given.quick, given.data, given.keep)
    failed = 0
    for name in names:
        try:
            _run(name, context, given)
        except CoterieError as error:  # the other benchmarks may still run
            sys.stderr.write(f"error: {name}: {error}\n")
            failed = 1
        except KeyboardInterrupt:
            sys.stderr.write("interrupted; finished trials are kept where --keep was given\n")
            return 130
    return failed


def _run(name: str, context: Context, given: argparse.Namespace) -> None:
    if given.output is not None:
        check_folder(given.output, name.replace("-", "_"))
    result = run_benchmark(name, context, given.set)
    if given.json:
        sys.stdout.write(result.json_text())
    else:
        result.show()
    if given.output is not None:
        written = ", ".join(map(str, result.write(given.output)))
        sys.stderr.write(f"Written: {written}\n")


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:11} {question}" for name, (_, question) in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"Run benchmarks. Names ('all' runs every one):\n{listed}\n  "
        "pages       Write the figures of result files into README and documentation.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", metavar="NAME", choices=[*BENCHMARKS, "all", "pages"])
    parser.add_argument("--quick", action="store_true", help="run a small version")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write result files")
    data = os.environ.get("COTERIE_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=None if data is None else Path(data),
        metavar="FOLDER",
        help="folder of the datasets (default: COTERIE_DATA)",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep finished trials and continue from them"
    )
    parser.add_argument(
        "--confirm",
        metavar="WHY",
        help="run nothing: note in the results that later changes of the code do not change them",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
