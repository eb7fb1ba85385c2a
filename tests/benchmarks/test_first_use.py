"""First use: an empty store of compiled kernels, then the same store again."""

from __future__ import annotations

import json

import pytest

from benchmarks import first_use
from coterie.errors import CoterieError

COUNTS_AND_LEAVES_A_FILE = """
import json, os, pathlib
folder = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
before = len(list(folder.iterdir()))
(folder / "kernel").touch()
print(json.dumps([1.0, 2.0, 3.0, before]))
"""


def test_cold_is_empty_and_warm_is_what_cold_left(monkeypatch):
    """The first process finds no compiled kernels, the second those of the first."""
    monkeypatch.setattr(first_use, "_SCRIPT", COUNTS_AND_LEAVES_A_FILE)
    found = first_use.measure_first_use()
    assert list(found) == ["cold", "warm"]
    assert found["cold"] == first_use.FirstUse(1.0, 2.0, 3.0, 0)
    assert found["warm"] == first_use.FirstUse(1.0, 2.0, 3.0, 1)


def test_the_script_fits_twice(capsys):
    """What is run in the fresh process works, and prints four times in seconds."""
    exec(first_use._SCRIPT, {})
    found = first_use.FirstUse(*json.loads(capsys.readouterr().out))
    assert found.first_fit > 0
    assert found.second_fit > 0


def test_failure_is_told(monkeypatch):
    """A process that fails gives one error with its last line."""
    monkeypatch.setattr(first_use, "_SCRIPT", "import no_such_package")
    with pytest.raises(CoterieError, match="could not be measured: ModuleNotFoundError"):
        first_use.measure_first_use()
