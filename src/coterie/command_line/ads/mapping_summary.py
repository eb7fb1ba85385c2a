"""The mapping of a log's columns, printed for people and as facts."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from coterie.command_line.terminal import layout

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.ads.logs.mapping_proposals import MappingProposal
    from coterie.command_line.ads.reading import LogInput

__all__ = ["mapping_facts", "print_mapping"]

_MOST_UNUSED = 20


def mapping_facts(source: LogInput, proposal: MappingProposal) -> dict[str, Any]:
    """Return a proposal and its command, ready for JSON."""
    return proposal.as_dict() | {"command": _command(source, proposal)}


def print_mapping(source: LogInput, proposal: MappingProposal) -> None:
    """Print the column of each role, what is not decided, and the command to copy."""
    console = layout.stdout_console()
    layout.print_heading(console, ", ".join(source.sources), ": what its columns seem to mean")
    layout.print_indented(console, _role_table(proposal))
    if proposal.unused:
        unused = [*proposal.unused[:_MOST_UNUSED], *["…"][: len(proposal.unused) > _MOST_UNUSED]]
        console.print(f"Columns without a role: {layout.one_line(', '.join(unused))}.\n")
    for problem in proposal.problems:
        console.print(f"Not decided: {layout.one_line(problem)}.\n")
    if proposal.problems:
        console.print("Complete and correct the options, and copy the command:")
    else:
        console.print("The command with all of it as options, or --write-mapping for a file:")
    # one unbroken line, ready to be copied
    console.print(f"  {_command(source, proposal)}\n", soft_wrap=True)


def _command(source: LogInput, proposal: MappingProposal) -> str:
    words = source.command("segment", proposal.mapping)
    to_fill_in = [word for role in proposal.missing for word in ("--column", f"{role}=NAME")]
    return shlex.join([*words, *to_fill_in, "-o", "market.coterie"])


def _role_table(proposal: MappingProposal) -> Table:
    table = layout.figures_table(["role", "column", "by", "unit", "examples"], [])
    for one in proposal.roles:
        unit = f"{one.unit} ({one.unit_why})" if one.unit else ""
        examples = ", ".join(one.examples)
        table.add_row(one.role, *map(layout.one_line, (one.column, one.why, unit, examples)))
    return table
