"""How fast a step of the robust relaxation is on a GPU, beside plain tensor code and the bytes.

Planted labels in which no two points are alike: V = 40 partitions into K = 10 clusters, 16 of them
wrong together, 20% of all labels noise. The same steps are taken by the fused kernels, by
plain tensor code on full matrices, and (for few points) by the CPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.plain_tensors import PlainTensorSolver
from coterie.counts.coassociation import tuple_coassociation
from coterie.ensembles.planted import planted_partitions
from coterie.errors import MissingExtraError
from coterie.inspection.scores import clustering_accuracy
from coterie.labels.tuples import LabelTuples, as_label_tuples
from coterie.relaxation.admm import robust_factor
from coterie.relaxation.gpu_admm import GpuSolver, gpu_robust_factor, required_gpu_bytes
from coterie.relaxation.iteration import minimise
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.rounding import round_by_pivoted_qr
from coterie.runtime.devices import gpu_memory, gpu_obstacle

__all__ = ["GpuResults", "GpuRow", "run_gpu"]

N_CLUSTERS, N_PARTITIONS, N_BAD, NOISE = 10, 40, 16, 0.2
#: Up to so many points the CPU takes part, and up to so many plain tensor code does.
_MOST_ON_CPU, _MOST_PLAIN = 10_000, 100_000
_PLAIN_STEPS, _CPU_STEPS = 6, 10
#: Bytes of half of the state and of the counts that a step must move, and those of a product.
_STEP_BYTES, _PRODUCT_BYTES = 4.5, 2.0


@dataclass(frozen=True)
class GpuRow:
    """What was measured at one number of points.

    Attributes
    ----------
    n_points, n_tuples : int
    n_iter : int
        Steps taken.
    milliseconds : dict of str to float
        Median time of a step: ``fused`` and its two parts ``fused: state`` and ``fused:
        eigenvectors``, ``plain``, ``cpu``, and ``bytes``, what moving the bytes alone would take.
    passes : float
        Passes over the state a step, the first of which changes it.
    peak_bytes : int
        Highest memory on the device.
    above_cpu : float or None
        By how much the objective exceeds the CPU's after as many steps.
    accuracy : float
        Of the rounded labels against the planted clusters.
    """

    n_points: int
    n_tuples: int
    n_iter: int
    milliseconds: dict[str, float]
    passes: float
    peak_bytes: int
    above_cpu: float | None
    accuracy: float


@dataclass(frozen=True)
class GpuResults:
    """The rows, the device, and the bytes a second it copies."""

    rows: Sequence[GpuRow]
    device: str
    bandwidth: float


def run_gpu(
    sizes: Sequence[int], n_iter: int = 60, before_step: Callable[[str], None] | None = None
) -> GpuResults:
    """Measure at each number of points; those that would not fit on the device are left out."""
    if obstacle := gpu_obstacle():
        raise MissingExtraError(f"there is no GPU to measure: {obstacle}")
    import torch

    bandwidth = _copy_bandwidth()
    rows = []
    for n in sizes:
        if before_step is not None:
            before_step(f"{n:,} points")
        if required_gpu_bytes(n, N_CLUSTERS) <= gpu_memory():
            rows.append(_measured(n, n_iter, bandwidth))
        torch.cuda.empty_cache()
    return GpuResults(rows, torch.cuda.get_device_name(), bandwidth)


def _measured(n: int, n_iter: int, bandwidth: float) -> GpuRow:
    import torch

    tuples, truth = _planted(n)
    alpha = np.ones(N_PARTITIONS)
    start = least_squares_factor(tuples, alpha, N_CLUSTERS)
    problem = (tuples.codes, alpha, tuples.weights, start)
    minimise(GpuSolver(*problem), 1.1, 2, 0.0, None)  # compiles the kernels
    torch.cuda.reset_peak_memory_stats()
    solver: Any = _Timed(GpuSolver(*problem))
    found: Any = minimise(solver, 1.1, n_iter, 0.0, None)
    peak = torch.cuda.max_memory_allocated()
    passes = solver.inner.n_products / n_iter
    factor = found.factor.cpu().numpy()
    milliseconds = solver.milliseconds("fused")
    u = tuples.n_tuples
    floor = (_STEP_BYTES + _PRODUCT_BYTES * (passes - 1)) * u**2 / bandwidth
    milliseconds["bytes"] = 1e3 * floor
    del solver
    torch.cuda.empty_cache()
    if n <= _MOST_PLAIN:
        plain: Any = _Timed(PlainTensorSolver(*problem))
        minimise(plain, 1.1, _PLAIN_STEPS, 0.0, None)
        milliseconds["plain"] = plain.milliseconds("plain")["plain"]
    above = None
    if n <= _MOST_ON_CPU:
        milliseconds["cpu"], above = _beside_the_cpu(tuples, alpha, start)
    labels = tuples.expand(round_by_pivoted_qr(factor, tuples.weights))
    accuracy = clustering_accuracy(truth, labels)
    return GpuRow(n, u, n_iter, milliseconds, passes, peak, above, accuracy)


class _Timed:
    """A solver whose steps are timed, the device's work included."""

    def __init__(self, solver: Any) -> None:
        self.inner = solver
        self.mean, self.norm, self.n_points = solver.mean, solver.norm, solver.n_points
        self.steps: list[float] = []
        self.advances: list[float] = []

    @property
    def factor(self) -> Any:
        return self.inner.factor

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        return self._timed(self.steps, lambda: self.inner.step(shrink, bound))

    def advance(self) -> float:
        return self._timed(self.advances, self.inner.advance)

    def objective(self) -> float:
        return float(self.inner.objective())

    def milliseconds(self, name: str) -> dict[str, float]:
        """Medians of a whole step and of its two parts."""
        whole = [a + b for a, b in zip(self.steps, self.advances, strict=True)]
        parts = {"": whole, ": state": self.steps, ": eigenvectors": self.advances}
        return {name + part: 1e3 * statistics.median(taken) for part, taken in parts.items()}

    @staticmethod
    def _timed(taken: list[float], work: Callable[[], Any]) -> Any:
        import torch

        torch.cuda.synchronize()
        began = time.perf_counter()
        result = work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
        return result


def _beside_the_cpu(
    tuples: LabelTuples, alpha: NDArray[np.float64], start: NDArray[np.float64]
) -> tuple[float, float]:
    """Median milliseconds of a step on the CPU, and by how much the GPU's objective is above."""
    M = tuple_coassociation(tuples, alpha)
    ends: list[float] = []
    robust_factor(M, start, max_iter=1, tol=0.0)  # compiles the kernels
    here = robust_factor(
        M,
        start,
        max_iter=_CPU_STEPS,
        tol=0.0,
        callback=lambda *_: ends.append(time.perf_counter()),
    )
    there = gpu_robust_factor(
        tuples.codes, alpha, tuples.weights, start, max_iter=_CPU_STEPS, tol=0.0
    )
    return 1e3 * statistics.median(np.diff(ends).tolist()), there.objective / here.objective - 1


def _planted(n: int) -> tuple[LabelTuples, NDArray[Any]]:
    """The planted labels, one tuple a point, and what was planted."""
    sizes = [len(part) for part in np.array_split(np.arange(n), N_CLUSTERS)]
    P, truth = planted_partitions(sizes, N_PARTITIONS, N_BAD, NOISE, random_state=0)
    tuples = as_label_tuples(P)
    return replace(tuples.without_compression(), inverse=np.arange(n)), truth


def _copy_bandwidth() -> float:
    """Bytes read and written a second by a large copy on the device."""
    import torch

    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    taken = []
    for _ in range(10):
        torch.cuda.synchronize()
        began = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return 2 * source.numel() * source.element_size() / statistics.median(taken)
