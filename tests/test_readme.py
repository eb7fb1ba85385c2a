"""The README and CONTRIBUTING.md show what works, and their tables are right."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_python_examples_print_what_is_shown() -> None:
    """Every Python block runs alone and prints the text block below it."""
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert len(examples) == README.count("```python") == 2
    for code, shown in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
        assert printed.getvalue() == shown


def test_shell_example_writes_the_consensus(tmp_path: Path) -> None:
    """The shell block creates a table of labels, and the program writes their consensus."""
    blocks = re.findall(r"```shell\n(.*?)```", README, re.DOTALL)
    (example,) = [block for block in blocks if "cat > labels.csv" in block]
    program = f'coterie() {{ "{sys.executable}" -m coterie "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-euc", program + example],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "4 of 5 partitions agree; 1 dissenter (emma)" in " ".join(done.stdout.split())
    with (tmp_path / "consensus.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["name", "label", "confidence"]
    labels = {row["name"]: row["label"] for row in rows}
    assert labels["ada"] == labels["dia"] == "0"
    assert labels["eli"] == labels["gil"] != labels["ida"] == labels["hue"]


@pytest.mark.parametrize("container", ["coterie", "coterie.ads"])
def test_tables_of_folders_follow_the_import_contracts(container: str) -> None:
    """Each table lists the members of the import contract, lowest layer first, and each exists."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [c["layers"] for c in contracts if c["containers"] == [container]]
    folder = f"src/{container.replace('.', '/')}"
    table = re.search(rf"^\| folder of `{folder}` \|.*\n.*\n((?:\|.*\n)+)", CONTRIBUTING, re.M)
    assert table is not None
    paths = re.findall(r"^\| `(\S+)` \|", table[1], re.MULTILINE)
    assert all((ROOT / folder / path).exists() for path in paths)
    depth = {name: i for i, layer in enumerate(layers[::-1]) for name in layer.split(" | ")}
    listed = [path.rstrip("/").removesuffix(".py") for path in paths]
    assert sorted(listed) == sorted(depth)
    assert [depth[name] for name in listed] == sorted(depth.values())


def test_make_targets_exist() -> None:
    """The make targets that the README and CONTRIBUTING.md name exist."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^make (\w+)", README + CONTRIBUTING, re.MULTILINE))
    assert {"demo", "test"} <= targets
    assert targets <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
