"""The robust relaxation on a GPU: the steps of :mod:`.admm` on tiles, in Triton.

The device stores the tiles of B and M on and above the diagonal: B in float32, and M as counts of
one byte if possible. This takes about 3 u² bytes instead of 5 u² for full matrices. A step is one
pass over the tiles (low-rank part, clip, objective, residual, and the product with the block of
eigenvectors). Each refinement of the eigenvectors is one more pass over B. The tensor cores
multiply float32 tiles as three products of bfloat16 parts, with an error of about 1e-6; plain TF32
would be wrong in the fourth digit. Sums over tiles and all small matrices are in float64.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from coterie.arrays import AnyArray, Floats, Ints
from coterie.relaxation.admm import (
    EIGEN_TOLERANCE,
    EXTRA_COLUMNS,
    MAX_ITER,
    PRODUCTS,
    RHO,
    TOL,
    RobustRelaxation,
    minimise,
)
from coterie.runtime.devices import readable_bytes

_log = logging.getLogger(__name__)

#: How the tensor cores multiply float32: as three products of bfloat16 parts.
_PRECISION = "bf16x3"
_TILE = 64
_TILES_PER_STRIP = 32
_ROWS_GATHERED = 32
_SMALLEST_DOT = 16
_LARGEST_BYTE = 255
_WARPS = 4
_STAGES = 2


def required_gpu_bytes(
    n_tuples: int, n_clusters: int, counted: bool = True, n_partitions: int = 1
) -> int:
    """Return the bytes on the device for u tuples: half of B, half of M, and partial products.

    An entry of M has one byte, two for more than 255 partitions, or four if M is not ``counted``.
    Five percent are added, because the allocator rounds sizes up.
    """
    t = -(-n_tuples // _TILE)
    tiles = t * (t + 1) // 2
    columns = _padded(n_clusters + EXTRA_COLUMNS)
    share_bytes = (1 if n_partitions <= _LARGEST_BYTE else 2) if counted else 4
    tile_bytes = _TILE * _TILE * (4 + share_bytes) + _TILE * columns * 4
    small = n_tuples * columns * 8 * 30
    parts = tiles * _TILE * columns * 4 // _TILES_PER_STRIP
    return (tiles * tile_bytes + small + parts) * 21 // 20


def gpu_robust_factor(
    codes: AnyArray,
    partition_weights: Floats,
    weights: Floats,
    start: Floats,
    *,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    callback: Callable[[int, float], None] | None = None,
) -> RobustRelaxation:
    """Minimise ‖M − F Fᵀ‖₁ over F (u, K) on a GPU.

    ``codes`` (u, V) are label tuples, −1 missing; equal codes in column v mean the same cluster.
    M is computed on the device. ``weights`` (u,) are the multiplicities of the tuples. Partitions
    of weight 0 are ignored.
    """
    solver = GpuSolver(codes, partition_weights, weights, start)
    found = minimise(solver, RHO, max_iter, tol, callback)
    return replace(found, factor=_on_host(found.factor), place="cuda")


def strip_table(n_tiles: int) -> Ints:
    """Return the strips (s, 4) of a matrix of ``n_tiles`` × ``n_tiles`` tiles, upper triangle.

    Columns: row of tiles, first column of tiles, index of the first tile, number of tiles.
    """
    firsts = [np.arange(i, n_tiles, _TILES_PER_STRIP) for i in range(n_tiles)]
    i = np.repeat(np.arange(n_tiles), [len(first) for first in firsts])
    j = np.concatenate(firsts)
    tile = i * n_tiles - i * (i - 1) // 2 + (j - i)
    length = np.minimum(_TILES_PER_STRIP, n_tiles - j)
    return np.column_stack([i, j, tile, length]).astype(np.int64)


class GpuSolver:
    """State of the iteration on the device: a :class:`~.admm.Solver`.

    ``factor`` is a float64 tensor (u, K).
    """

    def __init__(
        self, codes: AnyArray, partition_weights: Floats, weights: Floats, start: Floats
    ) -> None:
        import torch

        from coterie.relaxation import gpu_kernels

        self.torch, self.kernels = torch, gpu_kernels
        self.device = torch.device("cuda")
        self.u, self.k = start.shape
        self.n_products = 0  # that the benchmark counts
        self.n_points = float(weights.sum())
        self.tiles = -(-self.u // _TILE)
        self.rows = self.tiles * _TILE
        self.strips = torch.from_numpy(strip_table(self.tiles)).to(self.device)
        # the first strip of each row of tiles, and the number of strips at the end
        edges = torch.arange(self.tiles + 1, device=self.device)
        self.first_strip = torch.searchsorted(self.strips[:, 0].contiguous(), edges)
        self.root = self._float64(np.sqrt(weights))[:, None]
        self.weights = self._padded_rows(self._float64(weights)[:, None], 1)
        self.factor = self._float64(start)
        extra = min(EXTRA_COLUMNS, self.u - self.k)
        noise = self._float64(np.random.default_rng(0).standard_normal((self.u, extra)))
        self.block = torch.linalg.qr(torch.cat([self.root * self.factor, noise], dim=1))[0]
        self.columns = _padded(self.block.shape[1])
        n_tiles = self.tiles * (self.tiles + 1) // 2
        self.values, self.scale, self.mean, self.norm = self._shares(codes, partition_weights)
        self.state = self._zeros((n_tiles, _TILE, _TILE))
        self.by_column = self._empty((n_tiles, _TILE, self.columns))
        self.by_row = self._empty((len(self.strips), _TILE, self.columns))
        self.product = self._empty((self.rows, self.columns), torch.float64)
        held = (self.state, self.values, self.by_column, self.by_row, self.product)
        n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in held)
        _log.info("%s on %s for %d tuples", readable_bytes(n_bytes), self.device, self.u)

    def step(self, shrink: float, bound: float) -> tuple[float, float]:
        objective, residual = self._pass(self.kernels.STEP, self.block, shrink, bound)
        return objective, residual**0.5

    def advance(self) -> float:
        torch, k, q = self.torch, self.k, self.block.shape[1]
        # the K largest eigenpairs of S B S in the block Krylov space of the last ones, as
        # spectral.krylov_eigenpairs finds them; the small problem is solved on the host
        basis, image = self.block, self._gathered()
        for n_products in range(PRODUCTS + 1):
            gram = _on_host(basis.T @ image)  # symmetric up to rounding
            values, rotation = np.linalg.eigh((gram + gram.T) / 2)
            rotation = self._float64(rotation[:, : -q - 1 : -1])
            values = self._float64(values[: -q - 1 : -1])
            block = basis @ rotation
            residual = image @ rotation - block * values
            error = float(torch.linalg.norm(residual[:, :k]))
            met = error <= EIGEN_TOLERANCE * max(float(values[0]), 0.0)
            if met or n_products == PRODUCTS or self.u < basis.shape[1] + q:
                break
            added = self._orthonormal(residual, basis)
            self._pass(self.kernels.PRODUCT, added, 0.0, 0.0)
            basis = torch.cat([basis, added], dim=1)
            image = torch.cat([image, self._gathered()], dim=1)
        self.block = block
        before = self.root * self.factor
        after = block[:, :k] * torch.sqrt(torch.clamp(values[:k], min=0.0))
        self.factor = after / self.root
        square = (
            torch.linalg.norm(after.T @ after) ** 2
            + torch.linalg.norm(before.T @ before) ** 2
            - 2 * torch.linalg.norm(after.T @ before) ** 2
        )
        return float(torch.sqrt(torch.clamp(square, min=0.0)))

    def objective(self) -> float:
        return self._pass(self.kernels.OBJECTIVE, self.block, 0.0, 0.0)[0]

    def _pass(self, task: int, block: Any, shrink: float, bound: float) -> tuple[float, float]:
        """Run one pass over the strips; return the two sums over all tuples."""
        sums = self._empty((len(self.strips), 2))
        padded_factor = _padded(self.k)
        factor = self._padded_rows(self.factor, padded_factor)
        scaled_block = self._padded_rows(self.root * block, self.columns)
        self.kernels.strip_kernel[(len(self.strips),)](
            self.state, self.values, self.scale, factor, self.weights, scaled_block, shrink, bound,
            self.strips, self.by_row, self.by_column, sums, TASK=task, T=_TILE, K=padded_factor,
            Q=self.columns, PRECISION=_PRECISION, num_warps=_WARPS, num_stages=_STAGES,
        )  # fmt: skip
        if task == self.kernels.PRODUCT:
            return 0.0, 0.0
        first, second = sums.double().sum(dim=0).tolist()
        return first, second

    def _gathered(self) -> Any:
        """Return S B S X of the last pass, (u, q), float64."""
        self.kernels.gather_kernel[(self.tiles, _TILE // _ROWS_GATHERED)](
            self.by_row, self.by_column, self.first_strip, self.tiles, self.product, T=_TILE,
            PART=_ROWS_GATHERED, Q=self.columns,
        )  # fmt: skip
        self.n_products += 1
        return self.root * self.product[: self.u, : self.block.shape[1]]

    def _orthonormal(self, A: Any, basis: Any) -> Any:
        """Return an orthonormal basis of the part of A that is orthogonal to ``basis``.

        It uses the Cholesky factor of AᵀA, twice, or Householder QR if columns are dependent.
        """
        torch = self.torch
        for _ in range(2):
            A = A - basis @ (basis.T @ A)
            # Columns of unit length improve the condition number of AᵀA.
            A = A / torch.clamp(torch.linalg.norm(A, dim=0), min=1e-300)
            triangle, failed = torch.linalg.cholesky_ex(A.T @ A)
            if int(failed):
                A = torch.linalg.qr(A)[0]
            else:
                A = torch.linalg.solve_triangular(triangle, A.T, upper=False).T
        return A

    def _shares(
        self, codes: AnyArray, partition_weights: Floats
    ) -> tuple[Any, float, float, float]:
        """Return M in tiles and its scale, its mean |entry| over points, and ‖M‖_F."""
        torch = self.torch
        used = partition_weights > 0
        alpha = partition_weights[used]
        by_partition = np.full((int(used.sum()), self.rows), -1, dtype=codes.dtype)
        by_partition[:, : self.u] = codes[:, used].T
        counted = bool(np.all(alpha == alpha[0]) and codes[:, used].min() >= 0)
        kind = torch.float32
        if counted:
            kind = torch.uint8 if len(alpha) <= _LARGEST_BYTE else torch.int16
        n_tiles = self.tiles * (self.tiles + 1) // 2
        values = self._empty((n_tiles, _TILE, _TILE), kind)
        sums = self._empty((len(self.strips), 2))
        # Relative to the largest weight, so that all weights fit in single precision.
        relative = (alpha / alpha.max()).astype(np.float32)
        self.kernels.shares_kernel[(len(self.strips),)](
            torch.from_numpy(by_partition).to(self.device),
            torch.from_numpy(relative).to(self.device), self.weights, self.strips, values, sums,
            len(alpha), self.rows, COUNTED=counted, T=_TILE, num_warps=_WARPS,
        )  # fmt: skip
        scale = 1.0 / len(alpha) if counted else 1.0
        total, squares = sums.double().sum(dim=0).tolist()
        return values, scale, scale * total / self.n_points**2, scale * squares**0.5

    def _padded_rows(self, values: Any, columns: int) -> Any:
        """Return float32 values, padded by zeros to whole tiles of rows and to ``columns``."""
        padded = self._zeros((self.rows, columns))
        padded[: len(values), : values.shape[1]] = values
        return padded

    def _float64(self, values: Floats) -> Any:
        return self.torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).to(self.device)

    def _empty(self, shape: tuple[int, ...], kind: Any = None) -> Any:
        return self.torch.empty(shape, dtype=kind or self.torch.float32, device=self.device)

    def _zeros(self, shape: tuple[int, ...]) -> Any:
        return self.torch.zeros(shape, dtype=self.torch.float32, device=self.device)


def _padded(n_columns: int) -> int:
    """Return the next power of two, at least the smallest width of a product of tiles."""
    return max(_SMALLEST_DOT, 1 << (n_columns - 1).bit_length())


def _on_host(tensor: Any) -> Floats:
    return np.asarray(tensor.cpu().numpy(), dtype=np.float64)
