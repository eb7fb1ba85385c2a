"""
Which view disagrees?
=====================

Handwritten digits seen in four ways: as pixels, by how much ink each row and each column has,
by their frequencies, and by the weather on the day they were written. One of the views has
nothing to say. Does the consensus notice?
"""

# %%
# Four views of 500 digits
# ------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from coterie import MultiViewClusterer, PartitionAgreementDisplay, clustering_accuracy

pixels, y = load_digits(return_X_y=True)
pixels, y = pixels[:500], y[:500]
images = pixels.reshape(-1, 8, 8)
rng = np.random.default_rng(0)
views = {
    "pixels": pixels,
    "ink": np.hstack([images.sum(axis=1), images.sum(axis=2)]),
    "frequencies": np.abs(np.fft.rfft2(images))[:, :4, :4].reshape(len(y), -1),
    "weather": rng.normal(size=(len(y), 3)),
}

# %%
# Eight runs in each look, one consensus of all
# ---------------------------------------------
# Each view is looked at twice: as it is, and as the spectral embedding of its graph of neighbours.

est = MultiViewClusterer(10, n_partitions=8, random_state=0).fit(views)
for name in views:
    agreement, votes = est.view_agreement_[name], est.view_weight_[name]
    print(f"{name:12} agreement with the answer {agreement:4.2f}, runs with a vote {votes:4.0%}")

# %%
# The runs on the weather agree with the others no better than chance, and lost their vote. The
# other three views see different things, agree only in part, and all have a say: agreement
# needs to be beyond chance, not strong.

names = [look for look in est.ensembles_ for _ in range(8)]
PartitionAgreementDisplay.from_estimator(est, names=names)

# %%
# Is the consensus worth it?
# --------------------------
# Against as many runs in a single view, and in all columns put side by side:


def accuracy_in_one(X):
    """Accuracy of the consensus of 32 runs in each look at a single view."""
    one = MultiViewClusterer(10, n_partitions=32, random_state=0).fit([X])
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
