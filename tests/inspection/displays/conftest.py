"""What the tests of the displays share: partitions, their consensus, and closed figures."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from coterie import RobustConsensus, planted_partitions


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Close all figures after every test."""
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def spoilt() -> np.ndarray:
    """Return six noisy copies of one partition, and four of a wrong one."""
    return planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.15, random_state=0)[0]


@pytest.fixture(scope="session")
def fitted(spoilt: np.ndarray) -> RobustConsensus:
    """Return their consensus."""
    return RobustConsensus(3, random_state=0).fit(spoilt)
