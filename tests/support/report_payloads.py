"""Reports with realistic contents, and the forecasts their page should show."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from coterie.ads.logs.simulation.simulated_traits import THEMES
from coterie.ads.report.contents import (
    AdvertiserRow,
    Report,
    SegmentCard,
)

HOSTILE_IDS = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "'; DROP TABLE bids; --",
    "\u202eكاتب إعلانات\u202c",
    "🛒 shop 👩\u200d👩\u200d👧",
    "</script><!--<script>",
    "{{ 7 * 7 }} {% raw %} ${1+1} \\u003cb\\u003e",
    "line\u2028break\u2029and\x00nul\x1b[31m",
    "lone \ud800 half",
    "a" * 400,
    "&lt;b&gt;&amp;",
    "__proto__",
)


def make_payload(
    n_advertisers: int = 40,
    n_segments: int = 5,
    *,
    seed: int = 0,
    n_bids: int = 64,
    hostile: bool = False,
) -> Report:
    """Return the report of a week of second-price auctions."""
    rng = np.random.default_rng(seed)
    grid = np.geomspace(0.15, 24.0, n_bids)
    markets = _markets(n_segments, rng)
    ids = [f"{rng.choice(list(THEMES))}-{i:04d}" for i in range(n_advertisers)]
    if hostile:
        ids[: len(HOSTILE_IDS)] = HOSTILE_IDS
    segment = rng.permutation(np.arange(n_advertisers) % n_segments)
    volume = np.clip(30 * np.exp(1.6 * rng.standard_normal(n_advertisers)), 5, 50_000)
    advertisers = [
        _advertiser(ids[i], int(segment[i]), markets[segment[i]], 6 * volume[i], grid, rng)
        for i in range(n_advertisers)
    ]
    wins = sum(6 * one.supply * float(np.interp(one.bid, grid, one.win)) for one in advertisers)
    return Report(
        title="Bids and markets, week 10" if not hostile else '<b>Bids</b> & "markets"',
        made="2026-03-09T08:30:00+00:00",
        version="0.1.0",
        source="logs/bids/*.parquet",
        engine="duckdb",
        auction="second",
        currency="USD",
        interval=0.9,
        first_day="2026-03-02",
        last_day="2026-03-08",
        n_days=7,
        rows=int(7 * volume.sum()),
        wins=int(wins),
        spend=wins * 1.9 / 1000,
        grid=grid.tolist(),
        segments=[
            _segment(place, markets[place], segment, advertisers, grid, hostile)
            for place in range(n_segments)
        ],
        advertisers=advertisers,
        views=_views(),
        outliers=[i for i, one in enumerate(advertisers) if one.outlier],
        low_confidence=[i for i, one in enumerate(advertisers) if one.confidence < 0.45],
        warnings=["prices rose by 12.0% from 2026-03-06 on; <b>read</b> this"],
        prices_by_weekday=[1.0, 1.02, 1.04, 1.05, 1.1, 0.9, 0.88],
        days=_days(rng),
        evaluation=_evaluation(rng) | {"points": _points(ids, rng)},
        tables=_tables(),
        quality=_quality(hostile),
        how=[
            {
                "step": "Read the logs",
                "detail": "One pass of DuckDB: bids by advertiser, day and bin.",
            },
            {
                "step": "Segments",
                "detail": "18 partitions from three views, one robust consensus of them.",
            },
            {
                "step": "Again",
                "detail": "coterie ads report logs/ --holdout-days 1 --output report.html",
            },
        ],
    )


def twin_forecast(
    payload: Report, index: int, bid: float, supply: float | None = None, prices: float = 1.0
) -> dict[str, float]:
    """Compute what the page should show a day: supply × win(bid), and that × cost(bid) / 1000.

    ``prices`` is the level of the day's over that of an average day. Curves have four significant
    digits in their units, as in the page.
    """
    one, grid = payload.advertisers[index], payload.grid
    auctions = one.supply if supply is None else supply

    def at(name: str) -> float:
        return float(
            np.interp(bid / prices, grid, [float(f"{value:.4g}") for value in getattr(one, name)])
        )

    impressions = float(f"{auctions:.7g}") * at("win")
    return {
        "win": at("win"),
        "cost": prices * at("cost"),
        "impressions": impressions,
        "spend": impressions * prices * at("cost") / 1000,
    }


def twin_intervals(payload: Report, index: int, bid: float) -> dict[str, tuple[float, float]]:
    """Compute the intervals that the page should show on an average day."""
    one, grid = payload.advertisers[index], payload.grid

    def at(name: str) -> float:
        return one.supply * float(np.interp(bid, grid, getattr(one, name)))

    return {
        "impressions": (at("win_low"), at("win_high")),
        "spend": (at("spend_low"), at("spend_high")),
    }


def _markets(n: int, rng: np.random.Generator) -> list[dict[str, float]]:
    levels = rng.permutation(np.linspace(-0.7, 1.6, n)).tolist()
    spread, share = (0.35, 0.8), (0.55, 1.0)
    return [
        {"level": level, "spread": rng.uniform(*spread), "share": rng.uniform(*share)}
        for level in levels
    ]


def _win(grid: np.ndarray, market: dict[str, float]) -> np.ndarray:
    low = norm.cdf((np.log(grid) - market["level"]) / market["spread"])
    high = norm.cdf((np.log(grid) - market["level"] - 1.1) / 0.4)
    return market["share"] * low + (1 - market["share"]) * high


def _cost(grid: np.ndarray, win: np.ndarray) -> np.ndarray:
    """E[price | price ≤ b] by the trapezoidal rule."""
    middle = np.concatenate([[grid[0] / 2], (grid[1:] + grid[:-1]) / 2])
    paid = np.cumsum(middle * np.diff(win, prepend=0))
    return paid / np.maximum(win, 1e-12)


def _band(win: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
    half = 1.645 * np.sqrt((win * (1 - win) + 1 / n) / n)
    return np.clip(win - half, 0, 1), np.clip(win + half, 0, 1)


def _advertiser(
    name: str,
    segment: int,
    market: dict[str, float],
    seen: float,
    grid: np.ndarray,
    rng: np.random.Generator,
) -> AdvertiserRow:
    outlier = bool(rng.random() < 0.06)
    moved = market | {"level": market["level"] + rng.normal(0, 0.9 if outlier else 0.05)}
    truth = _win(grid, moved)
    low, high = _band(truth, seen + 150)
    own = np.sort(np.clip(truth + rng.normal(0, 0.5 / np.sqrt(seen), len(grid)).cumsum() / 3, 0, 1))
    source = rng.choice(["pooled", "segment", "global"], p=[0.9, 0.07, 0.03])
    by_weekday = seen / 6 * np.array([1.02, 1.05, 1.06, 1.04, 0.98, 0.86, 0.9])
    return AdvertiserRow(
        id=name,
        segment=segment,
        confidence=float(rng.uniform(0.2, 0.6) if outlier else rng.beta(9, 2)),
        observations=float(round(seen)),
        win=truth.tolist(),
        win_low=low.tolist(),
        win_high=high.tolist(),
        cost=_cost(grid, truth).tolist(),
        # wider than the interval of impressions: prices vary too
        spend_low=(0.9 * low * _cost(grid, truth) / 1000).tolist(),
        spend_high=(1.1 * high * _cost(grid, truth) / 1000).tolist(),
        own=own.tolist() if source == "pooled" else None,
        bid=float(np.exp(market["level"] + rng.normal(0.2, 0.3))),
        supply=float(by_weekday.mean()),
        supply_by_weekday=by_weekday.tolist(),
        click_rate=float(rng.beta(2, 600)) if rng.random() < 0.9 else None,
        outlier=outlier,
        dissent=[
            view for view in ("text", "win", "cost") if rng.random() < (0.5 if outlier else 0.1)
        ],
        source=str(source),
        wins_below=own.tolist(),
        cost_below=(own**2).tolist(),
        gaps=[[0.217, 2.5], [0.217, 2.5]],
    )


def _segment(
    place: int,
    market: dict[str, float],
    segment: np.ndarray,
    advertisers: list[AdvertiserRow],
    grid: np.ndarray,
    hostile: bool,
) -> SegmentCard:
    theme = list(THEMES)[place % len(THEMES)]
    win = _win(grid, market)
    members = np.flatnonzero(segment == place)
    observations = sum(advertisers[i].observations for i in members)
    low, high = _band(win, observations / 4)
    level = "low" if market["level"] < 0.2 else "medium" if market["level"] < 1 else "high"
    name = f"{theme}, {level} price"
    return SegmentCard(
        name=f"<i>{name}</i> 🧪" if hostile and place == 0 else name,
        words=THEMES[theme].split()[:5],
        price_level=f"{level} price",
        size=len(members),
        observations=observations,
        median_price=float(np.interp(0.5, win, grid)),
        themes=[theme],
        purity=1.0,
        mixture="A <b>mixture</b> of themes." if hostile and place == 0 else "",
        win=win.tolist(),
        win_low=low.tolist(),
        win_high=high.tolist(),
        cost=_cost(grid, win).tolist(),
        members=sorted(map(int, members), key=lambda i: -advertisers[i].confidence)[:12],
        wins_below=win.tolist(),
        cost_below=(win**2).tolist(),
    )


def _views() -> dict[str, Any]:
    return {
        "names": ["text", "win", "cost"],
        "ari": [[1.0, 0.21, 0.19], [0.21, 1.0, 0.74], [0.19, 0.74, 1.0]],
        "weights": [0.18, 0.42, 0.4],
        "tpn_fpn": [
            {"a": "win", "b": "text", "tpn": 0.86, "fpn": 0.14, "ari": 0.21},
            {"a": "win", "b": "cost", "tpn": 0.95, "fpn": 0.05, "ari": 0.74},
            {"a": "cost", "b": "text", "tpn": 0.85, "fpn": 0.15, "ari": 0.19},
        ],
        "dissenting": "text",
        "sentence": "Win rate and cost place most advertisers alike; text dissents.",
    }


#: WAPE of impressions, spend and clicks by source; the default is the first.
ALONE = {
    "dictionary": (0.088, 0.111, 0.61),
    "own": (0.105, 0.139, 0.63),
    "global": (0.363, 0.236, 0.7),
    "text": (0.237, 0.200, 0.66),
    "win": (0.144, 0.147, 0.64),
    "cost": (0.133, 0.142, 0.64),
    "l2": (0.144, 0.150, 0.65),
    "robust": (0.124, 0.136, 0.63),
    "lognormal": (0.101, 0.128, 0.62),
    "boosting": (0.097, 0.121, 0.62),
}
POOLED = {
    "global": (0.121, 0.141, 0.62), "text": (0.115, 0.136, 0.62), "win": (0.106, 0.128, 0.62),
    "cost": (0.104, 0.127, 0.62), "l2": (0.105, 0.129, 0.62), "robust": (0.094, 0.119, 0.62),
}  # fmt: skip
TARGETS = ("impressions", "spend", "clicks")
PUBLISHED = ("published impressions", "published spend")


def _evaluation(rng: np.random.Generator) -> dict[str, Any]:
    wape = ALONE | {f"{name}+pooled": errors for name, errors in POOLED.items()}

    def errors(one: float) -> dict[str, float]:
        return {
            "mape": 1.2 * one,
            "wape": one,
            "smape": 0.9 * one,
            "bias": float(rng.normal(0, 0.02)),
            "coverage": float(rng.uniform(0.8, 0.95)),
        }

    strata = [("new", 12, 2.0), ("10–199 bids", 412, 1.6), ("200–1,999 bids", 598, 0.9)]
    levels = (0.5, 0.8, 0.9, 0.95)

    def share(level: float) -> float:
        return float(np.clip(level + rng.normal(0, 0.02), 0, 1))

    def modes() -> dict[str, float]:
        return {"given": share(0.9), "forecast": share(0.9)}

    return {
        "holdout": ["2026-03-08"],
        "default": "dictionary",
        "targets": list(TARGETS),
        "sources": {
            source: dict(zip(TARGETS, map(errors, all_three), strict=True))
            for source, all_three in wape.items()
        },
        "strata": [
            {
                "name": name,
                "advertisers": n,
                "sources": {
                    source: {
                        target: _stratum_error(name, source, factor * one, rng)
                        for target, one in zip(TARGETS, all_three, strict=True)
                    }
                    for source, all_three in wape.items()
                },
            }
            for name, n, factor in strata
        ],
        "coverage": {
            "levels": list(levels),
            "rows": [
                {"target": target} | {mode: list(map(share, levels)) for mode in modes()}
                for target in (*TARGETS, "conversions")
            ],
        },
        "coverage_by_stratum": [
            {"name": name, "advertisers": n, "impressions": modes(), "spend": modes()}
            for name, n, _ in strata
        ],
        "differences": [
            {
                "a": "dictionary",
                "b": source,
                "target": target,
                "difference": wape["dictionary"][place] - all_three[place],
                "standard_error": float(rng.uniform(0.003, 0.02)),
            }
            for source, all_three in wape.items()
            for place, target in enumerate(TARGETS)
            if source != "dictionary"
        ],
        "chosen": {"number of segments": 10, "half-life of days": "none: all days count alike"},
    }


def _points(ids: list[str], rng: np.random.Generator) -> dict[str, Any]:
    """Return forecasts and actual values; some advertisers won nothing, some were misjudged."""
    actual = np.floor(np.exp(rng.uniform(-0.5, 8, len(ids))))
    forecast = np.maximum(actual, 0.4) * np.exp(0.15 * rng.standard_normal(len(ids)))
    low, high = 0.8 * forecast, 1.2 * forecast
    figures = {"forecast": forecast, "low": low, "high": high, "actual": actual}
    return {
        "advertisers": ids,
        "of": 4 * len(ids),
        "outside": dict.fromkeys(("impressions", "spend"), 7),
        "impressions": {name: one.tolist() for name, one in figures.items()},
        "spend": {name: (0.002 * one).tolist() for name, one in figures.items()},
    }


def _days(rng: np.random.Generator) -> list[dict[str, Any]]:
    def level(place: int) -> dict[str, float | None]:
        observed = float(np.exp(0.05 * rng.standard_normal()))
        ends = {"expected": 1.0, "low": 0.93, "high": 1.07}
        return {"observed": observed} | (ends if place else dict.fromkeys(ends))

    return [
        {"day": f"2026-03-{2 + place:02d}", "price": level(place), "supply": level(place)}
        for place in range(7)
    ]


def _stratum_error(
    stratum: str, source: str, wape: float, rng: np.random.Generator
) -> dict[str, float | None]:
    """Return an error; only the default forecasts new advertisers."""
    if stratum == "new" and source != "dictionary":
        return {"wape": None, "bias": None}
    return {"wape": wape, "bias": float(rng.normal(0, 0.02))}


def _tables() -> list[dict[str, Any]]:
    return [
        {
            "title": "Number of clusters at three levels of the KS test",
            "columns": ["feature", "p = .01", "p = .05", "p = .1", "published, p = .05"],
            "rows": [
                ["win rate", 10, 12, 13, 21],
                ["cost", 9, 11, 12, 24],
                ["text", None, 10, None, "25"],
            ],
            "note": "Our logs are simulated: the numbers of clusters are not meant to be equal.",
        },
        {
            "title": "Forecast error by feature",
            "columns": ["feature", "impressions, MAPE", "spend, MAPE", *PUBLISHED],
            "rows": [["text", 0.237, 0.2, 0.31, 0.44], ["consensus", 0.094, 0.119, 0.19, 0.28]],
            "note": "",
        },
    ]


def _quality(hostile: bool) -> list[dict[str, Any]]:
    what = "<script>alert(1)</script>" if hostile else "rows are copies of another row"
    examples = ["travel-0012 2026-03-04 bid 1.20 won", "finance-0044 2026-03-04 bid 3.55 lost"]
    missing = {"what": "advertisers have no text", "count": 2, "examples": ["games-0007"]}
    return [
        {"severity": "warning", "what": what, "count": 1204, "examples": examples},
        {"severity": "note", **missing},
    ]
