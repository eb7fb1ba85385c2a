"""Pictures hold what the displays draw, in the format asked for."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from coterie import RobustConsensus, coassociation
from coterie.command_line.terminal.pictures import (
    consensus_picture,
    prepare_to_draw,
    write_picture,
)
from coterie.errors import MissingExtraError


@pytest.fixture(autouse=True)
def drawing():
    """Draw to files; leave no figure open."""
    prepare_to_draw()
    yield
    plt.close("all")


def test_the_picture_shows_points_and_partitions(planted):
    """One panel is the co-association by the votes that count, one the partitions by name."""
    P, _ = planted
    estimator = RobustConsensus(3, random_state=0).fit(P)
    figure = consensus_picture(estimator, P, [f"run {v}" for v in range(10)])
    points, partitions = (ax.images[0].get_array() for ax in figure.axes if ax.images)
    M = coassociation(P, estimator.partition_weights_)
    np.testing.assert_allclose(np.sort(np.asarray(points), axis=None), np.sort(M, axis=None))
    assert partitions.shape == (10, 10)
    texts = {tick.get_text() for ax in figure.axes for tick in ax.get_yticklabels()}
    assert {f"run {v}" for v in range(10)} <= texts


def test_one_partition_can_be_drawn(tmp_path):
    """A consensus of one partition has a picture too."""
    P = [[0], [0], [1]]
    estimator = RobustConsensus(2, random_state=0).fit(P)
    write_picture(consensus_picture(estimator, P, ["a"]), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")]
)
def test_the_suffix_is_the_format(tmp_path, name, start):
    """A picture is written in the format of its name, and its figure is closed."""
    figure, ax = plt.subplots()
    ax.plot([0, 1])
    write_picture(figure, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert plt.get_fignums() == []


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    """Where matplotlib is not installed the message says how to install it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'coterie\[plots\]'"):
        prepare_to_draw()
