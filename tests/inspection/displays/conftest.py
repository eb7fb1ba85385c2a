"""What the tests of the displays share: partitions and their consensus."""

import matplotlib as mpl
import pytest

mpl.use("Agg")
from coterie import RobustConsensus, planted_partitions


@pytest.fixture(scope="session")
def spoilt():
    """Return six noisy copies of one partition, and four of a wrong one."""
    return planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.15, random_state=0)[0]


@pytest.fixture(scope="session")
def fitted(spoilt):
    """Return their consensus."""
    return RobustConsensus(3, random_state=0).fit(spoilt)
