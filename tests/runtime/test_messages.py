"""Stages, bars and announcements on the standard error stream; warnings that are ignored."""

from __future__ import annotations

import builtins
import logging
import sys
import warnings
from dataclasses import dataclass

import pytest
from sklearn.exceptions import ConvergenceWarning

from coterie import RobustConsensus, choose_k, planted_partitions
from coterie.errors import DissentWarning
from coterie.runtime.messages import (
    announce,
    ignore_duplicate_points_warning,
    ignore_unfinished_tasks_warning,
    shown_stages,
    shows_stages,
    silenced,
    track,
)
from terminals import watched

LIBRARY = logging.getLogger("coterie.some_module")
PACKAGE = logging.getLogger("coterie")


def notebook(monkeypatch):
    """Let rich believe that it runs in a notebook."""
    shell = type("ZMQInteractiveShell", (), {})
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)


@pytest.mark.parametrize("stages", [["searching [from 12] starts"], ["reading", "rounding"]])
def test_a_terminal_shows_stages_next_to_a_spinner(monkeypatch, stages):
    """Messages are shown literally, and the logging configuration is restored."""
    terminal = watched(monkeypatch)
    before = (PACKAGE.level, PACKAGE.propagate, list(PACKAGE.handlers))
    with shown_stages():
        assert terminal.getvalue() == ""  # free for other displays until the first message
        for stage in stages:
            LIBRARY.info("%s", stage)
    assert stages[-1] in terminal.getvalue()
    assert (PACKAGE.level, PACKAGE.propagate, list(PACKAGE.handlers)) == before


def test_a_file_gets_one_line_for_each_stage(capsys):
    """Without a terminal each message is a line of the standard error stream."""
    with shown_stages():
        LIBRARY.info("comparing %d partitions", 10)
        LIBRARY.info("a file named\n\x1b[2J")
    lines = ["coterie: comparing 10 partitions", "coterie: a file named ␛[2J", ""]
    assert capsys.readouterr() == ("", "\n".join(lines))


def test_a_block_inside_another_changes_nothing(capsys):
    """A clusterer and its consensus may both be verbose: each stage is shown once."""
    with shown_stages():
        with shown_stages():
            LIBRARY.info("inner")
        LIBRARY.info("outer")
    assert capsys.readouterr().err == "coterie: inner\ncoterie: outer\n"


def test_handlers_of_the_user_do_not_repeat_stages(capsys, monkeypatch):
    """A root logger for warnings, as set by basicConfig, does not print the stages too."""
    seen = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", seen.append)
    logging.getLogger().addHandler(handler)
    try:
        with shown_stages():
            LIBRARY.info("searching")
    finally:
        logging.getLogger().removeHandler(handler)
    assert seen == [] and capsys.readouterr().err == "coterie: searching\n"


def test_verbose_estimators_show_the_stages_of_a_method(capsys):
    @dataclass
    class Estimator:
        verbose: bool

        @shows_stages
        def fit(self, number):
            """Fit."""
            LIBRARY.info("fitting")
            return number

    assert Estimator(verbose=False).fit(1) == 1
    assert capsys.readouterr().err == ""
    assert Estimator(verbose=True).fit(number=2) == 2
    assert capsys.readouterr().err == "coterie: fitting\n"
    assert Estimator.fit.__doc__ == "Fit."


def test_a_loop_is_reported_in_tenths(capsys):
    """Without a terminal a loop prints ten lines, or one for each of fewer items."""
    assert list(track(range(40), "partitions", 40)) == list(range(40))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"coterie: partitions: {4 * tenth} of 40" for tenth in range(1, 11)]
    assert list(track("ab", "runs", 2)) == ["a", "b"]
    assert capsys.readouterr().err == "coterie: runs: 1 of 2\ncoterie: runs: 2 of 2\n"


def test_a_terminal_shows_a_bar(monkeypatch):
    """The bar uses the terminal, and stages meanwhile are left out; later ones are shown."""
    terminal = watched(monkeypatch)
    with shown_stages():
        LIBRARY.info("before")
        for _ in track(range(3), "partitions", 3):
            LIBRARY.info("between")
        LIBRARY.info("after")
    shown = terminal.getvalue()
    assert "partitions" in shown and "100%" in shown
    assert "before" in shown and "after" in shown and "between" not in shown


def test_a_notebook_without_ipywidgets_gets_lines(monkeypatch, capsys):
    """rich would warn that ipywidgets is missing; instead there are lines and no warning."""
    notebook(monkeypatch)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with shown_stages():
        LIBRARY.info("searching")
        assert list(track("ab", "runs", 2)) == ["a", "b"]
    assert capsys.readouterr().err.splitlines() == [
        "coterie: searching",
        "coterie: runs: 1 of 2",
        "coterie: runs: 2 of 2",
    ]


def test_announcements_need_a_watcher(monkeypatch, capsys):
    """An announcement is a stage, or a line on a terminal that is not silenced."""
    assert not announce("compiling")
    with shown_stages():
        assert announce("compiling")
    assert capsys.readouterr().err == "coterie: compiling\n"
    terminal = watched(monkeypatch)
    with silenced():
        assert not announce("compiling")
    assert announce("compiling") and terminal.getvalue() == "coterie: compiling …\n"


def test_a_process_without_streams_is_no_problem(monkeypatch):
    """Programs without a console have no standard error stream."""
    monkeypatch.setattr(sys, "stderr", None)
    with shown_stages():
        LIBRARY.info("searching")
    assert not announce("compiling")


def test_only_the_warning_about_duplicate_points_is_ignored():
    """Other convergence warnings pass."""
    with ignore_duplicate_points_warning():
        warnings.warn("Number of distinct clusters (1) found", ConvergenceWarning, stacklevel=1)
        with pytest.warns(ConvergenceWarning, match="did not converge"):
            warnings.warn("did not converge", ConvergenceWarning, stacklevel=1)


def test_only_the_warning_about_unfinished_tasks_is_ignored():
    with ignore_unfinished_tasks_warning():
        warnings.warn("3 tasks have been successfully executed", UserWarning, stacklevel=1)
        warnings.warn("3 tasks which were still being processed", UserWarning, stacklevel=1)
        with pytest.warns(UserWarning, match="tasks failed"):
            warnings.warn("tasks failed", UserWarning, stacklevel=1)


def test_a_warning_points_at_the_line_of_the_user():
    """The file of a warning is the one that called the package, at any depth."""
    P, _ = planted_partitions([60, 40], 8, 4, 0.1, random_state=0)
    for fit in (RobustConsensus(2, random_state=0).fit, choose_k):
        with pytest.warns(DissentWarning) as caught:
            fit(P)
        assert {warning.filename for warning in caught} == {__file__}
