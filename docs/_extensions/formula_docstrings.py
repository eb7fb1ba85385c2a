"""Keep the formulas in docstrings when Sphinx converts them.

Indented paragraphs of docstrings are formulas, but reStructuredText treats them as quotations. A
bar is an absolute value, but reStructuredText treats it as the start of a substitution.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

__all__ = ["setup"]

_BEFORE_NUMPYDOC = 400
_BAR_OR_LITERAL = re.compile(r"``.*?``|\|")


def setup(app: Sphinx) -> dict[str, Any]:
    """Rewrite docstrings before numpydoc reads them."""
    app.connect("autodoc-process-docstring", _keep_formulas, priority=_BEFORE_NUMPYDOC)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _keep_formulas(
    _app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Turn indented paragraphs into literal blocks, and escape bars elsewhere."""
    changed: list[str] = []
    literal = False
    for place, line in enumerate(lines):
        literal = (literal and (not line.strip() or _indent(line) > 0)) or _opens_formula(
            lines, place
        )
        if literal and _opens_formula(lines, place):
            changed.extend(["::", ""])
        changed.append(line if literal or ">>>" in line else _without_bars(line))
    lines[:] = changed


def _opens_formula(lines: list[str], place: int) -> bool:
    """Tell whether an indented paragraph begins here, after a blank line and text without indent.

    The indented text in a list of parameters has no blank line before it.
    """
    line = lines[place]
    before = next((text for text in reversed(lines[:place]) if text.strip()), "")
    return (
        _indent(line) >= 4
        and place >= 2
        and not lines[place - 1].strip()
        and bool(before)
        and _indent(before) == 0
        and not before.endswith("::")
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else 0


def _without_bars(line: str) -> str:
    """Escape the bars outside literals."""
    return _BAR_OR_LITERAL.sub(lambda found: "\\|" if found[0] == "|" else found[0], line)
