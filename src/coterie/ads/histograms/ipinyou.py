"""iPinYou: market-price histograms of nine advertisers of the contest of 2013."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.ads.histograms.bid_histograms import BidCells, BidHistograms, PriceCells
from coterie.ads.histograms.public_data import IPINYOU, files_of, read_columns
from coterie.errors import InvalidParameterError, TableError

__all__ = ["FEN", "load_ipinyou_histograms", "price_edges", "price_histograms"]

#: One fen per thousand impressions, in micros of CNY.
FEN = 10_000
_DAY = "2013-06-06"
_PREFIX = "adv"


def load_ipinyou_histograms(
    folder: str | os.PathLike[str] | None = None,
) -> tuple[BidHistograms, dict[str, str]]:
    """Load the market-price histograms of nine advertisers of the iPinYou contest (2013).

    They count the training impressions of seasons 2 and 3 by the price paid, which is the highest
    competing bid. Every impression was won, so nothing is censored (``revealed="minimum"``). The
    data have no bids; each auction is counted with the smallest bid that would have won it.
    Auctions that the contest's bidder lost are missing: win rates are among those it won.

    Parameters
    ----------
    folder : path, optional
        The folder with ``ipinyou_market_price/market_price_hist.csv`` and ``advertisers.csv``;
        by default that of the environment variable ``COTERIE_DATA``, or the cache.

    Returns
    -------
    histograms : BidHistograms
        One bin per fen of CPM; one day, the first of season 2, because the files have no days.
        Clicks are known only by advertiser, and are spread evenly.
    industries : dict of str to str
        By advertiser id; the only public text about them.

    Raises
    ------
    DatasetUnavailableError
        The files are missing; the message says how to get them.
    TableError
        The files are damaged or contradict each other.
    """
    prices_path, advertisers_path = files_of(IPINYOU, folder, IPINYOU.files[:2])
    table = read_columns(prices_path)
    columns = dict.fromkeys(("advertiser", "industry"), "string")
    columns |= dict.fromkeys(("imp_train", "cost_train", "clk_train"), "int64")
    about = read_columns(advertisers_path, columns)
    order = np.argsort(about["advertiser"].astype(str))
    advertisers = about["advertiser"].astype(str)[order]
    counts = _checked_counts(prices_path, table, advertisers)
    _refuse_other_totals(advertisers_path, about, order, counts)
    histograms = price_histograms(advertisers, counts, about["clk_train"][order])
    return histograms, dict(zip(advertisers.tolist(), about["industry"][order], strict=True))


def price_edges(n_prices: int) -> NDArray[np.int64]:
    """Return the edges, in micros, of a grid with one bin for each price 0, 1, 2, … fen.

    The first edge is one micro, because a bid is above 0.

    >>> price_edges(3).tolist()
    [1, 10000, 20000]
    """
    return np.maximum(np.arange(n_prices, dtype=np.int64) * FEN, 1)


def price_histograms(
    advertisers: ArrayLike, counts: ArrayLike, clicks: ArrayLike | None = None
) -> BidHistograms:
    """Convert counts of market prices in fen to bid histograms without censoring.

    Parameters
    ----------
    advertisers : (A,) array-like of str
        Sorted.
    counts : (A, P) array-like
        Number of auctions with a market price of 0, 1, …, P−1 fen.
    clicks : (A,) array-like, optional

    Examples
    --------
    >>> from coterie.ads.curves.landscapes import evidence_of, own_curves
    >>> own_curves(evidence_of(price_histograms(["a"], [[0, 3, 1]]))).tolist()
    [[0.0, 0.75, 1.0]]
    """
    names, n = np.asarray(advertisers, dtype=np.str_), np.asarray(counts, dtype=np.float64)
    if n.ndim != 2 or len(n) != len(names):
        raise InvalidParameterError(
            f"counts has shape {n.shape}; it needs one row for each of {len(names)} advertisers"
        )
    advertiser, price = np.nonzero(n)
    number, day = n[advertiser, price], np.zeros(len(price), dtype=np.int64)
    paid = number * price * FEN
    rate = np.zeros(len(names))
    if clicks is not None:
        np.divide(np.asarray(clicks, np.float64), n.sum(axis=1), out=rate, where=n.any(axis=1))
    return BidHistograms(
        advertisers=names,
        days=np.array([_DAY], dtype="datetime64[D]"),
        edges=price_edges(n.shape[1]),
        auction="second",
        revealed="minimum",
        bids=BidCells(
            advertiser=advertiser,
            day=day,
            bin=price,
            count=number,
            square=number,
            bid=paid,
            wins=number,
            cost=paid,
            clicks=number * rate[advertiser],
            conversions=np.zeros_like(number),
        ),
        prices=PriceCells(advertiser, day, price, number, paid),
        currency="CNY",
    )


def _checked_counts(
    path: Path, table: dict[str, Any], advertisers: NDArray[np.str_]
) -> NDArray[np.int64]:
    """Return the counts by advertiser and price, (A, P)."""
    wanted = {"price"} | {f"{_PREFIX}{name}" for name in advertisers}
    if set(table) != wanted:
        missing, unknown = sorted(wanted - set(table)), sorted(set(table) - wanted)
        raise TableError(
            f"{path}: the columns do not match the advertisers: {missing or 'none'} missing, "
            f"{unknown or 'none'} unknown; get both files again"
        )
    for name, values in table.items():
        whole = [isinstance(v, int | float) and v >= 0 and v % 1 == 0 for v in values.tolist()]
        wrong = np.flatnonzero(~np.array(whole))
        if len(wrong):
            raise TableError(
                f"{path}, column {name!r}, row {wrong[0]}: {values[wrong[0]]} is not a "
                "whole number from 0 up; get the file again"
            )
    if not np.array_equal(table["price"], np.arange(len(table["price"]))):
        raise TableError(f"{path}, column 'price': it must count 0, 1, 2, …; get the file again")
    return np.stack([table[f"{_PREFIX}{name}"] for name in advertisers]).astype(np.int64)


def _refuse_other_totals(
    path: Path, about: dict[str, Any], order: NDArray[np.intp], counts: NDArray[np.int64]
) -> None:
    """Require that both files agree on the impressions and cost of each advertiser."""
    prices = np.arange(counts.shape[1])
    for name, totals in (("imp_train", counts.sum(axis=1)), ("cost_train", counts @ prices)):
        given = about[name][order]
        wrong = np.flatnonzero(given != totals)
        if len(wrong):
            raise TableError(
                f"{path}, column {name!r}, advertiser {about['advertiser'][order][wrong[0]]}: "
                f"{given[wrong[0]]}, but the price histogram has {totals[wrong[0]]}; get both "
                "files again"
            )
