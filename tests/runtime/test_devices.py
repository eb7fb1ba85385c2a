"""Threads, memory, and work on all cores."""

import os
import threading
from unittest import mock

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from coterie.errors import InvalidParameterError
from coterie.runtime import devices


def threads(n):
    """Set COTERIE_NUM_THREADS in a ``with`` block."""
    return mock.patch.dict(os.environ, {"COTERIE_NUM_THREADS": str(n)})


def test_number_of_threads(monkeypatch):
    """COTERIE_NUM_THREADS decides; otherwise it is the cores of this process, if known."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    with threads(7):
        assert devices.n_threads() == 7
    monkeypatch.setenv("COTERIE_NUM_THREADS", "")
    assert devices.n_threads() == 3
    monkeypatch.delenv("COTERIE_NUM_THREADS")
    assert devices.n_threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert devices.n_threads() == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert devices.n_threads() == 1


@pytest.mark.parametrize("wanted", ["0", "-1", "two", " ", "²"])
def test_a_wrong_number_of_threads_is_refused(wanted):
    """Anything but a whole number ≥ 1 is refused; the error names the variable."""
    with threads(wanted), pytest.raises(InvalidParameterError, match="COTERIE_NUM_THREADS is"):
        devices.n_threads()


def test_an_unknown_device_is_refused():
    """The message lists the devices."""
    with pytest.raises(InvalidParameterError, match="device='tpu' is unknown; use 'auto', 'cpu'"):
        devices.check_device("tpu")


@settings(deadline=None, max_examples=30)
@given(n_rows=st.integers(0, 500), n=st.integers(1, 9), at_least=st.integers(1, 100))
def test_row_blocks_cover_each_row_once(n_rows, n, at_least):
    """Blocks do not overlap, are not more than the threads, and have the minimal size."""
    with threads(n):
        blocks = devices.map_row_blocks(lambda *block: block, n_rows, at_least)
    assert [row for block in blocks for row in range(*block)] == list(range(n_rows))
    assert 1 <= len(blocks) <= n
    if len(blocks) > 1:
        assert min(stop - start for start, stop in blocks) >= at_least


def test_row_blocks_run_in_parallel():
    """All blocks run at the same time: they can wait for one another."""
    barrier = threading.Barrier(3, timeout=60)
    with threads(3):
        devices.map_row_blocks(lambda *_: barrier.wait(), 300)
    assert not barrier.broken


@pytest.mark.parametrize("n", [1, 4])
def test_errors_in_row_blocks_are_raised(n):
    def fail_at_the_end(_start, stop):
        if stop == 400:
            raise ZeroDivisionError("row 399")

    with threads(n), pytest.raises(ZeroDivisionError, match="row 399"):
        devices.map_row_blocks(fail_at_the_end, 400)


def test_on_one_thread_limits_the_pools():
    """Inside, each pool of BLAS and OpenMP has one thread; afterwards as many as before."""
    scipy.linalg.blas.dgemm(1.0, np.eye(2), np.eye(2))
    devices._thread_pools.cache_clear()
    before = [pool["num_threads"] for pool in threadpool_info()]
    assert before
    with devices.on_one_thread(5_001):
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    with pytest.raises(ZeroDivisionError), devices.on_one_thread():
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        raise ZeroDivisionError
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_available_memory(monkeypatch):
    """It is what Linux says, elsewhere half of the memory, or less in a container with a limit."""
    files = {
        "/proc/meminfo": "MemTotal:  900 kB\nMemFree:  10 kB\nMemAvailable:  70 kB\n",
        "/sys/fs/cgroup/memory.max": "max\n",
        "/sys/fs/cgroup/memory.current": "20000\n",
    }

    def read_text(path):
        if str(path) not in files:
            raise FileNotFoundError
        return files[str(path)]

    monkeypatch.setattr(devices.Path, "exists", lambda path: str(path) in files)
    monkeypatch.setattr(devices.Path, "read_text", read_text)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}.get)
    assert devices.available_memory() == 70 * 1024
    for limit, left in (("50000", 30_000), ("900000", 70 * 1024), ("1000", 0)):
        files["/sys/fs/cgroup/memory.max"] = limit
        assert devices.available_memory() == left
    del files["/sys/fs/cgroup/memory.max"], files["/proc/meminfo"]
    assert devices.available_memory() == 20_480


def test_sizes_are_readable():
    """Sizes have one digit after the point and the largest suitable unit."""
    texts = [devices.readable_bytes(n) for n in (0, 999, 1000, 999_960, 5e15)]
    assert texts == ["0 bytes", "999 bytes", "1.0 kB", "1.0 MB", "5000.0 TB"]
