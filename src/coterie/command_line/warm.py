"""``coterie warm``: compile the kernels in advance, for example when an image is built.

The types of arguments that kernels are compiled for are those that the code has when it runs, on a
few points and on a small simulated market.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.command_line.terminal import layout, options
from coterie.command_line.terminal.progress import shown_stages
from coterie.errors import OutputError
from coterie.runtime.missing_extras import missing_packages

if TYPE_CHECKING:
    from coterie.ads.forecasts.fitted_market import FittedMarket
    from coterie.labels.label_matrix import LabelMatrix

__all__ = ["warm"]

_log = logging.getLogger(__name__)

#: Rows, labels of a partition, and whether there are blanks: which kernels count votes, and in
#: which types, depends on them.
_TABLES = ((120, 3, True), (120, 3, False), (600, 4, True), (600, 4, False), (600, 300, False))
#: What the default method is run with, beside its defaults.
_SETTINGS: tuple[dict[str, Any], ...] = (
    {"n_clusters": None},
    {"n_clusters": "free"},
    {"relaxation": "l2", "refine": False},
    {"relaxation": "divided", "partition_weights": None},
    {"refine": True, "partition_weights": "learned"},
)


def warm(as_json: options.AsJson = False, quiet: options.Quiet = False) -> None:
    """Compile the kernels now, so that later starts need not.

    Computes the consensus of a few points, and, if the extra ads is installed,
    fits and forecasts a small simulated market. The compiled code is kept in
    the folder NUMBA_CACHE_DIR, or else beside the package. It is for this type
    of processor and this version of the package. Afterwards the folder may be
    read-only.

    Example: coterie warm --json
    """
    from coterie.runtime.compiled_code import compiled_functions, prepare_cache

    started = time.perf_counter()
    with shown_stages(quiet), warnings.catch_warnings(), tempfile.TemporaryDirectory() as temporary:
        warnings.simplefilter("ignore")  # they are about the data, which is made up
        _log.info("compiling kernels of consensus")
        run_consensus(Path(temporary))
        if not missing_packages(("pyarrow", "ibis", "duckdb", "msgspec")):
            _log.info("compiling kernels of forecasts")
            run_forecasts(Path(temporary))
    functions = compiled_functions()
    folder = os.path.commonpath(functions.folders) if functions.folders else ""
    if functions.problem or (functions.compiled and prepare_cache()):
        raise OutputError(functions.problem or f"{folder} is read-only and lacks compiled code")
    facts = {
        "folder": folder,
        "compiled": functions.compiled,
        "loaded": functions.loaded,
        "seconds": round(time.perf_counter() - started, 1),
    }
    layout.print_answer(facts, _print_summary, as_json, quiet)


def run_consensus(folder: Path) -> None:
    """Run every consensus function on a small table of labels, and the default on several."""
    from coterie.consensus.registry import CONSENSUS_METHODS, FLAGSHIP, consensus_method

    robust = consensus_method(FLAGSHIP)
    for shape in _TABLES:
        for n_clusters in (3, None):
            robust.make(n_clusters, 0).fit(_labels(folder, *shape))
    P = _labels(folder, *_TABLES[0])
    for method in CONSENSUS_METHODS.values():
        method.make(3, 0).fit(P)
    for settings in _SETTINGS:
        robust.make(**{"n_clusters": 3, "random_state": 0, **settings}).fit(P)
    if missing_packages(("pyarrow", "ibis", "duckdb")):
        return
    from coterie.engines.label_tables.table_consensus import consensus_table

    consensus_table(str(folder / "labels.csv"), n_clusters=3, random_state=0)


def run_forecasts(folder: Path) -> None:
    """Fit and load models of small markets, and forecast with them."""
    from coterie.ads.fitting.forecaster import load_forecaster
    from coterie.ads.forecasts.fitted_market import load_market
    from coterie.ads.forecasts.model_checks import check_model
    from coterie.ads.logs.simulation.simulated_logs import simulate_logs
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings
    from coterie.ads.segments.settings import SegmentSettings
    from coterie.command_line.ads.inputs.reading import LogInput
    from coterie.command_line.ads.segment import fit_model
    from coterie.files.model_files import save_model

    settings = SegmentSettings(n_segments=(2, 3), origins=1)
    for auction in ("second", "first"):
        market = MarketSettings(advertisers=30, segments=2, days=3, auction=auction)
        logs, file = folder / auction, folder / f"{auction}.coterie"
        simulate_logs(market, logs)
        save_model(fit_model(LogInput(str(logs)).read(), settings), file)
        _forecast(load_forecaster(file))
        served = load_market(file)
        check_model(served)
        _forecast(served)


def _labels(folder: Path, rows: int, labels: int, blanks: bool) -> LabelMatrix:
    """Return partitions with texts as labels; they are also written to a file."""
    import numpy as np

    from coterie.labels.label_matrix import as_label_matrix

    rng = np.random.default_rng(0)
    P = np.arange(rows)[:, None] % labels + np.zeros((1, 8), dtype=int)
    P = np.where(rng.random(P.shape) < 0.2, rng.integers(0, labels, P.shape), P)
    cells = np.char.add("c", P.astype(str))
    if blanks:
        cells[::17, 0] = ""
    table = folder / "labels.csv"
    lines = [[f"p{v}" for v in range(P.shape[1])], *cells.tolist()]
    table.write_text("\n".join(map(",".join, lines)) + "\n")
    return as_label_matrix(cells)


def _forecast(market: FittedMarket) -> None:
    """Ask all kinds of questions, as the command and the service do."""
    from coterie.ads.decisions.budgets import plan_budget
    from coterie.ads.decisions.goals import bid_for
    from coterie.ads.decisions.portfolios import split_budget
    from coterie.ads.forecasts.forecast_tables import tables_of
    from coterie.ads.forecasts.profiles import ProfileBook

    known, bids = str(market.advertisers_[0]), [0.5, 2.0]
    market.forecast(known, bids)
    market.forecast(known, 1.0, days=3)
    market.forecast("new", bids, text="hotel by the beach", supply=1000)
    market.curve(known)
    bid_for(market, known, impressions=1.0)
    plan_budget(market, known, 1.0)
    plan_budget(market, "new", 1.0, text="hotel by the beach", supply=1000)
    split_budget(market, 1.0, [known])
    tables_of(market).warm()
    book = ProfileBook(market)
    book.advertiser(0)
    book.segments()


def _print_summary(facts: dict[str, Any]) -> None:
    console = layout.stdout_console()
    compiled, loaded = facts["compiled"], facts["loaded"]
    console.print(
        f"Compiled {layout.counted(compiled, 'function')} in {facts['seconds']} s; "
        f"{layout.counted(loaded, 'function')} had been compiled before."
    )
    console.print(f"The compiled code is in {facts['folder']}", soft_wrap=True)
