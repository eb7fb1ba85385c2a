"""All pairs of curves: the similarity graph and the distances beside SciPy's ``cdist``.

The curves are those of a simulated market: empirical c.d.f.s of as many market prices as each
advertiser has seen, a segment's advertisers alike, volumes log-normal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import norm

from coterie.ads.logs.simulation.simulated_traits import MarketSettings, Traits, draw_traits
from coterie.ads.segments.similarity import kolmogorov_critical_value, ks_distances, ks_graph

__all__ = ["TARGET", "compare_similarity", "market_curves"]

#: How many times as fast as ``cdist`` the graph should be.
TARGET = 8.0

Result = TypeVar("Result")
Floats = NDArray[np.float64]

_DAYS = 6
_BLOCK = 256
_WARM_UP = 200


def compare_similarity(
    advertisers: int = 20_000, points: int = 256, alpha: float = 0.05, seed: int = 0
) -> dict[str, Any]:
    """Time the graph and the distances of one market's curves, and ``cdist`` in the same run.

    ``cdist`` gets the curves a block of rows at a time, so that memory does not decide; what is
    done with its blocks, checking every decision and every distance, is not timed. Compilation
    is not timed either.

    Parameters
    ----------
    advertisers, points : int
        The curves are (advertisers, points).
    alpha : float
    seed : int

    Returns
    -------
    dict, ready for JSON
        ``seconds`` and ``cpu_seconds`` of ``graph``, ``distances`` and ``cdist``,
        ``times_as_fast`` as ``cdist`` in wall time and ``target`` for the graph,
        ``differing_decisions`` (pairs the graph decides otherwise than float64 arithmetic) and
        ``largest_error`` of the distances.

    Examples
    --------
    >>> found = compare_similarity(advertisers=300, points=32)
    >>> found["differing_decisions"], found["largest_error"] < 2**-23
    (0, True)
    """
    curves, observations = market_curves(advertisers, points, seed)
    ks_graph(curves[:_WARM_UP], observations[:_WARM_UP], alpha)
    ks_distances(curves[:_WARM_UP])
    clock = _Clock()
    graph = clock.timed("graph", partial(ks_graph, curves, observations, alpha))
    distances = clock.timed("distances", partial(ks_distances, curves))
    differing, error = 0, 0.0
    for rows in _row_blocks(advertisers):
        exact = clock.timed("cdist", partial(cdist, curves[rows], curves, "chebyshev"))
        similar = exact <= _thresholds(observations, rows, alpha)
        similar[np.arange(len(similar)), np.arange(rows.start, rows.stop)] = False
        differing += int(np.count_nonzero(similar != graph[rows].toarray()))
        error = max(error, float(np.abs(exact - distances[rows]).max()))
    return {
        "advertisers": advertisers,
        "points": points,
        "alpha": alpha,
        "density": graph.nnz / advertisers**2,
        "seconds": clock.seconds,
        "cpu_seconds": clock.cpu_seconds,
        "times_as_fast": {
            name: clock.seconds["cdist"] / clock.seconds[name] for name in ("graph", "distances")
        },
        "target": TARGET,
        "differing_decisions": differing // 2,
        "largest_error": error,
    }


def market_curves(advertisers: int, points: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Curves (A, G) of a simulated market, and how many prices each rests on (A,).

    >>> curves, observations = market_curves(5, 8)
    >>> curves.shape, bool((np.diff(curves, axis=1) >= 0).all()), bool((observations >= 1).all())
    ((5, 8), True, True)
    """
    traits = draw_traits(
        MarketSettings(advertisers=advertisers, segments=min(10, advertisers), seed=seed)
    )
    rng = np.random.default_rng(seed)
    observations = np.maximum(rng.poisson(_DAYS * traits.volume), 1)
    shares = np.diff(_price_laws(traits, points), axis=1, prepend=0.0)
    counts = rng.multinomial(observations, shares)
    return np.cumsum(counts, axis=1) / observations[:, np.newaxis], observations.astype(float)


class _Clock:
    """Wall and CPU seconds by name, summed over calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}

    def timed(self, name: str, work: Callable[[], Result]) -> Result:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - wall
        self.cpu_seconds[name] = self.cpu_seconds.get(name, 0.0) + time.process_time() - cpu
        return result


def _price_laws(traits: Traits, points: int) -> Floats:
    """Every advertiser's c.d.f. of market prices at quantiles of them all, ending at 1."""
    levels = np.quantile(traits.market_level, np.arange(1, points + 1) / (points + 1))
    laws = np.zeros((len(traits.segment), points))
    for part in range(traits.market_level.shape[1]):
        level, spread, share = (
            column[:, part, np.newaxis]
            for column in (traits.market_level, traits.market_spread, traits.market_share)
        )
        laws += share * norm.cdf((levels - level) / spread)
    laws[:, -1] = 1.0
    return laws


def _row_blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, _BLOCK):
        yield slice(start, min(start + _BLOCK, n))


def _thresholds(observations: Floats, rows: slice, alpha: float) -> Floats:
    """C_α √(1/m_i + 1/m_j) of some rows and all columns."""
    inverse = 1.0 / observations
    spread = np.sqrt(inverse[rows, np.newaxis] + inverse)
    return np.asarray(kolmogorov_critical_value(alpha) * spread)
