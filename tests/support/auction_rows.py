"""Synthetic rows of a publisher's auction."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

COLUMNS = (
    "date", "site_id", "ad_type_id", "geo_id", "device_category_id", "advertiser_id", "order_id",
    "line_item_type_id", "os_id", "monetization_channel_id", "ad_unit_id", "total_impressions",
    "total_revenue", "viewable_impressions", "measurable_impressions",
)  # fmt: skip


def row(day, order, impressions, revenue, *, site=1, unit=1, geo=1, device=1):
    """One row, as a list of values; ``day`` counts from 2019-06-01."""
    date = np.datetime64("2019-06-01") + day
    return [date, site, 1, geo, device, 1, order, 1, 1, 1, unit, impressions, revenue, 0, 0]


def weekly_rows(n_orders=12, n_days=30, noise=0.1):
    """Orders of two kinds with different sites: half sell on Sundays, half on Wednesdays."""
    rng = np.random.default_rng(0)
    rows = []
    for order in range(n_orders):
        kind = order % 2
        level, price = 200 * (1 + order), 0.001 * (1 + kind)
        for day in range(n_days):
            date = np.datetime64("2019-06-01") + day
            weekday = (date.astype(int) + 3) % 7
            shape = 4.0 if weekday == (6, 2)[kind] else 0.5
            for unit in (1, 2):
                n = int(level * shape * rng.lognormal(0, noise))
                money = round(n * price * rng.lognormal(0, noise), 5)
                rows.append(
                    row(day, order, n, money, site=kind, unit=unit, geo=kind, device=1 + kind)
                )
    return rows


def write_rows(path: Path, rows) -> Path:
    """The rows as a gzipped CSV file."""
    lines = [",".join(COLUMNS), *(",".join(map(str, values)) for values in rows)]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return path
