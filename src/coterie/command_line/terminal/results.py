"""A fitted consensus on its way out: its table, its picture, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.command_line.terminal.outputs import Outputs
from coterie.command_line.terminal.summary import consensus_facts, print_json, print_summary
from coterie.consensus.registry import FLAGSHIP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Result"]


@dataclass(frozen=True, eq=False)
class Result:
    """A fitted estimator, and what the rows and the partitions are called.

    Attributes
    ----------
    source : Path
        The table that was read.
    estimator : fitted estimator
        A consensus function, or a clusterer that has one as ``consensus_``.
    P : (n, V) labels
        The partitions.
    names : sequence of V str
    ids : dict of str to column
        The id columns by their names.
    seconds : float
        How long reading and fitting took.
    method : str
        The key of the consensus function.
    """

    source: Path
    estimator: Any
    P: Any
    names: Sequence[str]
    ids: dict[str, Any]
    seconds: float
    method: str = FLAGSHIP

    @property
    def consensus(self) -> Any:
        """The fitted consensus function."""
        return getattr(self.estimator, "consensus_", self.estimator)

    def write(self, outputs: Outputs) -> None:
        """Write what was asked for; rows are in the order of the input."""
        columns = self.ids | {
            "label": self.consensus.labels_,
            "confidence": self.consensus.confidence_,
        }
        outputs.write(columns, self.estimator, self.picture)

    def picture(self) -> Figure:
        """Which points the partitions put together, and which partitions agree."""
        from coterie.command_line.terminal.pictures import consensus_picture

        return consensus_picture(self.consensus, self.P, self.names)

    def tell(self, outputs: Outputs, notes: list[str], as_json: bool, quiet: bool) -> None:
        """Print what there is to know: as JSON if asked for, else for a person unless quiet."""
        if quiet and not as_json:
            return
        facts = {
            "input": str(self.source),
            **consensus_facts(self.consensus, self.names, self.method),
            "seconds": round(self.seconds, 3),
            "written": {kind: str(path) for kind, path in outputs.paths.items()},
            "notes": notes,
        }
        print_json(facts) if as_json else print_summary(facts)
