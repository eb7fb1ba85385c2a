"""``coterie methods``: the available methods, their cost, and the packages they need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coterie.cli import layout, options
from coterie.consensus.registry import CONSENSUS_METHODS, MULTIVIEW_METHODS, Method
from coterie.runtime.imports import install_command
from coterie.runtime.wording import in_words

if TYPE_CHECKING:
    from rich.table import Table


def methods(as_json: options.AsJson = False) -> None:
    """List the methods: what they do, what they cost, what they need.

    KEY is the value for --method of coterie consensus and coterie cluster.
    Methods for several views take features and are available in Python only.

    Example: coterie methods --json
    """
    facts = {
        "consensus": [method_facts(method) for method in CONSENSUS_METHODS.values()],
        "multiview": [method_facts(method) for method in MULTIVIEW_METHODS.values()],
    }
    layout.print_answer(facts, _print_summary, as_json, quiet=False)


def method_facts(method: Method) -> dict[str, Any]:
    """Return the registry entry of a method, ready for JSON.

    ``missing`` are preferred packages that are not installed; the method works without them.
    """
    facts = vars(method) | {"class": method.class_name, "missing": method.missing_packages()}
    del facts["class_name"]
    return facts


def _print_summary(facts: dict[str, Any]) -> None:
    console = layout.stdout_console()
    for heading, name in (
        ("Consensus of partitions: coterie consensus --method KEY", "consensus"),
        ("Clustering of several views, in Python only: coterie.consensus.registry", "multiview"),
    ):
        console.print(heading, style="bold")
        layout.print_indented(console, _table(facts[name]))
    missing = {package for row in facts["consensus"] for package in row["missing"]}
    if missing:
        fallback = [row["key"] for row in facts["consensus"] if row["missing"]]
        console.print(
            f"{in_words(fallback)} use a fallback without {in_words(sorted(missing))}. To install:",
            style="yellow",
        )
        # one unbroken line, ready to be copied
        console.print(f"  {install_command('partitioners')}\n", style="yellow", soft_wrap=True)
    console.print(
        "Cost: n points, u distinct label tuples, V partitions, m base clusters, K clusters, "
        "p features.",
        style="dim",
    )


def _table(rows: Iterable[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("KEY", no_wrap=True)
    table.add_column("method", ratio=1)
    table.add_column("established", max_width=14)
    table.add_column("cost", max_width=16)
    for row in rows:
        description = Text.assemble((row["title"], "bold"), "\n", row["summary"])
        table.add_row(row["key"], description, row["established"], row["cost"])
    return table
