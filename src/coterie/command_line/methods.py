"""``coterie methods``: what there is to choose from, and what each needs to run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coterie.command_line.terminal import options
from coterie.command_line.terminal.summary import print_json
from coterie.command_line.terminal.terminal_text import summary_console
from coterie.consensus.registry import CONSENSUS_METHODS, MULTIVIEW_METHODS, Method

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["method_facts", "methods"]


def methods(as_json: options.AsJson = False) -> None:
    """List the methods: what they do, what they cost, what they need.

    KEY is what --method of coterie consensus and coterie cluster takes.
    Methods of several views start from features, and from Python.

    Example: coterie methods --json
    """
    facts = {
        "consensus": [method_facts(method) for method in CONSENSUS_METHODS.values()],
        "multiview": [method_facts(method) for method in MULTIVIEW_METHODS.values()],
    }
    print_json(facts) if as_json else _print(facts)


def method_facts(method: Method) -> dict[str, Any]:
    """What the registry tells of a method, ready for JSON.

    ``missing`` are the packages it prefers and does not find; it falls back without them.

    >>> from coterie.consensus.registry import consensus_method
    >>> method_facts(consensus_method("l2"))["class"]
    'L2Consensus'
    """
    return {
        "key": method.key,
        "title": method.title,
        "class": method.class_name,
        "settings": dict(method.settings),
        "summary": method.summary,
        "established": method.established,
        "cost": method.cost,
        "paper_name": method.paper_name,
        "packages": list(method.packages),
        "missing": method.missing_packages(),
    }


def _print(facts: dict[str, list[dict[str, Any]]]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = summary_console()
    for heading, name in (
        ("Consensus of partitions: coterie consensus --method KEY", "consensus"),
        ("Clusterings of several views, from Python: coterie.consensus.registry", "multiview"),
    ):
        console.print(Text(heading, style="bold"))
        console.print(Padding(_table(facts[name]), (1, 0, 1, 2), expand=False))
    console.print(
        Text(
            "Cost: n points, u distinct label tuples, V partitions, m base clusters, K clusters, "
            "p features.",
            style="dim",
        )
    )


def _table(rows: Iterable[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("KEY", no_wrap=True)
    table.add_column("method", ratio=1)
    table.add_column("established", max_width=14)
    table.add_column("cost", max_width=16)
    for row in rows:
        table.add_row(row["key"], _told(row), row["established"], row["cost"])
    return table


def _told(row: dict[str, Any]) -> RenderableType:
    """Title, what it does, and what is missing, a line each."""
    from rich.text import Text

    text = Text.assemble((row["title"], "bold"), "\n", row["summary"])
    if row["missing"]:
        missing = ", ".join(row["missing"])
        text.append(
            f"\nfalls back, for want of {missing}: pip install 'coterie[partitioners]'",
            style="yellow",
        )
    return text
