"""What the README shows works as it stands there."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_examples_print_what_is_shown() -> None:
    """Every Python block runs on its own and prints the text block below it."""
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert len(examples) == README.count("```python") == 2
    for code, shown in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
        assert printed.getvalue() == shown


def test_shell_example_writes_the_consensus(tmp_path: Path) -> None:
    """The shell block makes a table of labels, and the program writes their consensus."""
    blocks = re.findall(r"```shell\n(.*?)```", README, re.DOTALL)
    (example,) = [block for block in blocks if "cat > labels.csv" in block]
    program = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{program}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euc", example],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "4 partitions of 5 decided" in " ".join(done.stdout.split())
    with (tmp_path / "consensus.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["name", "label", "confidence"]
    labels = {row["name"]: row["label"] for row in rows}
    assert labels["ada"] == labels["dia"] == "0"
    assert labels["eli"] == labels["gil"] != labels["ida"] == labels["hue"]


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_links_lead_somewhere(link: str) -> None:
    """Links within the repository lead to files that exist."""
    assert (ROOT / link).is_file()


def test_picture_is_small() -> None:
    """The picture loads quickly."""
    assert (ROOT / "docs" / "images" / "spoiled_votes.png").stat().st_size < 150_000


def test_make_targets_exist() -> None:
    """The commands the README and the contributors' page name are in the Makefile."""
    named = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^make (\w+)", named, re.MULTILINE))
    assert {"demo", "test"} <= targets
    assert targets <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
