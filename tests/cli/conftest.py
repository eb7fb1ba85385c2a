"""Fixtures of the command-line tests: the program, and tables for it to read."""

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie import planted_partitions
from coterie.cli.program import app


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="session")
def planted():
    """Return ten partitions of 100 points, the last four wrong together, and the true labels."""
    return planted_partitions([60, 30, 10], 10, 4, 0.1, random_state=0)


@pytest.fixture
def labels_csv(tmp_path, planted):
    """Write the planted partitions as text labels with blanks, and an id column ``name``."""
    P, _ = planted
    header = ["name", *(f"p{v}" for v in range(P.shape[1]))]
    rows = [
        [f"{i:03}", *("" if (i + v) % 17 == 0 else f"c{label}" for v, label in enumerate(row))]
        for i, row in enumerate(P)
    ]
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(map(",".join, [header, *rows])) + "\n")
    return path


@pytest.fixture
def features_csv(tmp_path):
    """Write three separated blobs of 20 points in the plane, and an id column ``name``."""
    rng = np.random.default_rng(0)
    centres = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 20, axis=0)
    X = centres + rng.normal(size=centres.shape)
    path = tmp_path / "features.csv"
    rows = [f"{i:03},{x:.6f},{y:.6f}" for i, (x, y) in enumerate(X)]
    path.write_text("\n".join(["name,x,y", *rows]) + "\n")
    return path
