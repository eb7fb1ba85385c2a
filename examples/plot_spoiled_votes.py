"""
Can 40% of wrong partitions bend the answer?
============================================

Twenty partitions of 180 points are noisy copies of a planted one with clusters of 120, 40 and 20.
Step by step they are replaced by noisy copies of *one* wrong partition. When does each method fail?
"""

# %%
# The partitions
# --------------
# In a good partition each label is drawn again with probability 0.2. The wrong partitions are
# equally noisy and independent of the planted one.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from coterie import (
    CoassociationDisplay,
    OneHotKMeans,
    RobustConsensus,
    clustering_accuracy,
    planted_partitions,
)
from coterie.errors import DissentWarning

# near one half a warning says that the decision between two camps is close
warnings.simplefilter("ignore", DissentWarning)

equal_votes = {"refine": "relaxation", "partition_weights": None, "tol": 0.01, "random_state": 0}
methods = {
    "one-hot k-means": OneHotKMeans(3, random_state=0),
    "ℓ2 relaxation": RobustConsensus(3, relaxation="l2", **equal_votes),
    "ADMM, the paper's method": RobustConsensus(3, relaxation="admm", **equal_votes),
    "RobustConsensus": RobustConsensus(3, random_state=0),
}
n_wrong = [0, 2, 4, 6, 8, 9, 11]
votes = [planted_partitions([120, 40, 20], 20, wrong, 0.2, random_state=0) for wrong in n_wrong]
accuracy = {
    name: [clustering_accuracy(y, est.fit(P).labels_) for P, y in votes]
    for name, est in methods.items()
}

# %%
# Accuracy
# --------
# Methods that count every vote fail long before the wrong partitions have a majority. The default
# of :class:`~coterie.RobustConsensus` first finds the camps of partitions that agree beyond chance,
# and only the largest camp votes. This works while the largest camp is right. From one half on the
# wrong partitions are the largest camp, and nothing in the labels shows that they are wrong.

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
# Partitions without a vote
# -------------------------
# At 40% the estimator names the eight wrong partitions, which are the last eight columns:

P, y = votes[n_wrong.index(8)]
est = RobustConsensus(3, random_state=0).fit(P)
print(est.dissent_.in_words())

# %%
# These are co-association matrices, with points ordered by the recovered clusters. On the left, all
# twenty partitions: the common error of the eight shows as stripes. On the right, only the twelve
# that vote.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
CoassociationDisplay.from_labels(P, est.labels_, ax=axes[0], colorbar=False)
CoassociationDisplay.from_estimator(est, P, ax=axes[1])
axes[0].set_title("all 20 partitions", loc="left")
axes[1].set_title("the 12 that decide", loc="left")
axes[1].set_ylabel("")
