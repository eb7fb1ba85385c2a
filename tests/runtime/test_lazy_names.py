"""Names that are imported when first used."""

import importlib
import sys
from pathlib import Path

import pytest

from coterie.errors import MissingExtraError
from coterie.runtime.imports import lazy_names

SOURCE = """
from typing import TYPE_CHECKING
from coterie.errors import MissingExtraError
from coterie.runtime.imports import lazy_names
if TYPE_CHECKING:
    from lazy_package.inner import answer as answer
    from lazy_package.absent import nothing as nothing
    from lazy_package.inner import hidden
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with one lazy name that works and one whose module is missing."""
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(SOURCE)
    (folder / "inner.py").write_text("answer = 42")
    (folder / "needs_another.py").write_text("import not_installed_anywhere")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("lazy_package")
    for name in [name for name in sys.modules if name.startswith("lazy_package")]:
        del sys.modules[name]


def test_a_name_is_imported_when_first_used(package):
    """Importing the package imports no module; afterwards the name is a plain attribute."""
    assert "lazy_package.inner" not in sys.modules
    assert "answer" not in vars(package)
    assert package.answer == 42
    assert vars(package)["answer"] == 42


def test_the_names_are_read_from_the_source(package):
    """``__all__`` has the exports in the order of the source; ``dir`` lists names not used yet."""
    assert package.__all__ == ["answer", "nothing"]
    assert {"answer", "nothing", "__all__"} <= set(dir(package))
    assert not {"TYPE_CHECKING", "lazy_names"} & set(dir(package))
    assert lazy_names("lazy_package")[2] == package.__all__


def test_a_module_is_an_attribute_and_an_unknown_name_is_an_attribute_error(package):
    """As in a package that imports its modules."""
    assert package.inner.answer == 42
    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'unknown'"):
        _ = package.unknown
    assert not hasattr(package, "__wrapped__")


def test_a_missing_dependency_is_not_a_missing_name(package):
    """The error names the package that cannot be imported."""
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        _ = package.needs_another
    with pytest.raises(ModuleNotFoundError, match="absent"):
        _ = package.nothing


def test_a_missing_dependency_of_a_name_names_the_extra(package):
    """The error says which package is missing, and how to install it."""
    (Path(package.__file__).parent / "absent.py").write_text("import not_installed_anywhere.deep")
    get_attribute, _, _ = lazy_names("lazy_package", extra="ads")
    with pytest.raises(
        MissingExtraError, match=r"lazy_package.nothing needs not_installed_any.*ads"
    ):
        get_attribute("nothing")
