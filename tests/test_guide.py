"""The documentation's code does what the documentation says it does."""

from __future__ import annotations

import doctest
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for folder in ("guide", "method", "contributing")
    for page in (DOCS / folder).glob("*.md")
    if "```pycon" in page.read_text(encoding="utf-8")
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def fenced(page: Path, language: str) -> list[str]:
    """Contents of the page's blocks in a language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sessions_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python sessions of a page, run one after the other, print what stands there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(page.parent)
    session = "\n".join(fenced(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    report: list[str] = []
    log = logging.getLogger("coterie")
    level = log.level
    try:
        result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    finally:
        log.setLevel(level)  # a page may have turned it up
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    """The commands of the command line page print what stands below them, but for times."""
    session = "".join(fenced(DOCS / "guide" / "command_line.md", "console"))
    commands = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    assert commands
    for entry in commands:
        command, _, shown = entry.partition("\n")
        file = re.fullmatch(r"cat (\S+)", command)
        if file and not (tmp_path / file[1]).exists():
            (tmp_path / file[1]).write_text(shown, encoding="utf-8")  # the page's input
            continue
        assert_same_but_for_times(shown, output_of(command, tmp_path), command)


def output_of(command: str, folder: Path) -> str:
    """Both streams of a command, run where the ``coterie`` program is found first."""
    program = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{program}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "88",
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    assert shutil.which("coterie", path=environment["PATH"])
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return done.stdout


def assert_same_but_for_times(shown: str, got: str, command: str) -> None:
    """Lines are equal once times are taken out and runs of blanks are one blank."""
    checker = doctest.OutputChecker()
    want, have = (re.sub(r"\d+\.\d+ s\b", "0.00 s", text) for text in (shown, got))
    assert checker.check_output(want, have, FLAGS), f"$ {command}\n{got}"
