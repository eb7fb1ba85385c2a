"""iPinYou: market-price histograms of nine advertisers of the contest of 2013.

The licences of public advertising data do not allow this package to include or download them.
Files are searched as ``<folder>/<dataset>/<file>`` in the folder of the environment variable
``COTERIE_DATA`` and in the cache.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coterie.ads.histograms.bid_histograms import BidCells, BidHistograms, PriceCells, compact
from coterie.arrays import Ints
from coterie.datasets.loading import data_folders
from coterie.errors import DatasetUnavailableError, InvalidParameterError, TableError

#: One fen per thousand impressions, in micros of CNY.
FEN = 10_000
_DAY = "2013-06-06"
_PREFIX = "adv"


@dataclass(frozen=True)
class PublicData:
    """A public dataset: the name of its folder, its files, and how to get them."""

    name: str
    files: tuple[str, ...]
    how_to_get: str


IPINYOU = PublicData(
    "ipinyou_market_price",
    ("market_price_hist.csv", "advertisers.csv", "rows_1458_2997.csv.gz"),
    "count the prices paid in the iPinYou contest data (ipinyou.contest.dataset, prepared by the "
    "GitHub repository wnzhang/make-ipinyou-data), or take the counts in data/ipinyou-data of "
    "the GitHub repository han-cai/rlb-dp",
)


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
    wanted = {"price"} | {f"{_PREFIX}{name}" for name in advertisers}
    if set(table) != wanted:
        missing, unknown = sorted(wanted - set(table)), sorted(set(table) - wanted)
        raise TableError(
            f"{prices_path}: the columns do not match the advertisers: {missing or 'none'} "
            f"missing, {unknown or 'none'} unknown; get both files again"
        )
    for name, values in table.items():
        bad = np.flatnonzero([not _is_count(value) for value in values.tolist()])
        if len(bad):
            raise TableError(
                f"{prices_path}, column {name!r}, row {bad[0]}: {values[bad[0]]} is not a "
                "whole number from 0 up; get the file again"
            )
    prices = np.arange(len(table["price"]))
    if not np.array_equal(table["price"], prices):
        raise TableError(
            f"{prices_path}, column 'price': it must count 0, 1, 2, …; get the file again"
        )
    counts = np.stack([table[f"{_PREFIX}{name}"] for name in advertisers]).astype(np.int64)
    for name, totals in (("imp_train", counts.sum(axis=1)), ("cost_train", counts @ prices)):
        given = about[name][order]
        wrong = np.flatnonzero(given != totals)
        if len(wrong):
            raise TableError(
                f"{advertisers_path}, column {name!r}, advertiser {advertisers[wrong[0]]}: "
                f"{given[wrong[0]]}, but the price histogram has {totals[wrong[0]]}; get both "
                "files again"
            )
    histograms = price_histograms(advertisers, counts, about["clk_train"][order])
    return histograms, dict(zip(advertisers.tolist(), about["industry"][order], strict=True))


def price_edges(n_prices: int) -> Ints:
    """Return the edges, in micros, of a grid with one bin for each price 0, 1, 2, … fen.

    The first edge is one micro, because a bid is above 0.
    """
    return np.maximum(np.arange(n_prices, dtype=np.int64) * FEN, 1)


def price_histograms(
    advertisers: ArrayLike, counts: ArrayLike, clicks: ArrayLike | None = None
) -> BidHistograms:
    """Convert counts of market prices in fen to bid histograms without censoring.

    ``counts`` (A, P) are the auctions of each advertiser with a price of 0, 1, …, P−1 fen,
    ``clicks`` (A,) the clicks of each.
    """
    names, n = np.asarray(advertisers, dtype=np.str_), np.asarray(counts, dtype=np.float64)
    if n.ndim != 2 or len(n) != len(names):
        raise InvalidParameterError(
            f"counts has shape {n.shape}; it needs one row for each of {len(names)} advertisers"
        )
    advertiser, price = np.nonzero(n)
    number, day = n[advertiser, price], np.zeros(len(price), dtype=np.int16)
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
        bids=compact(
            BidCells(
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
            )
        ),
        prices=compact(PriceCells(advertiser, day, price, number, paid)),
        currency="CNY",
    )


def files_of(
    dataset: PublicData,
    folder: str | os.PathLike[str] | None = None,
    names: Sequence[str] | None = None,
) -> list[Path]:
    """Return the paths of a dataset's files, by default of all, in one folder.

    ``folder`` is the one above the dataset's; by default COTERIE_DATA and the cache are searched.
    """
    wanted = dataset.files if names is None else tuple(names)
    folders = data_folders() if folder is None else [Path(folder)]
    for place in folders:
        paths = [place / dataset.name / name for name in wanted]
        if all(path.is_file() for path in paths):
            return paths
    files = " + ".join(f"{dataset.name}/{name}" for name in wanted)
    raise DatasetUnavailableError(
        f"the dataset {dataset.name!r} is not in {' nor in '.join(map(str, folders))}. Get it "
        f"({dataset.how_to_get}) and set the environment variable COTERIE_DATA to a folder that "
        f"has {files}."
    )


def read_columns(path: Path, types: dict[str, str] | None = None) -> dict[str, Any]:
    """Read the columns of a CSV file, plain or gzipped, as numpy arrays.

    ``types`` are the columns and their pyarrow types; by default all columns, with inferred types.
    """
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ConvertOptions(strings_can_be_null=False)
    if types is not None:
        options.include_columns = list(types)
        options.column_types = {name: pa.type_for_alias(kind) for name, kind in types.items()}
    try:
        table = csv.read_csv(
            path,
            convert_options=options,
            parse_options=csv.ParseOptions(newlines_in_values=True),
        )
    except (pa.ArrowException, OSError, KeyError) as error:
        raise TableError(f"{path} cannot be read: {error}; get the file again") from error
    for name in table.column_names:
        if table[name].null_count:
            raise TableError(f"{path}, column {name!r}: a value is missing; get the file again")
    return {name: table[name].to_numpy() for name in table.column_names}


def _is_count(value: int | float | str) -> bool:
    # one word makes the whole column text, also its numbers
    try:
        number = float(value)
    except ValueError:
        return False
    return number >= 0 and number % 1 == 0
