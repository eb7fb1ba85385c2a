"""Tests of ``coterie demo``: its files, its facts and its summary."""

from __future__ import annotations

import json
import shlex

from answers import assert_fits, unwrapped
from table_files import columns_of


def test_the_demo_clusters_a_table(run, tmp_path):
    """The folder has table, labels, model and report; the printed commands work; it repeats."""
    folder = tmp_path / "a folder"
    arguments = ("demo", "--shops", 200, "-o", folder)
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    facts = json.loads(result.stdout)
    names = ["shops.csv", "clusters.csv", "shops.coterie", "report.html"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "demo.json"])
    assert sum(facts["planted"].values()) == facts["points"] == sum(facts["sizes"]) == 200
    assert facts["adjusted_rand"] > 0.9
    assert "<canvas" in (folder / "report.html").read_text(encoding="utf-8")
    program, *predict = shlex.split(facts["commands"][1])
    again = tmp_path / "again.csv"
    assert program == "coterie" and run(*predict, "--id", "shop", "-o", again).exit_code == 0
    assert columns_of(again) == columns_of(folder / "clusters.csv")
    printed = run(*arguments).stdout
    assert_fits("\n".join(line for line in printed.splitlines() if str(folder) not in line))
    assert "planted (adjusted Rand index" in unwrapped(printed)
    assert printed.endswith(f"{folder}/report.html\n")


def test_files_of_the_user_are_kept(run, tmp_path):
    """A file of the user at a path of the demo is refused before the work."""
    (tmp_path / "clusters.csv").write_text("mine")
    result = run("demo", "-o", tmp_path)
    assert result.exit_code == 1 and "name another folder with --output" in result.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
