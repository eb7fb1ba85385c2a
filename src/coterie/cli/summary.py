"""Facts about a fitted consensus, for JSON, and their summary for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coterie.cli import layout
from coterie.cli.layout import counted
from coterie.consensus.registry import FLAGSHIP, consensus_method

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["consensus_facts", "print_summary"]

# The summary lists at most this many; JSON has all.
_MOST_CAMPS = 8
_MOST_MEMBERS = 12


def consensus_facts(estimator: Any, names: Sequence[str], method: str = FLAGSHIP) -> dict[str, Any]:
    """Return the facts about a fitted consensus, ready for JSON.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one
    names : sequence of V str
        The names of the partitions.
    method : str
        The key of the method in the registry.

    Returns
    -------
    dict
        Facts that the method does not provide are left out. A camp ``decides`` if its partitions
        have weight.

    Examples
    --------
    >>> from coterie import RobustConsensus
    >>> est = RobustConsensus(2, random_state=0).fit([[0, 0], [0, 0], [0, 0], [1, 1], [1, 1]])
    >>> facts = consensus_facts(est, ["a", "b"])
    >>> facts["sizes"], facts["camps"][0]["partitions"]
    ([3, 2], ['a', 'b'])
    """
    import numpy as np

    consensus = getattr(estimator, "consensus_", estimator)
    labelled = consensus.labels_[consensus.labels_ >= 0]
    n, n_points = len(labelled), len(consensus.labels_)
    return {
        "method": method,
        "points": n_points,
        **({"unlabelled": n_points - n} if n < n_points else {}),
        "partitions": len(names),
        "tuples": int(consensus.n_tuples_),
        "clusters": int(consensus.n_clusters_),
        "sizes": np.bincount(labelled).tolist(),
        "mean_confidence": float(estimator.confidence_.mean()),
        "objective": float(consensus.objective_),
        "share_of_pairs": float(consensus.objective_ / max(n * (n - 1), 1)),
        **_feature_facts(estimator),
        **_optional_facts(consensus),
        "votes": [
            {
                "partition": str(name),
                "weight": float(consensus.partition_weights_[v]),
                "agreement": float(consensus.partition_agreement_[v]),
                "coverage": float(consensus.partition_coverage_[v]),
            }
            for v, name in enumerate(names)
        ],
        **(_camp_facts(consensus, names) if hasattr(consensus, "dissent_") else {}),
    }


def print_summary(facts: dict[str, Any]) -> None:
    """Print the facts for people on the standard output stream."""
    from rich.text import Text

    console = layout.stdout_console()
    # An engine may only estimate the number of distinct tuples.
    about = "" if facts.get("engine", {}).get("tuples_exact", True) else "about "
    console.print(
        Text.assemble(
            (facts["input"], "bold"),
            f": {facts['points']:,} points, {counted(facts['partitions'], 'partition')}, "
            f"{about}{counted(facts['tuples'], 'distinct label tuple')}",
        ),
        soft_wrap=True,
    )
    layout.print_indented(console, layout.facts_grid(_lines(facts)))
    if len(facts.get("camps", [])) > 1:
        layout.print_indented(console, _camp_table(facts["camps"]), above=0)
    if "factors" in facts:
        layout.print_indented(console, _factor_text(facts["factors"]), above=0)
    if facts["written"]:
        console.print("Wrote " + ", ".join(facts["written"].values()), soft_wrap=True)
    else:
        console.print("Nothing was written; add -o FILE to keep the labels.", style="dim")


def _feature_facts(estimator: Any) -> dict[str, Any]:
    """Return the indices of the clusters on features, if there are any."""
    import math

    indices = getattr(estimator, "feature_indices_", {})
    known = {name: value for name, value in indices.items() if math.isfinite(value)}
    return {"feature_indices": known} if known else {}


def _optional_facts(consensus: Any) -> dict[str, Any]:
    """Return the facts that only some methods provide."""
    facts: dict[str, Any] = {}
    if hasattr(consensus, "lower_bound_"):
        facts |= {"lower_bound": float(consensus.lower_bound_), "gap": float(consensus.gap_)}
    if hasattr(consensus, "selected_"):
        chosen = consensus.selected_
        facts |= {"selected": str(chosen["method"]), "reason": str(chosen["reason"])}
    if hasattr(consensus, "k_choice_"):
        choice = consensus.k_choice_
        facts |= {"chosen_k": choice.reason, "weak_k": choice.is_weak}
    if hasattr(consensus, "loss_"):
        facts["loss"] = float(consensus.loss_)
    if hasattr(consensus, "partitioner_"):
        facts["partitioner"] = str(consensus.partitioner_)
    return facts


def _camp_facts(consensus: Any, names: Sequence[str]) -> dict[str, Any]:
    import numpy as np

    from coterie.consensus.summary_sentences import dissent_in_words

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
    dissent = dissent_in_words(consensus.dissent_, names, weights)
    return {"dissent": dissent, "camps_tied": bool(consensus.dissent_.tied), "camps": camps}


def _lines(facts: dict[str, Any]) -> dict[str, str]:
    from coterie.consensus import summary_sentences as sentences
    from coterie.consensus.robust.feature_indices import indices_in_words

    lines = {"clusters": sentences.clusters_in_words(facts["sizes"])}
    if "mean_margin" in facts:
        lines["margin"] = f"{facts['mean_margin']:.2f} on average (0 undecided, 1 certain)"
    else:
        lines["confidence"] = sentences.confidence_in_words(facts["mean_confidence"])
    share = facts["share_of_pairs"]
    lines["objective"] = sentences.objective_in_words(facts["objective"], share)
    if "feature_indices" in facts:
        lines["features"] = indices_in_words(facts["feature_indices"])
    if "chosen_k" in facts:
        lines["chosen K"] = f"{facts['clusters']}: {facts['chosen_k']}"
    if "unlabelled" in facts:
        lines["unlabelled"] = sentences.unlabelled_in_words(facts["unlabelled"])
    if "lower_bound" in facts:
        lines["bound"] = sentences.bound_in_words(facts["lower_bound"], facts["gap"])
    lines["method"] = _method(facts)
    if "camps" in facts:
        lines["partitions"] = facts["dissent"]
    else:
        lines["agreement"] = _agreement(facts["votes"])
    lines["time"] = f"{facts['seconds']:.2f} s"
    if "engine" in facts:
        lines["engine"] = _engine(facts["engine"])
        lines["cost"] = facts["cost"]
    return lines


def _factor_text(rows: list[dict[str, Any]]) -> str:
    """Return the tests of the factors as a table."""
    from coterie.inspection.factor_tests import FactorTest, FactorTests

    tests: list[dict[str, Any]] = [
        {name: float("nan") if value is None else value for name, value in row.items()}
        for row in rows
    ]
    return str(FactorTests(tuple(FactorTest(**row) for row in tests)))


def _method(facts: dict[str, Any]) -> str:
    """Describe the selected answer, or the method if it gives only one."""
    if "selected" in facts:
        return f"{facts['selected']}: {facts['reason']}"
    method = consensus_method(facts["method"])
    by = f" (by {facts['partitioner']})" if "partitioner" in facts else ""
    loss = f"; its own objective is {facts['loss']:,.6g}" if "loss" in facts else ""
    return f"{method.title}{by}, {method.summary}{loss}"


def _engine(run: dict[str, Any]) -> str:
    """Describe the engine, the path that was taken, and why."""
    chosen = f" (chosen because {run['chosen']})" if run["chosen"] else ""
    text = f"{run['url']}{chosen}, {run['path']} path: {run['reason']}"
    if run["sweeps"]:
        text += f"; {counted(run['tuples_fitted'], 'tuple')} fitted, then "
        text += counted(len(run["sweeps"]), "sweep") + " over all rows"
    if run["unplaced"]:
        text += f"; {counted(run['unplaced'], 'row')} with no label in the sample: -1"
    return text


def _agreement(votes: list[dict[str, Any]]) -> str:
    mean = sum(vote["agreement"] for vote in votes) / len(votes)
    least = min(votes, key=lambda vote: vote["agreement"])
    return (
        f"{mean:.2f} on average between a partition and the result (1 equal, 0 chance); lowest "
        f"for {least['partition']}, {least['agreement']:.2f}"
    )


def _camp_table(camps: list[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("camp", "size", "agreement"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("vote", no_wrap=True)
    table.add_column("partitions", overflow="fold")
    for camp in camps[:_MOST_CAMPS]:
        vote = "decides" if camp["mean_weight"] == 1 else f"weight {camp['mean_weight']:.2f}"
        table.add_row(
            str(camp["camp"]),
            str(len(camp["partitions"])),
            f"{camp['mean_agreement']:.2f}",
            Text(vote, "green") if camp["decides"] else Text("ignored", "yellow"),
            Text(_listed(camp["partitions"], _MOST_MEMBERS)),
        )
    if len(camps) > _MOST_CAMPS:
        rest = camps[_MOST_CAMPS:]
        table.add_row("…", str(sum(len(camp["partitions"]) for camp in rest)), "", "", "the rest")
    return table


def _listed(items: Sequence[str], most: int) -> str:
    return ", ".join(items[:most]) + (f", … ({len(items)} in all)" if len(items) > most else "")
