"""Error of a win curve when lost auctions hide their price, on the prices of iPinYou.

The full histogram of an advertiser's market prices is the truth, W(b) = P(price ≤ b). A simulated
bidder sees less: it bids b, pays the price where price ≤ b, and learns of the other auctions only
that their price was above its bid. From this, W is estimated in three ways:

================  ================================================================================
kaplan_meier      the library's curve: wins reveal prices, losses reveal what prices exceed
paid              wins with a price ≤ b over all wins; losses are ignored
isotonic          the share of bids won in each bin of the bid, made monotone; prices are ignored
================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks.harness import Context
from benchmarks.results import (
    Marks,
    Table,
    add_legend,
    best_cells,
    line_plot,
    score_text,
    standard_error,
)
from coterie.ads import load_ipinyou_histograms
from coterie.ads.curves.landscapes import evidence_of, own_curves
from coterie.ads.histograms.bid_histograms import BidCells, BidHistograms, PriceCells
from coterie.ads.histograms.ipinyou import FEN, IPINYOU, files_of, price_edges, read_columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Median bid as a multiple of the median price, and log-normal spread; None is uniform.
LAWS = {
    "anywhere": None,
    "around the median price": (1.0, 0.5),
    "around half the median price": (0.5, 0.3),
}
TITLES = {"kaplan_meier": "Kaplan–Meier", "paid": "paid prices", "isotonic": "isotonic"}
_COLOURS = {"truth": "black", "kaplan_meier": "blue", "paid": "vermilion", "isotonic": "green"}
_STEPS = {"drawstyle": "steps-post", "linewidth": 1.2}


def measure(context: Context) -> dict[str, Any]:
    """Return the errors for every advertiser, law of bids and number of auctions.

    Each cell has 20 bidders, 3 in a quick run; the picture shows one more of each advertiser.
    """
    seeds = 3 if context.quick else 20
    sizes = [100, 1_000, 10_000] if context.quick else [100, 1_000, 10_000, 100_000]
    histograms, industries = load_ipinyou_histograms(context.data)
    prices = histograms.dense().prices
    truths = own_curves(evidence_of(histograms))
    names = {name: f"{name} {industries[name]}" for name in histograms.advertisers.tolist()}
    cells, curves = [], {}
    for a, name in enumerate(names.values()):
        rng = np.random.default_rng([a, seeds])
        for law in LAWS:
            for n in sizes:
                found = _cell(draw_pairs(prices[a], law, n, seeds, rng), truths[a])
                cells.append({"advertiser": name, "law": law, "auctions": n, **found})
        pairs = draw_pairs(prices[a], "around the median price", 1_000, 1, rng)
        drawn = {"truth": truths[a : a + 1], **estimates(seen_by_bidder(pairs))}
        curves[name] = {kind: curve[0].tolist() for kind, curve in drawn.items()}
        curves[name]["largest_bid"] = int(_largest_bids(pairs)[0])
    following = list(_following(files_of(IPINYOU, context.data)[2], names, seeds))
    return {"sizes": sizes, "cells": cells, "following": following, "curves": curves}


def draw_pairs(prices: Floats, law: str, n: int, seeds: int, rng: np.random.Generator) -> Counts:
    """Draw n independent (price, bid) pairs for each seed, counted as (seeds, P, P).

    ``prices`` (P,) counts the market prices 0, 1, …, P−1 fen; a bid is at least 1 fen.
    """
    bids = np.arange(1, len(prices))
    density = np.ones(len(bids))
    parameters = LAWS[law]
    if parameters is not None:
        centre, spread = parameters
        middle = centre * max(median_price(prices), 1)
        density = np.exp(-0.5 * (np.log(bids / middle) / spread) ** 2) / bids
    chances = np.outer(prices / prices.sum(), np.append(0.0, density / density.sum()))
    return rng.multinomial(n, chances.ravel(), size=seeds).reshape(seeds, *chances.shape)


def median_price(prices: NDArray[Any]) -> int:
    """Return the smallest price that half of the auctions do not exceed.

    >>> median_price(np.array([1, 0, 3]))
    2
    """
    return int(np.searchsorted(np.cumsum(prices), np.sum(prices) / 2))


def seen_by_bidder(pairs: Counts) -> BidHistograms:
    """Return what S bidders see of their auctions, as histograms of a second-price log.

    ``pairs`` (S, P, P) counts the auctions with market price p (rows) and bid b (columns), in fen;
    those with p ≤ b are won and reveal p.
    """
    fen = np.arange(pairs.shape[1]) * float(FEN)
    won = np.triu(pairs).astype(np.float64)
    bids, wins, paid = pairs.sum(axis=1).astype(np.float64), won.sum(axis=1), won.sum(axis=2)
    cost = np.einsum("spb,p->sb", won, fen)
    bidder, place = np.indices(bids.shape).reshape(2, -1)
    day = np.zeros(len(place), dtype=np.int64)
    no_events = np.zeros_like(bids)
    sums = [part.ravel() for part in (bids, bids, bids * fen, wins, cost, no_events, no_events)]
    return BidHistograms(
        advertisers=np.array([f"{s:04d}" for s in range(len(pairs))]),
        days=np.array(["2013-06-06"], dtype="datetime64[D]"),
        edges=price_edges(len(fen)),
        auction="second",
        revealed="paid",
        bids=BidCells(bidder, day, place, *sums),
        prices=PriceCells(bidder, day, place, paid.ravel(), (paid * fen).ravel()),
    )


def estimates(seen: BidHistograms) -> dict[str, Floats]:
    """Return the three estimates of W at every price of the grid, (S, P) each."""
    paid = np.cumsum(seen.dense().prices, axis=1)
    return {
        "kaplan_meier": own_curves(evidence_of(seen)),
        "paid": np.divide(paid, paid[:, -1:], out=np.zeros_like(paid), where=paid[:, -1:] > 0),
        "isotonic": own_curves(evidence_of(replace(seen, revealed="none"))),
    }


def tables(data: dict[str, Any]) -> list[Table]:
    """Return errors by advertiser, by number of auctions, and for bids that follow the price."""
    large = [cell for cell in data["cells"] if cell["auctions"] == 10_000]
    means = [
        {"law": law, "auctions": n, "errors": _mean_errors(data["cells"], law, n)}
        for law in LAWS
        for n in data["sizes"]
    ]
    title = "iPinYou: error of the win curve"
    named = {"advertiser": "{advertiser}", "bids": "{law}", "won": "{win_rate:.0%}"}
    return [
        _table(f"{title} from 10,000 auctions, mean ± standard error", large, named),
        _table(
            f"{title}, mean over {len(data['curves'])} advertisers",
            means,
            {"bids": "{law}", "auctions": "{auctions:,}"},
        ),
        _table(
            "iPinYou: bids that follow the click rate, and the same bids at random",
            data["following"],
            {**named, "rank correlation": "{rank_correlation:z.2f}"},
        ),
    ]


def plot(data: dict[str, Any]) -> Figure:
    """Draw, for each advertiser, the true win curve and three estimates of it."""
    labels = {"truth": "all prices", **TITLES}
    panels = {
        name: [
            Marks(label, _COLOURS[kind], "", range(301), drawn[kind], settings=_STEPS)
            for kind, label in labels.items()
        ]
        for name, drawn in data["curves"].items()
    }
    shared: dict[str, Any] = {"sharex": True, "sharey": True, "xlim": (0, 300), "ylim": (0, 1.02)}
    figure, all_axes = line_plot(panels, (9.5, 8.1), n_columns=3, **shared)
    for axes, drawn in zip(all_axes, data["curves"].values(), strict=False):
        axes.axvspan(drawn["largest_bid"], 300, color="#f4f4f4", zorder=0)
    figure.supxlabel("bid, fen CPM (grey: above the largest bid made)", fontsize=9)
    figure.supylabel("share of auctions won; 1,000 auctions seen", fontsize=9)
    add_legend(figure, "outside upper center")
    return figure


def _cell(pairs: Counts, truth: Floats) -> dict[str, Any]:
    """Return the largest and the mean |estimate − truth| up to the largest bid made.

    Nothing is known beyond it. Means and standard errors are over the bidders.
    """
    seen, errors = seen_by_bidder(pairs), {}
    within = np.arange(len(truth)) <= _largest_bids(pairs)[:, None]
    for name, curves in estimates(seen).items():
        gap = np.where(within, np.abs(curves - truth), 0.0)
        kinds = {"worst": gap.max(axis=1), "mean": gap.sum(axis=1) / within.sum(axis=1)}
        errors[name] = {
            kind: {"mean": float(values.mean()), "se": standard_error(values.tolist())}
            for kind, values in kinds.items()
        }
    return {"win_rate": float(seen.bids.wins.sum() / pairs.sum()), "errors": errors}


def _largest_bids(pairs: Counts) -> Counts:
    """Return the largest bid that each bidder made, (S,)."""
    made = pairs.sum(axis=1) > 0
    return made.shape[1] - 1 - np.argmax(made[:, ::-1], axis=1)


def _following(path: Path, names: dict[str, str], seeds: int) -> Iterator[dict[str, Any]]:
    """Yield cells in which bids follow the predicted click rate, and the same bids at random.

    A bid is the median price times the click rate over its median. Prices rise with the click rate
    too, so bids and prices are dependent, which Kaplan–Meier assumes they are not.
    """
    table = read_columns(path, {"advertiser": "string", "market_price": "int64", "pctr": "float64"})
    for name in np.unique(table["advertiser"].astype(str)).tolist():
        of_it = table["advertiser"] == name
        price, rate = table["market_price"][of_it], table["pctr"][of_it]
        counts = np.bincount(price)
        P = len(counts)
        scaled = median_price(counts) * rate / np.median(rate)
        bid = np.clip(np.rint(scaled), 1, P - 1).astype(np.int64)
        n, rng = min(10_000, len(price)), np.random.default_rng(0)
        chosen = [rng.choice(len(price), n, replace=False) for _ in range(seeds)]
        for law, bids in (
            ("following the click rate", [bid[rows] for rows in chosen]),
            ("the same bids at random", [rng.permutation(bid[rows]) for rows in chosen]),
        ):
            pairs = np.zeros((seeds, P, P), dtype=np.int64)
            for seed, rows in enumerate(chosen):
                np.add.at(pairs[seed], (price[rows], bids[seed]), 1)
            correlation = spearmanr(price[np.hstack(chosen)], np.hstack(bids)).statistic
            yield {
                "advertiser": names[name],
                "law": law,
                "auctions": n,
                "rank_correlation": float(correlation),
                **_cell(pairs, np.cumsum(counts) / counts.sum()),
            }


def _table(title: str, cells: Sequence[dict[str, Any]], named: dict[str, str]) -> Table:
    """Return errors of the three estimates, the smallest in bold; ``named`` has formats."""
    columns = {word: [text.format(**cell) for cell in cells] for word, text in named.items()}
    bold = set()
    for kind, word in (("worst", "largest"), ("mean", "mean")):
        errors = [[cell["errors"][name][kind] for name in TITLES] for cell in cells]
        figures = [[error["mean"] for error in row] for row in errors]
        bold |= best_cells(figures, len(columns), lowest=True)
        for column, estimate in enumerate(TITLES.values()):
            columns[f"{word}, {estimate}"] = [score_text(row[column]) for row in errors]
    rows = list(zip(*columns.values(), strict=True))
    return Table(title, list(columns), rows, n_named=len(named), bold=bold)


def _mean_errors(cells: Sequence[dict[str, Any]], law: str, auctions: int) -> dict[str, Any]:
    """Return the errors of cells, averaged over the advertisers."""
    alike = [c["errors"] for c in cells if (c["law"], c["auctions"]) == (law, auctions)]

    def mean(name: str, kind: str) -> dict[str, Any]:
        return {"mean": float(np.mean([e[name][kind]["mean"] for e in alike])), "se": None}

    return {name: {kind: mean(name, kind) for kind in ("worst", "mean")} for name in TITLES}
