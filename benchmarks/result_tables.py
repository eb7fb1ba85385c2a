"""One table of results, for the terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["ResultTable"]


@dataclass(frozen=True)
class ResultTable:
    r"""Texts in rows and columns.

    Attributes
    ----------
    title : str
    headings : of the columns
    rows : one text a heading
    n_named : int
        How many columns on the left say what a row is; the others hold figures.
    stressed : (row, column) pairs
        Cells that are set in bold.

    Examples
    --------
    >>> table = ResultTable("Times", ("cell", "s"), [("a|b", "1.0")], stressed={(0, 1)})
    >>> print(table.markdown())
    | cell | s |
    |:---|---:|
    | a\|b | **1.0** |
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_named: int = 1
    stressed: frozenset[tuple[int, int]] | set[tuple[int, int]] = frozenset()

    def markdown(self) -> str:
        """The table, without its title, in Markdown."""
        rule = [":---" if c < self.n_named else "---:" for c in range(len(self.headings))]
        lines = [_line(self.headings), "|" + "|".join(rule) + "|"]
        for r, row in enumerate(self.rows):
            cells = [
                f"**{text}**" if (r, c) in self.stressed else text for c, text in enumerate(row)
            ]
            lines.append(_line(cells))
        return "\n".join(lines)

    def drawn(self) -> Table:
        """The table for a terminal."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for c, heading in enumerate(self.headings):
            named = c < self.n_named
            table.add_column(Text(heading), justify="left" if named else "right", no_wrap=not named)
        for r, row in enumerate(self.rows):
            table.add_row(
                *(
                    Text(text, "bold" if (r, c) in self.stressed else "")
                    for c, text in enumerate(row)
                )
            )
        return table


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"
