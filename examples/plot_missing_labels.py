"""
What if every run saw only part of the data?
============================================

Crowd workers label batches, sensors fail, and large data are clustered in samples. Then every
partition labels only some of the points. How many labels may be missing before the consensus gets
worse?
"""

# %%
# Missing labels
# --------------
# There are twenty partitions; 15% of the labels are drawn again at random. In each partition a
# random share of the labels is replaced by ``-1``.

import matplotlib.pyplot as plt
import numpy as np

from coterie import L2Consensus, RobustConsensus, clustering_accuracy, planted_partitions

P, y = planted_partitions([100, 50, 30, 20], 20, n_bad=0, noise=0.15, random_state=0)


def with_blanks(P, share):
    """Remove a share of the labels; every point keeps at least one."""
    rng = np.random.default_rng(1)
    blank = rng.random(P.shape) < share
    blank[np.arange(len(P)), rng.integers(P.shape[1], size=len(P))] = False
    return np.where(blank, -1, P)


# %%
# A pair of points counts in the partitions that label both points. With a share *s* of missing
# labels a partition labels (1 − *s*)² of the pairs. At 80% this is one pair in twenty-five, so most
# pairs are labelled by at most one of the twenty partitions.

shares = np.array([0.0, 0.4, 0.6, 0.7, 0.8, 0.85])
default = RobustConsensus(4, random_state=0)
squares = L2Consensus(4, random_state=0)
accuracy = {
    name: [clustering_accuracy(y, est.fit(with_blanks(P, share)).labels_) for share in shares]
    for name, est in {"default": default, "least squares": squares}.items()
}

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.plot(100 * shares, accuracy["default"], "D-", color="#0072B2", label="RobustConsensus")
ax.plot(100 * shares, accuracy["least squares"], "s--", color="#E69F00", label="least squares")
for share, value in zip(shares, accuracy["default"], strict=True):
    count = f"{(with_blanks(P, share) >= 0).sum(axis=1).mean():.0f}"
    ax.annotate(count, (100 * share, value), (0, 8), textcoords="offset points", ha="center")
ax.set(
    xlabel="labels missing (%); above the curve: mean number of labels per point",
    ylabel="accuracy",
    ylim=(0.5, 1.06),
)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower left")

# %%
# Up to 60% of missing labels the methods are equal. Beyond that the default is better. Least
# squares depends on single pairs. Other methods of the default compare a point with whole clusters;
# their answers agree, so one of them is returned.

# %%
# Which points are wrong
# ----------------------
# Most points in a wrong cluster have a low margin.

share = 0.85
est = default.fit(with_blanks(P, share))
majority = [np.bincount(y[est.labels_ == b]).argmax() for b in range(est.n_clusters_)]
right = np.array(majority)[est.labels_] == y

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.hist(
    [est.margin_[right], est.margin_[~right]],
    np.linspace(0, 1, 21),
    stacked=True,
    label=["in the right cluster", "in a wrong one"],
    color=["#0072B2", "#D55E00"],
)
ax.set(xlabel=f"margin of the votes, {share:.0%} of the labels missing", ylabel="points")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left")
for name, chosen in {"right": right, "wrong": ~right}.items():
    print(f"{name}: {chosen.sum()} points, mean margin {est.margin_[chosen].mean():.2f}")

# %%
# The margin is a share of the votes. It does not say how many votes there are: a point with a
# single label may have a high margin. If labels are this rare, check the number of labels of a
# point, too.
