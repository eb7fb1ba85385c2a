"""The first use is measured in environments that take turns."""

from __future__ import annotations

import sys

import pytest

from benchmark_results import check_result
from benchmarks import first_use
from benchmarks.harness import Context
from coterie.errors import InvalidParameterError


def test_environments_take_turns(monkeypatch):
    """The first run is apart from the median of the later ones; each has its size."""
    asked = []

    def seconds(python, *_):
        asked.append(python)
        return float(len(asked))

    monkeypatch.setattr(first_use, "_run", seconds)
    names = f"before={sys.executable},after={sys.executable}"
    data = check_result(first_use.run(Context(), environments=names, repeats=3))
    before, after, *_ = data["trials"]
    assert (before["environment"], before["first"], before["later"]) == ("before", 1.0, 5.0)
    assert (after["environment"], after["first"], after["later"]) == ("after", 2.0, 6.0)
    assert len(asked) == 2 * 2 * 4 and len(data["sizes"]) == 2


def test_a_first_consensus_is_found(monkeypatch):
    """Both steps run in this environment."""
    data = first_use.run(Context(), repeats=1).data
    assert [trial["step"] for trial in data["trials"]] == [
        "import, and the first consensus",
        "`coterie consensus` on 20 rows",
    ]


def test_environments_need_names():
    """A path alone is refused."""
    with pytest.raises(InvalidParameterError, match="NAME=PYTHON"):
        first_use.run(Context(), environments="bin/python")
