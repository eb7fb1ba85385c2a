"""The reference of the API has every public name, and every docstring lists all parameters."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import coterie
from coterie import ads

docscrape = pytest.importorskip("numpydoc.docscrape", reason="numpydoc reads the docstrings")

REFERENCE = Path(__file__).parents[1] / "docs" / "api"
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (coterie, ads)
    for name in module.__all__
}
CALLABLE = {name: value for name, value in PUBLIC.items() if callable(value)}


def test_docstrings_list_all_parameters() -> None:
    """Every parameter of a function, class or public method is documented, and no others."""
    faults = []
    for name, value in CALLABLE.items():
        taken, listed = parameters_taken(value), parameters_listed(value)
        if is_record(value):
            faults += [(name, one) for one in taken - listed - sections(value, "Attributes")]
        else:
            faults += [(name, one) for one in taken ^ listed]
        for method_name, method in own_methods(value) if inspect.isclass(value) else ():
            taken, text = parameters_taken(method), inspect.getdoc(method) or ""
            faults += [(method_name, one) for one in taken - parameters_listed(method)]
            faults += [] if text else [(method_name, "no docstring")]
    assert faults == []


@pytest.mark.parametrize("module", [coterie, ads], ids=lambda module: module.__name__)
def test_reference_has_every_public_name(module: Any) -> None:
    """The pages of the reference list each public name of a module once."""
    listed = [
        name
        for page in REFERENCE.glob("*.md")
        for current, names in blocks(page.read_text(encoding="utf-8"))
        if current == module.__name__
        for name in names
    ]
    assert sorted(set(module.__all__) - set(listed)) == []
    assert sorted(name for name in set(listed) if listed.count(name) > 1) == []


def parameters_taken(value: Any) -> set[str]:
    return set(inspect.signature(value).parameters) - {"self", "cls"}


def parameters_listed(value: Any) -> set[str]:
    return sections(value, "Parameters") | sections(value, "Other Parameters")


def sections(value: Any, title: str) -> set[str]:
    """Return the names in one section of a docstring; ``a, b : int`` are two."""
    document = docscrape.NumpyDocString(inspect.getdoc(value) or "")
    return {name.strip().lstrip("*") for entry in document[title] for name in entry.name.split(",")}


def is_record(value: Any) -> bool:
    """Return whether a class only holds its arguments: these are documented as attributes."""
    return inspect.isclass(value) and (
        dataclasses.is_dataclass(value) or issubclass(value, msgspec.Struct)
    )


def own_methods(value: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods that coterie defines, not those of scikit-learn."""
    for name, method in inspect.getmembers(value, inspect.isroutine):
        if not name.startswith("_") and method.__module__.startswith("coterie"):
            yield name, method


def blocks(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the module and the names of each autosummary of a page."""
    current = ""
    for line in re.finditer(
        r"^\.\. currentmodule:: (\S+)$|^\.\. autosummary::\n((?:   .*\n|\n)+)", page, re.MULTILINE
    ):
        current = line[1] or current
        if line[2]:
            yield current, re.findall(r"^   ([A-Za-z]\S*)$", line[2], re.MULTILINE)
