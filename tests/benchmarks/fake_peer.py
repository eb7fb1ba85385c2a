"""A runner with methods that answer or fail in a known way; tests run it as a script."""

import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "peers"))
import runner


def sleep_with_a_child(_):
    """Start a process; both hold a pipe open, and write to it only if nobody ends them."""
    with Path(os.environ["PIPE"]).open("w") as pipe:
        os.fork()
        time.sleep(60)
        pipe.write("alive")


def fail(_):
    """Raise an error with two lines."""
    raise ValueError("first line\nthe matrix is singular")


def throw(_):
    """End as a C++ program without memory does."""
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


SOLVERS = {
    "first": lambda data: data.P[:, 0],
    "texts": lambda data: np.where(data.P[:, 0] == 0, "a", "b"),
    "square": lambda data: data.P,
    "nan": lambda data: np.where(data.P[:, 0] == 0, np.nan, 1.0),
    "objects": lambda data: np.array([None] * data.n_points),
    "sleep": lambda _: time.sleep(60),
    "fork": sleep_with_a_child,
    "raise": fail,
    "abort": lambda _: os.abort(),
    "throw": throw,
    "memory": lambda _: np.ones(10**12),
}

if __name__ == "__main__":
    runner.METHODS = {**SOLVERS, "before": None}
    runner.warm_up = lambda method, _: time.sleep(60 if method == "before" else 0)
    runner.main(sys.argv[1:])
