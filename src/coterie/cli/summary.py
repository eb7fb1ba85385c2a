"""What a run of ``coterie consensus`` or ``coterie cluster`` prints: a summary, or JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from coterie.cli import layout
from coterie.cli.layout import counted

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.consensus.results import CampFacts, ConsensusFacts
    from coterie.inspection.factor_tests import FactorTests

# The summary lists at most this many; JSON has all.
_MOST_CAMPS = 8
_MOST_MEMBERS = 12


@dataclass(frozen=True)
class Run:
    """The facts about a consensus, and what the program adds to them."""

    input: str
    facts: ConsensusFacts
    seconds: float
    written: dict[str, str]
    notes: Sequence[str] = ()
    factors: FactorTests | None = None
    # of each view the agreement of its runs with the consensus, and the share of them that vote
    views: dict[str, tuple[float, float]] | None = None
    engine: dict[str, Any] | None = None  # the run of an engine, ready for JSON, with its url
    cost: str | None = None  # of that run, in words

    def as_json(self) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if self.factors is not None:
            more["factors"] = [
                {
                    name: None if isinstance(value, float) and math.isnan(value) else value
                    for name, value in asdict(row).items()
                }
                for row in self.factors.rows
            ]
        if self.views is not None:
            more["views"] = [
                {"view": view, "agreement": agreement, "weight": weight}
                for view, (agreement, weight) in self.views.items()
            ]
        if self.engine is not None:
            more |= {"engine": self.engine, "cost": self.cost}
        return {
            "input": self.input,
            **self.facts.as_json(),
            **more,
            "seconds": round(self.seconds, 3),
            "written": self.written,
            "notes": list(self.notes),
        }


def print_run(run: Run, as_json: bool, quiet: bool, stdout_is_taken: bool = False) -> None:
    """Print a run as JSON, or its summary unless quiet."""
    layout.print_answer(
        run.as_json(), lambda _: print_summary(run), as_json, quiet, stdout_is_taken
    )


def print_summary(run: Run) -> None:
    from coterie.consensus.results import heading, summary_lines

    console, facts = layout.stdout_console(), run.facts
    layout.print_heading(console, run.input, f": {heading(facts)}")
    lines = summary_lines(facts) | {"time": f"{run.seconds:.2f} s"}
    if run.engine is not None:
        lines |= {"engine": _engine_in_words(run.engine), "cost": run.cost or ""}
    layout.print_indented(console, layout.facts_grid(lines))
    if facts.camps is not None and len(facts.camps) > 1:
        layout.print_indented(console, _camp_table(facts.camps), above=0)
    if run.factors is not None:
        layout.print_indented(console, str(run.factors), above=0)
    if run.views:
        table = layout.figures_table(["view"], ["agreement", "voting runs"])
        for view, (agreement, weight) in run.views.items():
            table.add_row(view, f"{agreement:.2f}", f"{weight:.0%}")
        layout.print_indented(console, table, above=0)
    layout.print_written(console, run.written)


def _engine_in_words(run: dict[str, Any]) -> str:
    """Describe the engine, the path that was taken, and why."""
    text = f"{run['url']}, {run['path']} path: {run['reason']}"
    if run["sweeps"]:
        text += f"; {counted(run['tuples_fitted'], 'tuple')} fitted, then "
        text += counted(len(run["sweeps"]), "sweep") + " over all rows"
    if run["unplaced"]:
        text += f"; {counted(run['unplaced'], 'row')} with no label in the sample: -1"
    return text


def _camp_table(camps: Sequence[CampFacts]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name in ("camp", "size", "agreement"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("vote", no_wrap=True)
    table.add_column("partitions", overflow="fold")
    for camp in camps[:_MOST_CAMPS]:
        vote = "decides" if camp.mean_weight == 1 else f"weight {camp.mean_weight:.2f}"
        size = len(camp.partitions)
        members = _first(camp.partitions) + (f" ({size} in all)" if size > _MOST_MEMBERS else "")
        weak = f"; weak: {_first(camp.weak)}" if camp.weak else ""
        table.add_row(
            str(camp.camp),
            str(size),
            f"{camp.mean_agreement:z.2f}",
            Text(vote, "green") if camp.decides else Text("ignored", "yellow"),
            Text.assemble(members, (weak, "yellow")),
        )
    if rest := camps[_MOST_CAMPS:]:
        table.add_row("…", str(sum(len(camp.partitions) for camp in rest)), "", "", "the rest")
    return table


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_MEMBERS]) + (", …" if len(names) > _MOST_MEMBERS else "")
