"""The relaxation in parts: division, rotation, combination; and where it runs, with warnings."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import RobustConsensus, planted_partitions
from coterie.counts.coassociation import tuple_coassociation
from coterie.errors import DeviceFallbackWarning, MemoryFallbackWarning
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import as_label_tuples, compress_labels
from coterie.relaxation import divided
from coterie.relaxation.admm import least_squares_result, robust_factor
from coterie.relaxation.divided import divided_factor
from coterie.relaxation.spectral import least_squares_factor

FALLBACKS = (DeviceFallbackWarning, MemoryFallbackWarning)


def problem(P, K, weights=None):
    """Return tuples, partition weights in their order, and the ℓ2 start."""
    tuples = as_label_tuples(P)
    alpha = np.ones(tuples.n_partitions) if weights is None else weights[tuples.partition_order]
    return tuples, alpha, least_squares_factor(tuples, alpha, K)


def l1_distance(tuples, alpha, factor):
    """Return ‖M − F Fᵀ‖₁ over points from the dense matrix."""
    gap = np.abs(tuple_coassociation(tuples, alpha).dense() - factor @ factor.T)
    return tuples.weights @ gap @ tuples.weights


def with_missing(P, share, seed=0):
    """Replace a share of the labels by −1."""
    return np.where(np.random.default_rng(seed).random(P.shape) < share, -1, P)


@pytest.fixture(
    scope="module",
    params=["missing labels", "unequal weights", "repeated tuples"],
)
def solved(request):
    """A noisy planted partition, solved in parts of 200 tuples and undivided."""
    noise = 0.15 if request.param == "repeated tuples" else 0.4
    sizes = (1000, 600, 400) if request.param == "repeated tuples" else (300, 180, 120)
    P, _ = planted_partitions(sizes, 10, 0, noise, random_state=3)
    if request.param == "missing labels":
        P = with_missing(P, 0.2)
    weights = np.linspace(1, 2, 10) if request.param == "unequal weights" else None
    tuples, alpha, start = problem(P, 3, weights)
    found = divided_factor(tuples, alpha, start, part_size=200, random_state=0)
    whole = robust_factor(tuple_coassociation(tuples, alpha), start)
    return tuples, alpha, start, found, whole


def test_one_part_is_the_undivided_relaxation():
    """If u is at most the size of a part, the result is that of robust_factor."""
    P, _ = planted_partitions([60, 40], 10, 3, 0.3, random_state=0)
    tuples, alpha, start = problem(P, 2)
    steps = {"max_iter": 50, "tol": 1e-4}
    whole = vars(robust_factor(tuple_coassociation(tuples, alpha), start, **steps))
    found = vars(divided_factor(tuples, alpha, start, part_size=tuples.n_tuples, **steps))
    assert np.array_equal(found.pop("factor"), whole.pop("factor"))
    assert found == whole | {"place": "parts", "n_parts": 1, "theta": 1.0}
    short = divided_factor(tuples, alpha, start, part_size=40, max_iter=3, random_state=0)
    assert (short.n_iter, short.converged, len(short.history["mu"])) == (3, False, 3)


def test_without_noise_the_answer_is_exact():
    """If M has rank K, F Fᵀ equals M, although each part has only some of its entries."""
    y = np.repeat([0, 1, 2], [70, 50, 31])
    tuples = as_label_tuples(np.stack([y, 2 - y, (y + 1) % 3], axis=1))
    tuples = tuples.without_compression()
    start = least_squares_factor(tuples, np.ones(3), 3)
    found = divided_factor(tuples, np.ones(3), start, part_size=40, random_state=0)
    assert found.n_parts == 4
    assert found.factor @ found.factor.T == pytest.approx(
        (y[:, None] == y[None, :]).astype(float), abs=1e-6
    )
    assert found.objective == pytest.approx(0.0, abs=1e-3)


def test_the_objective_is_near_the_undivided_one(solved):
    """At most the start's, within 2% of the undivided one; columns are orthogonal and fall."""
    tuples, alpha, start, found, whole = solved
    reached = l1_distance(tuples, alpha, found.factor)
    assert found.n_parts > 1 and found.converged
    assert reached <= l1_distance(tuples, alpha, start) * 1.001
    assert reached <= whole.objective * 1.02
    assert found.objective == pytest.approx(reached, rel=0.05)
    gram = (found.factor * tuples.weights[:, None]).T @ found.factor
    assert np.diag(np.diag(gram)) == pytest.approx(gram, abs=1e-8 * gram[0, 0])
    assert np.all(np.diff(np.diag(gram)) <= 0)


def test_the_seed_fixes_the_factor():
    """The same seed gives the same factor, even for another order of the points."""
    P, _ = planted_partitions([100, 75, 50], 12, 0, 0.5, random_state=4)
    shuffled = np.random.default_rng(0).permutation(len(P))
    rows = []
    for labels, back in ((P, slice(None)), (P, slice(None)), (P[shuffled], np.argsort(shuffled))):
        tuples, alpha, start = problem(labels, 3)
        found = divided_factor(tuples, alpha, start, part_size=60, random_state=7)
        rows.append(tuples.expand(found.factor)[back])
    assert np.array_equal(rows[0], rows[1])
    assert rows[0] == pytest.approx(rows[2], abs=1e-9)


def test_parts_that_disagree_give_a_factor_near_the_start():
    """Very small parts fit noise; the sample of pairs detects it."""
    P, _ = planted_partitions([100] * 5, 8, 0, 0.7, random_state=0)
    tuples, alpha, start = problem(P, 5)
    found = divided_factor(tuples, alpha, start, part_size=20, random_state=0)
    assert found.theta < 0.5
    assert l1_distance(tuples, alpha, found.factor) <= 1.01 * l1_distance(tuples, alpha, start)


def test_no_matrix_over_all_tuples_is_made(monkeypatch):
    """Every co-association is over one part or the sample, which is as large as a part."""
    sizes = []

    def counted(tuples, alpha):
        sizes.append(tuples.n_tuples)
        return tuple_coassociation(tuples, alpha)

    monkeypatch.setattr(divided, "tuple_coassociation", counted)
    P, _ = planted_partitions([400, 300, 100], 12, 0, 0.7, random_state=0)
    tuples, alpha, start = problem(P, 3)
    found = divided_factor(tuples, alpha, start, part_size=25, max_iter=2, random_state=0)
    assert len(sizes) == found.n_parts + 1 > 25
    assert max(sizes) <= 25


@settings(max_examples=20, deadline=None)
@given(
    n_tuples=st.integers(41, 300),
    n_clusters=st.integers(1, 6),
    part_size=st.integers(24, 40),
    n_heavy=st.integers(0, 12),
    seed=st.integers(0, 2**20),
)
def test_every_point_is_in_one_part(n_tuples, n_clusters, part_size, n_heavy, seed):
    """Weights add up; a light tuple is in one part, a heavy one in all; sizes are equal."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 5, n_tuples).astype(float)
    weights[rng.permutation(n_tuples)[:n_heavy]] = rng.integers(1, 2000)
    start = rng.standard_normal((n_tuples, n_clusters))
    parts, of_parts = divided._divide(weights, start, part_size, np.random.RandomState(seed))
    heavy = weights > 4 * weights.sum() / part_size
    times = np.bincount(np.concatenate(parts), minlength=n_tuples)
    total = np.bincount(np.concatenate(parts), weights=np.concatenate(of_parts))
    assert total == pytest.approx(weights)
    assert np.array_equal(times, np.where(heavy, len(parts), 1))
    sizes = [len(part) for part in parts]
    assert max(sizes) <= part_size
    assert min(sizes) >= max(sizes) - 1
    assert min(sizes) > n_clusters
    assert all(np.all(np.diff(part) > 0) for part in parts)


def test_parts_have_the_proportions_of_the_whole():
    """Every part has its share of each cluster, up to a few points."""
    P, y = planted_partitions([300, 200, 100], 15, 0, 0.3, random_state=0)
    tuples, _, start = problem(P, 3)
    tuples, start = tuples.without_compression(), start[tuples.inverse]
    parts, _ = divided._divide(tuples.weights, start, 150, np.random.RandomState(0))
    for part in parts:
        assert np.bincount(y[part]) == pytest.approx(np.array([75, 50, 25]), abs=4)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_sampled_objective_is_exact_on_all_tuples(missing):
    """With every point in the sample it equals ‖M − F_θ F_θᵀ‖₁ for each θ."""
    P, _ = planted_partitions([50, 30], 9, 0, 0.5, random_state=5)
    tuples, alpha, start = problem(with_missing(P, missing), 2, np.linspace(1, 3, 9))
    tuples, start = tuples.without_compression(), start[tuples.inverse]
    rows = start + np.random.default_rng(0).normal(scale=0.1, size=start.shape)
    found = divided._sampled_objectives(tuples, alpha, start, rows, len(start))
    for theta, value in zip(divided._STEPS, found, strict=True):
        F = start + theta * (rows - start)
        assert value == pytest.approx(l1_distance(tuples, alpha, F))


def test_one_tuple_may_have_nearly_all_points():
    """A sample without pairs of different tuples gives a finite factor."""
    P, _ = planted_partitions([300, 200, 100], 20, 0, 0.4, random_state=0)
    weights = np.ones(600)
    weights[0] = 1e9
    tuples = compress_labels(as_label_matrix(P), weights)
    start = least_squares_factor(tuples, np.ones(20), 3)
    found = divided_factor(tuples, np.ones(20), start, part_size=200, random_state=0, max_iter=20)
    assert np.isfinite(found.factor).all()


NO_GPU, SMALL_GPU, GPU = {"gpu_obstacle": "no GPU here"}, {"gpu_memory": 1000}, {}
#: Relaxation, device, facts of the machine and limits, where it runs, and the warning if any.
CHOICES = [
    ("auto", "cpu", GPU, "l2", None),
    ("admm", "cpu", GPU, "cpu", None),
    ("divided", "cpu", GPU, "parts", None),
    ("l2", "cuda", GPU, "l2", None),
    ("auto", "cuda", GPU, "cuda", None),
    ("admm", "cuda", GPU, "cuda", None),
    ("admm", "cuda", NO_GPU, "cpu", "cannot be used: no GPU here; the CPU is used"),
    ("auto", "cuda", NO_GPU, "l2", "cannot be used: no GPU here; least squares are used"),
    ("admm", "cuda", SMALL_GPU, "cpu", "needs .* of GPU memory .* are free"),
    # device="auto" looks for a GPU only for many tuples and a requested ADMM
    ("admm", "auto", {"_FEWEST_TO_DETECT_GPU": 500}, "cuda", None),
    ("admm", "auto", GPU, "cpu", None),
    ("auto", "auto", {"_FEWEST_TO_DETECT_GPU": 500}, "l2", None),
    ("admm", "cpu", {"_MOST_UNDIVIDED": 100}, "parts", "limited to 100 tuples .* in parts"),
]


@pytest.fixture
def machine(monkeypatch):
    """Return a function that replaces facts of the machine; by default it has a large GPU."""

    def on_the_cpu(codes, alpha, weights, start, **steps):
        return replace(least_squares_result(start), place="cuda")

    def has(gpu_obstacle="", gpu_memory=1 << 40, **limits):
        monkeypatch.setattr(divided, "gpu_obstacle", lambda: gpu_obstacle)
        monkeypatch.setattr(divided, "gpu_memory", lambda: gpu_memory)
        monkeypatch.setattr(divided, "gpu_robust_factor", on_the_cpu)
        for name, value in limits.items():
            monkeypatch.setattr(divided, name, value)

    return has


@pytest.mark.parametrize(("relaxation", "device", "facts", "place", "warning"), CHOICES)
def test_request_and_machine_decide_where_it_runs(
    relaxation, device, facts, place, warning, machine, recwarn
):
    """600 distinct tuples are solved where they were requested, or elsewhere with a warning."""
    machine(**facts)
    P = planted_partitions([300, 200, 100], 30, 4, 0.4, random_state=0)[0]
    est = RobustConsensus(3, relaxation=relaxation, device=device, random_state=0).fit(P)
    assert est.relaxation_ == place
    found = [one for one in recwarn if issubclass(one.category, FALLBACKS)]
    assert bool(found) == (warning is not None)
    for one in found:
        assert re.search(warning, str(one.message)) and one.filename == __file__


def test_memberships_are_solved_on_the_cpu(machine):
    """device="cuda" with memberships gives a warning, device="auto" none."""
    machine(_FEWEST_TO_DETECT_GPU=0)
    P = [np.eye(3)[np.arange(40) % 3] * share for share in (0.7, 0.8, 0.9)]
    with pytest.warns(DeviceFallbackWarning, match="needs labels, but these are memberships"):
        est = RobustConsensus(3, relaxation="admm", device="cuda", random_state=0).fit(P)
    assert est.relaxation_ == "cpu"
    assert RobustConsensus(3, relaxation="admm", random_state=0).fit(P).relaxation_ == "cpu"
