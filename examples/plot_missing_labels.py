"""
What if every run saw only part of the data?
============================================

Crowd workers label batches; sensors fail; a clustering of everything would not fit in memory.
Then every partition covers only some of the points. How much may be missing before the
consensus suffers?
"""

# %%
# Blanks
# ------
# Twenty partitions of 400 points, a good tenth of the labels wrong. In each partition a share of
# the points, another one in each, is left out: ``-1``.

import matplotlib.pyplot as plt
import numpy as np

from coterie import L2Consensus, RobustConsensus, clustering_accuracy, planted_partitions

P, y = planted_partitions([200, 100, 60, 40], 20, n_bad=0, noise=0.15, random_state=0)


def with_blanks(P, share):
    """Labels with a share missing; every point keeps at least one."""
    rng = np.random.default_rng(1)
    blank = rng.random(P.shape) < share
    blank[np.arange(len(P)), rng.integers(P.shape[1], size=len(P))] = False
    return np.where(blank, -1, P)


# %%
# A pair of points counts in those partitions that label both of them, and nothing is filled in.
# With a share *s* missing a partition sees (1 − *s*)² of the pairs: at 80% that is one pair in
# twenty-five, so that most pairs are seen by one of the twenty partitions or by none.

shares = np.array([0.0, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9])
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
    xlabel="labels missing (%); above the curve: labels left a point, on average",
    ylabel="accuracy",
    ylim=(0.5, 1.06),
)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower left")

# %%
# Up to two thirds missing there is nothing to choose. Beyond that the default holds longer: as soon
# as a label is missing it lets a discrete search compete, which adds up whatever votes a point has
# with a whole cluster, where least squares leans on pairs that hardly anybody has seen.

# %%
# Which points suffer
# -------------------
# Most points that end up in a wrong cluster are ones of which the consensus is not sure.

share = 0.85
est = default.fit(with_blanks(P, share))
majority = [np.bincount(y[est.labels_ == b]).argmax() for b in range(est.n_clusters_)]
right = np.array(majority)[est.labels_] == y

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.hist(
    [est.confidence_[right], est.confidence_[~right]],
    np.linspace(0, 1, 21),
    stacked=True,
    label=["in the right cluster", "in a wrong one"],
    color=["#0072B2", "#D55E00"],
)
ax.set(xlabel=f"confidence, {share:.0%} of the labels missing", ylabel="points")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left")
for name, chosen in {"right": right, "wrong": ~right}.items():
    print(f"{name}: {chosen.sum()} points, mean confidence {est.confidence_[chosen].mean():.2f}")

# %%
# One thing confidence does not know is how many votes it rests on: it is a share of the votes
# cast. A point with a single label may be called sure. Where labels are this rare, look at the
# number of labels a point has as well.
