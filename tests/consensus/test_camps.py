"""Agreement of partitions, and their camps."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import coterie as ct
from coterie.consensus.camps import (
    CUT,
    GroupMoments,
    _joined_to_largest,
    chance_scores,
    find_camps,
    partition_agreement,
)
from coterie.counts.contingency import all_contingencies, count_pairs
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import as_label_tuples, compress_labels
from coterie.runtime.sampling import sample_multiplicities
from soft_memberships import pair_matrices, random_memberships


def counts_of(P):
    """Pair counts of all pairs of partitions."""
    tuples = as_label_tuples(P)
    return count_pairs(tuples, all_contingencies(tuples))


def test_agreement_is_the_adjusted_rand_index():
    """The agreement of every pair equals scikit-learn's adjusted Rand index."""
    P, _ = ct.planted_partitions([40, 20, 10], 6, 2, 0.3, random_state=0)
    agreement = partition_agreement(P).agreement
    for v in range(6):
        for w in range(6):
            assert agreement[v, w] == pytest.approx(adjusted_rand_score(P[:, v], P[:, w]))


def test_deviation_is_that_of_random_permutations():
    """A score is the agreement over its standard deviation under random permutation."""
    rng = np.random.default_rng(0)
    P = np.column_stack([rng.integers(0, 3, 300), rng.integers(0, 8, 300)])
    agreement, scores = chance_scores(counts_of(P))
    permuted = [adjusted_rand_score(P[:, 0], rng.permutation(P[:, 1])) for _ in range(500)]
    assert agreement[0, 1] / scores[0, 1] == pytest.approx(np.std(permuted), rel=0.08)
    assert np.mean(permuted) == pytest.approx(0, abs=3 * np.std(permuted) / np.sqrt(500))


@pytest.mark.parametrize("correlated", [True, False])
def test_wrong_partitions_are_set_aside(correlated):
    """Exactly the partitions that are independent of the majority lose their vote."""
    for seed in range(4):
        P, _ = ct.planted_partitions(
            [120, 60, 40], 10, 4, 0.2, correlated=correlated, random_state=seed
        )
        dissent = partition_agreement(P)
        assert dissent.weights.tolist() == [1.0] * 6 + [0.0] * 4
        assert not dissent.tied
        assert dissent.groups[:6].tolist() == [0] * 6
        # two independent ones may pass for a camp by luck, never for a large one
        largest = np.bincount(dissent.groups[6:]).max()
        assert largest == 4 if correlated else largest <= 2


def test_weak_but_real_agreement_keeps_the_vote():
    """A partition that agrees weakly, but beyond chance, keeps its vote."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], 300)
    coarse = [np.where(rng.random(1200) < 0.1, rng.integers(0, 2, 1200), y // 2) for _ in range(4)]
    other = [np.where(rng.random(1200) < 0.6, rng.integers(0, 4, 1200), y) for _ in range(2)]
    dissent = partition_agreement(np.column_stack(coarse + other))
    assert dissent.weights.min() == 1
    assert dissent.agreement[0, 5] < 0.25


@pytest.mark.parametrize(("noise", "missing"), [(0.3, 0.5), (0.2, 0.6)])
def test_missing_labels_do_not_part_a_camp(noise, missing):
    """If each partition labels other points, camps are those of the complete partitions."""
    for seed in range(3):
        P, _ = ct.planted_partitions([100, 50, 30, 20], 20, 6, noise, random_state=seed)
        P = np.where(np.random.default_rng(seed).random(P.shape) < missing, -1, P)
        P = P[(P >= 0).any(axis=1)]
        assert partition_agreement(P).weights.tolist() == [1.0] * 14 + [0.0] * 6


def test_equal_camps_all_keep_their_vote():
    """Of two equally large camps both keep their votes, and the result is tied."""
    P, _ = ct.planted_partitions([120, 80], 8, 4, 0.1, random_state=0)
    dissent = partition_agreement(P)
    assert dissent.tied and dissent.weights.tolist() == [1.0] * 8
    assert sorted(np.bincount(dissent.groups)) == [4, 4]
    assert "no rule can tell" in dissent.in_words()


def test_constant_partitions_agree_with_no_other():
    """A partition with one cluster scores 0 with all others, also with its copies."""
    P, _ = ct.planted_partitions([60, 40], 4, 0, 0.1, random_state=0)
    P = np.column_stack([P, np.zeros((100, 5), dtype=int)])
    dissent = partition_agreement(P)
    assert dissent.weights.tolist() == [1.0] * 4 + [0.0] * 5
    assert np.abs(dissent.scores[4:]).max() == 0
    assert dissent.camp_scores.tolist() == [np.inf, 0, 0, 0, 0, 0]


def test_few_points_are_not_held_against_agreement():
    """With twenty points an index above 0.2 is agreement."""
    y = np.repeat([0, 1], 10)
    a, b = y.copy(), y.copy()
    a[:3], b[-3:] = 1, 0
    assert partition_agreement(np.column_stack([y, a, b])).weights.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("copies", "score"), [(2.0, 1 / 0.05), (1e6, 1 / 0.0025)])
def test_deviations_have_bounds(copies, score):
    """Equal partitions score 20 with few points, and 400 with many."""
    tuples = compress_labels(as_label_matrix([[0, 0], [1, 1], [2, 2], [2, 2]]), np.full(4, copies))
    counts = count_pairs(tuples, all_contingencies(tuples))
    assert chance_scores(counts)[1] == pytest.approx(score)
    groups = np.array([0]), np.array([1])
    assert GroupMoments.of(counts).score(*groups) == pytest.approx(score)


def named_partitions(names):
    """Five partitions in columns of these names, of which the last two are wrong."""
    P, _ = ct.planted_partitions([120, 60, 40], 5, 2, 0.1, random_state=0)
    return pd.DataFrame(P, columns=names)


def test_repr_has_the_sizes_of_the_camps():
    """The repr is one line without arrays."""
    assert repr(partition_agreement(named_partitions(list("abcde")))) == (
        "Dissent(5 partitions, 2 camps: 3 + 2)"
    )
    tied, _ = ct.planted_partitions([120, 80], 8, 4, 0.1, random_state=0)
    assert repr(partition_agreement(tied)) == "Dissent(8 partitions, 2 camps: 4 + 4, tied)"
    assert repr(partition_agreement([[0], [1], [1]])) == "Dissent(1 partition, 1 camp: 1)"


def test_notebooks_show_a_table_of_the_camps():
    """Each camp is a row with its members, and names of columns are no markup."""
    html = partition_agreement(named_partitions(["a", "b", "c", "<script>", "e"]))._repr_html_()
    assert "<td>a, b, c</td>" in html and "<td>&lt;script&gt;, e</td>" in html
    assert html.count("<tr>") == 3 and "<script>" not in html
    assert "<td>0</td><td>3</td><td>decides</td><td></td>" in html
    assert "<td>1</td><td>2</td><td>dissents</td><td>" in html


@pytest.mark.parametrize("copies", [10**3, 10**9])
def test_camps_do_not_depend_on_how_many_points_there_are(copies):
    """Multiplicities up to 10⁹ do not change the camps."""
    P, _ = ct.planted_partitions([60, 40], 7, 3, 0.2, random_state=0)
    tuples = compress_labels(as_label_matrix(P), np.full(100, float(copies)))
    counts = count_pairs(tuples, all_contingencies(tuples))
    camps = find_camps(counts).reordered(np.argsort(tuples.partition_order))
    assert camps.weights.tolist() == [1, 1, 1, 1, 0, 0, 0]


def test_groups_agree_where_pairs_do_not():
    """Weak partitions whose pairs agree by chance only are one camp, with any number of points."""
    for n in (200, 2000):
        P, _ = ct.planted_partitions([n // 4] * 4, 60, 0, 0.7, random_state=0)
        dissent = partition_agreement(P)
        pairs = dissent.scores[~np.eye(60, dtype=bool)]
        assert np.median(pairs) < 4
        assert dissent.weights.min() == 1


def test_score_of_groups_is_that_of_random_permutations():
    """The score of two camps is their correlation over its deviation under permutation."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 3, (80, 4)), rng.integers(0, 5, (80, 3))

    def mean_coassociation(labels):
        return (labels[:, None] == labels[None]).mean(axis=2)[~np.eye(80, dtype=bool)]

    def correlation(order):
        return np.corrcoef(mean_coassociation(first), mean_coassociation(second[order]))[0, 1]

    drawn = [correlation(rng.permutation(80)) for _ in range(600)]
    moments = GroupMoments.of(counts_of(np.hstack([first, second])))
    order = as_label_tuples(np.hstack([first, second])).partition_order
    score = moments.score(np.flatnonzero(order < 4), np.flatnonzero(order >= 4))
    expected = correlation(np.arange(80)) / np.clip(np.std(drawn), 0.0025, 0.05)
    assert score == pytest.approx(expected, rel=0.1)


def test_a_group_of_one_partition_scores_as_the_partition():
    """Both are the excess of common pairs over its deviation, if the bounds do not apply."""
    counts = counts_of(np.random.default_rng(0).integers(0, [3, 8], (60, 2)))
    score = GroupMoments.of(counts).score(np.array([0]), np.array([1]))
    assert score == pytest.approx(chance_scores(counts)[1][0, 1], rel=1e-9)


def test_scores_of_soft_partitions_are_those_of_random_permutations():
    """Agreement is in standard deviations over random permutations of the rows."""
    rng = np.random.default_rng(3)
    P = random_memberships(rng, 60, [3, 4], missing=False)
    P[1][:30, :3] = (P[1][:30, :3] + P[0][:30]) / 2
    P[1] /= P[1].sum(axis=1, keepdims=True)
    agreement, scores = chance_scores(counts_of(P))
    a, b = pair_matrices(P)[0]
    np.fill_diagonal(a, 0)
    np.fill_diagonal(b, 0)
    orders = [rng.permutation(60) for _ in range(1_000)]
    draws = np.array([(a * b[np.ix_(p, p)]).sum() for p in orders])
    mean, span = a.sum() * b.sum() / (60 * 59), (a.sum() + b.sum()) / 2
    assert draws.mean() == pytest.approx(mean, rel=0.01)
    deviation = draws.std() / (span - mean)
    assert agreement[0, 1] == pytest.approx(((a * b).sum() - mean) / (span - mean))
    assert scores[0, 1] == pytest.approx(agreement[0, 1] / deviation, rel=0.05)


def test_camps_follow_the_order_of_the_partitions():
    """Partitions in another order have the same agreement, scores, camps and names."""
    P, _ = ct.planted_partitions([60, 40, 20], 7, 3, 0.2, random_state=0)
    table = pd.DataFrame(P, columns=list("abcdefg"))
    order = np.random.default_rng(0).permutation(7)
    found, moved = partition_agreement(table), partition_agreement(table[table.columns[order]])
    assert (moved.agreement == found.agreement[np.ix_(order, order)]).all()
    assert (moved.scores == found.scores[np.ix_(order, order)]).all()
    assert (moved.weights == found.weights[order]).all()
    assert moved.names == tuple("abcdefg"[v] for v in order)


@pytest.mark.parametrize(("common", "decided"), [(3, False), (4, True)])
def test_partitions_need_four_common_points(common, decided):
    """With fewer common points neither partitions nor groups of them can show disagreement."""
    P = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [0, 0]])
    P[common:, 1] = -1
    counts = counts_of(P)
    assert (chance_scores(counts)[1][0, 1] == CUT) != decided
    score = GroupMoments.of(counts).score(np.array([0]), np.array([1]))
    assert (score == CUT) != decided


def test_a_sample_is_counted_as_its_points_are():
    """The agreement of a sample is that of the points that were drawn."""
    P = np.random.default_rng(0).integers(0, 2, (400, 3))
    tuples = as_label_tuples(P)
    drawn = sample_multiplicities(tuples.weights, 150, 5).astype(int)
    points = in_users_order(tuples)[np.repeat(np.arange(tuples.n_tuples), drawn)]
    sampled, expected = partition_agreement(P, 150, 5), partition_agreement(points)
    assert len(points) == 150
    np.testing.assert_allclose(sampled.scores, expected.scores)


def in_users_order(tuples):
    """Return the codes of the tuples, with the partitions in the user's order."""
    return tuples.codes[:, np.argsort(tuples.partition_order)]


def test_words_say_who_agrees():
    """One partition, all equal, all different, and camps of several dissenters."""
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 40)
    alike = np.column_stack([y, y, y])
    noise, z = rng.integers(0, 3, (120, 3)), rng.permutation(y)
    one, same, chance = (partition_agreement(P) for P in (y[:, None], alike, noise))
    assert one.in_words() == "one partition: nothing to agree on"
    assert same.in_words() == "all 3 partitions agree beyond chance" and same.all_same
    assert not partition_agreement(alike[:, :2]).all_same
    assert chance.in_words().startswith("no two of the 3 partitions agree beyond chance, so all")
    assert chance.tied and not chance.all_same
    for others, words in (
        ([z, z], "2 dissent (3, 4): they agree with each other;"),
        ([z, z, noise[:, 0]], "3 dissent (3, 4, 5): at most 2 of them agree with each other;"),
        ([noise[:, 0], noise[:, 1]], "2 dissent (3, 4): no two of them agree;"),
        ([z], "1 dissenter (3)"),
    ):
        found = partition_agreement(np.column_stack([alike, *others]))
        start = f"3 of {3 + len(others)} partitions agree; {words}"
        assert found.in_words().startswith(start)
        # the score of the camp that is nearest to the largest
        score = f"(z-score at most {found.camp_scores[1:].max():.1f}, where 4 would be agreement)"
        assert (score in found.in_words()) == (len(others) > 1)
    assert "1 dissenter (d)" in found.in_words(list("abcd"))


def test_camps_join_the_largest_while_they_agree_with_it():
    """A camp may agree with the largest one only after another camp has joined it."""

    class Moments:
        def score(self, first, second):
            return CUT if len(first) >= {3: 3, 4: 5, 6: 9}[int(second[0])] else 0.0

    camps = [np.array([0, 1, 2]), np.array([4]), np.array([6]), np.array([3, 5])]
    largest, *others = _joined_to_largest(Moments(), camps)
    assert largest.tolist() == [0, 1, 2, 3, 5, 4] and [c.tolist() for c in others] == [[6]]


def redrawn(y, share, seed):
    """Return labels of which a share is drawn again."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(y)) < share, rng.integers(0, y.max() + 1, len(y)), y)


def test_degrees_are_shares_of_the_other_points():
    """Σ d_i e_i over the common points, where d_i is the share of the others together with i."""
    P = np.random.default_rng(0).integers(0, 3, (9, 4))
    tuples = as_label_tuples(P)
    together = P.T[:, :, None] == P.T[:, None, :]
    degrees = (together.sum(axis=2) - 1) / (len(P) - 1)
    expected = tuples.in_given_order(GroupMoments.of(counts_of(P)).degrees.diagonal())
    assert expected == pytest.approx((len(P) - 1) * (degrees**2).sum(axis=1))


def test_a_weak_member_of_a_camp_is_named():
    """An annotator who guesses most answers agrees beyond chance, but weakly."""
    y = np.repeat(np.arange(4), [200, 100, 50, 25])
    P = np.column_stack([redrawn(y, 0.8 if v == 3 else 0.2, v) for v in range(9)])
    dissent = partition_agreement(pd.DataFrame(P, columns=list("abcdefghi")))
    assert dissent.weights.min() == 1 and np.flatnonzero(dissent.weak).tolist() == [3]
    assert dissent.in_words() == "all 9 partitions agree beyond chance; 1 only weakly (d)"
    est = ct.RobustConsensus(4, random_state=0).fit(P)
    assert [row.name for row in ct.partition_report(est) if row.weak] == ["3"]


@pytest.mark.parametrize(
    ("share", "labelled", "is_weak"), [(0.20, 20, True), (0.22, 20, False), (0.20, 19, False)]
)
def test_weak_is_less_than_a_quarter_of_what_is_usual(share, labelled, is_weak):
    """The others reach 4/5 of the bound with each other; with v a share of this: 0.8 s in all.

    Their median is 0.64 + 0.16 s, of which 0.8 s is a quarter for s = 0.21. Partitions that have
    fewer than 20 points in common are not judged.
    """
    excess = np.full((6, 6), 0.8)
    excess[0] = excess[:, 0] = 0.8 * share
    products = excess + 1.0  # so that the bound, 2, is 1 above what is expected
    np.fill_diagonal(products, 2.0)
    pairs = np.full((6, 6), float(labelled**2))
    moments = GroupMoments(pairs, np.full((6, 6), 2.0), products, excess, np.zeros((6, 6)))
    assert moments.weak(np.arange(6)).tolist() == [is_weak] + [False] * 5


@pytest.mark.parametrize("kind", ["equally noisy", "other numbers of clusters", "few labels"])
def test_other_members_are_not_weak(kind):
    """Noise that all share, unions and divisions of clusters, and few labels are no weakness."""
    y = np.repeat(np.arange(12), 30)
    rng = np.random.default_rng(0)
    noise = 0.6 if kind == "equally noisy" else 0.1
    P = np.column_stack([redrawn(y, noise, v) for v in range(12)])
    if kind == "other numbers of clusters":
        P = P // [1, 1, 1, 2, 2, 3, 3, 4, 4, 6, 6, 6]
        P[:, 0] = 5 * P[:, 0] + rng.integers(0, 5, len(y))
    if kind == "few labels":
        P = np.where(rng.random(P.shape) < 0.9, -1, P)
    assert not partition_agreement(P[(P >= 0).any(axis=1)]).weak.any()
