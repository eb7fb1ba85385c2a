"""Mutants: all small changes of a module's source that the operators of mutmut make.

Texts, annotations, decorators and imports are not changed, nor ``__all__``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.errors import MissingExtraError

SOURCES = Path(__file__).parents[2] / "src" / "coterie"


@dataclass(frozen=True)
class Mutant:
    """A module with one change: its kind and line, what was there, what is there now."""

    module: str
    kind: str
    line: int
    before: str
    after: str
    source: str


def draw_mutants(module: str, share: float, seed: int) -> tuple[list[Mutant], int]:
    """Return a random share of the mutants of a module, and how many mutants it has.

    A larger share contains a smaller one. Changes that are not valid Python are left out.
    """
    source = (SOURCES / module).read_text(encoding="utf-8")
    tree, changes = _changes(source)
    random.Random(f"{seed} {module}").shuffle(changes)
    drawn = []
    for kind, old, new in changes[: max(1, round(share * len(changes)))]:
        changed = tree.deep_replace(old, new).code
        if _compiles(changed):
            drawn.append(Mutant(module, kind, *difference(source, changed), changed))
    return drawn, len(changes)


def difference(source: str, changed: str) -> tuple[int, str, str]:
    r"""Return the first line that differs, and what was and what is there, in one line each.

    >>> difference("a = 1\nb = 2\nc = 3\n", "a = 1\nb = 3\nc = 3\n")
    (2, 'b = 2', 'b = 3')
    """
    old, new = source.splitlines(), changed.splitlines()
    first = _n_equal(old, new)
    last = _n_equal(old[first:][::-1], new[first:][::-1])
    before, after = (
        " ".join(line.strip() for line in lines[first : len(lines) - last]) for lines in (old, new)
    )
    return first + 1, before, after


def _changes(source: str) -> tuple[Any, list[tuple[str, Any, Any]]]:
    """Return the syntax tree of a source, and (kind, old node, new node) of each change."""
    try:
        import libcst as cst
        from mutmut.mutation import mutators
    except ImportError as error:
        raise MissingExtraError("mutation testing needs pip install mutmut") from error
    operators = [
        (kind, change)
        for kind, change in mutators.mutation_operators
        if change is not mutators.operator_string
    ]
    skipped = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom)
    tree = cst.parse_module(source)
    changes: list[tuple[str, Any, Any]] = []

    class Changes(cst.CSTVisitor):
        def on_visit(self, node: Any) -> bool:
            if isinstance(node, skipped) or _names_the_public(node):
                return False
            for kind, change in operators:
                if isinstance(node, kind):
                    name = change.__name__.removeprefix("operator_").replace("_", " ")
                    changes.extend((name, node, changed) for changed in change(node))
            return True

    tree.visit(Changes())
    return tree, changes


def _names_the_public(node: Any) -> bool:
    targets = getattr(node, "targets", ())
    return any(getattr(target.target, "value", "") == "__all__" for target in targets)


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _n_equal(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the number of first lines that are equal."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n
