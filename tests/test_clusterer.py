"""ConsensusClusterer and MultiViewClusterer."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from coterie import ConsensusClusterer


@parametrize_with_checks([ConsensusClusterer(n_clusters=3, n_partitions=5)])
def test_consensus_clusterer_passes_scikit_learns_checks(estimator, check):
    """Every one of scikit-learn's estimator checks holds."""
    check(estimator)
