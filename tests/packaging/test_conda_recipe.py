"""The recipe for conda-forge needs what the package needs."""

import re
import tomllib
from pathlib import Path

import pytest

import coterie

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: the recipe was not read")

ROOT = Path(__file__).parents[2]


def needed(requirements):
    """Return the bound of each name."""
    pairs = (re.fullmatch(r"([\w-]+)\s*(.*)", text) for text in requirements)
    return {pair[1]: pair[2] for pair in pairs if pair}


def test_the_recipe_agrees_with_the_package():
    """Requirements, version, summary, licence, address and program are the same.

    conda-forge chooses the versions of Python to build for.
    """
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text("utf-8"))
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = pyproject["project"]
    run = needed(recipe["requirements"]["run"])
    assert run.pop("python") == ""
    assert run == needed(project["dependencies"])
    host = needed(recipe["requirements"]["host"])
    assert needed(pyproject["build-system"]["requires"]).items() <= host.items()
    assert recipe["context"]["version"] == coterie.__version__
    assert recipe["about"]["summary"] == project["description"]
    assert recipe["about"]["license"] == project["license"]
    assert recipe["about"]["homepage"] == project["urls"]["Homepage"]
    programs = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == programs
