"""Include the figures of a benchmark with folded tables.

The directive ``{figures} generated/NAME.md`` includes what a benchmark wrote. Pictures that the
page shows already are left out, and each table is folded under its title, so that a reader sees
the findings first. A table that is the only one is open.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

__all__ = ["Figures", "parts_of", "setup", "without_pictures"]

_TABLE = re.compile(r"^\*\*(?P<title>[^\n]+)\*\*\n\n(?P<rows>(?:\|[^\n]*\n?)+)", re.MULTILINE)
_PICTURE = re.compile(r"!\[[^]]*\]\((?P<file>[^)]+)\)\n*")


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("figures", Figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Figures(SphinxDirective):
    """Include a file of figures, with folded tables."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the file's parts."""
        page = Path(self.env.doc2path(self.env.docname))
        source = page.parent / self.arguments[0]
        self.env.note_dependency(str(source))
        if not source.exists():
            raise self.error(f"{self.arguments[0]} does not exist; run the benchmark to write it")
        text = without_pictures(source.read_text(encoding="utf-8"), page.read_text("utf-8"))
        folder = Path(self.arguments[0]).parent.as_posix()
        text = _PICTURE.sub(lambda found: f"![]({folder}/{found['file']})\n\n", text)
        parts = list(parts_of(text))
        alone = sum(title is not None for title, _ in parts) == 1
        found: list[nodes.Node] = []
        for title, content in parts:
            inside = self._parsed(content, source)
            found += inside if title is None else folded(title, inside, alone)
        return found

    def _parsed(self, text: str, source: Path) -> list[nodes.Node]:
        container = nodes.Element()
        lines = StringList(text.splitlines(), str(source))
        self.state.nested_parse(lines, self.content_offset, container)
        return container.children


def parts_of(text: str) -> Iterator[tuple[str | None, str]]:
    """Divide Markdown into tables with a title in bold and the texts between them."""
    end = 0
    for table in _TABLE.finditer(text):
        if text[end : table.start()].strip():
            yield None, text[end : table.start()]
        yield table["title"], table["rows"]
        end = table.end()
    if text[end:].strip():
        yield None, text[end:]


def without_pictures(text: str, page: str) -> str:
    """Leave out the pictures that a page shows by an image directive."""
    return _PICTURE.sub(
        lambda found: "" if f"generated/{found['file']}" in page else found[0], text
    )


def folded(title: str, inside: list[nodes.Node], is_open: bool) -> list[nodes.Node]:
    """Put nodes under a title that folds them."""
    how = " open" if is_open else ""
    start = f'<details class="figures"{how}><summary>{html.escape(title)}</summary>'
    return [
        nodes.raw("", start, format="html"),
        *inside,
        nodes.raw("", "</details>", format="html"),
    ]
