"""
Which view disagrees?
=====================

Handwritten digits are described in four ways: as pixels, by the ink in each row and column, by
their frequencies, and by the weather on the day they were written. One of the views is useless.
Does the consensus notice?
"""

# %%
# Four views of 300 digits
# ------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from coterie import MultiViewClusterer, PartitionAgreementDisplay, clustering_accuracy

pixels, y = load_digits(return_X_y=True)
pixels, y = pixels[:300], y[:300]
images = pixels.reshape(-1, 8, 8)
rng = np.random.default_rng(0)
views = {
    "pixels": pixels,
    "ink": np.hstack([images.sum(axis=1), images.sum(axis=2)]),
    "frequencies": np.abs(np.fft.rfft2(images))[:, :4, :4].reshape(len(y), -1),
    "weather": rng.normal(size=(len(y), 3)),
}

# %%
# One consensus of all runs
# -------------------------
# Each view is clustered eight times, by spectral runs and Gaussian mixtures.

est = MultiViewClusterer(10, n_partitions=8, standardize=True, random_state=0).fit(views)
for name in views:
    agreement, votes = est.view_agreement_[name], est.view_weight_[name]
    print(f"{name:12} agreement with the answer {agreement:4.2f}, runs with a vote {votes:4.0%}")

# %%
# The runs on the weather agree with the others no better than chance, so they have no vote. The
# other three views agree only in part, but beyond chance, so all of them vote.

names = [name for name in est.ensembles_ for _ in range(8)]
PartitionAgreementDisplay.from_estimator(est, names=names)

# %%
# Is the consensus better than a single view?
# -------------------------------------------
# It is compared with each single view, and with all columns side by side:


def accuracy_in_one(X):
    """Return the accuracy of the consensus of the runs in a single view."""
    one = MultiViewClusterer(10, n_partitions=8, standardize=True, random_state=0).fit([X])
    return clustering_accuracy(y, one.labels_)


scores = {name: accuracy_in_one(X) for name, X in views.items()}
scores["side by side"] = accuracy_in_one(np.hstack(list(views.values())))
scores["consensus of views"] = clustering_accuracy(y, est.labels_)

figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
colours = ["#BBBBBB"] * (len(scores) - 1) + ["#0072B2"]
bars = ax.barh(list(scores), list(scores.values()), color=colours)
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.set(xlabel="accuracy", xlim=(0, 1))
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
