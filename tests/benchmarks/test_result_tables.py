"""One table, on the terminal and on a page."""

from __future__ import annotations

import io

from rich.console import Console

from benchmarks.result_tables import ResultTable

TABLE = ResultTable(
    "Figures", ("what", "how", "much"), [("a|b", "[bold]", "1.5"), ("c", "d", "20")], 2, {(1, 2)}
)


def test_markdown_aligns_escapes_and_stresses():
    """Figures are set right, bars escaped, stressed cells bold."""
    assert TABLE.markdown().splitlines() == [
        "| what | how | much |",
        "|:---|:---|---:|",
        r"| a\|b | [bold] | 1.5 |",
        "| c | d | **20** |",
    ]


def test_the_terminal_shows_texts_as_they_are():
    """Brackets are no markup; figures end in the same column."""
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(TABLE.drawn())
    lines = [line.rstrip() for line in console.export_text().splitlines() if line.strip()]
    assert lines[0] == "Figures"
    assert "[bold]" in lines[3]
    assert len(lines[3]) == len(lines[4])
