"""Forecasts in markets with the real prices of iPinYou, second and first price.

Thirty bidders meet the prices of each of nine advertisers. A bidder has its own volume and bid
level; on the last day, which is held out, it moves its bids. Prices are drawn from the advertiser's
histogram, so that no curve has a form that a model could assume. The only text of a bidder is the
industry of its advertiser.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.results import Marks, Table, dot_plot
from coterie.ads import evaluate, load_ipinyou_histograms, open_logs, read_histograms
from coterie.ads.evaluation.evaluation import DEFAULT
from coterie.ads.histograms.ipinyou import FEN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TARGETS = ("impressions", "spend")
_SOURCES = ("own", "global", "text+pooled", "robust+pooled", "lognormal", "boosting", DEFAULT)
_BIDDERS, _DAYS, _MEDIAN_BIDS = 30, 7, 30.0


def measure(context: Context) -> dict[str, Any]:
    """Return the errors of every source in every draw; four draws, one in a quick run."""
    draws = 1 if context.quick else 4
    histograms, industries = load_ipinyou_histograms(context.data)
    prices = histograms.dense().prices
    names = histograms.advertisers.tolist()
    found = []
    for auction in ("second", "first"):
        for draw in range(draws):
            rows = market_rows(prices, names, auction, np.random.default_rng(draw))
            texts = {name: industries[name.split("/")[0]] for name in set(rows["advertiser_id"])}
            found.append({"auction": auction, "draw": draw, **_errors(rows, auction, texts)})
    return {"draws": found}


def market_rows(
    prices: NDArray[np.float64], names: list[str], auction: str, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of a bid log; ``prices`` (A, P) counts 0, 1, …, P − 1 fen."""
    columns: dict[str, list[Any]] = {"advertiser_id": [], "day": [], "bid": [], "price": []}
    for bidder, chances, middle in _bidders(prices, names):
        volume = np.clip(_MEDIAN_BIDS * np.exp(1.2 * rng.standard_normal()), 3, 3000)
        level = np.log(middle) + rng.uniform(-0.7, 0.5)
        for day in range(_DAYS):
            moved = rng.uniform(-0.5, 0.5) if day == _DAYS - 1 else 0.0
            n = rng.poisson(volume)
            columns["advertiser_id"] += [bidder] * n
            columns["day"] += [f"2013-06-{6 + day:02d}"] * n
            columns["bid"].append(np.exp(level + moved + 0.3 * rng.standard_normal(n)))
            columns["price"].append(rng.choice(len(chances), n, p=chances))
    # a price of 0 is paid as the smallest amount that a log can hold
    price = np.maximum(np.concatenate(columns["price"]) * FEN, 1)
    bid = np.maximum(np.rint(np.concatenate(columns["bid"]) * FEN), 1).astype(np.int64)
    won = bid >= price
    return {
        "advertiser_id": columns["advertiser_id"],
        "day": columns["day"],
        "bid_micros": bid,
        "won": won,
        "price_micros": pa.array(price if auction == "second" else bid, mask=~won),
    }


def tables(data: dict[str, Any]) -> list[Table]:
    """Return mean WAPE and bias by source, and the difference of each from the default."""
    rows = []
    for auction in ("second", "first"):
        draws = [draw for draw in data["draws"] if draw["auction"] == auction]
        for source in _SOURCES:
            row = [auction, source]
            for target in TARGETS:
                found = [draw[target][source] for draw in draws]
                wape, bias, gap = (
                    100 * float(np.mean([one[kind] for one in found]))
                    for kind in ("wape", "bias", "difference")
                )
                error = 100 * float(np.linalg.norm([one["error"] for one in found]) / len(found))
                row += [f"{wape:.2f} ({bias:+.1f})"]
                row += ["" if source == DEFAULT else f"{gap:+.2f} ± {error:.2f}"]
            rows.append(row)
    headings = ["auction", "source"]
    for target in TARGETS:
        headings += [f"{target}: WAPE (bias), %", f"{DEFAULT} minus it"]
    return [Table("iPinYou prices: forecasts of 270 bidders", headings, rows, 2)]


def plot(data: dict[str, Any]) -> Figure:
    """Draw the mean WAPE of every source."""
    styles = {"second": ("blue", "o"), "first": ("vermilion", "s")}
    panels = {
        target: [
            Marks(
                f"{auction} price",
                *style,
                [
                    100
                    * float(
                        np.mean(
                            [
                                draw[target][source]["wape"]
                                for draw in data["draws"]
                                if draw["auction"] == auction
                            ]
                        )
                    )
                    for source in _SOURCES
                ],
            )
            for auction, style in styles.items()
        ]
        for target in TARGETS
    }
    return dot_plot(list(_SOURCES), panels, "WAPE, %", width=9, row_height=0.4)


def _bidders(
    prices: NDArray[np.float64], names: list[str]
) -> Iterator[tuple[str, NDArray[np.float64], float]]:
    """Yield the name of each bidder, the chances of its prices, and their median in fen."""
    for counts, name in zip(prices, names, strict=True):
        chances = counts / counts.sum()
        middle = max(int(np.searchsorted(np.cumsum(chances), 0.5)), 1)
        for number in range(_BIDDERS):
            yield f"{name}/{number:02d}", chances, float(middle)


def _errors(rows: dict[str, Any], auction: str, texts: dict[str, str]) -> dict[str, Any]:
    import ibis

    logs = open_logs(ibis.memtable(pa.table(rows)), auction=auction)
    found = evaluate(read_histograms(logs), texts)

    def errors(name: str, target: str) -> dict[str, float | None]:
        gap, measures = found.difference(DEFAULT, name, target), found.measures(name, target)
        return {
            "wape": measures.wape,
            "bias": measures.bias,
            "difference": gap.difference,
            "error": gap.standard_error,
        }

    return {target: {name: errors(name, target) for name in _SOURCES} for target in TARGETS}
