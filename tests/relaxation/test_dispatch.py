"""Where the relaxation runs, and the warnings about a fallback."""

import numpy as np
import pytest

import coterie as ct
from coterie.errors import DeviceFallbackWarning, MemoryFallbackWarning
from coterie.relaxation import dispatch


@pytest.fixture
def labels():
    """Partitions of 600 points into three clusters; all points are distinct."""
    return ct.planted_partitions([300, 200, 100], 30, 4, 0.4, random_state=0)[0]


@pytest.fixture
def gpu(monkeypatch):
    """Replace the GPU: it is available and large, and its result is the ℓ2 factor."""
    calls = []

    def on_the_cpu(codes, alpha, weights, start, **steps):
        calls.append(len(codes))
        return dispatch.least_squares_result(start)

    monkeypatch.setattr(dispatch, "gpu_obstacle", lambda: "")
    monkeypatch.setattr(dispatch, "gpu_memory", lambda: 1 << 40)
    monkeypatch.setattr(dispatch, "gpu_robust_factor", on_the_cpu)
    return calls


def fitted(labels, **settings):
    """Fit RobustConsensus with some settings."""
    return ct.RobustConsensus(3, random_state=0, **settings).fit(labels)


@pytest.mark.parametrize(
    ("relaxation", "place"), [("auto", "l2"), ("admm", "cpu"), ("divided", "parts"), ("l2", "l2")]
)
def test_the_setting_decides(labels, relaxation, place):
    """Every requested relaxation is the one that runs."""
    assert fitted(labels, relaxation=relaxation, device="cpu").relaxation_ == place


def test_without_a_gpu_the_cpu_takes_its_place(labels, monkeypatch):
    """device="cuda" without a GPU gives the result of the CPU, and a warning."""
    monkeypatch.setattr(dispatch, "gpu_obstacle", lambda: "no GPU here")
    with pytest.warns(DeviceFallbackWarning, match=r"cannot be used: no GPU here") as caught:
        est = fitted(labels, relaxation="admm", device="cuda")
    assert caught[0].filename == __file__
    assert est.relaxation_ == "cpu"
    with pytest.warns(DeviceFallbackWarning, match="least squares are used"):
        assert fitted(labels, device="cuda").relaxation_ == "l2"
    cpu = fitted(labels, relaxation="admm", device="cpu")
    np.testing.assert_array_equal(est.labels_, cpu.labels_)


def test_a_gpu_that_is_too_small_is_reported(labels, gpu, monkeypatch):
    """If the GPU has too little memory, the CPU is used; the warning has the numbers."""
    monkeypatch.setattr(dispatch, "gpu_memory", lambda: 1000)
    with pytest.warns(MemoryFallbackWarning, match=r"needs .* of GPU memory .* are free"):
        est = fitted(labels, relaxation="admm", device="cuda")
    assert est.relaxation_ == "cpu" and gpu == []


@pytest.mark.parametrize("relaxation", ["auto", "admm"])
def test_a_requested_gpu_is_used(labels, gpu, relaxation):
    """device="cuda" runs on the GPU, also if "auto" would not run the ADMM on the CPU."""
    est = fitted(labels, relaxation=relaxation, device="cuda")
    assert est.relaxation_ == "cuda" and gpu


def test_a_requested_gpu_is_used_for_few_tuples(labels, gpu):
    """device="cuda" is never ignored without a word, however few tuples there are."""
    assert fitted(labels[:30], device="cuda").relaxation_ == "cuda" and gpu


def test_auto_detects_a_gpu_for_many_tuples(labels, gpu, monkeypatch):
    """device="auto" uses a GPU only for many tuples and a requested ADMM."""
    monkeypatch.setattr(dispatch, "_FEWEST_TO_DETECT_GPU", 500)
    assert fitted(labels, relaxation="admm").relaxation_ == "cuda"
    assert fitted(labels, relaxation="auto").relaxation_ == "l2"
    assert fitted(labels[:400], relaxation="admm").relaxation_ == "cpu"


def test_large_problems_are_solved_in_parts(labels, monkeypatch):
    """Above the largest undivided problem the ADMM runs in parts, with a warning."""
    monkeypatch.setattr(dispatch, "_MOST_UNDIVIDED", 100)
    with pytest.warns(MemoryFallbackWarning, match=r"limited to 100 tuples .* in parts"):
        est = fitted(labels, relaxation="admm", device="cpu")
    assert est.relaxation_ == "parts"
