"""Tests of outputs: refused before the work, written after it."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from coterie import ConsensusClusterer, RobustConsensus, coassociation
from coterie.cli.outputs import Outputs, write_all
from coterie.errors import InvalidParameterError, MissingExtraError, OutputError


def test_the_input_is_never_overwritten(tmp_path):
    """An output with the path of the input is refused, also through a link."""
    source = tmp_path / "labels.csv"
    source.touch()
    (tmp_path / "link.csv").symlink_to(source)
    for path in (source, tmp_path / "link.csv", tmp_path / "." / "labels.csv"):
        with pytest.raises(OutputError, match="this path is the input"):
            Outputs(path).check(source)


def test_two_outputs_are_two_files(tmp_path):
    """One file cannot be the table and the model."""
    with pytest.raises(OutputError, match=r"cannot write the model .*: this path is the table"):
        Outputs(tmp_path / "a.csv", None, tmp_path / "a.csv").check(tmp_path / "in.csv")


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"table": "a.xlsx"}, "must end in one of .csv"),
        ({"picture": "a.txt"}, "must end in one of .png, .svg, .pdf"),
        ({"report": "a.pdf"}, "must end in one of .html, .htm"),
        ({"model": "none/m.coterie"}, "does not exist"),
        ({"table": "."}, "it is a folder"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, outputs, message):
    """Suffixes and folders are checked for every output."""
    paths = {kind: tmp_path / name for kind, name in outputs.items()}
    with pytest.raises(OutputError, match=message):
        Outputs(**paths).check(tmp_path / "in.csv")


def test_an_id_named_like_a_result_is_refused(tmp_path):
    """An id column must not have the name of a result column."""
    for taken in ("label", "word", "confidence"):
        with pytest.raises(InvalidParameterError, match=f"'{taken}' has the name"):
            Outputs(tmp_path / "a.csv").check(tmp_path / "in.csv", ["name", taken])
    Outputs().check(tmp_path / "in.csv", ["name", "confidence"])


def test_nothing_is_written_when_the_report_fails(tmp_path):
    """The report is made before any file is written."""
    outputs = Outputs(tmp_path / "a.csv", report=tmp_path / "a.html")
    estimator = RobustConsensus(2, random_state=0).fit([[0], [0], [1]])
    with pytest.raises(InvalidParameterError, match="X has 1 rows"):
        outputs.write_consensus(estimator, {}, features=([[0.0]], None))
    assert list(tmp_path.iterdir()) == []


def test_report_names_points_by_their_ids(tmp_path):
    """Several id columns make one name; features are compared if they are given."""
    clusterer = ConsensusClusterer(2, n_partitions=3, random_state=0, ensemble="kmeans")
    X = np.array([[0.0], [0.1], [5.0], [5.1], [2.0]])
    clusterer.fit(X)
    ids = {"site": np.array(["x"] * 5), "user": np.arange(5)}
    outputs = Outputs(report=tmp_path / "a.html")
    outputs.write_consensus(clusterer, ids, features=(X, ["height"]))
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "x · 4" in page
    assert "height" in page
    assert "kmeans 2" in page


def test_models_and_reports_are_no_streams(tmp_path):
    """Standard output is for the table."""
    for kind in ("model", "report"):
        with pytest.raises(OutputError, match=f"cannot write the {kind} to standard output"):
            Outputs(**{kind: Path("-")}).check(tmp_path / "in.csv")


def test_interrupt_names_the_complete_files(tmp_path):
    def interrupted(path):
        raise KeyboardInterrupt

    first, second = tmp_path / "first", tmp_path / "second"
    with pytest.raises(KeyboardInterrupt) as interrupt:
        write_all({first: Path.touch, second: interrupted})
    assert interrupt.value.args == (first,)


def test_no_output_inside_an_input_folder(tmp_path):
    """Neither a model nor a table may be written into an input folder."""
    (tmp_path / "parts").mkdir()
    for outputs in (
        Outputs(tmp_path / "parts" / "out.parquet"),
        Outputs(model=tmp_path / "parts" / "0.parquet"),
    ):
        with pytest.raises(OutputError, match=r"inside the input folder .*parts"):
            outputs.check(tmp_path / "parts")


@pytest.fixture
def figures(tmp_path):
    """Draw to files, and close all figures at the end."""
    Outputs(picture=tmp_path / "a.png").check(tmp_path / "in.csv")
    yield
    plt.close("all")


@pytest.mark.usefixtures("figures")
def test_picture_shows_points_and_partitions(planted, tmp_path, monkeypatch):
    """One panel is the weighted co-association, the other the partitions by name."""
    P, _ = planted
    estimator = RobustConsensus(3, random_state=0).fit(P)
    monkeypatch.setattr(plt, "close", lambda _: None)
    outputs = Outputs(picture=tmp_path / "a.png")
    outputs.write_consensus(estimator, {}, P=P)
    figure = plt.gcf()
    points, partitions = (ax.images[0].get_array() for ax in figure.axes if ax.images)
    M = coassociation(P, estimator.partition_weights_)
    np.testing.assert_allclose(np.sort(np.asarray(points), axis=None), np.sort(M, axis=None))
    assert partitions.shape == (10, 10)
    texts = {tick.get_text() for ax in figure.axes for tick in ax.get_yticklabels()}
    assert {str(v) for v in range(10)} <= texts


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")]
)
def test_suffix_is_the_format(tmp_path, name, start):
    """A picture, here of one partition, has the format of its suffix; its figure is closed."""
    P = [[0], [0], [1]]
    estimator = RobustConsensus(2, random_state=0).fit(P)
    Outputs(picture=tmp_path / name).write_consensus(estimator, {}, P=P)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert plt.get_fignums() == []


def test_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    """Without matplotlib the error says how to install it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[plots\]'"):
        Outputs(picture=tmp_path / "a.png").check(tmp_path / "in.csv")
