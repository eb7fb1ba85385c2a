"""Find and run the sessions on the pages of the guide, and compare their output."""

from __future__ import annotations

import doctest
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def fenced(page: Path, language: str) -> list[str]:
    """Return the contents of the blocks in a language."""
    return [content for _, content in fenced_in_order(page, language)]


def fenced_in_order(page: Path, *languages: str) -> list[tuple[str, str]]:
    """Return the blocks in some languages in page order: language and content."""
    text = page.read_text(encoding="utf-8")
    named = "|".join(map(re.escape, languages))
    blocks = re.findall(rf"^```({named})\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(language, content) for language, content in blocks]


def run_python(session: str, names: dict[str, Any], page: Path) -> None:
    """Run a Python session with given global names, and check its output."""
    test = doctest.DocTestParser().get_doctest(session, names, page.name, str(page), 0)
    report: list[str] = []
    log = logging.getLogger("coterie")
    level = log.level
    try:
        result = doctest.DocTestRunner(optionflags=FLAGS).run(
            test, out=report.append, clear_globs=False
        )
    finally:
        log.setLevel(level)  # a page may have changed it
        names.update(test.globs)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)


def commands_in(session: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a session, with continuation lines, and the output shown below each."""
    for entry in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        first, *lines = entry.splitlines(keepends=True)
        command = [first]
        while lines and lines[0].startswith("> "):
            command.append(lines.pop(0).removeprefix("> "))
        yield "".join(command).removesuffix("\n"), "".join(lines)


def run_command(command: str, shown: str, folder: Path) -> None:
    """Run a command in a folder and check its output; ``cat`` of a missing file creates it."""
    file = re.fullmatch(r"cat (\S+)", command)
    if file and not (folder / file[1]).exists():
        (folder / file[1]).write_text(shown, encoding="utf-8")  # input that the page shows
        return
    assert_same_but_for_times(shown, output_of(command, folder), command)


def output_of(command: str, folder: Path) -> str:
    """Return standard output and error of a command, with ``coterie`` first on the path."""
    program = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{program}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "88",
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
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
    """Compare two outputs, ignoring times and the amount of white space."""
    checker = doctest.OutputChecker()
    want, have = (re.sub(r"\d+\.\d+ s\b", "0.00 s", text) for text in (shown, got))
    assert checker.check_output(want, have, FLAGS), f"$ {command}\n{got}"
