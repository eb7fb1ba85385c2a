"""The cells on which consensus functions are compared: five families of label matrices.

========  ===================================================================================
planted   a known partition; some votes are noisy and some are wrong, together or independently
real      classes of real data; 40 k-means runs, K fixed or drawn from a range
views     classes of real data with several views; 10 runs a view, K fixed or drawn
market    planted segments of simulated advertisers; partitions of texts, win and cost curves
pools     classes of real data; 10 of 100 public base clusterings, drawn at random
========  ===================================================================================

Cells are assigned in turn, within their family, to two halves: rules are developed on one half
and reported on the other. Both cells of a dataset are in the same half. The two market cells use
the same simulated markets, cut differently.

The pools are from D. Huang, C.-D. Wang, J.-H. Lai: Locally weighted ensemble clustering, IEEE
Transactions on Cybernetics 48(5), 2018. A file ``pools/NAME.npz`` of the data folder has
``members`` (n, 100) and the classes ``y`` (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.ads import simulate
from benchmarks.noise import CORE_CELLS, MORE_CELLS, NoiseCell, sizes_text
from coterie.datasets import load_dataset, load_views
from coterie.datasets.loading import data_folders
from coterie.ensembles.generate import make_partitions
from coterie.errors import DatasetUnavailableError

_RUNS, _RUNS_A_VIEW = 40, 10
#: Larger datasets are reduced to so many rows, drawn again for every ensemble.
_MAX_ROWS = 1000
_MAX_PLANTED, _MAX_QUICK_PLANTED = 1000, 300
_REAL = ("cstr", "digits", "glass", "ionosphere", "iris", "soybean_small", "wine", "zoo")
#: Small datasets that come with this package or with scikit-learn.
_QUICK_SETS = ("glass", "ionosphere", "iris", "wine", "zoo")
_VIEWS = ("caltech101_7", "msrc_v1", "uci_mfeat")
_POOLS = ("Caltech20", "FCT", "IS", "MF", "Semeion", "SPF", "VS")
_MEMBERS, _MAX_POOL_ROWS = 10, 3000
_ENSEMBLES = {"fixed K": "kmeans", "diverse K": "diverse"}


class Drawn(NamedTuple):
    """Label matrix (n, V), classes (n,) and the number of clusters to ask for."""

    P: NDArray[np.signedinteger]
    y: NDArray[Any]
    n_clusters: int


@dataclass(frozen=True)
class SuiteCell:
    """One way to make partitions of points whose classes are known."""

    family: str
    name: str  # unique in the suite
    half: str  # "develop" or "report"
    draw: Callable[[int], Drawn] = field(compare=False)  # makes the partitions from a seed
    dataset: str | None = None
    quick: bool = False  # needs no file, and methods take seconds at most


def _draw_planted(cell: NoiseCell, seed: int) -> Drawn:
    P, y = cell.draw(seed)
    return Drawn(P, y, len(cell.sizes))


def _draw_real(name: str, strategy: str, seed: int) -> Drawn:
    X, y = _features(name)
    rows = _some_rows(len(y), seed)
    X, y = X[rows], y[rows]
    K = len(np.unique(y))
    return Drawn(make_partitions(X, K, _RUNS, ensemble=strategy, random_state=seed), y, K)


def _draw_views(name: str, strategy: str, seed: int) -> Drawn:
    views, y = load_views(name)
    rows = _some_rows(len(y), seed)
    y = y[rows]
    K = len(np.unique(y))
    columns = [
        make_partitions(
            _standardised(X[rows]), K, _RUNS_A_VIEW, ensemble=strategy, random_state=seed + 1000 * v
        )
        for v, X in enumerate(views)
    ]
    return Drawn(np.hstack(columns), y, K)


def _draw_market(n_cuts: int, seed: int) -> Drawn:
    views, y = _market(seed)
    P = np.hstack([view[:, :n_cuts] for view in views]).astype(np.int32)
    seen = (P >= 0).any(axis=1)  # an advertiser without text or win is in no view
    return Drawn(P[seen], y[seen], len(np.unique(y)))


def _draw_pool(name: str, seed: int) -> Drawn:
    path = _pool_file(name)
    if path is None:
        raise DatasetUnavailableError(f"no data folder has a file pools/{name}.npz")
    with np.load(path) as pool:
        members, y = pool["members"], pool["y"]
    rng = np.random.default_rng(seed)
    chosen = rng.choice(members.shape[1], _MEMBERS, replace=False)
    rows = _some_rows(len(y), rng, _MAX_POOL_ROWS)
    y = y[rows]
    return Drawn(members[np.ix_(rows, chosen)].astype(np.int32), y, len(np.unique(y)))


def missing_pools(names: Iterable[str]) -> dict[str, str]:
    """Return which of the pools cannot be found, and why."""
    why = "the data folder has no file pools/NAME.npz with this name"
    return {name: why for name in names if _pool_file(name) is None}


def _pool_file(name: str) -> Path | None:
    paths = (folder / "pools" / f"{name}.npz" for folder in data_folders())
    return next((path for path in paths if path.is_file()), None)


@cache
def _features(name: str) -> tuple[Any, NDArray[Any]]:
    """Load features and scale them without using the classes: tf–idf for text, else min–max."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    else:
        X, y = load_dataset(name)
    if hasattr(X, "tocsr"):
        from sklearn.feature_extraction.text import TfidfTransformer

        return TfidfTransformer().fit_transform(X), y
    spread = np.ptp(X, axis=0)
    return (X - X.min(axis=0)) / np.where(spread > 0, spread, 1.0), y


def _standardised(X: NDArray[Any]) -> NDArray[Any]:
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _some_rows(n: int, seed: int | np.random.Generator, most: int = _MAX_ROWS) -> NDArray[np.intp]:
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


@lru_cache(maxsize=2)
def _market(seed: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Simulate a market; return the partitions of each view and the planted segments.

    In every view the partitions into K clusters are the first columns.
    """
    from coterie.ads.curves.landscapes import evidence_of
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings
    from coterie.ads.segments.settings import SegmentSettings
    from coterie.ads.segments.text_view import TextView, texts_of
    from coterie.ads.segments.views import make_views

    settings = MarketSettings(outliers=0.0, newcomers=0.0, seed=seed)
    K = settings.segments
    histograms, texts, traits, rows = simulate(settings)
    days, about = range(len(histograms.days)), texts_of(histograms.advertisers, texts)
    views = make_views(
        histograms.dense(days),
        evidence_of(histograms, days),
        TextView().fit(about).transform(about),
        SegmentSettings(n_segments=(K, K + 5)),
    )
    partitions = []
    for name in ("text", "win", "cost"):
        order = np.argsort([setting["k"] != K for setting in views[name].settings], kind="stable")
        partitions.append(views[name].partitions[:, order])
    return partitions, traits.segment[rows]


def _half(place: int) -> str:
    return "develop" if place % 2 == 0 else "report"


def _planted_cell(cell: NoiseCell, half: str) -> SuiteCell:
    kind = "together" if cell.correlated else "apart"
    bad = f"{cell.n_bad} of {cell.n_partitions} bad {kind}" if cell.n_bad else "none bad"
    name = f"{sizes_text(cell.sizes)}; {bad}; noise {cell.noise:g}"
    quick = sum(cell.sizes) <= _MAX_QUICK_PLANTED
    return SuiteCell("planted", name, half, partial(_draw_planted, cell), quick=quick)


def _suite() -> list[SuiteCell]:
    small = [cell for cell in CORE_CELLS + MORE_CELLS if sum(cell.sizes) <= _MAX_PLANTED]
    cells = [_planted_cell(cell, _half(place)) for place, cell in enumerate(small)]
    for family, names, draw in (("real", _REAL, _draw_real), ("views", _VIEWS, _draw_views)):
        for (place, dataset), kind in product(enumerate(names), _ENSEMBLES):
            make = partial(draw, dataset, _ENSEMBLES[kind])
            named = (family, f"{dataset}, {kind}", _half(place))
            cells.append(SuiteCell(*named, make, dataset, quick=dataset in _QUICK_SETS))
    for place, (name, n_cuts) in enumerate({"one a view": 1, "six a view": 6}.items()):
        cells.append(SuiteCell("market", name, _half(place), partial(_draw_market, n_cuts)))
    for place, name in enumerate(_POOLS):
        draw_pool = partial(_draw_pool, name)
        cells.append(SuiteCell("pools", f"pool {name}", _half(place), draw_pool, name))
    return cells


#: All cells; within a family they alternate between the halves.
SUITE: tuple[SuiteCell, ...] = tuple(_suite())
