"""
How many clusters?
==================

No single number answers this question. This page shows two kinds of evidence: what given partitions
say about K, and how well clusterings of samples of the data agree for each K.
"""

# %%
# From partitions
# ---------------
# Twelve k-means runs on 200 points in five groups have four to seven clusters each. Runs with fewer
# clusters merge some groups; runs with more split some.

from sklearn.datasets import make_blobs

from coterie import (
    ChooseKDisplay,
    ConsensusCDFDisplay,
    RobustConsensus,
    TrackingDisplay,
    choose_k,
    make_partitions,
)
from coterie.inspection.stability import resampled_ensembles

centres = [[0, 0], [6, 0], [0, 6], [7, 7], [13, 3]]
X, y = make_blobs([60, 50, 40, 30, 20], centers=centres, cluster_std=1.0, random_state=0)
P = make_partitions(X, [4, 5, 6, 7], n_partitions=12, ensemble="kmeans", random_state=0)
print("clusters of the partitions:", P.max(axis=0) + 1)

# %%
# For each K the best partition with at most K clusters is searched. Its distance J to the given
# partitions falls and then stays constant. The confidence of the points is highest at the right K.
# The co-association matrix has as many large eigenvalues as there are clusters. With the right K
# different methods find the same clusters. The recommendation combines the last three.

choice = choose_k(P, range(2, 8), random_state=0)
print(choice.best_k, "-", choice.reason)
ChooseKDisplay.from_choice(choice)

# %%
# With ``n_clusters=None`` the consensus uses the recommended K.

RobustConsensus(random_state=0).fit(P).n_clusters_

# %%
# From samples of the data
# ------------------------
# With features we can cluster random samples of the points for each K, and check whether pairs that
# are together in one sample are together in the others.

ensembles = resampled_ensembles(X, range(2, 8), n_resamples=20, random_state=0)
resampled = choose_k(ensembles, random_state=0)
print(resampled.best_k, "-", resampled.reason)
ChooseKDisplay.from_choice(resampled)

# %%
# The next plot shows the agreement of the samples for each K. If a curve is flat in the middle,
# every pair is either always together or always apart. Ambiguous pairs make it rise in between. The
# area under the curve grows with K; from the right K on it hardly does.

ConsensusCDFDisplay.from_ensembles(ensembles)

# %%
# The last plot has a row for each K and a column for each point. Up to five clusters, a row splits
# clusters of the row above. Further clusters have no common shape: points change sides.

TrackingDisplay.from_ensembles(ensembles)
