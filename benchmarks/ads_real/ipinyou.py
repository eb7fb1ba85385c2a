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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.results import Marks, Table, add_legend, best_cells, line_plot, standard_error
from coterie.ads.curves.landscapes import evidence_of, own_curves
from coterie.ads.histograms.bid_histograms import BidCells, BidHistograms, PriceCells
from coterie.ads.histograms.ipinyou import (
    FEN,
    IPINYOU,
    files_of,
    load_ipinyou_histograms,
    price_edges,
    read_columns,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

TITLES = {"kaplan_meier": "Kaplan–Meier", "paid": "paid prices", "isotonic": "isotonic"}
_COLOURS = {"kaplan_meier": "blue", "paid": "vermilion", "isotonic": "green"}


@dataclass(frozen=True)
class BidLaw:
    """How the simulated bidder bids, independent of the price.

    ``centre`` is the median bid as a multiple of the median price, with a log-normal ``spread``;
    None means uniform over all prices.
    """

    name: str
    centre: float | None = None
    spread: float = 0.0

    def probabilities(self, prices: NDArray[Any]) -> Floats:
        """Return those of the bids 0, 1, …, P−1 fen, (P,), from counts of the market prices.

        >>> BidLaw("anywhere").probabilities(np.array([5, 3, 2])).tolist()
        [0.0, 0.5, 0.5]
        """
        bids = np.arange(1, len(prices))
        density = np.ones(len(bids))
        if self.centre is not None:
            middle = self.centre * max(median_price(prices), 1)
            density = np.exp(-0.5 * (np.log(bids / middle) / self.spread) ** 2) / bids
        return np.concatenate([[0.0], density / density.sum()])


LAWS = (
    BidLaw("anywhere"),
    BidLaw("around the median price", 1.0, 0.5),
    BidLaw("around half the median price", 0.5, 0.3),
)


def measure(context: Context) -> dict[str, Any]:
    """Return the errors for every advertiser, law of bids and number of auctions."""
    histograms, industries = load_ipinyou_histograms(context.data)
    impressions = files_of(IPINYOU, context.data)[2]
    sizes = (100, 1_000, 10_000) if context.quick else (100, 1_000, 10_000, 100_000)
    return errors_of(histograms, industries, impressions, 3 if context.quick else 20, sizes)


def errors_of(
    histograms: BidHistograms,
    industries: dict[str, str],
    impressions: Path | None,
    seeds: int,
    sizes: Sequence[int],
) -> dict[str, Any]:
    """Draw ``seeds`` bidders for each cell and return mean errors, and curves for the picture."""
    prices = histograms.dense().prices
    truths = own_curves(evidence_of(histograms))
    advertisers, cells, curves = [], [], {}
    for a, name in enumerate(histograms.advertisers.tolist()):
        about = {"advertiser": name, "industry": industries.get(name, "")}
        auctions, middle = int(prices[a].sum()), median_price(prices[a])
        advertisers.append({**about, "auctions": auctions, "median_price": middle})
        rng = np.random.default_rng([a, seeds])
        for law in LAWS:
            for n in sizes:
                found = _cell(_draw_pairs(prices[a], law, n, seeds, rng), truths[a])
                cells.append({"advertiser": name, "law": law.name, "auctions": n, **found})
        curves[name] = _one_bidder(prices[a], truths[a], min(1_000, max(sizes)), rng)
    return {
        "advertisers": advertisers,
        "laws": [asdict(law) for law in LAWS],
        "seeds": seeds,
        "sizes": list(sizes),
        "cells": cells,
        "following": [] if impressions is None else list(_following(impressions, seeds)),
        "curves": curves,
    }


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
    n_bidders, n_prices = pairs.shape[:2]
    won = np.where(np.triu(np.ones((n_prices, n_prices), dtype=bool)), pairs, 0)
    fen = np.arange(n_prices, dtype=np.float64) * FEN
    bids, wins = pairs.sum(axis=1), won.sum(axis=1)
    paid, cost = won.sum(axis=2), np.einsum("spb,p->sb", won, fen)
    bidder, bid = np.nonzero(bids)
    payer, price = np.nonzero(paid)
    number, nothing = bids[bidder, bid].astype(np.float64), np.zeros(len(bid))
    revealed = paid[payer, price].astype(np.float64)
    return BidHistograms(
        advertisers=np.array([f"{s:04d}" for s in range(n_bidders)]),
        days=np.array(["2013-06-06"], dtype="datetime64[D]"),
        edges=price_edges(n_prices),
        auction="second",
        revealed="paid",
        bids=BidCells(
            advertiser=bidder,
            day=np.zeros(len(bid), dtype=np.int64),
            bin=bid,
            count=number,
            square=number,
            bid=number * fen[bid],
            wins=wins[bidder, bid].astype(np.float64),
            cost=cost[bidder, bid],
            clicks=nothing,
            conversions=nothing,
        ),
        prices=PriceCells(
            payer, np.zeros(len(price), dtype=np.int64), price, revealed, revealed * fen[price]
        ),
        currency="CNY",
    )


def estimates(seen: BidHistograms) -> dict[str, Floats]:
    """Return the three estimates of W at every price of the grid, (S, P) each."""
    paid = np.cumsum(seen.dense().prices, axis=1)
    return {
        "kaplan_meier": own_curves(evidence_of(seen)),
        "paid": np.divide(paid, paid[:, -1:], out=np.zeros_like(paid), where=paid[:, -1:] > 0),
        "isotonic": own_curves(evidence_of(replace(seen, revealed="none"))),
    }


def curve_errors(curves: Floats, truth: Floats, largest_bid: Counts) -> tuple[Floats, Floats]:
    """Return the largest and the mean |estimate − truth| up to the largest bid, (S,) each.

    ``curves`` (S, P), ``truth`` (P,); ``largest_bid`` (S,) in fen: nothing is known beyond it.

    >>> worst, mean = curve_errors(np.array([[0.25, 1, 1]]), np.array([0, 0.5, 1]), np.array([1]))
    >>> worst.tolist(), mean.tolist()
    ([0.5], [0.375])
    """
    within = np.arange(len(truth)) <= largest_bid[:, None]
    gap = np.where(within, np.abs(curves - truth), 0.0)
    return gap.max(axis=1), gap.sum(axis=1) / within.sum(axis=1)


def tables(data: dict[str, Any]) -> list[Table]:
    """Return errors by advertiser, by number of auctions, and for bids that follow the price."""
    n = 10_000 if 10_000 in data["sizes"] else max(data["sizes"])
    industry = {about["advertiser"]: about["industry"] for about in data["advertisers"]}
    means = [
        {"law": law["name"], "auctions": size, "errors": _mean_errors(data, law["name"], size)}
        for law in data["laws"]
        for size in data["sizes"]
    ]
    texts: dict[str, Callable[[Any], str]] = {
        "advertiser": lambda c: f"{c['advertiser']} {industry[c['advertiser']]}",
        "bids": lambda c: str(c["law"]),
        "auctions": lambda c: f"{c['auctions']:,}",
        "rank correlation": lambda c: f"{round(c['rank_correlation'], 2) + 0.0:.2f}",
        "won": lambda c: f"{c['win_rate']:.0%}",
    }
    return [
        _error_table(f"iPinYou: {title}", cells, {name: texts[name] for name in named})
        for title, cells, named in (
            (f"error of the win curve from {n:,} auctions, mean ± standard error",
             [cell for cell in data["cells"] if cell["auctions"] == n],
             ("advertiser", "bids", "won")),
            (f"error of the win curve, mean over {len(industry)} advertisers", means,
             ("bids", "auctions")),
            ("bids that follow the click rate, and the same bids at random", data["following"],
             ("advertiser", "bids", "rank correlation", "won")),
        )
    ]  # fmt: skip


def plot(data: dict[str, Any]) -> Figure:
    """Draw, for each advertiser, the true win curve and three estimates of it."""
    styles = {"truth": ("all prices", "black", "")}
    styles |= {name: (title, _COLOURS[name], "") for name, title in TITLES.items()}
    panels = {}
    for about in data["advertisers"]:
        drawn = data["curves"][about["advertiser"]]
        panels[f"{about['advertiser']} {about['industry']}"] = [
            Marks(*style, range(len(drawn[name])), drawn[name], settings=_step(name))
            for name, style in styles.items()
        ]
    size = (9.5, 0.6 + 2.5 * -(-len(panels) // 3))
    figure, all_axes = line_plot(
        panels, size, n_columns=3, sharex=True, sharey=True, ylim=(0, 1.02)
    )
    for axes, drawn in zip(all_axes, data["curves"].values(), strict=False):
        axes.axvspan(drawn["largest_bid"], len(drawn["truth"]) - 1, color="#f4f4f4", zorder=0)
        axes.set_xlim(0, len(drawn["truth"]) - 1)
    figure.supxlabel("bid, fen CPM (grey: above the largest bid made)", fontsize=9)
    label = f"share of auctions won; {drawn['auctions']:,} auctions seen"
    figure.supylabel(label, fontsize=9)
    add_legend(figure, "outside upper center")
    return figure


def _step(name: str) -> dict[str, Any]:
    return {"drawstyle": "steps-post", "linewidth": 2 if name == "truth" else 1.2}


def _draw_pairs(
    prices: Floats, law: BidLaw, n: int, seeds: int, rng: np.random.Generator
) -> Counts:
    """Draw n independent (price, bid) pairs for each seed, counted as (seeds, P, P)."""
    chances = np.outer(prices / prices.sum(), law.probabilities(prices))
    return rng.multinomial(n, chances.ravel(), size=seeds).reshape(seeds, *chances.shape)


def _cell(pairs: Counts, truth: Floats) -> dict[str, Any]:
    """Return the errors of every estimate, as mean and standard error over the bidders."""
    bids = pairs.sum(axis=1)
    largest = bids.shape[1] - 1 - np.argmax(bids[:, ::-1] > 0, axis=1)
    seen = seen_by_bidder(pairs)
    errors = {
        name: {
            kind: {"mean": float(np.mean(values)), "se": standard_error(values.tolist())}
            for kind, values in zip(
                ("worst", "mean"), curve_errors(curves, truth, largest), strict=True
            )
        }
        for name, curves in estimates(seen).items()
    }
    return {
        "win_rate": float(seen.dense().wins.sum() / bids.sum()),
        "largest_bid": float(largest.mean()),
        "errors": errors,
    }


def _one_bidder(prices: Floats, truth: Floats, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the curves of one bidder around the median price, for the picture."""
    pairs = _draw_pairs(prices, LAWS[1], n, 1, rng)
    largest = int(np.flatnonzero(pairs.sum(axis=(0, 1)))[-1])
    found = {name: curves[0].tolist() for name, curves in estimates(seen_by_bidder(pairs)).items()}
    return {"auctions": n, "largest_bid": largest, "truth": truth.tolist(), **found}


def _following(path: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield cells in which bids follow the predicted click rate, and the same bids at random.

    A bid is the median price times the click rate over its median. Prices rise with the click rate
    too, so bids and prices are dependent, which Kaplan–Meier assumes they are not.
    """
    from scipy.stats import spearmanr

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
            pairs = np.stack(
                [
                    np.bincount(price[rows] * P + b, minlength=P**2).reshape(P, P)
                    for rows, b in zip(chosen, bids, strict=True)
                ]
            )
            correlation = spearmanr(price[np.hstack(chosen)], np.hstack(bids)).statistic
            yield {
                "advertiser": name,
                "law": law,
                "auctions": n,
                "rank_correlation": float(correlation),
                **_cell(pairs, np.cumsum(counts) / counts.sum()),
            }


def _error_table(
    title: str, cells: Sequence[dict[str, Any]], named: dict[str, Callable[[Any], str]]
) -> Table:
    """Return largest and mean errors of the three estimates; the smallest of each in bold."""
    columns, bold = dict(named), set()
    for kind, word in (("worst", "largest"), ("mean", "mean")):
        figures = [[cell["errors"][name][kind]["mean"] for name in TITLES] for cell in cells]
        bold |= best_cells(figures, len(columns), lowest=True)
        for name, estimate in TITLES.items():
            columns[f"{word}, {estimate}"] = partial(_with_error, name=name, kind=kind)
    return Table.of(title, cells, columns, n_named=len(named), bold=bold)


def _with_error(cell: dict[str, Any], name: str, kind: str) -> str:
    value = cell["errors"][name][kind]
    return f"{value['mean']:.3f}" + ("" if value["se"] is None else f" ± {value['se']:.3f}")


def _mean_errors(data: dict[str, Any], law: str, auctions: int) -> dict[str, Any]:
    alike = [c["errors"] for c in data["cells"] if (c["law"], c["auctions"]) == (law, auctions)]

    def mean(name: str, kind: str) -> dict[str, Any]:
        return {
            "mean": float(np.mean([errors[name][kind]["mean"] for errors in alike])),
            "se": None,
        }

    return {name: {kind: mean(name, kind) for kind in ("worst", "mean")} for name in TITLES}
