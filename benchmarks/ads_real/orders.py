"""Orders of a publisher's auction, and three views that group them.

=========  ==================================================================================
placement  the mix of sites and ad units of an order's impressions
audience   the mix of countries and devices
price      Kolmogorov–Smirnov similarity of the distribution of revenue per impression (eCPM)
=========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.histograms.ipinyou import read_columns
from coterie.ads.segments.graph_clusters import normalised_cuts
from coterie.ads.segments.similarity import ks_graph
from coterie.ads.segments.text_view import text_clusters
from coterie.errors import TableError

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

_ALPHA = 0.05
_MOST_OBSERVATIONS = 2000.0
_GRID = 64


@dataclass(frozen=True)
class OrderLog:
    """Rows of impressions and revenue of A orders over T days; N rows.

    ``order``, ``day``, ``placement`` and ``audience`` (N,) are indices: of the order, the day, the
    site with its ad unit, the country with its device. ``notes`` count the rows of the file that
    were dropped, and why.
    """

    orders: NDArray[np.int64]
    days: NDArray[np.datetime64]
    order: NDArray[np.int64]
    day: NDArray[np.int64]
    placement: NDArray[np.int64]
    audience: NDArray[np.int64]
    impressions: Floats
    revenue: Floats
    notes: dict[str, float]

    def daily(self, name: str) -> Floats:
        """Return the sum of ``impressions`` or ``revenue`` by order and day, (A, T)."""
        shape = len(self.orders), len(self.days)
        return _summed(self.order, self.day, getattr(self, name), shape)


def read_orders(path: Path) -> OrderLog:
    """Read the file of the 2019 auction.

    Rows without impressions and rows with negative revenue are dropped. Rows that repeat another
    are kept: many rows of the file agree in all but their figures, so equal rows are no fault.
    """
    codes = ("order_id", "site_id", "ad_unit_id", "geo_id", "device_category_id")
    table = read_columns(path)
    for name in ("date", "total_impressions", "total_revenue", *codes):
        if name not in table:
            raise TableError(f"{path} has no column {name!r}; get the file again")
    impressions = table["total_impressions"].astype(np.float64)
    revenue = table["total_revenue"].astype(np.float64)
    kept = (impressions > 0) & (revenue >= 0)
    if not (revenue[kept] > 0).any():
        raise TableError(f"{path} has no row with impressions and revenue; get the file again")
    orders, order = np.unique(table["order_id"][kept], return_inverse=True)
    first = table["date"].min().astype("datetime64[D]")
    day = (table["date"][kept].astype("datetime64[D]") - first).astype(np.int64)
    repeated = _repeated(table)
    return OrderLog(
        orders=orders,
        days=first + np.arange(day.max() + 1),
        order=order,
        day=day,
        placement=_joint_code(table["site_id"][kept], table["ad_unit_id"][kept]),
        audience=_joint_code(table["geo_id"][kept], table["device_category_id"][kept]),
        impressions=impressions[kept],
        revenue=revenue[kept],
        notes={
            "rows": len(impressions),
            "rows_without_impressions": int((impressions <= 0).sum()),
            "revenue_without_impressions": float(revenue[impressions <= 0].sum()),
            "rows_with_negative_revenue": int((revenue < 0).sum()),
            "rows_repeated": int(repeated.sum()),
            "impressions_repeated": int(impressions[repeated].sum()),
            "impressions": int(impressions[kept].sum()),
            "revenue": float(revenue[kept].sum()),
        },
    )


def views_of_orders(
    log: OrderLog, n_days: int, ks: Sequence[int], seeds: Sequence[int] = range(5)
) -> dict[str, Labels]:
    """Return partitions (A, V) of each view from the first days alone; −1 where a view is silent.

    Every seed of k-means gives one partition for each number of clusters in ``ks``, so that no
    single run decides.
    """
    known = log.day < n_days
    settings: Any = {"max_observations": _MOST_OBSERVATIONS, "weights": "pvalue"}
    graph = ks_graph(*price_curves(log, known), _ALPHA, **settings)
    cuts = {
        "placement": partial(text_clusters, _mixes(log, log.placement, known)),
        "audience": partial(text_clusters, _mixes(log, log.audience, known)),
        "price": partial(normalised_cuts, graph),
    }
    return {name: np.hstack([cut(list(ks), seed) for seed in seeds]) for name, cut in cuts.items()}


def price_curves(log: OrderLog, known: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the c.d.f. of eCPM over an order's impressions, (A, G), and its observations, (A,).

    Impressions come in rows of one eCPM each, so the effective number of observations is
    (Σn)² / Σn² over the impressions n of the rows.
    """
    n, order = log.impressions[known], log.order[known]
    ecpm = log.revenue[known] / n
    grid = np.unique(np.quantile(ecpm, np.linspace(0, 1, _GRID + 1))) if len(n) else np.zeros(1)
    at = np.minimum(np.searchsorted(grid, ecpm), len(grid) - 1)
    counts = _summed(order, at, n, (len(log.orders), len(grid)))
    total = counts.sum(axis=1)
    square = np.bincount(order, n**2, len(log.orders))
    observations = np.divide(total**2, square, out=np.zeros_like(total), where=square > 0)
    summed = np.cumsum(counts, axis=1)
    curves = np.divide(summed, summed[:, -1:], out=np.zeros_like(summed), where=summed[:, -1:] > 0)
    return curves, observations


def _mixes(log: OrderLog, code: NDArray[np.int64], known: NDArray[np.bool_]) -> Floats:
    """Return square roots of the shares of each code in an order's impressions.

    Products of two rows are the Bhattacharyya coefficients of the mixes.
    """
    shape = len(log.orders), int(code.max()) + 1
    counts = _summed(log.order[known], code[known], log.impressions[known], shape)
    total = counts.sum(axis=1, keepdims=True)
    return np.sqrt(np.divide(counts, total, out=np.zeros_like(counts), where=total > 0))


def _summed(
    row: NDArray[np.int64], column: NDArray[np.int64], values: Floats, shape: tuple[int, int]
) -> Floats:
    sums = np.bincount(row * shape[1] + column, values, shape[0] * shape[1])
    return np.asarray(sums, dtype=np.float64).reshape(shape)


def _joint_code(*columns: NDArray[Any]) -> NDArray[np.int64]:
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].astype(np.int64)


def _repeated(table: dict[str, Any]) -> NDArray[np.bool_]:
    """Return which rows equal an earlier one in every column."""
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in table.values()])
    order = np.lexsort(codes)
    same = (np.diff(codes[:, order], axis=1) == 0).all(axis=0)
    repeated = np.zeros(codes.shape[1], dtype=bool)
    repeated[order[1:]] = same
    return repeated
