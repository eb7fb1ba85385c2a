"""The public names, which are imported when first used."""

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import coterie


def run(code):
    """Output of a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", coterie.__all__)
def test_every_public_name_is_there(name):
    """A public name is what the module it lives in has under that name, and it is documented."""
    value = getattr(coterie, name)
    home = importlib.import_module(f"coterie.{coterie._HOME[name]}")
    assert value is getattr(home, name)
    assert value.__doc__


def test_all_names_have_a_home():
    """The list of public names and the list of their homes are one, in one order."""
    assert coterie.__all__ == list(coterie._HOME)


@pytest.mark.parametrize("name", coterie.__all__)
def test_no_public_name_is_a_module(name):
    """Importing a module would put it in the place of a function of the same name."""
    assert importlib.util.find_spec(f"coterie.{name}") is None


@pytest.mark.parametrize("name", coterie.__all__)
def test_every_public_name_is_on_the_map(name):
    """The package's docstring names all of them."""
    assert f"`{name}`" in coterie.__doc__


def test_import_is_light():
    """Importing the package imports nothing heavy."""
    heavy = {"numba", "sklearn", "scipy", "pyarrow", "duckdb", "pandas", "polars", "matplotlib"}
    loaded = run("import sys, coterie; print(*sorted(sys.modules))").split()
    assert heavy.isdisjoint(loaded)
    assert "coterie" in loaded


def test_a_name_is_imported_when_used():
    """Using a name imports its module, once; afterwards it is a plain attribute."""
    code = (
        "import sys, coterie; before = 'coterie.inspection.scores' in sys.modules; "
        "coterie.mirkin_objective; "
        "after = 'coterie.inspection.scores' in sys.modules; "
        "print(before, after, 'mirkin_objective' in vars(coterie))"
    )
    assert run(code) == "False True True"


def test_modules_are_attributes():
    """A module of the package can be reached without importing it by hand."""
    assert run("import coterie; print(coterie.errors.CoterieError.__name__)") == "CoterieError"


@pytest.mark.parametrize("name", ["nonsense", "_nonsense", "__wrapped__"])
def test_other_names_are_no_attributes(name):
    """What is not there is an AttributeError, as for any module."""
    with pytest.raises(AttributeError, match=f"module 'coterie' has no attribute '{name}'"):
        getattr(coterie, name)
    assert not hasattr(coterie, name)


def test_a_missing_dependency_is_not_a_missing_name(monkeypatch):
    """If a module of ours cannot import another package, that is what is said."""

    def broken(name):
        raise ModuleNotFoundError("No module named 'numba'", name="numba")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="numba"):
        _ = coterie.some_module


def test_dir_lists_the_public_names():
    """Completion in a shell offers what there is, used or not."""
    assert set(coterie.__all__) <= set(dir(coterie))


def test_the_package_is_typed_and_has_a_version():
    """Type checkers find the marker; the version is the distribution's."""
    assert (Path(coterie.__file__).parent / "py.typed").exists()
    assert coterie.__version__ == importlib.metadata.version("coterie")
