"""Continuous relaxations of the consensus problem: M ≈ H D Hᵀ with HᵀH = I, D ≥ 0.

``robust_admm``     ℓ1 loss, the paper's method, on one matrix of state
``iteration``       the steps, the penalty and when to stop, whatever computes them
``symmetric_tiles`` its state: half of a symmetric matrix, tile by tile
``least_squares``   ℓ2 loss, from contingency tables, no matrix over points
``reference_admm``  the ℓ1 method in its textbook form: to read, and to test against
``eigenpairs``      the K largest eigenpairs, warm-started
``symmetric_tiles`` half of a symmetric matrix, in tiles, and products with it
``gpu_admm``        the ℓ1 method on a GPU; ``gpu_kernels`` are its kernels
``divided``         the ℓ1 method in parts, where one matrix of state is too large
``placement``       which of these it is to be: where there is room, and what is said if not
"""

from coterie.relaxation.admm import robust_factor
from coterie.relaxation.iteration import RobustRelaxation
from coterie.relaxation.least_squares import least_squares_factor

__all__ = ["RobustRelaxation", "least_squares_factor", "robust_factor"]
