"""Fuzzing: random and mutated inputs against everything that reads input. Not installed.

A target is a module of this folder that makes a :class:`~fuzz.contract.Target`. Two engines drive
it: Hypothesis, which draws structured inputs, and atheris, which mutates bytes and keeps those that
reach new branches. ``python -m fuzz TARGET --seconds N`` runs both and prints counts.
"""

import sys
from pathlib import Path

# the targets share small fitted models and the in-process service with the tests
_SUPPORT = str(Path(__file__).resolve().parents[1] / "tests" / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)
