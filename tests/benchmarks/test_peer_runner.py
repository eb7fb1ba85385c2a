"""The script stands alone, and calls what is installed here as it says."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peer_runner
from benchmarks.peer_runner import METHODS, Data
from benchmarks.peers import PEERS
from coterie.ensembles.planted import planted_partitions
from coterie.inspection.scores import clustering_accuracy


def test_nothing_but_numpy_is_imported_at_the_top():
    """A peer's environment has neither coterie nor anything else of ours."""
    tree = ast.parse(Path(peer_runner.__file__).read_text())
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    assert names - set(sys.stdlib_module_names) == {"numpy"}


def test_every_peer_has_a_method():
    """Methods and peers match one to one."""
    assert sorted(peer.method for peer in PEERS) == sorted(METHODS)


@pytest.mark.parametrize(
    "method", ["coterie.robust", "coterie.robust-l2", "coterie.l2", "scikit-learn.one-hot"]
)
def test_methods_that_take_labels_find_the_planted_partition(method):
    """Without noise every one of them does."""
    P, y = planted_partitions([30, 20, 10], 6, 0, 0.0, random_state=0)
    labels = METHODS[method].solver()(Data(3, 6, P=P))
    assert clustering_accuracy(y, labels) == 1.0


def test_methods_that_take_features_find_far_clusters():
    """By features and by views alike."""
    y = np.repeat([0, 1], 20)
    X = 50.0 * y[:, None] + np.random.default_rng(0).standard_normal((40, 2))
    for method, data in (
        ("coterie.features", Data(2, 3, X=X)),
        ("coterie.views", Data(2, 3, views=(X, X))),
    ):
        assert clustering_accuracy(y, METHODS[method].solver()(data)) == 1.0


def test_the_head_of_data_is_its_first_rows():
    """Of whatever is given, in all views."""
    rows = np.arange(10).reshape(5, 2)
    head = Data(2, 3, P=rows, views=(rows, rows)).head(3)
    assert head.n_points == 3
    assert head.X is None
    assert [len(view) for view in head.views] == [3, 3]


def test_peak_memory_is_that_since_it_was_forgotten():
    """A large array raises it by its size, and is forgotten once it is freed."""
    peer_runner._forget_peak()
    before = peer_runner._peak_resident_bytes()
    size = 200_000_000
    assert np.ones(size // 8).nbytes == size
    assert before + 0.9 * size < peer_runner._peak_resident_bytes() < before + 1.2 * size
    peer_runner._forget_peak()
    if os.access("/proc/self/clear_refs", os.W_OK):
        assert peer_runner._peak_resident_bytes() < before + 0.5 * size
