"""How well a win curve is estimated when lost auctions hide their price, on iPinYou's prices.

The full histogram of an advertiser's market prices is the truth, W(b) = P(price ≤ b). A bidder
is made up who sees less: it bids b, pays the price where price ≤ b, and learns of the other
auctions only that their price was above its bid. From what it saw, W is estimated in three ways:

================  ================================================================================
kaplan_meier      the library's curve: wins tell prices, losses tell what prices are above
paid              the naive ratio: wins with a price ≤ b over all wins; losses are forgotten
isotonic          the share of bids won in each bin of the bid, made monotone; prices are forgotten
================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import evidence_of, own_curves
from coterie.ads.histograms.bid_histograms import BidCells, BidHistograms, PriceCells
from coterie.ads.histograms.ipinyou import FEN, price_edges
from coterie.ads.histograms.public_data import read_columns

__all__ = [
    "ESTIMATES",
    "LAWS",
    "SIZES",
    "BidLaw",
    "curve_errors",
    "estimates",
    "run_ipinyou",
    "seen_by_bidder",
]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

ESTIMATES = ("kaplan_meier", "paid", "isotonic")
SIZES = (100, 1_000, 10_000, 100_000)
_FOLLOWING = 10_000
_DRAWN = 1_000


@dataclass(frozen=True)
class BidLaw:
    """How the made-up bidder bids, whatever the price: uniformly, or log-normally.

    Attributes
    ----------
    name : str
    centre : float or None
        The median bid, as a multiple of the median price; None is uniform over all prices.
    spread : float
        The standard deviation of the bid's logarithm.
    """

    name: str
    centre: float | None = None
    spread: float = 0.0

    def probabilities(self, prices: NDArray[Any]) -> Floats:
        """Of the bids 0, 1, …, P−1 fen, (P,), from counts of the market prices; never 0 fen.

        >>> BidLaw("anywhere").probabilities(np.array([5, 3, 2])).tolist()
        [0.0, 0.5, 0.5]
        """
        bids = np.arange(1, len(prices))
        if self.centre is None:
            density = np.ones(len(bids))
        else:
            middle = self.centre * max(median_price(prices), 1)
            density = np.exp(-0.5 * (np.log(bids / middle) / self.spread) ** 2) / bids
        return np.concatenate([[0.0], density / density.sum()])


LAWS = (
    BidLaw("anywhere"),
    BidLaw("around the median price", 1.0, 0.5),
    BidLaw("around half the median price", 0.5, 0.3),
)


def median_price(prices: NDArray[Any]) -> int:
    """The least price that half of the auctions do not exceed.

    >>> median_price(np.array([1, 0, 3]))
    2
    """
    return int(np.searchsorted(np.cumsum(prices), np.sum(prices) / 2))


def seen_by_bidder(pairs: Counts) -> BidHistograms:
    """What bidders see of their auctions, as the histograms of a second-price log.

    Parameters
    ----------
    pairs : (S, P, P) int array
        For each of S bidders, auctions with market price p (rows) and bid b (columns), in fen.

    Returns
    -------
    BidHistograms
        One "advertiser" a bidder; auctions with p ≤ b are won and reveal p.
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
    """The three estimates of W at every price of the grid, (S, P) each."""
    counts = seen.dense()
    paid = np.cumsum(counts.prices, axis=1)
    return {
        "kaplan_meier": own_curves(evidence_of(seen)),
        "paid": np.divide(paid, paid[:, -1:], out=np.zeros_like(paid), where=paid[:, -1:] > 0),
        "isotonic": own_curves(evidence_of(replace(seen, revealed="none"))),
    }


def curve_errors(
    curves: Floats, truth: Floats, largest_bid: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """The largest and the mean of |estimate − truth|, over the prices up to the largest bid.

    Parameters
    ----------
    curves : (S, P) array
    truth : (P,) array
    largest_bid : (S,) int array
        In fen. Beyond it nothing was tried, and no estimate can know.

    Returns
    -------
    worst, mean : (S,) arrays

    Examples
    --------
    >>> worst, mean = curve_errors(np.array([[0.25, 1, 1]]), np.array([0, 0.5, 1]), np.array([1]))
    >>> worst.tolist(), mean.tolist()
    ([0.5], [0.375])
    """
    within = np.arange(len(truth)) <= largest_bid[:, None]
    gap = np.where(within, np.abs(curves - truth), 0.0)
    return gap.max(axis=1), gap.sum(axis=1) / within.sum(axis=1)


def run_ipinyou(
    histograms: BidHistograms,
    industries: Mapping[str, str],
    rows: Path | None = None,
    *,
    seeds: int = 20,
    sizes: Sequence[int] = SIZES,
    after_advertiser: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Errors of the three estimates for every advertiser, law of bids and number of auctions.

    Parameters
    ----------
    histograms : BidHistograms
        In which nothing is hidden, as
        :func:`~coterie.ads.histograms.ipinyou.load_ipinyou_histograms` gives.
    industries : mapping of str to str
    rows : Path, optional
        Single impressions with a predicted click rate, for bids that follow it.
    seeds : int
        Bidders made up for each cell.
    sizes : sequence of int
        Numbers of auctions.
    after_advertiser : callable, optional
        Called when an advertiser is done.

    Returns
    -------
    dict
        ``cells``: one for each advertiser, law and size; ``following``: the bids that follow
        the click rate; ``curves``: for a picture, one bidder of each advertiser.
    """
    prices = histograms.dense().prices
    truths = own_curves(evidence_of(histograms))
    cells: list[dict[str, Any]] = []
    pictures: dict[str, dict[str, Any]] = {}
    advertisers = []
    for a, name in enumerate(histograms.advertisers.tolist()):
        advertisers.append(
            {
                "advertiser": name,
                "industry": industries.get(name, ""),
                "auctions": int(prices[a].sum()),
                "median_price": median_price(prices[a]),
            }
        )
        rng = np.random.default_rng([a, seeds])
        for law in LAWS:
            for n in sizes:
                pairs = _drawn(prices[a], law, n, seeds, rng)
                cells.append(
                    {"advertiser": name, "law": law.name, "auctions": n, **_cell(pairs, truths[a])}
                )
        pictures[name] = _picture(prices[a], truths[a], min(_DRAWN, max(sizes)), rng)
        if after_advertiser is not None:
            after_advertiser()
    return {
        "advertisers": advertisers,
        "laws": [{"name": w.name, "centre": w.centre, "spread": w.spread} for w in LAWS],
        "seeds": seeds,
        "sizes": list(sizes),
        "cells": cells,
        "following": [] if rows is None else list(_following(rows, seeds)),
        "curves": pictures,
    }


def _drawn(
    prices: Floats, law: BidLaw, n: int, seeds: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Auctions by price and bid, (seeds, P, P): n independent pairs for each seed."""
    chances = np.outer(prices / prices.sum(), law.probabilities(prices))
    return rng.multinomial(n, chances.ravel(), size=seeds).reshape(seeds, *chances.shape)


def _cell(pairs: Counts, truth: Floats) -> dict[str, Any]:
    """Errors of every estimate, as mean and standard error over the bidders."""
    bids = pairs.sum(axis=1)
    largest = bids.shape[1] - 1 - np.argmax(bids[:, ::-1] > 0, axis=1)
    seen = seen_by_bidder(pairs)
    found = {}
    for name, curves in estimates(seen).items():
        worst, mean = curve_errors(curves, truth, largest)
        found[name] = {"worst": _mean_and_error(worst), "mean": _mean_and_error(mean)}
    return {
        "win_rate": float(seen.dense().wins.sum() / bids.sum()),
        "largest_bid": float(largest.mean()),
        "errors": found,
    }


def _mean_and_error(values: Floats) -> dict[str, float | None]:
    se = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "se": se}


def _picture(prices: Floats, truth: Floats, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """The curves of one bidder around the median price, and how far it bid."""
    pairs = _drawn(prices, LAWS[1], n, 1, rng)
    largest = int(np.flatnonzero(pairs.sum(axis=(0, 1)))[-1])
    drawn = {name: curves[0].tolist() for name, curves in estimates(seen_by_bidder(pairs)).items()}
    return {"auctions": n, "largest_bid": largest, "truth": truth.tolist(), **drawn}


def _following(path: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Cells in which bids follow the predicted click rate, and the same bids dealt at random.

    A bid is the median price times the click rate over its median. Prices rise with the click
    rate too, so losses no longer tell of prices what Kaplan and Meier take them to tell.
    """
    table = read_columns(path, {"advertiser": "string", "market_price": "int64", "pctr": "float64"})
    for name in np.unique(table["advertiser"].astype(str)).tolist():
        of_it = table["advertiser"] == name
        price, rate = table["market_price"][of_it], table["pctr"][of_it]
        counts = np.bincount(price)
        truth = np.cumsum(counts) / counts.sum()
        scaled = median_price(counts) * rate / np.median(rate)
        bid = np.clip(np.rint(scaled), 1, len(counts) - 1).astype(np.int64)
        n, rng = min(_FOLLOWING, len(price)), np.random.default_rng(0)
        chosen = [rng.choice(len(price), n, replace=False) for _ in range(seeds)]
        for law, bids in (
            ("following the click rate", [bid[rows] for rows in chosen]),
            ("the same bids at random", [rng.permutation(bid[rows]) for rows in chosen]),
        ):
            pairs = np.stack(
                [_paired(price[rows], b, len(counts)) for rows, b in zip(chosen, bids, strict=True)]
            )
            yield {
                "advertiser": name,
                "law": law,
                "auctions": n,
                "rank_correlation": _rank_correlation(price[np.hstack(chosen)], np.hstack(bids)),
                **_cell(pairs, truth),
            }


def _rank_correlation(prices: Counts, bids: Counts) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(prices, bids).statistic)


def _paired(prices: Counts, bids: Counts, n_prices: int) -> Counts:
    return np.bincount(prices * n_prices + bids, minlength=n_prices**2).reshape(n_prices, n_prices)
