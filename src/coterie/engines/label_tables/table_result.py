"""The consensus of a table: what was fitted, which way was taken, and what it cost."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.devices import readable_bytes

__all__ = ["TableConsensus", "peak_memory"]


@dataclass(frozen=True, eq=False)
class TableConsensus:
    """A consensus of the rows of a table.

    Attributes
    ----------
    estimator : fitted consensus function
        Of the distinct tuples, weighted by how often they occur; or of a sample of them, its
        clusters then moved by sweeps over all rows. ``predict`` gives any row of the table the
        label that was written.
    path : {"tuples", "streamed"}
        All distinct tuples were counted and fitted, or a sample fitted and all rows streamed.
    reason : str
        Why that way.
    engine : str
    source : str
        What the table is called.
    partitions : tuple of str
        The label columns.
    n_rows : int
    n_tuples : int
        Distinct label tuples.
    n_tuples_exact : bool
        Whether they were counted; else estimated from a sample.
    n_fitted : int
        Tuples the estimator was fitted on.
    sizes : (K,) int array
        Rows in each cluster.
    n_unplaced : int
        Rows that have no label the estimator knows; their label is −1.
    mean_confidence : float
        Over all rows; over those of the sample where rows were streamed and not written.
    objective : float
        J over all rows that were placed, by the labels the estimator knows: pairs that a label the
        sample lacks would tell of are left out. Of the tuples path, over all rows and labels.
    partition_agreement : (V,) array
        Adjusted Rand index of each partition with the consensus, over the same rows and labels.
    sweeps : tuple of float
        After each sweep the cost that it lowers, over the same rows and labels: J with pairs put
        together against a partition counted 2τ times and pairs put apart 2(1 − τ) times, where τ
        is ``estimator.threshold_``; at ½ it is J. Empty where none was needed.
    seconds : dict of str to float
        Of each stage: profile, group, fit, sweeps, write.
    peak_memory : int
        Bytes this process has had at most, DuckDB within it; a cluster's are its own.
    out : Path or None
    bytes_written : int
    """

    estimator: Any
    path: Literal["tuples", "streamed"]
    reason: str
    engine: str
    source: str
    partitions: tuple[str, ...]
    n_rows: int
    n_tuples: int
    n_tuples_exact: bool
    n_fitted: int
    sizes: NDArray[np.int64]
    n_unplaced: int
    mean_confidence: float
    objective: float
    partition_agreement: NDArray[np.float64]
    sweeps: tuple[float, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    out: Path | None = None
    bytes_written: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The facts, ready for JSON; the estimator is left out."""
        return {
            "source": self.source,
            "engine": self.engine,
            "path": self.path,
            "reason": self.reason,
            "rows": self.n_rows,
            "partitions": list(self.partitions),
            "tuples": self.n_tuples,
            "tuples_exact": self.n_tuples_exact,
            "tuples_fitted": self.n_fitted,
            "clusters": len(self.sizes),
            "sizes": self.sizes.tolist(),
            "unplaced": self.n_unplaced,
            "mean_confidence": float(self.mean_confidence),
            "objective": float(self.objective),
            "partition_agreement": self.partition_agreement.tolist(),
            "sweeps": list(self.sweeps),
            "seconds": {stage: round(value, 3) for stage, value in self.seconds.items()},
            "peak_memory": self.peak_memory,
            "out": None if self.out is None else str(self.out),
            "bytes_written": self.bytes_written,
        }

    def in_words(self) -> str:
        """What was done, in a few lines."""
        about = "" if self.n_tuples_exact else "about "
        lines = [
            f"{self.source}: {self.n_rows:,} rows, {len(self.partitions)} partitions, "
            f"{about}{self.n_tuples:,} distinct label tuples",
            f"{len(self.sizes)} clusters by {self.engine}, {self.path} path: {self.reason}",
        ]
        if self.sweeps:
            each = ", ".join(f"{value:.6g}" for value in self.sweeps)
            lines.append(f"cost after each sweep over all rows: {each}")
        if self.n_unplaced:
            rows = "1 row has" if self.n_unplaced == 1 else f"{self.n_unplaced:,} rows have"
            lines.append(f"{rows} only labels the sample lacks: label -1")
        lines.append(self.cost_in_words())
        if self.out is not None:
            lines.append(f"wrote {self.out}, {readable_bytes(self.bytes_written)}")
        return "\n".join(lines)

    def cost_in_words(self) -> str:
        """Time of each stage and peak memory, on one line."""
        stages = ", ".join(f"{stage} {value:.1f} s" for stage, value in self.seconds.items())
        return f"{stages}; at most {readable_bytes(self.peak_memory)} of memory"


def peak_memory() -> int:
    """Bytes of memory this process has had at most so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
