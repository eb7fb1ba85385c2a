"""Which kind of runs decides: stability of halves and agreement with the other kinds."""

import numpy as np
import pytest

import coterie as ct
from coterie.consensus import trust
from coterie.consensus.trust import rank_kinds
from coterie.inspection.scores import adjusted_rand_index

KINDS = np.repeat(["right", "wrong", "random"], 8)


def consensus(P, weights=None):
    """Return the consensus of some runs."""
    return ct.L2Consensus(3, random_state=0).fit(P, sample_weight=weights).labels_.astype(np.int64)


@pytest.fixture(scope="module")
def planted():
    """Eight runs each: copies of y, copies of z with much noise, and random labels."""
    right, y = ct.planted_partitions([60, 50, 40], 8, n_bad=0, noise=0.1, random_state=0)
    wrong, _ = ct.planted_partitions([50, 50, 50], 8, n_bad=0, noise=0.6, random_state=1)
    chance = np.random.default_rng(2).integers(3, size=(150, 8))
    return np.hstack([right, wrong, chance]), y


def test_the_kind_whose_halves_agree_decides(planted):
    """Copies of one partition with little noise are more stable than others, and come first."""
    ranked = rank_kinds(planted[0], KINDS, np.ones(150), consensus, np.random.RandomState(0))
    assert ranked[0].kind == "right"
    trust = [one.stability + one.agreement for one in ranked]
    assert trust == sorted(trust, reverse=True)
    by_kind = {one.kind: one for one in ranked}
    assert by_kind["right"].stability > 0.9 and by_kind["random"].stability < 0.3


def test_agreement_is_that_with_the_other_kinds(planted):
    """It is the mean adjusted Rand index of the consensus of a kind with those of the others."""
    P, _ = planted
    ranked = rank_kinds(P, KINDS, np.ones(150), consensus, np.random.RandomState(0))
    answers = {kind: consensus(P[:, kind == KINDS]) for kind in dict.fromkeys(KINDS)}
    for one in ranked:
        others = [answers[kind] for kind in answers if kind != one.kind]
        mean = np.mean([adjusted_rand_index(answers[one.kind], other) for other in others])
        assert one.agreement == pytest.approx(mean)


def test_of_equally_stable_kinds_the_confirmed_one_decides():
    """Three kinds always find the same clusters each; the two that agree outvote the third."""
    y, z = np.repeat([0, 1, 2], 20), np.tile([0, 1, 2], 20)
    P = np.column_stack([z] * 4 + [y] * 8)
    kinds = np.repeat(["alone", "one", "other"], 4)
    ranked = rank_kinds(P, kinds, np.ones(60), consensus, np.random.RandomState(0))
    assert [one.stability for one in ranked] == pytest.approx([1.0] * 3)
    assert [one.kind for one in ranked] == ["one", "other", "alone"]


def test_many_rows_are_sampled(planted, monkeypatch):
    """The kinds of many rows are compared on some of them, with their weights."""
    monkeypatch.setattr(trust, "_MOST_ROWS", 100)
    lengths = set()

    def spy(P, weights):
        lengths.add((len(P), len(weights)))
        return consensus(P, weights)

    weights = np.random.default_rng(0).integers(1, 3, 150).astype(float)
    ranked = rank_kinds(planted[0], KINDS, weights, spy, np.random.RandomState(0))
    assert ranked[0].kind == "right" and lengths == {(100, 100)}
