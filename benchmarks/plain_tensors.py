"""The steps of the robust relaxation as one would write them with tensors: a yardstick.

Full matrices, counts in one byte, the state in float32, a block of rows at a time so that
temporaries stay small; TF32 is off. No kernel of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PlainTensorSolver"]

Matrix = NDArray[np.float64]

_ROWS_AT_ONCE = 4096
_EXTRA_COLUMNS = 6


class PlainTensorSolver:
    """A :class:`~coterie.relaxation.iteration.Solver` of plain tensor code.

    Parameters
    ----------
    codes : (u, V) labels, none missing
    partition_weights : (V,), all equal
    weights : (u,), all one
    start : (u, K)
    device : str
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
        F = self.factor.float()
        return sum(
            float(
                (self.counts[rows].float() * self.scale - F[rows] @ F.T)
                .abs()
                .sum(dtype=self.torch.float64)
            )
            for rows in self._row_blocks()
        )

    def _row_blocks(self) -> list[slice]:
        starts = range(0, self.u, _ROWS_AT_ONCE)
        return [slice(start, min(start + _ROWS_AT_ONCE, self.u)) for start in starts]
