"""The notebooks run without warnings and print what is stored in them; so do their commands."""

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

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "get_started").glob("*.ipynb"))

# one after the other: each keeps the cores busy
STRICT = """
import warnings

warnings.simplefilter("error")
# what packages below coterie say to each other
warnings.filterwarnings("ignore", r"fetch_arrow_table\\(\\) is deprecated", DeprecationWarning)
warnings.filterwarnings("ignore", "InlineBackend", DeprecationWarning)
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_prints_what_it_stores(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell and command runs; a warning is an error; texts are the stored ones."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    commands, stored = commands_of(notebook), outputs_of(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
    folder = tmp_path / "work"
    folder.mkdir()
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [one["text"] for one in outputs if one.get("name") == "stderr"]
    del notebook.cells[0]
    assert outputs_of(notebook) == stored
    monkeypatch.chdir(folder)
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "coterie"
        # in this process: a new one for each command takes longer than most commands
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"$ {command}\n{done.output}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_code_cell_was_run_in_order(path: Path) -> None:
    """The stored outputs are those of one run from top to bottom, with pictures."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in one.get("data", {}) for one in outputs)


def outputs_of(notebook: Any) -> list[list[str]]:
    """Return what each cell prints or shows as text; a picture is only its kind.

    Texts that follow each other are one: how printed lines are divided depends on when they come.
    """
    shown = []
    for cell in notebook.cells:
        parts: list[str] = []
        for one in cell.get("outputs", []):
            data = one.get("data", {})
            is_picture = "image/png" in data
            text = "picture" if is_picture else one.get("text") or data.get("text/plain", "")
            if is_picture or not parts or parts[-1] == "picture":
                parts.append(text)
            else:
                parts[-1] += text
        shown.append(parts)
    return shown


def commands_of(notebook: Any) -> list[str]:
    """Return the commands in the text of a notebook, with their continuation lines."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    blocks = re.findall(r"^```shell\n(.*?)^```$", "\n".join(texts), re.MULTILINE | re.DOTALL)
    return "".join(blocks).replace("\\\n", "").splitlines()
