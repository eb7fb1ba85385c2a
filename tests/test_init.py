"""The public names, which are imported when first used."""

import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import coterie


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_public_name_is_documented_and_on_the_map():
    """It has a docstring, the package's docstring names it, and no module has the same name."""
    for name in coterie.__all__:
        assert getattr(coterie, name).__doc__, name
        assert f"`{name}`" in coterie.__doc__
        assert importlib.util.find_spec(f"coterie.{name}") is None, name


def test_import_is_light():
    """Importing the package imports no large dependency."""
    heavy = {"sklearn", "scipy", "pyarrow", "duckdb", "pandas", "polars", "matplotlib"}
    loaded = run("import sys, coterie; print(*sorted(sys.modules))").split()
    assert heavy.isdisjoint(loaded)
    assert "coterie" in loaded


def test_star_import_gives_the_public_names():
    """``from coterie import *`` binds every public name and no other."""
    names = {}
    exec("from coterie import *", names)
    assert set(names) - {"__builtins__"} == set(coterie.__all__)
    assert {name for name in dir(coterie) if not name.startswith("__")} == set(coterie.__all__)


def test_modules_are_attributes_and_other_names_are_not():
    """A module can be used without a separate import; an unknown name raises AttributeError."""
    assert run("import coterie; print(coterie.errors.CoterieError.__name__)") == "CoterieError"
    for name in ("nonsense", "_nonsense", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"module 'coterie' has no attribute '{name}'"):
            getattr(coterie, name)


def test_the_package_is_typed_and_has_a_version():
    """Type checkers find the marker; the version is the distribution's."""
    assert (Path(coterie.__file__).parent / "py.typed").exists()
    assert coterie.__version__ == importlib.metadata.version("coterie")
