"""Continuous relaxations of the consensus problem: M ≈ H D Hᵀ with HᵀH = I, D ≥ 0.

``admm``      ℓ1 loss, the method of the paper: textbook form, and in tiles on the CPU
``gpu``       the same on a GPU; ``gpu_kernels`` has its kernels
``divided``   the same in parts, and the choice of CPU, GPU, parts or none of these
``spectral``  eigenpairs, ℓ2 loss, normalised cuts, and rounding from a factor to labels
"""
