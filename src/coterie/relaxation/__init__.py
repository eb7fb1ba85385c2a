"""Continuous relaxations of the consensus problem: M ≈ H D Hᵀ with HᵀH = I, D ≥ 0.

``admm``                ℓ1 loss on the CPU, the method of the paper
``gpu_admm``            the same on a GPU; ``gpu_kernels`` has its kernels
``divided_admm``        the same in parts, if the matrix over pairs of tuples is too large
``reference_admm``      the same in textbook form: slow, for readers and tests
``iteration``           the loop of the ADMM: penalty and stopping rule
``dispatch``            which of these runs: CPU, GPU, parts or none
``least_squares``       ℓ2 loss, from contingency tables
``symmetric_tiles``     half of a symmetric matrix in tiles
``eigenpairs``          the K largest eigenpairs
``spectral_embedding``  normalised cut of a weighted graph
``transfer_cut``        normalised cut of a bipartite graph
``rounding``            from a factor to labels
"""

from coterie.relaxation.admm import robust_factor
from coterie.relaxation.iteration import RobustRelaxation
from coterie.relaxation.least_squares import least_squares_factor

__all__ = ["RobustRelaxation", "least_squares_factor", "robust_factor"]
