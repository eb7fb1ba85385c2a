"""Which kind of runs decides, and K: stability of halves and agreement with the other kinds."""

import numpy as np
import pytest

import coterie as ct
from coterie.consensus.choice_of_k import FeatureSample
from coterie.consensus.trust import compare_kinds, shared_errors
from coterie.inspection.scores import adjusted_rand_index

KS = np.array([2, 3, 4, 5])


@pytest.fixture(scope="module")
def planted():
    """Eight runs each: copies of y, copies of z with much noise, and random labels."""
    right, y = ct.planted_partitions([60, 50, 40], 8, n_bad=0, noise=0.1, random_state=0)
    wrong, _ = ct.planted_partitions([50, 50, 50], 8, n_bad=0, noise=0.6, random_state=1)
    chance = np.random.default_rng(2).integers(3, size=(150, 8))
    return {"random": chance, "wrong": wrong, "right": right}, y


def compared(runs, ks=(3,), weights=None, seed=0):
    """Return the evidence for some numbers of clusters."""
    n = len(next(iter(runs.values())))
    weights = np.ones(n) if weights is None else weights
    return compare_kinds(runs, np.asarray(ks), weights, np.random.RandomState(seed))


def test_the_kind_whose_halves_agree_decides(planted):
    """Copies of one partition with little noise are more stable than others, and come first."""
    runs, y = planted
    ranked = compared(runs).ranked()
    assert ranked[0].kind == "right"
    trust = [one.trust for one in ranked]
    assert trust == sorted(trust, reverse=True)
    by_kind = {one.kind: one for one in ranked}
    assert by_kind["right"].stability > 0.9 and by_kind["random"].stability < 0.3
    answer = compared(runs).answers[2, 0]
    assert adjusted_rand_index(y, answer) > 0.95


def test_agreement_leaves_out_the_kind_that_is_least_alike(planted):
    """It is the mean adjusted Rand index with the others but one, so one kind may fail."""
    evidence = compared({**planted[0], "again": planted[0]["right"][:, ::-1]})
    (answers,) = evidence.answers.transpose(1, 0, 2)
    for a, own in enumerate(answers):
        others = sorted(adjusted_rand_index(own, b) for i, b in enumerate(answers) if i != a)
        assert evidence.agreement[a, 0] == pytest.approx(np.mean(others[1:]))
    trust = (evidence.stability.clip(0) ** 4 + evidence.agreement.clip(0) ** 2) / 2
    np.testing.assert_allclose(evidence.trust, trust)


def test_of_equally_stable_kinds_the_confirmed_one_decides():
    """Three kinds always find the same clusters each; the two that agree outvote the third."""
    y, z = np.repeat([0, 1, 2], 20), np.tile([0, 1, 2], 20)
    runs = {"alone": z, "one": y, "other": y}
    evidence = compared({kind: np.column_stack([labels] * 4) for kind, labels in runs.items()})
    assert evidence.stability == pytest.approx(1.0)
    assert [one.kind for one in evidence.ranked()] == ["one", "other", "alone"]


def test_the_largest_trusted_number_of_clusters_is_chosen():
    """Five planted clusters are recommended, although unions of them are stable, too."""
    runs = {
        str(seed): ct.planted_partitions([40] * 5, 8, 0, 0.1, random_state=0)[0]
        for seed in range(3)
    }
    features = FeatureSample(np.arange(200), np.random.default_rng(0).normal(size=(200, 2)))
    choice = compared(runs, KS).choose_k(features)
    assert choice.best_k == 5 and not choice.is_weak and "on 5 clusters" in choice.reason
    assert choice.trust.argmax() == 3 and choice.stability[-1] > 0.95
    assert set(choice.columns()) >= {"trust", "stability", "agreement", "silhouette"}


def test_runs_without_structure_recommend_one_cluster(planted):
    """If no number of clusters is found again, K is 1, and the reason says what was found."""
    chance = np.random.default_rng(3).integers(4, size=(2, 150, 8))
    features = FeatureSample(np.arange(150), np.random.default_rng(0).normal(size=(150, 2)))
    choice = compared({"a": chance[0], "b": chance[1]}, KS).choose_k(features)
    assert choice.best_k == 1 and choice.is_weak
    assert choice.reason.startswith("no structure was found")


def test_a_kind_answers_for_as_many_clusters_as_its_runs_have(planted):
    """Runs of three clusters say nothing about four; runs may depend on K."""
    P = planted[0]["right"]
    evidence = compared({"three": P, "any": lambda k: np.minimum(P, k - 1)}, KS)
    assert np.isnan(evidence.stability[0]).tolist() == [False, False, True, True]
    assert not np.isnan(evidence.stability[1, :2]).any()
    assert evidence.agreement[1, 1] == pytest.approx(1.0)  # with the other kind
    assert len(np.unique(evidence.answers[1, 0])) == 2


def test_weights_count_as_copies(planted):
    """The evidence for weighted rows is that for repeated rows."""
    runs, _ = planted
    weights = np.random.default_rng(0).integers(1, 3, 150)
    repeated = {kind: np.repeat(P, weights, axis=0) for kind, P in runs.items()}
    one, other = compared(runs, weights=weights.astype(float)), compared(repeated)
    np.testing.assert_allclose(one.stability, other.stability)
    np.testing.assert_allclose(one.agreement, other.agreement)


def test_less_trust_means_more_shared_errors():
    """Runs of trust 0 are all error; runs of full trust keep a small probability of one."""
    errors = [shared_errors(trust) for trust in (0.0, 0.1, 0.5, 1.0)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == 1 and 0 < errors[-1] < 0.05
