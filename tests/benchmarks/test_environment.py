"""The described machine and versions."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import numpy as np

import coterie
from benchmarks.environment import describe_environment, environment_line


def test_the_description_has_versions_cores_and_date():
    """Versions are those imported, the date is now, and everything is JSON."""
    described = describe_environment()
    assert described["versions"]["numpy"] == np.__version__
    assert described["versions"]["coterie"] == coterie.__version__
    assert described["cpu_count"] == os.cpu_count()
    age = datetime.now(UTC) - datetime.fromisoformat(described["date"])
    assert timedelta(0) <= age < timedelta(minutes=1)
    assert json.loads(json.dumps(described)) == described


def test_the_line_is_one_line_with_all_versions():
    """The line names processor, threads and every version."""
    described = describe_environment()
    line = environment_line(described)
    assert "\n" not in line
    assert f"{described['cpu']}, {described['threads']} threads" in line
    assert all(f"{name} {number}" in line for name, number in described["versions"].items())
