"""Forecast error over a grid of simulated markets: volume × shift × text error × outliers.

In every cell the market is drawn several times; each draw is simulated to files, read back by
the engine, and evaluated on its last day by every source, and by the true segments, which no
source knows. Nothing is tuned per cell.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.atomic_files import atomic_file

__all__ = ["FULL_GRID", "QUICK_GRID", "CellSummary", "GridCell", "run_grid", "summarise_cell"]

FLAGSHIP = "robust+pooled"
THIN = "10–199 bids"
TARGETS = ("impressions", "spend")


@dataclass(frozen=True)
class GridCell:
    """One kind of market.

    Attributes
    ----------
    bids_per_day : float
        Of the median advertiser.
    bid_move : float
        How far bids move on the held-out day, in the logarithm.
    text_error, outliers : float
        Shares of advertisers.
    auction : {"second", "first"}
    """

    bids_per_day: float
    bid_move: float
    text_error: float
    outliers: float
    auction: str = "second"

    @property
    def name(self) -> str:
        """Short, and unique in a grid."""
        return (
            f"{self.auction}-{self.bids_per_day:g}-{self.bid_move:g}"
            f"-{self.text_error:g}-{self.outliers:g}"
        )


FULL_GRID = [
    GridCell(*values)
    for values in itertools.product((12, 30, 150), (0.0, 0.5), (0.05, 0.4), (0.05, 0.2))
]
QUICK_GRID = [GridCell(30, 0.5, 0.1, 0.05)]


def run_grid(
    cells: Sequence[GridCell],
    n_draws: int = 3,
    *,
    advertisers: int = 1268,
    keep: Path | None = None,
    after_draw: Callable[[], None] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Evaluate every draw of every cell.

    Parameters
    ----------
    cells : sequence of GridCell
    n_draws : int
        Draw d is seeded with d.
    advertisers : int
    keep : Path, optional
        A folder for the result of each draw; those already there are not computed again.
    after_draw : callable, optional
        Called after each draw.

    Returns
    -------
    dict of cell name to list of results
        Each with ``wape`` (by source and target), ``thin`` (the same for thin advertisers) and
        ``against`` (the flagship's WAPE less that of each source, with standard error).
    """
    results: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        results[cell.name] = []
        for draw in range(n_draws):
            kept = None if keep is None else keep / f"{cell.name}-{advertisers}-{draw}.json"
            if kept is not None and kept.exists():
                found = json.loads(kept.read_text(encoding="utf-8"))
            else:
                found = run_draw(cell, draw, advertisers)
                if kept is not None:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    with atomic_file(kept) as unfinished:
                        unfinished.write_text(json.dumps(found), encoding="utf-8")
            results[cell.name].append(found)
            if after_draw is not None:
                after_draw()
    return results


def run_draw(cell: GridCell, draw: int, advertisers: int) -> dict[str, Any]:
    """Simulate one market, and evaluate every source on its last day."""
    from coterie.ads.forecasts.evaluation import evaluate
    from coterie.ads.histograms.counting import read_histograms
    from coterie.ads.logs.bid_logs import open_logs, read_descriptions
    from coterie.ads.logs.simulation.simulated_logs import simulate_logs
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings

    settings = MarketSettings(advertisers=advertisers, seed=draw, **asdict(cell))
    with tempfile.TemporaryDirectory() as folder:
        simulated = simulate_logs(settings, Path(folder) / "market")
        logs = open_logs(simulated.folder)
        histograms, texts = read_histograms(logs), read_descriptions(logs)
        truth = true_segments(simulated.truth, histograms.advertisers)
    found = evaluate(histograms, texts, true_segments=truth).as_dict()
    thin = next(stratum for stratum in found["strata"] if stratum["name"] == THIN)
    return {
        "wape": {
            name: {target: errors[target]["wape"] for target in TARGETS}
            for name, errors in found["sources"].items()
        },
        "standard_error": {
            name: {target: errors[target]["wape_standard_error"] for target in TARGETS}
            for name, errors in found["sources"].items()
        },
        "thin": {
            name: {target: errors[target]["wape"] for target in TARGETS}
            for name, errors in thin["sources"].items()
        },
        "against": {
            target: {
                row["b"]: [row["difference"], row["standard_error"]]
                for row in found["differences"]
                if row["target"] == target
            }
            for target in TARGETS
        },
        "coverage": found["sources"][FLAGSHIP]["impressions"]["coverage"],
        "chosen": found["chosen"][FLAGSHIP],
        "thin_advertisers": thin["advertisers"],
    }


def true_segments(path: Path, advertisers: NDArray[np.str_]) -> NDArray[np.int64]:
    """The planted segments, in the order of the advertisers; an outlier is one of its own."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["advertiser_id", "segment", "outlier"]).to_pydict()
    segment = dict(zip(table["advertiser_id"], table["segment"], strict=True))
    outlier = dict(zip(table["advertiser_id"], table["outlier"], strict=True))
    labels = np.array([segment[str(name)] for name in advertisers], dtype=np.int64)
    alone = np.array([outlier[str(name)] for name in advertisers], dtype=bool)
    labels[alone] = labels.max(initial=-1) + 1 + np.arange(alone.sum())
    return labels


@dataclass(frozen=True)
class CellSummary:
    """A cell in a few figures, for one target.

    Attributes
    ----------
    wape : dict of str to float
        Mean over the draws, by source.
    best : str
        The source with the lowest of them, among those that do not know the truth.
    of_best : float
        The standard error of that lowest WAPE, over advertisers and draws.
    behind, paired : float
        By how much the flagship lies above it, and the standard error of that difference, paired
        over advertisers: much smaller, since both err on the same advertisers.
    thin : dict of str to float
        Mean WAPE of thin advertisers.
    closed : float
        The share of the distance from "own" to "true+pooled" that the flagship closes there.
    """

    wape: dict[str, float]
    best: str
    of_best: float
    behind: float
    paired: float
    thin: dict[str, float]
    closed: float

    @property
    def holds(self) -> bool:
        """Whether the flagship is lowest, or within one standard error of the lowest."""
        return self.behind <= self.of_best

    @property
    def holds_paired(self) -> bool:
        """The stricter question: within one standard error of the *difference*."""
        return self.behind <= self.paired


def summarise_cell(draws: Sequence[dict[str, Any]], target: str) -> CellSummary:
    """Summarise the draws of one cell."""
    wape = {name: _mean(draw["wape"][name][target] for draw in draws) for name in draws[0]["wape"]}
    thin = {name: _mean(draw["thin"][name][target] for draw in draws) for name in draws[0]["thin"]}
    rivals = {name: value for name, value in wape.items() if not name.startswith("true")}
    best = min(rivals, key=lambda name: (rivals[name], name))
    of_best = _error_of_mean(draw["standard_error"][best][target] for draw in draws)
    paired = 0.0
    if best != FLAGSHIP:
        paired = _error_of_mean(draw["against"][target][best][1] for draw in draws)
    distance = thin["own"] - thin["true+pooled"]
    closed = (thin["own"] - thin[FLAGSHIP]) / distance if distance > 0 else float("nan")
    behind = wape[FLAGSHIP] - wape[best]
    return CellSummary(wape, best, of_best, behind, paired, thin, closed)


def _mean(values: Iterator[float]) -> float:
    return float(np.mean(list(values)))


def _error_of_mean(errors: Iterator[float]) -> float:
    """The standard error of a mean of independent figures, each with its own."""
    each = np.array(list(errors))
    return float(np.sqrt(np.sum(each**2)) / len(each))
