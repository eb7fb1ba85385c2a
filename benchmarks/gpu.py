"""Time of one step of the robust relaxation on a GPU compared with plain tensor code and the CPU.

Planted labels of K = 10 clusters in V = 40 partitions: 16 are wrong in the same way, and 20% of all
labels are noise, so that no two points are equal. The same steps are taken by the fused kernels, by
plain tensor code on full matrices, and (up to 10,000 points) by the CPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.results import Marks, Result, Table, add_legend, item, line_plot
from coterie.counts.coassociation import tuple_coassociation
from coterie.ensembles.generate import planted_partitions
from coterie.errors import MissingExtraError
from coterie.inspection.scores import clustering_accuracy
from coterie.labels.tuples import LabelTuples, as_label_tuples
from coterie.relaxation.admm import minimise, robust_factor
from coterie.relaxation.gpu import GpuSolver, gpu_robust_factor, required_gpu_bytes
from coterie.relaxation.spectral import least_squares_factor, round_by_pivoted_qr
from coterie.runtime.devices import gpu_memory, gpu_obstacle, readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Matrix = NDArray[np.float64]

SIZES, QUICK_SIZES = (2_000, 5_000, 10_000, 30_000, 100_000, 200_000), (2_000, 10_000)
N_CLUSTERS, N_PARTITIONS, N_BAD, NOISE = 10, 40, 16, 0.2
# up to how many points the CPU and the plain tensor code are measured
_MOST_ON_CPU, _MOST_PLAIN = 10_000, 100_000
_PLAIN_STEPS, _CPU_STEPS = 6, 10
# bytes per pair of points: a step reads and writes half of the state and reads half of the
# counts; a product reads half of the state
_STEP_BYTES, _PRODUCT_BYTES = 4.5, 2.0
_ROWS_AT_ONCE, _EXTRA_COLUMNS = 4096, 6
_HEADINGS = {
    "fused": "fused, ms",
    "fused: state": "state",
    "fused: eigenvectors": "eigenvectors",
    "bytes": "bytes, ms",
    "plain": "plain, ms",
    "cpu": "CPU, ms",
}
_STYLES = {
    "fused": ("fused kernels", "blue", "o"),
    "plain": ("plain tensor code", "orange", "s"),
    "cpu": ("CPU, all cores", "vermilion", "D"),
    "bytes": ("bytes alone", "grey", "."),
}

MEASURES = ("counts", "relaxation")


def run(context: Context, *, steps: int = 60) -> Result:
    """Measure ``steps`` steps at every number of points that fits on the device."""
    if obstacle := gpu_obstacle():
        raise MissingExtraError(f"there is no GPU to measure: {obstacle}")
    import torch

    bandwidth = _copy_bandwidth()
    rows = []
    for n in context.track(QUICK_SIZES if context.quick else SIZES, "measuring"):
        if required_gpu_bytes(n, N_CLUSTERS) <= gpu_memory():
            rows.append(_measure(n, steps, bandwidth))
        torch.cuda.empty_cache()
    device = torch.cuda.get_device_name()
    return result_of({"rows": rows, "device": device, "copy_bytes_a_second": bandwidth})


def result_of(data: dict[str, Any]) -> Result:
    """Return the result of measured rows."""
    columns = {"n": item("n_points", form=",")}
    for name, heading in _HEADINGS.items():
        columns[heading] = item("milliseconds", name, form=".3g", missing="–")
    columns |= {
        "passes": item("passes", form=".2f"),
        "peak memory": item("peak_bytes", form=readable_bytes),
        "above CPU": item("above_cpu", form="+.1e", missing="–"),
        "accuracy": item("accuracy", form=".3f"),
    }
    table = Table.of(f"Milliseconds a step on {data['device']}", data["rows"], columns)
    speed = f"{data['device']} copies {data['copy_bytes_a_second'] / 1e12:.2f} TB/s."
    return Result("gpu", [table], data, [speed], {"": lambda: draw(data)})


def draw(data: dict[str, Any]) -> Figure:
    """Draw milliseconds a step against the number of points."""
    marks = []
    for name, style in _STYLES.items():
        rows = [row for row in data["rows"] if name in row["milliseconds"]]
        n, taken = zip(*((row["n_points"], row["milliseconds"][name]) for row in rows), strict=True)
        marks.append(Marks(*style, n, taken))
    panels = {f"Milliseconds a step on {data['device']}": marks}
    figure, _ = line_plot(panels, (7.0, 4.5), xscale="log", yscale="log", xlabel="distinct points")
    add_legend(figure)
    return figure


class PlainTensorSolver:
    """The steps of the robust relaxation in plain tensor code, without special kernels.

    Full matrices, counts in one byte, the state in float32, and blocks of rows, so that temporary
    arrays stay small. It is a :class:`~coterie.relaxation.admm.Solver`.
    Labels ``codes`` (u, V) must not be missing, all weights must be equal; ``start`` is (u, K).
    """

    def __init__(
        self,
        codes: NDArray[Any],
        partition_weights: Matrix,
        weights: Matrix,
        start: Matrix,
        device: str = "cuda",
    ) -> None:
        import torch

        self.torch = torch
        self.u, self.k = start.shape
        self.n_points = float(weights.sum())
        self.scale = 1.0 / len(partition_weights)
        self.factor = torch.from_numpy(start).to(device)
        turned = torch.from_numpy(np.ascontiguousarray(codes.T)).to(device)
        self.counts = torch.zeros((self.u, self.u), dtype=torch.uint8, device=device)
        total = squares = 0.0
        for rows in self._row_blocks():
            for labels in turned:
                self.counts[rows] += labels[rows, None] == labels
            block = self.counts[rows].float() * self.scale
            total += float(block.sum(dtype=torch.float64))
            squares += float((block**2).sum(dtype=torch.float64))
        self.mean, self.norm = total / self.n_points**2, squares**0.5
        self.state = torch.zeros((self.u, self.u), dtype=torch.float32, device=device)
        noise = np.random.default_rng(0).standard_normal((self.u, _EXTRA_COLUMNS))
        first = torch.cat([self.factor, torch.from_numpy(noise).to(device)], dim=1)
        self.block = torch.linalg.qr(first)[0]
        self.product = torch.empty_like(self.block)

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        """B ← L + clip(M − L − Y), and B times the block."""
        torch = self.torch
        F, X = self.factor.float(), self.block.float()
        objective = residual = 0.0
        for rows in self._row_blocks():
            low = F[rows] @ F.T
            y = (low - self.state[rows]) * shrink
            gap = self.counts[rows].float() * self.scale - low
            clipped = torch.clamp(gap - y, -bound, bound)
            self.state[rows] = low + clipped
            objective += float(gap.abs().sum(dtype=torch.float64))
            residual += float(((clipped + y) ** 2).sum(dtype=torch.float64))
            self.product[rows] = (self.state[rows] @ X).double()
        return objective, residual**0.5

    def advance(self) -> float:
        """L ← K largest eigenpairs of B by one more product and Rayleigh–Ritz."""
        torch = self.torch
        basis = torch.linalg.qr(self.product)[0]
        image = (self.state @ basis.float()).double()
        values, rotation = torch.linalg.eigh(basis.T @ image)
        self.block = basis @ rotation.flip(1)
        values = values.flip(0)[: self.k].clamp(min=0.0)
        before, self.factor = self.factor, self.block[:, : self.k] * values.sqrt()
        both = torch.linalg.qr(torch.cat([self.factor, before], dim=1))[1]
        after, before = both[:, : self.k], both[:, self.k :]
        return float(torch.linalg.norm(after @ after.T - before @ before.T))

    def objective(self) -> float:
        """‖M − L‖₁ of the current factor."""
        F, total = self.factor.float(), 0.0
        for rows in self._row_blocks():
            gap = self.counts[rows].float() * self.scale - F[rows] @ F.T
            total += float(gap.abs().sum(dtype=self.torch.float64))
        return total

    def _row_blocks(self) -> list[slice]:
        starts = range(0, self.u, _ROWS_AT_ONCE)
        return [slice(start, min(start + _ROWS_AT_ONCE, self.u)) for start in starts]


def _timed(taken: list[float], work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the work and appends its seconds, the device's work included."""
    import torch

    def do(*arguments: float) -> Any:
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = work(*arguments)
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
        return result

    return do


def _minimise(solver: Any, n_iter: int) -> tuple[Any, dict[str, float]]:
    """Take the steps of a solver; return its answer and median milliseconds of the parts."""
    steps: list[float] = []
    advances: list[float] = []
    solver.step, solver.advance = _timed(steps, solver.step), _timed(advances, solver.advance)
    found = minimise(solver, 1.1, n_iter, 0.0, None)
    del solver.step, solver.advance  # a reference cycle would keep the memory of the device
    whole = [a + b for a, b in zip(steps, advances, strict=True)]
    parts = {"": whole, ": state": steps, ": eigenvectors": advances}
    return found, {part: 1e3 * statistics.median(taken) for part, taken in parts.items()}


def _measure(n: int, n_iter: int, bandwidth: float) -> dict[str, Any]:
    import torch

    tuples, truth = _planted(n)
    alpha = np.ones(N_PARTITIONS)
    start = least_squares_factor(tuples, alpha, N_CLUSTERS)
    problem = (tuples.codes, alpha, tuples.weights, start)
    minimise(GpuSolver(*problem), 1.1, 2, 0.0, None)  # compiles the kernels
    torch.cuda.reset_peak_memory_stats()
    solver: Any = GpuSolver(*problem)
    found, parts = _minimise(solver, n_iter)
    row = {
        "n_points": n,
        "milliseconds": {f"fused{part}": value for part, value in parts.items()},
        "passes": solver.n_products / n_iter,
        "peak_bytes": torch.cuda.max_memory_allocated(),
    }
    moved = (_STEP_BYTES + _PRODUCT_BYTES * (row["passes"] - 1)) * tuples.n_tuples**2
    row["milliseconds"]["bytes"] = 1e3 * moved / bandwidth
    labels = tuples.expand(round_by_pivoted_qr(found.factor.cpu().numpy(), tuples.weights))
    row["accuracy"] = clustering_accuracy(truth, labels)
    del solver, found  # frees memory of the device for the plain tensor code
    torch.cuda.empty_cache()
    if n <= _MOST_PLAIN:
        row["milliseconds"]["plain"] = _minimise(PlainTensorSolver(*problem), _PLAIN_STEPS)[1][""]
    if n <= _MOST_ON_CPU:
        row["milliseconds"]["cpu"], row["above_cpu"] = _compare_with_cpu(tuples, alpha, start)
    return row


def _compare_with_cpu(tuples: LabelTuples, alpha: Matrix, start: Matrix) -> tuple[float, float]:
    """Return milliseconds a step on the CPU, and the relative excess of the GPU's objective."""
    M = tuple_coassociation(tuples, alpha)
    ends: list[float] = []
    cpu = robust_factor(
        M,
        start,
        max_iter=_CPU_STEPS,
        tol=0.0,
        callback=lambda *_: ends.append(time.perf_counter()),
    )
    gpu = gpu_robust_factor(
        tuples.codes, alpha, tuples.weights, start, max_iter=_CPU_STEPS, tol=0.0
    )
    return 1e3 * statistics.median(np.diff(ends).tolist()), gpu.objective / cpu.objective - 1


def _planted(n: int) -> tuple[LabelTuples, NDArray[Any]]:
    """Return planted labels, one tuple a point, and the planted clusters."""
    sizes = [len(part) for part in np.array_split(np.arange(n), N_CLUSTERS)]
    P, truth = planted_partitions(sizes, N_PARTITIONS, N_BAD, NOISE, random_state=0)
    tuples = as_label_tuples(P)
    return replace(tuples.without_compression(), inverse=np.arange(n)), truth


def _copy_bandwidth() -> float:
    """Return bytes read and written a second by a large copy on the device."""
    import torch

    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    taken: list[float] = []
    for _ in range(10):
        _timed(taken, lambda: target.copy_(source))()
    return 2 * source.numel() * source.element_size() / statistics.median(taken)
