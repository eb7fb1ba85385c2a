"""The suite that decides defaults: cells of four families, each drawn anew with every seed.

========  =====================================================================================
planted   a known partition, some votes noisy, some plain wrong (together, or each for itself)
real      classes of real data, 40 k-means runs, K as the classes have it or drawn from a range
views     classes of real data seen in several views, 10 runs a view, K fixed or drawn
market    planted segments of simulated advertisers, seen in texts, win and cost curves
========  =====================================================================================

Cells are dealt in turn, within their family and in the order of the suite, to two halves: rules are
developed on the one and reported on the other. Both cells of a data set lie in the same half, so
that no data set is in both. Simulated markets are the same in both, cut differently.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.noise import CORE_CELLS, MORE_CELLS, NoiseCell, sizes_text
from coterie.datasets.loading import load_dataset, load_views
from coterie.ensembles.making import make_partitions

__all__ = ["SUITE", "Drawn", "SuiteCell", "quick_cells", "suite_cells"]

Labels = NDArray[np.int32]
Half = Literal["develop", "report"]

_RUNS, _RUNS_A_VIEW = 40, 10
#: Rows of the larger sets that are drawn anew for every ensemble.
_MOST_ROWS = 1000
_MOST_PLANTED = 1000
_QUICK_PLANTED = 300


@dataclass(frozen=True)
class Drawn:
    """Label matrix P (n, V), classes y (n,), number of clusters asked for."""

    P: Labels
    y: NDArray[Any]
    n_clusters: int


@dataclass(frozen=True)
class SuiteCell:
    """One way to make partitions of things whose classes are known.

    Attributes
    ----------
    family, name : str
    half : {"develop", "report"}
    draw : callable
        ``draw(seed)`` gives the partitions.
    dataset : str or None
        The data set it needs, if any.
    short_name : str
        Its name in tables, where that differs.
    quick : bool
        Whether it needs no file and a draw of it takes methods no more than seconds.
    """

    family: str
    name: str
    half: Half
    draw: Callable[[int], Drawn] = field(compare=False)
    dataset: str | None = None
    short_name: str = ""
    quick: bool = False

    @property
    def title(self) -> str:
        """Its name in tables and pictures."""
        return self.short_name or self.name


def suite_cells(families: Sequence[str] | None = None) -> list[SuiteCell]:
    """The cells of some families, or of all.

    >>> [cell.name for cell in suite_cells(["market"])]
    ['one a view', 'six a view']
    """
    return [cell for cell in SUITE if families is None or cell.family in families]


def quick_cells(cells: Sequence[SuiteCell] | None = None) -> list[SuiteCell]:
    """Those of some cells, or of the suite, that need no file and little time.

    >>> sorted({cell.family for cell in quick_cells()})
    ['planted', 'real']
    """
    return [cell for cell in (SUITE if cells is None else cells) if cell.quick]


def _draw_planted(cell: NoiseCell, seed: int) -> Drawn:
    P, y = cell.draw(seed)
    return Drawn(P, y, len(cell.sizes))


def _draw_real(name: str, strategy: str, seed: int) -> Drawn:
    X, y = _features(name)
    rows = _some_rows(len(y), seed)
    X, y = X[rows], y[rows]
    K = len(np.unique(y))
    return Drawn(make_partitions(X, K, _RUNS, strategy=strategy, random_state=seed), y, K)


def _draw_views(name: str, strategy: str, seed: int) -> Drawn:
    views, y = load_views(name)
    rows = _some_rows(len(y), seed)
    y = y[rows]
    K = len(np.unique(y))
    columns = [
        make_partitions(
            _standardised(X[rows]), K, _RUNS_A_VIEW, strategy=strategy, random_state=seed + 1000 * v
        )
        for v, X in enumerate(views)
    ]
    return Drawn(np.hstack(columns), y, K)


def _draw_market(n_cuts: int, seed: int) -> Drawn:
    """Partitions of simulated advertisers, ``n_cuts`` for each of texts, win and cost curves."""
    views, y = _market(seed)
    K = len(np.unique(y))
    P = np.hstack([view[:, :n_cuts] for view in views]).astype(np.int32)
    seen = (P >= 0).any(axis=1)  # an advertiser without text or win is in no view
    return Drawn(P[seen], y[seen], K)


@cache
def _features(name: str) -> tuple[Any, NDArray[Any]]:
    """Features by a recipe that sees no class: tf–idf rows for text, min–max for the rest."""
    X, y = _loaded(name)
    if hasattr(X, "tocsr"):
        from sklearn.feature_extraction.text import TfidfTransformer

        return TfidfTransformer().fit_transform(X), y
    spread = np.ptp(X, axis=0)
    return (X - X.min(axis=0)) / np.where(spread > 0, spread, 1.0), y


def _loaded(name: str) -> tuple[Any, NDArray[Any]]:
    if name == "digits":  # comes with scikit-learn
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    return load_dataset(name)


def _standardised(X: NDArray[Any]) -> NDArray[Any]:
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _some_rows(n: int, seed: int) -> NDArray[np.intp]:
    if n <= _MOST_ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, _MOST_ROWS, replace=False))


@lru_cache(maxsize=2)
def _market(seed: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Partitions of every view, those into K first, and the planted segments."""
    from coterie.ads.curves.landscapes import evidence_of
    from coterie.ads.histograms.counting import read_histograms
    from coterie.ads.logs.bid_logs import open_logs, read_descriptions
    from coterie.ads.logs.simulation.simulated_logs import simulate_logs
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings
    from coterie.ads.segments.text_view import description_vectors
    from coterie.ads.segments.views import make_views

    settings = MarketSettings(outliers=0.0, newcomers=0.0, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        simulated = simulate_logs(settings, Path(folder) / "market")
        logs = open_logs(simulated.folder)
        histograms, texts = read_histograms(logs), read_descriptions(logs)
        segments = _planted_segments(simulated.truth, histograms.advertisers)
    days = range(len(histograms.days))
    K = settings.segments
    vectors = description_vectors(histograms, texts)
    views = make_views(
        histograms.dense(days), evidence_of(histograms, days), vectors, ks=(K, K + 5)
    )
    return [_k_first(views[name], K) for name in ("text", "win", "cost")], segments


def _k_first(view: Any, K: int) -> NDArray[np.int64]:
    """Columns of the view: its partitions into K clusters, then the others."""
    order = sorted(range(len(view.settings)), key=lambda v: view.settings[v]["k"] != K)
    return view.partitions[:, order]


def _planted_segments(path: Path, advertisers: NDArray[np.str_]) -> NDArray[np.int64]:
    from benchmarks.ads_grid import true_segments

    return true_segments(path, advertisers)


def _planted_cell(cell: NoiseCell, half: Half) -> SuiteCell:
    spoiled = _spoiled(cell)
    return SuiteCell(
        "planted",
        f"{','.join(map(str, cell.sizes))}; {spoiled}",
        half,
        partial(_draw_planted, cell),
        short_name=f"{sizes_text(cell.sizes)}; {spoiled}",
        quick=sum(cell.sizes) <= _QUICK_PLANTED,
    )


def _spoiled(cell: NoiseCell) -> str:
    kind = "together" if cell.correlated else "apart"
    bad = f"{cell.n_bad} of {cell.n_partitions} bad {kind}" if cell.n_bad else "none bad"
    return f"{bad}; noise {cell.noise:g}"


def _small_planted() -> list[NoiseCell]:
    """The cells by which the method was designed, and the smaller of those it was not."""
    return [cell for cell in CORE_CELLS + MORE_CELLS if sum(cell.sizes) <= _MOST_PLANTED]


def _half(place: int) -> Half:
    return "develop" if place % 2 == 0 else "report"


_REAL = ("cstr", "digits", "glass", "ionosphere", "iris", "soybean_small", "wine", "zoo")
#: Small ones that come with this package or with scikit-learn.
_QUICK_SETS = ("glass", "ionosphere", "iris", "wine", "zoo")
_VIEWS = ("caltech101_7", "msrc_v1", "uci_mfeat")
_ENSEMBLES = {"fixed K": "kmeans", "diverse K": "diverse"}

SUITE: tuple[SuiteCell, ...] = (
    *(_planted_cell(cell, _half(place)) for place, cell in enumerate(_small_planted())),
    *(
        SuiteCell(
            "real",
            f"{name}, {kind}",
            _half(place),
            partial(_draw_real, name, strategy),
            name,
            quick=name in _QUICK_SETS,
        )
        for place, name in enumerate(_REAL)
        for kind, strategy in _ENSEMBLES.items()
    ),
    *(
        SuiteCell(
            "views", f"{name}, {kind}", _half(place), partial(_draw_views, name, strategy), name
        )
        for place, name in enumerate(_VIEWS)
        for kind, strategy in _ENSEMBLES.items()
    ),
    *(
        SuiteCell("market", name, _half(place), partial(_draw_market, n_cuts))
        for place, (name, n_cuts) in enumerate({"one a view": 1, "six a view": 6}.items())
    ),
)
