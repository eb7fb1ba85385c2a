"""Where the relaxation is computed, and what is said when it is somewhere else."""

import numpy as np
import pytest

import coterie as ct
from coterie.errors import DeviceFallbackWarning, MemoryFallbackWarning
from coterie.relaxation import dispatch as placement


@pytest.fixture
def labels():
    """Partitions of 600 points into three clusters, no two points alike."""
    return ct.planted_partitions([300, 200, 100], 30, 4, 0.4, random_state=0)[0]


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that is there and has room; what would run on it runs on the CPU."""
    calls = []

    def on_the_cpu(codes, alpha, weights, start, **steps):
        calls.append(len(codes))
        return placement.least_squares_result(start)

    monkeypatch.setattr(placement, "gpu_obstacle", lambda: "")
    monkeypatch.setattr(placement, "gpu_memory", lambda: 1 << 40)
    monkeypatch.setattr(placement, "gpu_robust_factor", on_the_cpu)
    return calls


def fitted(labels, **settings):
    """The flagship with some settings."""
    return ct.RobustConsensus(3, random_state=0, **settings).fit(labels)


@pytest.mark.parametrize(
    ("relaxation", "where"), [("auto", "l2"), ("admm", "cpu"), ("divided", "parts"), ("l2", "l2")]
)
def test_the_setting_decides(labels, relaxation, where):
    """Each relaxation that can be asked for is the one that is computed."""
    assert fitted(labels, relaxation=relaxation, device="cpu").relaxation_ == where


def test_auto_relaxes_few_tuples(labels):
    """Up to 500 distinct tuples the ADMM is quick, and takes part by itself."""
    assert fitted(labels[:400]).relaxation_ == "cpu"


def test_without_a_gpu_the_cpu_takes_its_place(labels, monkeypatch):
    """device="cuda" without a GPU gives the CPU's answer and says why."""
    monkeypatch.setattr(placement, "gpu_obstacle", lambda: "no GPU here")
    with pytest.warns(DeviceFallbackWarning, match=r"cannot be used: no GPU here") as told:
        est = fitted(labels, relaxation="admm", device="cuda")
    assert told[0].filename == __file__
    assert est.relaxation_ == "cpu"
    with pytest.warns(DeviceFallbackWarning, match="least squares take its place"):
        assert fitted(labels, device="cuda").relaxation_ == "l2"
    cpu = fitted(labels, relaxation="admm", device="cpu")
    np.testing.assert_array_equal(est.labels_, cpu.labels_)


def test_too_small_a_gpu_is_told(labels, gpu, monkeypatch):
    """A GPU without room for the state leaves it to the CPU, with the figures."""
    monkeypatch.setattr(placement, "gpu_memory", lambda: 1000)
    with pytest.warns(MemoryFallbackWarning, match=r"would need .* of the GPU .* are free"):
        est = fitted(labels, relaxation="admm", device="cuda")
    assert est.relaxation_ == "cpu" and gpu == []


@pytest.mark.parametrize("relaxation", ["auto", "admm"])
def test_a_gpu_that_was_asked_for_is_used(labels, gpu, relaxation):
    """device="cuda" relaxes on the GPU, also where "auto" would be too slow on the CPU."""
    est = fitted(labels, relaxation=relaxation, device="cuda")
    assert est.relaxation_ == "cuda" and len(gpu) == 1


def test_few_tuples_stay_on_the_cpu(labels, gpu):
    """With a few hundred tuples the way to the GPU is longer than the work."""
    assert fitted(labels[:300], device="cuda").relaxation_ == "cpu" and gpu == []


def test_auto_looks_for_a_gpu_where_it_pays(labels, gpu, monkeypatch):
    """device="auto" takes a GPU for many tuples and an ADMM that was asked for, else never."""
    monkeypatch.setattr(placement, "_FEWEST_TO_LOOK_FOR_GPU", 500)
    assert fitted(labels, relaxation="admm").relaxation_ == "cuda"
    assert fitted(labels, relaxation="auto").relaxation_ == "l2"
    assert fitted(labels[:400], relaxation="admm").relaxation_ == "cpu"


def test_the_cpu_solves_in_parts_what_it_cannot_hold(labels, monkeypatch):
    """Beyond the largest undivided state the ADMM goes by parts, and says so with the figures."""
    monkeypatch.setattr(placement, "_MOST_UNDIVIDED", 100)
    with pytest.warns(MemoryFallbackWarning, match=r"at most 100 tuples .* in parts"):
        est = fitted(labels, relaxation="admm", device="cpu")
    assert est.relaxation_ == "parts"


def test_parts_are_polished_over_all_tuples(labels):
    """The answer of the parts takes part as it is and after moves on the objective."""
    est = fitted(labels, relaxation="divided", device="cpu")
    assert "relaxation, moved" in est.selected_["reason"]
