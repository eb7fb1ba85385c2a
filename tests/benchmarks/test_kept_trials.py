"""Finished trials are found again, and damage is refused."""

from __future__ import annotations

import json

import pytest

from benchmarks.kept_trials import KeptTrials
from coterie.errors import TableError


def test_trials_are_kept_by_what_decides_them(tmp_path):
    """In whatever order that is named; the later of two outcomes stays; a line each."""
    path = tmp_path / "trials.jsonl"
    kept = KeptTrials(path)
    kept.add({"n": 1, "of": {"b": 2, "a": "ℓ1"}}, {"seconds": 1.5})
    kept.add({"n": 2}, {"seconds": 2.5})
    kept.add({"n": 2}, {"seconds": 3.5})
    again = KeptTrials(path)
    assert again.find({"of": {"a": "ℓ1", "b": 2}, "n": 1}) == {"seconds": 1.5}
    assert again.find({"n": 2}) == {"seconds": 3.5}
    assert again.find({"n": 3}) is None
    lines = path.read_text().splitlines()
    assert [json.loads(line)["found"]["seconds"] for line in lines] == [1.5, 3.5]


@pytest.mark.parametrize("line", ["{", "[]", '{"trial": {}}', '{"trial": {}, "found": 3}'])
def test_a_file_that_keeps_no_trials_is_refused(tmp_path, line):
    """The file and the line are named; nothing is overwritten."""
    path = tmp_path / "trials.jsonl"
    path.write_text('{"trial": {}, "found": {}}\n' + line + "\n")
    with pytest.raises(TableError, match=r"trials\.jsonl, line 2 is not a kept trial"):
        KeptTrials(path)
