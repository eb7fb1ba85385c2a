"""Segment settings: all settings of the segmentation of advertisers, checked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from coterie.errors import InvalidParameterError

_LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class SegmentSettings:
    """Settings of the segmentation; where several values are given, a backtest chooses.

    Parameters
    ----------
    n_segments : int or sequence of int
        The number of segments, or the numbers to choose from.
    alphas : sequence of float
        Levels of the Kolmogorov–Smirnov test; each gives partitions.
    strengths : sequence of float
        Pooling strengths to choose from, in trials.
    max_observations : float or None
        The largest number of bids of an advertiser that count, in the test and in the curve of
        its segment.
    tolerance : float
        Curves with at most this distance are similar even if the test rejects. The paper has
        neither a limit nor a tolerance: None and 0 give its graphs, with ``n_neighbors`` None. But
        with many observations the test separates advertisers whose forecasts are equal.
    n_neighbors : int, "auto" or None
        The number of nearest similar advertisers that each is joined to in the graphs of the
        test; None joins all that are similar, whose number grows with the square of advertisers.
        "auto" joins all of up to 5,000 advertisers, and the nearest 50 of more.
    wins_over : {"wins", "bids"}
        Denominator of the paper's win-rate c.d.f.
    consensus : consensus function, optional
        Any unfitted consensus function of the library; by default ``RobustConsensus``.
    origins : int
        The largest number of training days to forecast in the backtest.
    max_representatives : int
        What is common to all advertisers is fitted to at most so many, a random sample; the
        others are placed by it. Memory and time for the fit depend on this number, not on that
        of advertisers.
    random_state : int
    """

    n_segments: int | Sequence[int] = (8, 12, 16)
    alphas: Sequence[float] = (0.01, 0.05, 0.1)
    strengths: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
    max_observations: float | None = 2000.0
    tolerance: float = 0.0
    n_neighbors: int | str | None = "auto"
    wins_over: str = "wins"
    consensus: Any = None
    origins: int = 2
    max_representatives: int = 20_000
    random_state: int = 0

    def __post_init__(self) -> None:
        for name, (is_right, rule) in _RULES.items():
            value = getattr(self, name)
            if not is_right(value):
                raise InvalidParameterError(f"{name}={value!r}: {rule}")

    @property
    def numbers_of_segments(self) -> list[int]:
        """Sorted distinct numbers of segments to choose from."""
        return sorted({int(k) for k in np.atleast_1d(self.n_segments)})

    def possible_numbers(self, n_advertisers: int) -> list[int]:
        """Return the numbers of segments, limited to half of the number of advertisers.

        Parameters
        ----------
        n_advertisers : int
        """
        most = max(1, n_advertisers // 2)
        return sorted({min(k, most) for k in self.numbers_of_segments})


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: Any, least: int) -> bool:
    return _is_number(value) and isinstance(value, Integral) and int(value) >= least


def _are_all(values: Any, is_right: Callable[[Any], bool]) -> bool:
    """Return whether ``values`` is a list, not empty, of valid values."""
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    return is_list and len(values) > 0 and all(is_right(value) for value in values)


def _has_n_clusters(consensus: Any) -> bool:
    is_estimator = hasattr(consensus, "get_params") and not isinstance(consensus, type)
    return is_estimator and "n_clusters" in consensus.get_params()


#: What each setting may be: a test of its value, and the rule in words.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "n_segments": (
        lambda k: _is_whole(k, 1) or _are_all(k, lambda one: _is_whole(one, 1)),
        "it must be a whole number from 1 up, or a list of them",
    ),
    "alphas": (
        lambda alphas: _are_all(alphas, lambda one: _is_number(one) and 0 < one < 1),
        "give at least one level between 0 and 1",
    ),
    "strengths": (
        lambda strengths: _are_all(strengths, lambda one: _is_number(one) and 0 < one < np.inf),
        "give at least one finite number above 0",
    ),
    "max_observations": (
        lambda most: most is None or (_is_number(most) and 1 <= most < np.inf),
        "it must be a number from 1 up, or None for no limit",
    ),
    "tolerance": (
        lambda tolerance: _is_number(tolerance) and 0 <= tolerance <= 1,
        "it must be a distance from 0 to 1",
    ),
    "n_neighbors": (
        lambda n: n in (None, "auto") or _is_whole(n, 1),
        "it must be a whole number from 1 up, 'auto', or None for all",
    ),
    "wins_over": (lambda over: over in ("wins", "bids"), "it must be 'wins' or 'bids'"),
    "consensus": (
        lambda consensus: consensus is None or _has_n_clusters(consensus),
        "it must be an unfitted consensus function with the parameter n_clusters",
    ),
    "origins": (lambda n: _is_whole(n, 0), "it must be a whole number from 0 up"),
    "max_representatives": (lambda n: _is_whole(n, 2), "it must be a whole number from 2 up"),
    "random_state": (
        lambda seed: _is_whole(seed, 0) and seed <= _LARGEST_SEED,
        f"it must be a whole number from 0 to {_LARGEST_SEED:,}",
    ),
}
