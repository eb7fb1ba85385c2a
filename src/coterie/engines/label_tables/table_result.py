"""The result of a consensus of a table."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.devices import readable_bytes
from coterie.runtime.wording import short_repr

__all__ = ["TableConsensus", "TablePath", "peak_memory"]

TablePath = Literal["tuples", "grouped", "streamed"]


@dataclass(frozen=True, eq=False)
class TableConsensus:
    """A consensus of the rows of a table.

    Attributes
    ----------
    estimator : fitted consensus function
        Fitted on the distinct tuples, weighted by their counts, or on a sample of them; the
        clusters of a sample are then changed by sweeps over all rows. ``predict`` returns the
        labels that were written.
    path : {"tuples", "grouped", "streamed"}
        All distinct tuples were fitted; or a sample was fitted and then improved by sweeps over all
        distinct tuples, kept in the engine; or by sweeps over all rows.
    reason : str
        Why this path was taken.
    engine : str
    source : str
        Name of the table.
    partitions : tuple of str
        The label columns.
    n_rows : int
    n_tuples : int
        Number of distinct label tuples.
    n_tuples_exact : bool
        Whether that number was counted or estimated from a sample.
    n_fitted : int
        Number of tuples that the estimator was fitted on.
    sizes : (K,) int array
        Number of rows in each cluster.
    n_unplaced : int
        Number of rows without a label that the estimator knows; their label is −1.
    mean_margin : float
        Mean over all rows.
    objective : float
        J over the rows in clusters and the labels that the estimator knows. On the tuples path
        these are all rows and labels; on the other paths a label outside the sample counts as
        missing.
    partition_agreement : (V,) array
        Adjusted Rand index of each partition with the consensus, over the same rows and labels.
    sweeps : tuple of float
        The cost after each sweep, over the same rows and labels; empty on the tuples path. The
        cost is J with pairs joined against a partition weighted by 2τ, and pairs separated
        against a partition by 2(1 − τ), where τ is ``estimator.threshold_``. At τ = ½ it is J.
    seconds : dict of str to float
        Time of each stage: profile, group, fit, keep, sweeps, write.
    peak_memory : int
        Largest number of bytes this process, with DuckDB, has used; workers of a cluster are not
        included.
    out : Path or None
    bytes_written : int
    """

    estimator: Any
    path: TablePath
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
    mean_margin: float
    objective: float
    partition_agreement: NDArray[np.float64]
    sweeps: tuple[float, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    out: Path | None = None
    bytes_written: int = 0

    __repr__ = short_repr

    def as_dict(self) -> dict[str, Any]:
        """Return all attributes except the estimator as values for JSON."""
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
            "mean_margin": float(self.mean_margin),
            "objective": float(self.objective),
            "partition_agreement": self.partition_agreement.tolist(),
            "sweeps": list(self.sweeps),
            "seconds": {stage: round(value, 3) for stage, value in self.seconds.items()},
            "peak_memory": self.peak_memory,
            "out": None if self.out is None else str(self.out),
            "bytes_written": self.bytes_written,
        }

    def in_words(self) -> str:
        """Describe the run in a few lines."""
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
            lines.append(f"{rows} only labels outside the sample: label -1")
        lines.append(self.cost_in_words())
        if self.out is not None:
            lines.append(f"wrote {self.out}, {readable_bytes(self.bytes_written)}")
        return "\n".join(lines)

    def cost_in_words(self) -> str:
        """Describe the time of each stage and the peak memory in one line."""
        stages = ", ".join(f"{stage} {value:.1f} s" for stage, value in self.seconds.items())
        return f"{stages}; at most {readable_bytes(self.peak_memory)} of memory"


def peak_memory() -> int:
    """Return the largest number of bytes of memory that this process has used so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
