"""What is said of the machine and the versions."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import numpy as np

import coterie
from benchmarks.environment import environment, in_words


def test_environment_names_versions_cores_and_date():
    """Versions are those imported, the date is now, and all of it is JSON."""
    described = environment()
    assert described["versions"]["numpy"] == np.__version__
    assert described["versions"]["coterie"] == coterie.__version__
    assert described["cpu_count"] == os.cpu_count()
    age = datetime.now(UTC) - datetime.fromisoformat(described["date"])
    assert timedelta(0) <= age < timedelta(minutes=1)
    assert json.loads(json.dumps(described)) == described


def test_in_words_is_one_line_with_all_versions():
    """A line for a person names processor, threads and every version."""
    described = environment()
    line = in_words(described)
    assert "\n" not in line
    assert f"{described['cpu']}, {described['threads']} threads" in line
    assert all(f"{name} {number}" in line for name, number in described["versions"].items())
