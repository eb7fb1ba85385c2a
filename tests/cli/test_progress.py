"""Tests of stages on a terminal, and of notes made from warnings."""

import logging
import warnings

import pytest

from answers import assert_one_line
from coterie.cli.progress import in_options, is_watched, progress_unless, shown_notes
from coterie.errors import DissentWarning
from coterie.runtime.messages import announce
from terminals import watched

LIBRARY = logging.getLogger("coterie.some_module")


def test_progress_is_for_terminals(monkeypatch, capsys):
    """A terminal shows log messages of the library, unless --quiet; a file does not."""
    assert not is_watched(quiet=False)
    with progress_unless(quiet=False):
        LIBRARY.info("searching")
    assert capsys.readouterr() == ("", "")
    terminal = watched(monkeypatch)
    assert is_watched(quiet=False)
    with progress_unless(quiet=True):
        LIBRARY.info("searching")
        announce("compiling")
    assert terminal.getvalue() == ""
    with progress_unless(quiet=False):
        LIBRARY.info("searching")
    assert "searching" in terminal.getvalue()


def test_warnings_for_the_user_become_notes(capsys):
    """A repeated warning becomes one note on one line."""
    with shown_notes(quiet=True) as notes:
        for _ in range(2):
            warnings.warn("two\n camps", DissentWarning, stacklevel=1)
    assert notes == ["two camps"]
    assert capsys.readouterr() == ("", "")


def test_other_warnings_are_not_notes():
    """A warning that points to a defect is shown as usual."""
    with pytest.warns(RuntimeWarning, match="overflow"), shown_notes(quiet=True) as notes:
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
    assert notes == []


def test_notes_are_shown_even_on_failure(capsys):
    """Notes before a failure are printed, as one line each."""
    with pytest.raises(ValueError, match="no"), shown_notes():
        warnings.warn("two camps", DissentWarning, stacklevel=1)
        raise ValueError("no")
    assert capsys.readouterr().err == "note: two camps\n"


#: Names that only Python has.
FOREIGN = ("n_clusters", "n_jobs", "memory_limit", "metric=", "_ ", " X", "partition_weights")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("n_clusters='free': give a number", "-k free: give a number"),
        ("give a larger n_clusters or leave", "give a larger -k or leave"),
        ("device='cuda' needs labels", "--device cuda needs labels"),
        ("device='phone' is no dimension", "device='phone' is no dimension"),
        ("url='oracle://h': no engine of that name", "--engine oracle://h: no engine of that name"),
        (
            "if it names rows, leave it out (in the program: --id)",
            "if it names rows, name it in --id",
        ),
        ("leave it out (in the program: --id or --columns)", "leave it out (--id or --columns)"),
        ("row 3 of X has values", "row 3 has values"),
        ("stopped; raise max_iter or tol", "stopped; in Python, raise max_iter or tol"),
        ("to cluster features use ConsensusClusterer", "to cluster features use coterie cluster"),
        ("column 'n_clusters_x' stays", "column 'n_clusters_x' stays"),
    ],
)
def test_parameters_become_options(message, expected):
    assert in_options(message) == expected


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("consensus", "{labels}", "-k", 500), "-k 500 is more than the 100 points"),
        (("cluster", "{features}", "-k", 500), "-k 500 is more than the 60 rows"),
        (("cluster", "{features}", "--jobs", 0), "--jobs 0: give 1 or more"),
        (("cluster", "{features}", "--distances"), "--distances needs the distances of all pairs"),
        (
            ("consensus", "{labels}", "--engine", "duckdb://", "--memory-limit", "much"),
            "give --memory-limit a size",
        ),
    ],
)
def test_errors_name_options(run, labels_csv, features_csv, arguments, part):
    """No error names a parameter of Python."""
    places = {"labels": labels_csv, "features": features_csv}
    result = run(*(str(one).format(**places) for one in arguments), "--id", "name")
    assert_one_line(result, part)
    assert not [name for name in FOREIGN if name in result.stderr]


def test_reasons_name_no_parameter(run, labels_csv):
    """The summary says what was asked for without Python."""
    text = " ".join(run("consensus", labels_csv, "-k", 3, "--refine", "relaxation").stdout.split())
    assert "relaxation: only the relaxation was asked for" in text
