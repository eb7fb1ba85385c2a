"""The consensus of hierarchies: identities, random trees, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, fcluster, linkage
from scipy.stats import rankdata
from sklearn.metrics import adjusted_rand_score

from coterie import consensus_linkage
from coterie.consensus.hierarchies import rank_heights
from coterie.errors import DissentWarning, InvalidParameterError, TooManyPointsError

METHODS = ("average", "complete", "ward", "single", "weighted")
y = np.repeat(np.arange(4), 15)


def random_tree(seed, n=60):
    """Return a tree of points without structure."""
    return linkage(np.random.default_rng(seed).normal(size=(n, 3)), "average")


@pytest.fixture(scope="module")
def good():
    """Five trees of four groups of points, by different linkages, on noisy measurements."""
    rng = np.random.default_rng(0)
    X = 6.0 * np.eye(4, 4)[y]
    return [linkage(X + rng.normal(size=X.shape), method) for method in METHODS]


@given(st.integers(2, 20), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_rank_heights_are_the_ranks_of_cophenetic_distances(n, seed):
    """The ranks of all pairs are computed from the merges, also with ties."""
    X = np.random.default_rng(seed).integers(0, 4, (n + 1, 2)).astype(float)
    tree = linkage(X, "complete")
    distances = cophenet(tree)
    expected = (rankdata(distances) - 0.5) / len(distances)
    np.testing.assert_allclose(cophenet(rank_heights(tree)), expected)


def test_one_tree_is_its_own_consensus(good):
    """The pairs of leaves are joined in the order of the tree, whatever its heights."""
    for tree in good:
        found = consensus_linkage([tree])
        assert (rankdata(cophenet(found.linkage).round(9)) == rankdata(cophenet(tree))).all()
        assert found.agreement == pytest.approx([1.0])
    squared = [np.column_stack([t[:, :2], t[:, 2] ** 2, t[:, 3]]) for t in good]
    np.testing.assert_array_equal(
        consensus_linkage(squared).linkage, consensus_linkage(good).linkage
    )


@pytest.mark.parametrize("n_random", [1, 2])
def test_random_trees_do_not_change_the_answer(good, n_random):
    """One or two random trees among five have no weight; they change the mean of all trees."""
    kept = good[: 5 - n_random]
    trees = [*kept, *(random_tree(seed) for seed in range(n_random))]
    found = consensus_linkage(trees)
    assert found.dissenters.tolist() == list(range(5 - n_random, 5))
    np.testing.assert_allclose(found.linkage, consensus_linkage(kept, weights=None).linkage)
    mean = consensus_linkage(trees, weights=None)
    assert not np.allclose(cophenet(mean.linkage), cophenet(found.linkage), atol=0.02)
    assert adjusted_rand_score(y, fcluster(found.linkage, 4, "maxclust")) > 0.95
    assert found.agreement[:3].min() > 0.5 > found.agreement[-1]
    assert "dissent" in str(found)


def test_three_equal_trees_outvote_two_others(good):
    """The tree of the majority is returned exactly."""
    trees = [good[0], random_tree(1), good[0], random_tree(2), good[0]]
    np.testing.assert_allclose(
        consensus_linkage(trees).linkage, consensus_linkage([good[0]]).linkage
    )


def test_order_of_trees_and_leaves_does_not_matter(good):
    """Reversed trees, or renamed leaves, give the same joined pairs."""
    found = cophenet(consensus_linkage(good).linkage)
    np.testing.assert_allclose(cophenet(consensus_linkage(good[::-1]).linkage), found)


def test_named_trees_are_named_in_the_result(good):
    """A dict of trees gives the same tree, and names the dissenters, agreements and errors."""
    trees = dict(zip(METHODS, good, strict=True)) | {"chance": random_tree(1)}
    found, plain = consensus_linkage(trees), consensus_linkage([*good, random_tree(1)])
    np.testing.assert_array_equal(found.linkage, plain.linkage)
    assert found.dissent.names == (*METHODS, "chance")
    assert "1 dissenter (chance)" in str(found) and f"ward {found.agreement[2]:.2f}" in str(found)
    with pytest.raises(InvalidParameterError, match=r"linkages\['odd'\] is not a linkage"):
        consensus_linkage(trees | {"odd": [1, 2]})


def test_without_a_majority_all_trees_vote():
    """Trees that all differ are averaged, with a warning."""
    with pytest.warns(DissentWarning, match="agree"):
        found = consensus_linkage([random_tree(seed) for seed in range(3)])
    assert found.weights.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("linkages", "settings_", "message"),
    [
        ([], {}, "empty"),
        ([np.eye(4)], {}, r"linkages\[0\] is not a linkage matrix"),
        ([random_tree(0, 5), random_tree(0, 6)], {}, r"linkages\[1\] has 6 leaves"),
        ([[[0, 1, 2.0, 2], [2, 3, 1.0, 3]]], {}, "heights that fall"),
        ([[[0, 1, 2.0, 2]]], {}, "two leaves"),
        ([random_tree(0)], {"weights": "learned"}, "learned"),
        ([random_tree(0)], {"max_points": 50}, "60 points, more than max_points=50"),
    ],
)
def test_unusable_trees_and_settings_are_refused(linkages, settings_, message):
    """The message names the tree, the rule or the limit."""
    error = TooManyPointsError if "max_points" in settings_ else InvalidParameterError
    with pytest.raises(error, match=message):
        consensus_linkage(linkages, **settings_)
