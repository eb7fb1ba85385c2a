"""The tutorials run without warnings, and so do the commands in their text."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from typer.testing import CliRunner

from coterie.cli.program import app

TUTORIALS = sorted((Path(__file__).parents[1] / "docs" / "get_started").glob("*.ipynb"))

# one after the other: each keeps the cores busy
STRICT = """
import warnings

warnings.simplefilter("error")
# what packages below coterie say to each other
warnings.filterwarnings("ignore", r"fetch_arrow_table\\(\\) is deprecated", DeprecationWarning)
warnings.filterwarnings("ignore", "InlineBackend", DeprecationWarning)
"""


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.stem)
def test_the_tutorial_runs(tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell and every command runs; a warning is an error, and some pictures are drawn."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(tutorial, as_version=4)
    commands = commands_of(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
    folder = tmp_path / "work"
    folder.mkdir()
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [one["text"] for one in outputs if one.get("name") == "stderr"]
    assert any("image/png" in one.get("data", {}) for one in outputs)
    monkeypatch.chdir(folder)
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "coterie"
        # in this process: a new one for each command takes longer than most commands
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"$ {command}\n{done.output}"


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.stem)
def test_no_output_is_stored(tutorial: Path) -> None:
    """The documentation shows what its build computed, so stored output could only be outdated."""
    for cell in nbformat.read(tutorial, as_version=4).cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None


def commands_of(notebook: Any) -> list[str]:
    """Return the commands in the text of a notebook, with their continuation lines."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    blocks = re.findall(r"^```shell\n(.*?)^```$", "\n".join(texts), re.MULTILINE | re.DOTALL)
    return "".join(blocks).replace("\\\n", "").splitlines()
