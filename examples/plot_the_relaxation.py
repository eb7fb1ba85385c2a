r"""
What does the ADMM do?
======================

The robust relaxation approximates the co-association matrix by a matrix of rank K in the ℓ1 norm:
:math:`\min \lVert M - H D H^\top\rVert_1`. This page shows its convergence, its result, and the
effect of the signs printed in the paper.
"""

# %%
# The problem
# -----------
# There are fifteen noisy partitions of 120 points in three clusters. Four are wrong in the same
# way.

import matplotlib.pyplot as plt
import numpy as np

from coterie import ConvergenceDisplay, RobustConsensus, coassociation, planted_partitions
from coterie.relaxation.admm import reference_robust_relaxation

P, y = planted_partitions([60, 36, 24], 15, n_bad=4, noise=0.2, random_state=0)
P, y = P[np.argsort(y)], np.sort(y)

# %%
# Convergence
# -----------
# The objective is that of the continuous problem. The primal residual is the violation of the
# constraint :math:`E = M - L`; the dual residual measures how much the answer still changes. The
# penalty μ grows until the primal residual is small compared with the dual one, and is then kept.
# If it grew in every step, the iteration would stop at a point that need not be stationary.

est = RobustConsensus(3, refine="relaxation", partition_weights=None, random_state=0).fit(P)
print(f"{est.n_iter_} steps")
ConvergenceDisplay.from_estimator(est)

# %%
# The result
# ----------
# On the left, the co-association with points in planted order. In the middle, its best
# approximation of rank 3 in least squares, the start of the iteration. On the right, the result.

M = coassociation(P)
values, vectors = np.linalg.eigh(M)
start = vectors[:, -3:] * np.sqrt(values[-3:])
robust = est.embedding_ @ est.embedding_.T

figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained", sharey=True)
shown = {"co-association M": M, "rank 3, ℓ2": start @ start.T, "rank 3, ℓ1": robust}
for ax, (title, L) in zip(axes, shown.items(), strict=True):
    image = ax.imshow(L, vmin=0, vmax=1, cmap="Blues")
    error = "" if L is M else f"‖M − L‖₁ = {np.abs(M - L).sum():.0f}"
    ax.set_title(title, fontsize=10, loc="left")
    ax.set_title(error, fontsize=9, loc="right", color="0.4")
    ax.tick_params(length=0)
figure.colorbar(image, ax=axes, shrink=0.8)

# %%
# The right matrix is closer to M in the ℓ1 norm, but the smallest cluster has nearly disappeared:
# the third dimension is used for the large clusters, which have more entries. Closer to M is not
# closer to the truth. Therefore :class:`~coterie.RobustConsensus` removes the votes of wrong
# partitions before the relaxation, and compares the result with answers of other methods.

default = RobustConsensus(3, random_state=0).fit(P)
print("sizes of the clusters, relaxation alone:", np.bincount(est.labels_))
print("sizes of the clusters, by default:      ", np.bincount(default.labels_))

# %%
# The signs
# ---------
# The derivation gives E = soft(M − L − Ω/μ, 1/μ) and the eigenvectors of M − E − Ω/μ. In the paper
# the argument of the first and the multiplier in the second have the opposite sign. The plot
# compares both, with the textbook form of the method and the same start:

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for signs, style, colour in (("derived", "-", "#0072B2"), ("printed", "--", "#D55E00")):
    run = reference_robust_relaxation(M, start, n_iter=40, signs=signs)
    residual = np.array(run.residual) / np.linalg.norm(M)
    ax.semilogy(residual, style, color=colour, label=f"signs as {signs}")
ax.set(xlabel="step", ylabel="‖E − M + L‖ / ‖M‖")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

# %%
# The derived signs converge, the printed ones diverge; see :doc:`/derivation`.
