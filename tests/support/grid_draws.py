"""Draws of the advertising grid with errors that are given, for tests of what is made of them."""

from __future__ import annotations

from benchmarks import ads_grid_report
from benchmarks.ads_grid import FLAGSHIP

SOURCES = ("own", "global", "text", "win", "cost", "l2", "robust")


def draw_with(wape: dict[str, float], thin: dict[str, float], paired: float) -> dict:
    """A draw with given errors of both targets."""
    both = {name: {"impressions": value, "spend": value} for name, value in wape.items()}
    return {
        "wape": both,
        "standard_error": {name: {"impressions": 0.01, "spend": 0.02} for name in wape},
        "thin": {name: {"impressions": value, "spend": value} for name, value in thin.items()},
        "against": {
            target: {name: [wape[FLAGSHIP] - wape[name], paired] for name in wape}
            for target in ("impressions", "spend")
        },
    }


THIN = dict.fromkeys((*ads_grid_report._SHOWN, *SOURCES), 0.3) | {
    FLAGSHIP: 0.22,
    "own": 0.3,
    "true+pooled": 0.2,
}
