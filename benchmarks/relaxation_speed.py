"""Time of a step of the robust relaxation beside what no step can do without, in one run.

The yardstick is reading and writing a (u, u) matrix in single precision once, and multiplying it
twice by as many columns as the solver keeps, K + 6, with the BLAS that NumPy has: a step must
change the whole state and find its leading eigenvectors. Relaxation and yardstick run in the same
process, one after the other, on the same number of threads. Nothing compresses: the u tuples
are distinct.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Measurement, Work, measure
from coterie.counts.coassociation import TupleCoassociation, tuple_coassociation
from coterie.ensembles.planted import planted_partitions
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.admm import required_bytes, robust_factor
from coterie.relaxation.least_squares import least_squares_factor
from coterie.runtime.devices import map_row_blocks, on_one_thread

__all__ = ["SIZES", "StepTimes", "run_relaxation_speed"]

SIZES = (2_000, 5_000, 10_000, 20_000, 40_000)
N_CLUSTERS = 10
N_PARTITIONS = 40
NOISE = 0.6
#: The first steps touch new memory and refine more; they are not counted.
N_FIRST = 3
#: Times a step may take of the yardstick, and from how many tuples on: fewer fit the caches.
MOST_RATIO = 3.0
LIMITED_FROM = 10_000

_COLUMNS = N_CLUSTERS + 6
_WARM_UP_TUPLES = 4_100
_YARDSTICK_NUMBERS = 4 * 10**8
_YARDSTICK_RUNS = 5


@dataclass(frozen=True)
class StepTimes:
    """What a size took.

    Attributes
    ----------
    n_tuples : int
    step_seconds : tuple of float
        Each step after the first three, in the run with the least mean.
    read_write_seconds, product_seconds : float
        Of the whole matrix; the least of all runs.
    matrix_bytes, peak_bytes, estimated_bytes : int
        M; the most memory in use beyond it; what the library says beforehand it takes of both.
    objective : float
        ‖M − F Fᵀ‖₁ after these steps.
    n_runs : int
    """

    n_tuples: int
    step_seconds: tuple[float, ...]
    read_write_seconds: float
    product_seconds: float
    matrix_bytes: int
    peak_bytes: int
    estimated_bytes: int
    objective: float
    n_runs: int = 1

    @property
    def seconds(self) -> float:
        """Mean of the steps."""
        return float(np.mean(self.step_seconds))

    @property
    def yardstick(self) -> float:
        """Seconds of reading and writing once and of two products."""
        return self.read_write_seconds + 2.0 * self.product_seconds

    @property
    def ratio(self) -> float:
        """A step over the yardstick.

        >>> StepTimes(9, (1.0, 2.0), 0.2, 0.15, 81, 0, 0, 0.0).ratio
        3.0
        """
        return self.seconds / self.yardstick

    @property
    def too_slow(self) -> bool:
        """Whether the ratio is above its limit, where there is one."""
        return self.n_tuples >= LIMITED_FROM and self.ratio > MOST_RATIO


def run_relaxation_speed(
    sizes: Sequence[int],
    n_steps: int = 10,
    repeats: int = 2,
    before_step: Callable[[str], None] | None = None,
) -> list[StepTimes]:
    """Measure ``n_steps`` steps (after three more) at each size, each run in a fresh process.

    Parameters
    ----------
    sizes : numbers of tuples
    n_steps, repeats : int
        Counted steps of a run, and runs; the run with the least mean counts.
    before_step : called with a few words on what is measured next
    """
    results = []
    for u in sizes:
        runs = []
        for repeat in range(repeats):
            if before_step is not None:
                before_step(f"{u:,} tuples, run {repeat + 1} of {repeats}")
            runs.append(measure(relaxation_work(u, n_steps)))
        results.append(_step_times(u, runs))
    return results


def relaxation_work(n_tuples: int, n_steps: int) -> Work:
    """The relaxation of so many distinct tuples, with the yardstick among its facts."""
    return Work(
        load=partial(_load, n_tuples),
        warm_up=_warm_up,
        run=partial(_relax, n_steps=N_FIRST + n_steps),
        describe=_describe,
    )


@dataclass(frozen=True)
class _Problem:
    """M over tuples and where to begin."""

    M: TupleCoassociation
    start: NDArray[np.float64]


def _load(n_tuples: int) -> _Problem:
    sizes = [len(part) for part in np.array_split(np.arange(n_tuples), N_CLUSTERS)]
    P = planted_partitions(sizes, N_PARTITIONS, 0, NOISE, random_state=0)[0]
    tuples = as_label_tuples(P)
    equal = np.ones(N_PARTITIONS)
    start = least_squares_factor(tuples, equal, N_CLUSTERS)
    return _Problem(tuple_coassociation(tuples, equal), start)


def _warm_up(problem: _Problem) -> None:
    """A few steps on a part that is large enough for the same compiled kernels."""
    few = slice(0, _WARM_UP_TUPLES)
    values, weights = problem.M.values[few, few].copy(), problem.M.weights[few]
    part = TupleCoassociation(values, problem.M.scale, weights)
    _relax(_Problem(part, problem.start[few]), n_steps=2)


def _relax(problem: _Problem, n_steps: int) -> dict[str, Any]:
    ends: list[float] = []
    found = robust_factor(
        problem.M,
        problem.start,
        max_iter=n_steps,
        tol=0.0,
        callback=lambda *_: ends.append(time.perf_counter()),
    )
    return {"step_seconds": np.diff(ends)[N_FIRST - 1 :].tolist(), "objective": found.objective}


def _describe(problem: _Problem, found: dict[str, Any]) -> dict[str, Any]:
    n_tuples = problem.M.n_tuples
    read_write, product = yardstick(n_tuples)
    return {
        **found,
        "read_write_seconds": read_write,
        "product_seconds": product,
        "n_tuples": n_tuples,
        "matrix_bytes": problem.M.values.nbytes,
    }


def yardstick(n: int) -> tuple[float, float]:
    """Seconds to read and write an (n, n) float32 matrix, and to multiply it by K + 6 columns.

    The product is by BLAS on its own threads, or on one in each of ours, whichever is faster.
    Beyond 1.6 GB both are those of some rows, times how many such parts there are.
    """
    n_rows = min(n, _YARDSTICK_NUMBERS // n)
    A = np.ones((n_rows, n), dtype=np.float32)
    X, Y = np.ones((n, _COLUMNS), dtype=np.float32), np.empty((n_rows, _COLUMNS), np.float32)

    def negate(start: int, stop: int) -> None:
        np.negative(A[start:stop], out=A[start:stop])

    def multiply(start: int, stop: int) -> None:
        np.matmul(A[start:stop], X, out=Y[start:stop])

    read_write = _least_seconds(lambda: map_row_blocks(negate, n_rows))
    product = _least_seconds(lambda: np.matmul(A, X, out=Y))
    with on_one_thread():
        product = min(product, _least_seconds(lambda: map_row_blocks(multiply, n_rows)))
    return n / n_rows * read_write, n / n_rows * product


def _least_seconds(work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(_YARDSTICK_RUNS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _step_times(n_tuples: int, runs: Sequence[Measurement]) -> StepTimes:
    """Several runs as one: the quietest of each kind."""
    best = min(runs, key=lambda run: float(np.mean(run.facts["step_seconds"])))
    return StepTimes(
        n_tuples=n_tuples,
        step_seconds=tuple(best.facts["step_seconds"]),
        read_write_seconds=min(run.facts["read_write_seconds"] for run in runs),
        product_seconds=min(run.facts["product_seconds"] for run in runs),
        matrix_bytes=best.facts["matrix_bytes"],
        peak_bytes=max(run.peak_bytes for run in runs),
        estimated_bytes=required_bytes(n_tuples),
        objective=best.facts["objective"],
        n_runs=len(runs),
    )
