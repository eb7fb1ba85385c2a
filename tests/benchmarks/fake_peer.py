"""A peer that behaves as its method is called: run by the tests in place of the real script."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks import peer_runner


def _sleep(_: peer_runner.Data) -> object:
    time.sleep(60)
    return []


def _sleep_with_a_child(_: peer_runner.Data) -> object:
    child = os.fork()
    if child:
        Path(os.environ["CHILD_FILE"]).write_text(str(child))
    time.sleep(60)
    return []


def _raise(_: peer_runner.Data) -> object:
    raise ValueError("first line\nthe matrix is singular")


def _abort(_: peer_runner.Data) -> object:
    os.abort()


def _throw(_: peer_runner.Data) -> object:
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


def _import() -> peer_runner.Solver:
    import no_such_peer  # noqa: F401 (that it is not there is the point)

    return _sleep


def _slow_to_start() -> peer_runner.Solver:
    time.sleep(60)
    return _sleep


SOLVERS = {
    "first": lambda data: data.P[:, 0],
    "long": lambda data: np.append(data.P[:, 0], 0),
    "square": lambda data: data.P,
    "texts": lambda data: np.where(data.P[:, 0] == 0, "a", "b"),
    "nan": lambda data: np.where(data.P[:, 0] == 0, np.nan, 1.0),
    "objects": lambda data: np.array([None] * data.n_points),
    "sleep": _sleep,
    "fork": _sleep_with_a_child,
    "raise": _raise,
    "abort": _abort,
    "throw": _throw,
    "memory": lambda _: np.ones(10**12),
}


class _Counted:
    """Labels that tell how many rows the call before had."""

    def __init__(self) -> None:
        self.before = 0

    def __call__(self, data: peer_runner.Data) -> object:
        labels, self.before = np.arange(data.n_points) < self.before, data.n_points
        return labels


METHODS = {
    **{
        name: peer_runner.Method(lambda solve=solve: solve, warm_up_rows=0)
        for name, solve in SOLVERS.items()
    },
    "import": peer_runner.Method(_import),
    "before": peer_runner.Method(_slow_to_start),
    "warm": peer_runner.Method(_Counted, warm_up_rows=3),
}

if __name__ == "__main__":
    peer_runner.METHODS = METHODS
    sys.exit(peer_runner.main(sys.argv[1:]))
