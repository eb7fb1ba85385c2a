"""Time of one step of the robust relaxation compared with its unavoidable work.

A step must update the whole state and find its leading eigenvectors. The unavoidable work is
therefore to read and write a (u, u) matrix in single precision once and to multiply it twice by
K + 6 columns, as many as the solver keeps, with NumPy's BLAS. Both run in the same process on the
same number of threads. The u tuples are distinct, so nothing compresses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Context
from benchmarks.measuring import Measurement, Stopwatch, measure
from benchmarks.results import Result, Table, item, seconds_text
from coterie.counts.coassociation import TupleCoassociation, tuple_coassociation
from coterie.ensembles.generate import planted_partitions
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.admm import required_bytes, robust_factor
from coterie.relaxation.spectral import least_squares_factor
from coterie.runtime.devices import map_row_blocks, on_one_thread, readable_bytes

SIZES = (2_000, 5_000, 10_000, 20_000, 40_000)
N_CLUSTERS, N_PARTITIONS, NOISE = 10, 40, 0.6
#: The first steps use new memory and refine more; they are not counted.
N_FIRST = 3

_COLUMNS = N_CLUSTERS + 6
# enough for the kernels in single precision
_WARM_UP_TUPLES = 4_100
# above 1.6 GB only some rows of the matrix are timed
_MOST_NUMBERS = 4 * 10**8
_N_TIMED = 5

MEASURES = ("counts", "relaxation")


def run(context: Context, *, most: int = 20_000, steps: int = 10, repeats: int = 2) -> Result:
    """Measure ``steps`` steps at each size up to ``most`` tuples (40,000 take 5 GB).

    Of ``repeats`` runs, the one with the lowest mean counts.
    """
    sizes = [u for u in SIZES if u <= (5_000 if context.quick else most)]
    found = [
        summarise(u, [measure(partial(relax, n_tuples=u, n_steps=steps)) for _ in range(repeats)])
        for u in context.track(sizes, "measuring")
    ]
    columns = {
        "tuples": item("n_tuples", form=","),
        "runs": item("n_runs"),
        "steps": item("n_steps"),
        "a step, s": item("seconds", form=seconds_text),
        "read and write, s": item("read_write_seconds", form=seconds_text),
        "product, s": item("product_seconds", form=seconds_text),
        "unavoidable, s": item("unavoidable_seconds", form=seconds_text),
        "ratio": item("ratio", form=".2f"),
        "M": item("matrix_bytes", form=readable_bytes),
        "peak beyond M": item("peak_bytes", form=readable_bytes),
        "estimate of both": item("estimated_bytes", form=readable_bytes),
    }
    table = Table.of("A step of the robust relaxation", found, columns)
    return Result("relaxation", [table], {"sizes": found})


def relax(watch: Stopwatch, n_tuples: int, n_steps: int) -> dict[str, Any]:
    """Time the steps of the relaxation of distinct tuples, and the unavoidable work."""
    sizes = [len(part) for part in np.array_split(np.arange(n_tuples), N_CLUSTERS)]
    P = planted_partitions(sizes, N_PARTITIONS, 0, NOISE, random_state=0)[0]
    tuples, equal = as_label_tuples(P), np.ones(N_PARTITIONS)
    M, start = tuple_coassociation(tuples, equal), least_squares_factor(tuples, equal, N_CLUSTERS)
    few = slice(0, _WARM_UP_TUPLES)
    ends: list[float] = []

    def record_end(*_: Any) -> None:
        ends.append(time.perf_counter())

    with watch.warm_up():
        part = TupleCoassociation(M.values[few, few].copy(), M.scale, M.weights[few])
        robust_factor(part, start[few], max_iter=2, tol=0.0)
    with watch.measure():
        robust_factor(M, start, max_iter=N_FIRST + n_steps, tol=0.0, callback=record_end)
    read_write, product = unavoidable_seconds(n_tuples)
    return {
        "step_seconds": np.diff(ends)[N_FIRST - 1 :].tolist(),
        "read_write_seconds": read_write,
        "product_seconds": product,
        "matrix_bytes": M.values.nbytes,
    }


def unavoidable_seconds(n: int) -> tuple[float, float]:
    """Return seconds to read and write an (n, n) float32 matrix, and to multiply it once.

    The product with K + 6 columns uses the threads of BLAS, or one BLAS thread in each thread of
    the library; the faster one counts.
    """
    n_rows = min(n, _MOST_NUMBERS // n)
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


def summarise(n_tuples: int, runs: Sequence[Measurement]) -> dict[str, Any]:
    """Return the figures of a size: the lowest mean of a step, and the least other times."""
    facts = [run.facts for run in runs]
    seconds = min(float(np.mean(found["step_seconds"])) for found in facts)
    read_write = min(found["read_write_seconds"] for found in facts)
    product = min(found["product_seconds"] for found in facts)
    unavoidable = read_write + 2.0 * product
    return {
        "n_tuples": n_tuples,
        "n_runs": len(runs),
        "n_steps": len(facts[0]["step_seconds"]),
        "seconds": seconds,
        "read_write_seconds": read_write,
        "product_seconds": product,
        "unavoidable_seconds": unavoidable,
        "ratio": seconds / unavoidable,
        "matrix_bytes": facts[0]["matrix_bytes"],
        "peak_bytes": max(run.peak_bytes for run in runs),
        "estimated_bytes": required_bytes(n_tuples),
    }


def _least_seconds(work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(_N_TIMED):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
