"""A release is refused while something is missing."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

import coterie

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def release():
    """The script."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "packaging" / "release.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path):
    """A repository that is ready to release 1.2.0."""
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (2030-01-31)\n")
    (tmp_path / "CITATION.cff").write_text("title: x\nversion: 1.2.0\n")
    for command in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_every_obstacle_is_named(release, tree):
    """A missing heading, another citation, changed files, and a tag that exists; else none."""
    assert release.obstacles_to("1.2.0", tree) == []
    assert [text.split()[0] for text in release.obstacles_to("1.3.0", tree)] == [
        "CHANGELOG.md",
        "CITATION.cff",
    ]
    (tree / "new").touch()
    subprocess.run(["git", "tag", "v1.2.0"], cwd=tree, check=True)
    first, second = release.obstacles_to("1.2.0", tree)
    assert "not committed" in first and "v1.2.0 exists" in second


def test_the_version_and_the_table_are_found(release):
    """They are read from the source and from the README."""
    assert release.version_of(ROOT) == coterie.__version__
    assert len(release.labels_of_readme().splitlines()) == 11


def test_links_of_the_page_are_absolute(release):
    """A package index shows the page without the files around it."""
    page = release.with_addresses((ROOT / "README.md").read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)\s]+)\)", page)
    targets += re.findall(r"(?:src|href)=\"([^\"]+)\"", page)
    assert any("/docs/" in target for target in targets)
    assert [t for t in targets if not re.match(r"https://|#", t)] == []
