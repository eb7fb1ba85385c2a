"""A result hands out the same consensus, however it was fitted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from coterie import ConsensusClusterer, L2Consensus, RobustConsensus
from coterie.command_line.terminal.outputs import Outputs
from coterie.command_line.terminal.results import Result
from coterie.files.tables import read_table

ROWS = [[0, 0], [0, 0], [1, 1], [1, 1], [1, 1]]


def result_of(estimator: object, P: object) -> Result:
    """The result of a fitted estimator, rows named r0, r1, …"""
    return Result(
        Path("in.csv"), estimator, P, ["a", "b"], {"row": [f"r{i}" for i in range(5)]}, 0.5
    )


def test_the_table_has_ids_labels_and_confidences(tmp_path):
    """Ids come first, under their name."""
    estimator = RobustConsensus(2, random_state=0).fit(ROWS)
    result_of(estimator, ROWS).write(Outputs(tmp_path / "out.parquet"))
    columns = read_table(tmp_path / "out.parquet").columns
    assert list(columns) == ["row", "label", "confidence"]
    assert columns["row"].to_pylist() == ["r0", "r1", "r2", "r3", "r4"]
    assert columns["label"].to_pylist() == [1, 1, 0, 0, 0]


def test_a_clusterer_hands_over_its_consensus():
    """Of a clusterer of features it is the consensus of its runs that is told."""
    clusterer = ConsensusClusterer(2, n_partitions=2, random_state=0)
    clusterer.fit([[0.0], [0.1], [5.0], [5.1], [5.2]])
    assert result_of(clusterer, clusterer.ensemble_.labels).consensus is clusterer.consensus_


@pytest.mark.parametrize(("as_json", "quiet"), [(True, False), (True, True), (False, True)])
def test_json_is_told_even_when_quiet(capsys, as_json, quiet):
    """--quiet silences the summary, not an answer that was asked for."""
    estimator = RobustConsensus(2, random_state=0).fit(ROWS)
    result_of(estimator, ROWS).tell(Outputs(), ["a note"], as_json, quiet)
    out = capsys.readouterr().out
    if as_json:
        assert json.loads(out)["notes"] == ["a note"]
    else:
        assert out == ""


def test_the_method_is_told_by_its_key(capsys):
    """The facts name the method that was asked for."""
    estimator = L2Consensus(2, random_state=0).fit(ROWS)
    replace(result_of(estimator, ROWS), method="l2").tell(Outputs(), [], True, False)
    assert json.loads(capsys.readouterr().out)["method"] == "l2"
