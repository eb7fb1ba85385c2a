"""The sizes that CONTRIBUTING.md sets for modules, functions and folders."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "coterie"
MODULES = sorted(PACKAGE.rglob("*.py"))


def test_a_module_has_at_most_400_lines():
    """A longer one is about two things."""
    sizes = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: size for name, size in sizes.items() if size > 400} == {}


def test_a_function_body_has_at_most_40_lines():
    """The docstring does not count."""
    sizes = {
        f"{path.relative_to(PACKAGE)}:{node.name}": _body_lines(node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: size for name, size in sizes.items() if size > 40} == {}


def test_a_folder_has_at_most_15_modules():
    """``__init__.py`` does not count."""
    sizes = Counter(
        str(path.parent.relative_to(PACKAGE)) for path in MODULES if path.name != "__init__.py"
    )
    assert {name: size for name, size in sizes.items() if size > 15} == {}


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0
