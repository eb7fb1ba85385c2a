"""What a command tells of a fitted consensus: one set of facts, as JSON or for a person."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["consensus_facts", "print_json", "print_summary"]

_MOST_SIZES = 12
_MOST_CAMPS = 8
_MOST_MEMBERS = 12


def consensus_facts(consensus: Any, names: Sequence[str]) -> dict[str, Any]:
    """The facts of a fitted :class:`~coterie.RobustConsensus`, ready for JSON.

    Parameters
    ----------
    consensus : fitted RobustConsensus
    names : sequence of V str
        The names of the partitions.

    Returns
    -------
    dict
        Of numbers, texts, lists and dicts. A camp ``decides`` if its partitions have weight.

    Examples
    --------
    >>> from coterie import RobustConsensus
    >>> est = RobustConsensus(2, random_state=0).fit([[0, 0], [0, 0], [0, 0], [1, 1], [1, 1]])
    >>> facts = consensus_facts(est, ["a", "b"])
    >>> facts["sizes"], facts["camps"][0]["partitions"]
    ([3, 2], ['a', 'b'])
    """
    import numpy as np

    n = len(consensus.labels_)
    return {
        "points": n,
        "partitions": len(names),
        "tuples": int(consensus.n_tuples_),
        "clusters": int(consensus.n_clusters_),
        "sizes": np.bincount(consensus.labels_).tolist(),
        "mean_confidence": float(consensus.confidence_.mean()),
        "objective": float(consensus.objective_),
        "share_of_pairs": float(consensus.objective_ / max(n * (n - 1), 1)),
        "lower_bound": float(consensus.lower_bound_),
        "gap": float(consensus.gap_),
        "method": str(consensus.selected_["method"]),
        "reason": str(consensus.selected_["reason"]),
        "camps_tied": bool(consensus.dissent_.tied),
        "camps": _camps(consensus, names),
    }


def print_json(facts: dict[str, Any]) -> None:
    """Print the facts as one JSON object on the standard output stream, and nothing else."""
    import typer

    typer.echo(json.dumps(facts, indent=2, allow_nan=False))


def print_summary(facts: dict[str, Any]) -> None:
    """Print the facts for a person on the standard output stream."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    console.print(
        Text.assemble(
            (facts["input"], "bold"),
            f": {facts['points']:,} points, {_counted(facts['partitions'], 'partition')}, "
            f"{_counted(facts['tuples'], 'distinct label tuple')}",
        ),
        soft_wrap=True,
    )
    console.print(Padding(_lines(facts), (1, 0, 1, 2), expand=False))
    if len(facts["camps"]) > 1:
        console.print(Padding(_camp_table(facts["camps"]), (0, 0, 1, 2), expand=False))
    console.print(_files(facts["written"]), soft_wrap=True)


def _camps(consensus: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    import numpy as np

    groups, weights = consensus.partition_groups_, consensus.partition_weights_
    camps = []
    for camp in range(int(groups.max()) + 1):
        members = np.flatnonzero(groups == camp).tolist()
        camps.append(
            {
                "camp": camp,
                "decides": bool(weights[members].any()),
                "mean_weight": float(weights[members].mean()),
                "mean_agreement": float(consensus.partition_agreement_[members].mean()),
                "partitions": [str(names[v]) for v in members],
            }
        )
    return camps


def _lines(facts: dict[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, text in {
        "clusters": f"{facts['clusters']}, of {_sizes(facts['sizes'])} "
        f"point{'' if facts['sizes'] == [1] else 's'}",
        "confidence": f"{facts['mean_confidence']:.2f} on average (0 undecided, 1 certain)",
        "objective": f"{facts['objective']:,.1f}: a partition differs from the consensus on "
        f"{facts['share_of_pairs']:.2%} of all pairs, on average",
        "at least": f"{facts['lower_bound']:,.1f} for any answer: the gap is {facts['gap']:.2%}",
        "method": f"{facts['method']}: {facts['reason']}",
        "dissent": _dissent(facts),
        "time": f"{facts['seconds']:.2f} s",
    }.items():
        grid.add_row(name, Text(text))
    return grid


def _dissent(facts: dict[str, Any]) -> str:
    """Who decided, in a sentence."""
    camps, V = facts["camps"], facts["partitions"]
    if V == 1:
        return "one partition: nothing to agree on"
    if len(camps) == 1:
        return f"none: all {V} partitions agree beyond chance"
    deciding = sum(len(camp["partitions"]) for camp in camps if camp["decides"])
    split = f"the partitions fall into {len(camps)} camps that agree only among themselves"
    if facts["camps_tied"] and deciding:
        return f"{split}; the largest are equally large, and {deciding} partitions of {V} decided"
    return f"{split}; {deciding} partitions of {V} decided"


def _camp_table(camps: list[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("camp", justify="right")
    table.add_column("size", justify="right")
    table.add_column("agrees with the result", justify="right")
    table.add_column("vote", no_wrap=True)
    table.add_column("partitions", overflow="fold")
    for camp in camps[:_MOST_CAMPS]:
        table.add_row(
            str(camp["camp"]),
            str(len(camp["partitions"])),
            f"{camp['mean_agreement']:.2f}",
            _vote(camp),
            Text(_listed(camp["partitions"], _MOST_MEMBERS)),
        )
    if len(camps) > _MOST_CAMPS:
        rest = camps[_MOST_CAMPS:]
        table.add_row("…", str(sum(len(camp["partitions"]) for camp in rest)), "", "", "the rest")
    return table


def _vote(camp: dict[str, Any]) -> RenderableType:
    from rich.text import Text

    if not camp["decides"]:
        return Text("set aside", style="yellow")
    text = "decides" if camp["mean_weight"] == 1 else f"weighs {camp['mean_weight']:.2f}"
    return Text(text, style="green")


def _files(written: dict[str, str]) -> RenderableType:
    from rich.text import Text

    if not written:
        return Text("Nothing was written; name a file with -o to keep the labels.", style="dim")
    return Text("Wrote " + ", ".join(written.values()))


def _sizes(sizes: list[int]) -> str:
    return _listed([f"{size:,}" for size in sizes], _MOST_SIZES)


def _listed(items: Sequence[str], most: int) -> str:
    return ", ".join(items[:most]) + (f", … ({len(items)} in all)" if len(items) > most else "")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
