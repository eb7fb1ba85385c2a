"""The iPinYou market prices: all that a log could tell of nine advertisers' auctions."""

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
    """The market-price histograms of nine advertisers of the iPinYou contest (2013).

    They count the training impressions of seasons 2 and 3 by the price paid, the highest
    competing bid. Every impression was won, so nothing is censored (``revealed="minimum"``);
    what was bid is not told, and each auction stands in the histograms with the least bid that
    would have won it. Auctions that the contest's own bidder lost are not in the data: a win
    rate is among those it won.

    Parameters
    ----------
    folder : path, optional
        The folder with ``ipinyou_market_price/market_price_hist.csv`` and ``advertisers.csv``;
        by default the one that the environment variable ``COTERIE_DATA`` names, or the cache.

    Returns
    -------
    histograms : BidHistograms
        One bin a fen of CPM; one day, the first of season 2, as the files do not tell days
        apart. Clicks are known by advertiser alone, and spread evenly.
    industries : dict of str to str
        By advertiser id, the only public text on them.

    Raises
    ------
    DatasetUnavailableError
        If the files are not there; the message says how to get them.
    TableError
        If they are damaged, or do not agree with each other.
    """
    prices_path, advertisers_path = files_of(IPINYOU, folder, IPINYOU.files[:2])
    table = read_columns(prices_path)
    about = read_columns(
        advertisers_path,
        {
            "advertiser": "string",
            "industry": "string",
            "imp_train": "int64",
            "cost_train": "int64",
            "clk_train": "int64",
        },
    )
    order = np.argsort(about["advertiser"].astype(str))
    advertisers = about["advertiser"].astype(str)[order]
    counts = _checked_counts(prices_path, table, advertisers)
    _refuse_other_totals(advertisers_path, about, order, counts)
    histograms = price_histograms(advertisers, counts, about["clk_train"][order])
    return histograms, dict(zip(advertisers.tolist(), about["industry"][order], strict=True))


def price_edges(n_prices: int) -> NDArray[np.int64]:
    """Edges of a grid with one bin for each of the prices 0, 1, 2, … fen, in micros.

    The first edge is one micro: a grid is of bids, and no bid is 0.

    >>> price_edges(3).tolist()
    [1, 10000, 20000]
    """
    return np.maximum(np.arange(n_prices, dtype=np.int64) * FEN, 1)


def price_histograms(
    advertisers: ArrayLike, counts: ArrayLike, clicks: ArrayLike | None = None
) -> BidHistograms:
    """Counts of market prices in fen as bid histograms in which nothing is hidden.

    Parameters
    ----------
    advertisers : (A,) array-like of str
        Sorted.
    counts : (A, P) array-like
        Auctions whose market price is 0, 1, …, P−1 fen.
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
    """Counts by advertiser and price, (A, P)."""
    wanted = {"price"} | {f"{_PREFIX}{name}" for name in advertisers}
    if set(table) != wanted:
        missing, unknown = sorted(wanted - set(table)), sorted(set(table) - wanted)
        raise TableError(
            f"{path} does not have the columns of the advertisers beside it: "
            f"{missing or 'none'} missing, {unknown or 'none'} unknown; get both files again"
        )
    for name, values in table.items():
        whole = [isinstance(v, int | float) and v >= 0 and v % 1 == 0 for v in values.tolist()]
        wrong = np.flatnonzero(~np.array(whole))
        if len(wrong):
            raise TableError(
                f"{path}, column {name!r}, row {wrong[0]}: {values[wrong[0]]}; all must be whole "
                "numbers from 0 up; get the file again"
            )
    if not np.array_equal(table["price"], np.arange(len(table["price"]))):
        raise TableError(f"{path}, column 'price': it must count 0, 1, 2, …; get the file again")
    return np.stack([table[f"{_PREFIX}{name}"] for name in advertisers]).astype(np.int64)


def _refuse_other_totals(
    path: Path, about: dict[str, Any], order: NDArray[np.intp], counts: NDArray[np.int64]
) -> None:
    """Impressions and cost of each advertiser are told in both files and must agree."""
    prices = np.arange(counts.shape[1])
    for name, totals in (("imp_train", counts.sum(axis=1)), ("cost_train", counts @ prices)):
        told = about[name][order]
        wrong = np.flatnonzero(told != totals)
        if len(wrong):
            raise TableError(
                f"{path}, column {name!r}, advertiser {about['advertiser'][order][wrong[0]]}: "
                f"{told[wrong[0]]}, but the price histogram says {totals[wrong[0]]}; get both "
                "files again"
            )
