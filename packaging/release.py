"""Build a release and check it: python packaging/release.py (or make release).

It verifies that the tree is clean, that the changelog and the citation have the version, and that
its tag is new. It builds both distributions into dist/, checks them, installs the wheel in a new
environment and uses it there. It publishes nothing; at the end it prints the steps that remain.
With --rehearse it goes on if the version is not ready to be released.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ARRAYS = """
import coterie
P, truth = coterie.planted_partitions([30, 20, 10], 8, 2, 0.1, random_state=0)
consensus = coterie.RobustConsensus(3, random_state=0).fit(P)
assert coterie.clustering_accuracy(truth, consensus.labels_) == 1
print("consensus of arrays: right")
"""

STEPS = """
{name} is in dist/. What remains:
  1. git tag -s v{version} -m 'coterie {version}' && git push origin v{version}
  2. python -m twine upload dist/*.tar.gz, and the wheels of the workflow "Wheels" for this tag
  3. put `sha256sum dist/*.tar.gz` and the version into packaging/conda/recipe.yaml, and into the
     feedstock of conda-forge
  4. add a section Unreleased to CHANGELOG.md, and raise __version__ in src/coterie/__init__.py
"""


def main() -> None:
    """Check, build, try, and print the steps that remain."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="go on if the version is not ready")
    rehearse = parser.parse_args().rehearse
    version = version_of(ROOT)
    obstacles = obstacles_to(version, ROOT)
    for obstacle in obstacles:
        print("not ready:", obstacle)
    if obstacles and not rehearse:
        sys.exit(1)
    files = build(ROOT)
    check(files)
    wheel = next(file for file in files if file.suffix == ".whl")
    with tempfile.TemporaryDirectory() as folder:
        use(wheel, Path(folder), version)
    print(STEPS.format(name=wheel.name, version=version))


def version_of(root: Path) -> str:
    """Return the version in the source."""
    return _run(sys.executable, str(root / "packaging" / "version.py")).strip()


def obstacles_to(version: str, root: Path) -> list[str]:
    """Return what must be done before this version can be released."""
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    obstacles = []
    if _git(root, "status", "--porcelain"):
        obstacles.append("the tree has changes that are not committed")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE):
        obstacles.append(f"CHANGELOG.md has no heading '## {version} (YEAR-MONTH-DAY)'")
    if f"\nversion: {version}\n" not in citation:
        obstacles.append(f"CITATION.cff has another version than {version}")
    if _git(root, "tag", "--list", f"v{version}"):
        obstacles.append(f"the tag v{version} exists; raise __version__")
    return obstacles


def build(root: Path) -> list[Path]:
    """Build the source distribution, and the wheel from it, with the README of an index."""
    shutil.rmtree(root / "dist", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "coterie"
        _run("git", "clone", "--quiet", str(root), str(clone))
        page = clone / "README.md"
        page.write_text(with_addresses(page.read_text(encoding="utf-8")), encoding="utf-8")
        author = ("-c", "user.name=release", "-c", "user.email=release@localhost")
        _git(clone, *author, "commit", "--quiet", "--all", "--message=Links with addresses")
        _run(sys.executable, "-m", "build", "--outdir", str(root / "dist"), str(clone))
    return sorted((root / "dist").iterdir())


def with_addresses(page: str) -> str:
    """Return a page whose links work outside of the repository, as on the page of an index."""
    home = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]
    raw = home.replace("https://github.com/", "https://raw.githubusercontent.com/")
    page = re.sub(r"!\[([^\]]*)\]\((?!https?:)([^)]+)\)", rf"![\1]({raw}/main/\2)", page)
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({home}/blob/main/\1)", page)


def check(files: list[Path]) -> None:
    """Check the description, the contents of the wheel, and the completeness of the metadata."""
    _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, files))
    for file in files:
        if file.suffix == ".whl":
            _run(sys.executable, "-m", "check_wheel_contents", str(file))
        else:
            _run(sys.executable, "-m", "pyroma", "--min=10", str(file))


def use(wheel: Path, folder: Path, version: str) -> None:
    """Use the wheel in a new environment, without extras: arrays, then the program with a table."""
    venv.create(folder / "venv", with_pip=True)
    python, program = (str(folder / "venv" / "bin" / name) for name in ("python", "coterie"))
    _run(python, "-m", "pip", "install", "--quiet", str(wheel))
    _run(python, "-c", ARRAYS, folder=folder)
    if _run(program, "--version", folder=folder).split() != ["coterie", version]:
        sys.exit(f"the wheel does not have the version {version}")
    (folder / "labels.csv").write_text(labels_of_readme(), encoding="utf-8")
    table = ("consensus", "labels.csv", "--id", "name", "-k", "3", "-o", "consensus.csv")
    print(_run(program, *table, folder=folder))
    if len((folder / "consensus.csv").read_text(encoding="utf-8").splitlines()) != 11:
        sys.exit("the program did not write a line for each row of the table")


def labels_of_readme() -> str:
    """Return the table of labels in README.md."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"labels\.csv <<'?END'?\n(.*?)END\n", page, re.DOTALL)[0]


def _git(root: Path, *arguments: str) -> str:
    return _run("git", *arguments, folder=root)


def _run(*command: str, folder: Path | None = None) -> str:
    """Run a command; if it fails, show what it printed and stop."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
