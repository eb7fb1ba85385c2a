"""Small fitted forecasters of every kind of log, with ids that break what pastes text together.

All are cached and shared: they are not to be changed or fitted again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from coterie.ads.fitting.forecaster import AdForecaster
from markets import EASY, QUICK, Market, market

#: Ids that are code, paths, quotes, other scripts, and one that is very long.
HOSTILE_IDS = (
    "<script>alert(1)</script>",
    "a/b c?d#e%2F",
    '"quoted"',
    "ünïcode-Ωмега",
    "מפרסם-١٢٣",
    "long-" + "x" * 295,
)

_ADVERTISERS = 60
_SMALL = replace(
    EASY, advertisers=_ADVERTISERS, days=5, bids_per_day=150, text_error=0.1, outliers=0.05
)


@cache
def small_model() -> AdForecaster:
    """Of a second-price log with texts, clicks and conversions."""
    return _fitted(_named(market(_SMALL)))


@cache
def first_price_model() -> AdForecaster:
    """Of a first-price log without the minimum to win: curves of the rate form."""
    return _fitted(_named(market(replace(_SMALL, auction="first"))))


@cache
def minimum_model() -> AdForecaster:
    """Of a first-price log that tells the minimum to win."""
    return _fitted(_named(market(replace(_SMALL, auction="first", minimum_logged=True))))


@cache
def textless_model() -> AdForecaster:
    """Of a second-price log without texts."""
    return _fitted(replace(_named(market(_SMALL)), descriptions={}))


def _fitted(made: Market) -> AdForecaster:
    return AdForecaster(**vars(QUICK)).fit(made.histograms, made.descriptions or None)


def _named(made: Market) -> Market:
    """The market with some advertisers renamed; ids stay sorted, as every log's are."""
    known = [str(name) for name in made.histograms.advertisers]
    names = sorted([*known[len(HOSTILE_IDS) :], *HOSTILE_IDS])
    renamed = dict(zip(known, names, strict=True))
    texts = {renamed[name]: text for name, text in made.descriptions.items() if name in renamed}
    log = replace(made.histograms, advertisers=np.array(names))
    return replace(made, histograms=log, descriptions=texts)
