"""Threads, memory, and work dealt to all cores."""

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

properties = settings(deadline=None, max_examples=50)


def threads(n):
    """COTERIE_NUM_THREADS set for a while."""
    return mock.patch.dict(os.environ, {"COTERIE_NUM_THREADS": str(n)})


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda"])
def test_devices_that_there_are(device):
    """Three names are known, whether there is a GPU or not."""
    devices.check_device(device)


@pytest.mark.parametrize("device", ["gpu", "", None, "CPU"])
def test_devices_that_there_are_not(device):
    """An unknown device is refused with the names of the known ones."""
    with pytest.raises(InvalidParameterError, match=r"device=.*'auto', 'cpu' or 'cuda'"):
        devices.check_device(device)


def test_threads_are_what_the_environment_says():
    """COTERIE_NUM_THREADS decides."""
    with threads(7):
        assert devices.n_threads() == 7


def test_threads_are_the_cores_otherwise(monkeypatch):
    """Unset or empty, it is the cores this process may use, or all where nobody can tell."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", "")
    cores = devices.n_threads()
    assert cores >= 1
    monkeypatch.delenv("COTERIE_NUM_THREADS")
    assert devices.n_threads() == cores
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert devices.n_threads() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert devices.n_threads() == 1


@pytest.mark.parametrize("wanted", ["0", "-1", "two", "1.5", " ", "²", "1e3"])
def test_a_wrong_number_of_threads_is_refused(wanted):
    """Anything but a whole number from 1 up is refused by the name of the variable."""
    with threads(wanted), pytest.raises(InvalidParameterError, match="COTERIE_NUM_THREADS is"):
        devices.n_threads()


@properties
@given(n_rows=st.integers(0, 500), n=st.integers(1, 9), at_least=st.integers(1, 100))
def test_row_blocks_cover_each_row_once(n_rows, n, at_least):
    """Blocks meet without overlap, no more than threads, none smaller than worth it."""
    with threads(n):
        blocks = devices.map_row_blocks(lambda *block: block, n_rows, at_least)
    assert [row for block in blocks for row in range(*block)] == list(range(n_rows))
    assert 1 <= len(blocks) <= n
    if len(blocks) > 1:
        assert min(stop - start for start, stop in blocks) >= at_least


def test_row_blocks_run_side_by_side():
    """As many blocks as threads run at once: they can wait for one another."""
    everybody = threading.Barrier(3, timeout=30)
    with threads(3):
        devices.map_row_blocks(lambda *_: everybody.wait(), 300)
    assert not everybody.broken


@pytest.mark.parametrize("n", [1, 4])
def test_errors_in_row_blocks_come_out(n):
    """What goes wrong in a block goes wrong for the caller."""

    def fail_at_the_end(_start, stop):
        if stop == 400:
            raise ZeroDivisionError("row 399")

    with threads(n), pytest.raises(ZeroDivisionError, match="row 399"):
        devices.map_row_blocks(fail_at_the_end, 400)


@properties
@given(items=st.lists(st.integers(), max_size=30), n=st.integers(1, 5))
def test_map_in_threads_keeps_the_order(items, n):
    """Results come in the order of the items, on one thread or on many."""
    with threads(n):
        assert devices.map_in_threads(lambda x: x**2, items) == [x**2 for x in items]


@pytest.mark.parametrize("n", [1, 3])
def test_errors_in_map_in_threads_come_out(n):
    """The error of an item is the caller's."""
    with threads(n), pytest.raises(ZeroDivisionError):
        devices.map_in_threads(lambda x: 1 / x, [1, 2, 0, 3])


def test_on_one_thread_holds_the_pools():
    """Inside, each pool of BLAS and OpenMP has one thread; afterwards it has what it had."""
    scipy.linalg.blas.dgemm(1.0, np.eye(2), np.eye(2))
    devices._thread_pools.cache_clear()
    before = [pool["num_threads"] for pool in threadpool_info()]
    assert before
    with pytest.raises(ZeroDivisionError), devices.on_one_thread():
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        raise ZeroDivisionError
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_available_memory_is_some():
    """There is memory to be had, and less than a petabyte."""
    assert 0 < devices.available_memory() < 2**50


def test_available_memory_minds_the_container(monkeypatch):
    """What a container still allows counts when it is less than what is free; never below zero."""
    limits = {"memory.max": 5000, "memory.current": 2000}
    monkeypatch.setattr(devices, "_free_memory", lambda: 10_000)
    monkeypatch.setattr(devices, "_number_in", lambda path: limits[path.name])
    assert devices.available_memory() == 3000
    limits["memory.max"] = None
    assert devices.available_memory() == 10_000
    limits["memory.max"] = 1000
    assert devices.available_memory() == 0


def test_available_memory_where_nothing_is_told(monkeypatch):
    """Without /proc it is a part of what the machine has."""
    monkeypatch.setattr(devices.Path, "exists", lambda _: False)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < devices._free_memory() < total


def test_numbers_in_files(tmp_path):
    """A limit that is no number, or not there, is no limit."""
    limit = tmp_path / "memory.max"
    assert devices._number_in(limit) is None
    limit.write_text("max\n")
    assert devices._number_in(limit) is None
    limit.write_text("4096\n")
    assert devices._number_in(limit) == 4096


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_960, "1.0 MB"),
        (1.5e6, "1.5 MB"),
        (3.2e9, "3.2 GB"),
        (7e12, "7.0 TB"),
        (5e15, "5000.0 TB"),
    ],
)
def test_sizes_are_readable(n, text):
    """Sizes have one digit after the point and the largest unit that fits."""
    assert devices.readable_bytes(n) == text
