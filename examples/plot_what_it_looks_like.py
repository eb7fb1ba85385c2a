"""
What does a consensus look like?
================================

Twenty runs of k-means cluster the images of handwritten digits. We look at their consensus: at the
points, at the clusters, and at what happens with more or fewer clusters.
"""

# %%
# The clusters
# ------------
# The images have 64 pixels. The picture shows their first two principal components, which have less
# than a third of the variance, so clusters that are apart overlap. Pale points are uncertain.

from sklearn.datasets import load_digits

from coterie import (
    ClusterConsensusDisplay,
    ClustermapDisplay,
    ConsensusClusterer,
    PointsDisplay,
    TrackingDisplay,
    cluster_consensus,
)

X, y = load_digits(return_X_y=True)
est = ConsensusClusterer(10, n_partitions=20, ensemble="kmeans", random_state=0).fit(X)
PointsDisplay.from_estimator(est, X)

# %%
# Which clusters are neighbours?
# ------------------------------
# Cells are the share of runs that put two images together, in the order of a tree. The strip has
# the colours of the consensus.

ClustermapDisplay.from_estimator(est)

# %%
# Which clusters are firm?
# ------------------------
# The mean co-association of the pairs in a cluster is near 1 if most runs have found it. The stacks
# below show the clusters between which a point lies.

print(cluster_consensus(est).round(2))
ClusterConsensusDisplay.from_estimator(est)

# %%
# What happens with more or fewer clusters?
# -----------------------------------------
# A row for each K: the tree of the runs, cut into K clusters. Each row splits a cluster of the row
# above. The row of K = 10 has the colours of the consensus.

TrackingDisplay.from_estimator(est, range(2, 15))
