"""The experiments on real advertising data, all three: ``python -m benchmarks ads-real``.

==================  =========================================================================
``ads_ipinyou``     win curves when lost auctions hide their price
``ads_publisher``   forecasts of orders five days ahead, by source
``ads_snap``        text segments against spend per impression
==================  =========================================================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import ads_real_report as report
from benchmarks.ads_ipinyou import run_ipinyou
from benchmarks.ads_order_views import read_orders
from benchmarks.ads_publisher import run_publisher
from benchmarks.ads_snap import read_snap, run_snap
from benchmarks.environment import environment
from coterie.ads.histograms.ipinyou import load_ipinyou_histograms
from coterie.ads.histograms.public_data import IPINYOU, PUBLISHER, SNAP, files_of, refuse_missing
from coterie.errors import MissingExtraError, OutputError
from coterie.runtime.atomic_files import atomic_file, check_writable

__all__ = ["FILES", "run_real"]

#: What is written into the folder of the report.
FILES = (
    "ads_real.json",
    "ads_real.md",
    "ads_real_ipinyou.png",
    "ads_real_publisher.png",
    "ads_real_snap.png",
)
_FULL: dict[str, dict[str, Any]] = {"ipinyou": {}, "publisher": {}, "snap": {}}
_QUICK: dict[str, dict[str, Any]] = {
    "ipinyou": {"seeds": 3, "sizes": (100, 1_000, 10_000)},
    "publisher": {"origins": 2, "numbers": (3, 8)},
    "snap": {"permutations": 200, "repeats": 1, "numbers": (8, 32)},
}


def run_real(
    folder: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    quick: bool = False,
    before_step: Callable[[str | None], None] | None = None,
) -> dict[str, Any]:
    """Run all three experiments and, where a folder is given, write the report into it.

    Parameters
    ----------
    folder : path, optional
        Where the datasets are, each in a folder of its own; by default the folder that the
        environment variable ``COTERIE_DATA`` names, or the cache.
    output : path, optional
        Folder for the page, the pictures and the figures, :data:`FILES`; made if it is not
        there.
    quick : bool
        Fewer bidders, origins and repeats: for a look, not for figures to quote.
    before_step : callable, optional
        Called with a few words at each step.

    Returns
    -------
    dict
        ``ipinyou``, ``publisher``, ``snap`` and ``environment``, ready for JSON.

    Raises
    ------
    DatasetUnavailableError
        Before any work; the message names every dataset that is missing and how to get it.
    """
    refuse_missing((IPINYOU, PUBLISHER, SNAP), folder)
    if output is not None:
        _prepare(Path(output))
    say = before_step if before_step is not None else _silent
    settings = _QUICK if quick else _FULL

    def step(words: str) -> Callable[[], None]:
        say(words)
        return lambda: say(words)

    results = {
        "ipinyou": run_ipinyou(
            *load_ipinyou_histograms(folder),
            files_of(IPINYOU, folder)[2],
            after_advertiser=step("win curves of iPinYou's advertisers"),
            **settings["ipinyou"],
        ),
        "publisher": run_publisher(
            read_orders(files_of(PUBLISHER, folder)[0]),
            after_origin=step("orders of the publisher's auction"),
            **settings["publisher"],
        ),
        "snap": run_snap(
            read_snap(files_of(SNAP, folder)[0]),
            after_repeat=step("texts and prices of Snap's advertisers"),
            **settings["snap"],
        ),
    }
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        _write(Path(output), results, described, everything)
    return everything


def _silent(words: str | None) -> None:
    """Nobody is told."""


def _prepare(output: Path) -> None:
    """Make the folder, and refuse now what would fail after the work."""
    try:
        import matplotlib  # noqa: F401 (whether it is there)
    except ImportError as error:
        raise MissingExtraError(
            "the report has pictures, which need matplotlib: pip install 'coterie[plots]', "
            "or give no folder for it"
        ) from error
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {output}: {error.strerror}") from error
    for name in FILES:
        check_writable(output / name)


def _write(
    output: Path, results: dict[str, Any], described: dict[str, Any], everything: dict[str, Any]
) -> None:
    from benchmarks.ads_real_pictures import as_pictures

    figures = json.dumps(everything, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    steps: dict[str, Callable[[Path], object]] = {
        "ads_real.json": partial(_write_text, figures),
        "ads_real.md": partial(_write_text, report.as_page(results, described)),
    }
    for name, picture in as_pictures(results).items():
        steps[name] = partial(picture.savefig, format="png", dpi=150)
    for name, write in steps.items():
        with atomic_file(output / name) as unfinished:
            write(unfinished)


def _write_text(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")
