"""What several test modules share."""

import os
import sys
from pathlib import Path

from hypothesis import settings

# tests are imported by file, not as a package: let them find the brute force beside them
sys.path.insert(0, str(Path(__file__).parent))

# a hunt for new counter-examples is for people at work; a landing must not depend on its luck
settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")


def pytest_make_parametrize_id(config, val, argname):
    """Name raw bytes by their number: some hold the time, and all workers must agree on names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None
