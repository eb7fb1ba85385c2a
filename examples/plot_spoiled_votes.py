"""
Can 40% of wrong partitions bend the answer?
============================================

Twenty partitions of 180 points are noisy copies of a planted one with clusters of 120, 40
and 20. Then more and more of them are replaced by copies of *one* wrong partition: wrong
together, they look like evidence. When does each method give in?
"""

# %%
# The vote
# --------
# In a good partition each label is redrawn with probability 0.2. The wrong partitions are as
# noisy, and have nothing to do with the planted one.

import matplotlib.pyplot as plt
import numpy as np

from coterie import (
    CoassociationDisplay,
    OneHotKMeans,
    RobustConsensus,
    clustering_accuracy,
    planted_partitions,
)

everybody_votes = {"refine": False, "partition_weights": None, "tol": 0.01, "random_state": 0}
methods = {
    "one-hot k-means": OneHotKMeans(3, random_state=0),
    "ℓ2 relaxation": RobustConsensus(3, relaxation="l2", **everybody_votes),
    "ADMM, the paper's method": RobustConsensus(3, relaxation="admm", **everybody_votes),
    "RobustConsensus": RobustConsensus(3, random_state=0),
}
n_wrong = [0, 2, 4, 6, 8, 9, 11]
votes = [planted_partitions([120, 40, 20], 20, wrong, 0.2, random_state=0) for wrong in n_wrong]
accuracy = {
    name: [clustering_accuracy(y, est.fit(P).labels_) for P, y in votes]
    for name, est in methods.items()
}

# %%
# The outcome
# -----------
# The methods that count every vote are bent long before the wrong partitions have a majority.
# The default of :class:`~coterie.RobustConsensus` first asks which partitions agree with each
# other beyond chance, and lets the largest camp decide: it holds while that camp is right. From
# one half on the wrong partitions *are* the largest camp, and nothing in the labels can say
# otherwise.

share = 100 * np.array(n_wrong) / 20
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
styles = ("o:", "#999999"), ("s--", "#E69F00"), ("^-.", "#009E73"), ("D-", "#0072B2")
for (name, values), (style, colour) in zip(accuracy.items(), styles, strict=True):
    ax.plot(share, values, style, color=colour, label=name, linewidth=1.8)
ax.axvline(50, color="0.8", linewidth=1)
ax.set(
    xlabel="partitions that are wrong in the same way (%)",
    ylabel="accuracy",
    ylim=(0.25, 1.03),
)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower left")

# %%
# Who was set aside
# -----------------
# At 40% the estimator names the eight wrong partitions, which are the last eight columns:

P, y = votes[n_wrong.index(8)]
est = RobustConsensus(3, random_state=0).fit(P)
print(est.dissent_.in_words())

# %%
# Points in the order of the recovered clusters: the co-association of all twenty partitions
# carries the common error of the eight as stripes across the blocks; that of the twelve that
# decide is clean.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
CoassociationDisplay.from_labels(P, est.labels_, ax=axes[0], colorbar=False)
CoassociationDisplay.from_estimator(est, P, ax=axes[1])
axes[0].set_title("all 20 partitions", loc="left")
axes[1].set_title("the 12 that decide", loc="left")
axes[1].set_ylabel("")
