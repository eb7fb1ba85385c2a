"""Continuous relaxations of the consensus problem: M ≈ H D Hᵀ with HᵀH = I, D ≥ 0.

``admm``           ℓ1 loss, the method of the paper: textbook form, and in tiles on the CPU
``gpu``            the same on a GPU; ``gpu_kernels`` has its kernels
``divided``        the same in parts, and the choice of CPU, GPU, parts or none of these
``least_squares``  ℓ2 loss, from contingency tables
``eigenpairs``     the K largest eigenpairs
``spectral``       normalised cuts of a weighted and of a bipartite graph
``rounding``       from a factor to labels
"""
