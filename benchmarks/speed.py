"""Time and memory of the library beside other ways to the same answer, in one run.

Every contender of a cell is measured in fresh processes, in turn, so that ratios compare like with
like; compilation is excluded (:mod:`benchmarks.measuring`). What the figures
should be is written down as limits beside them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import contenders, search_speed
from benchmarks.first_use import FirstUse, measure_first_use
from benchmarks.measuring import Measurement, Work, measure, measure_side_by_side

__all__ = [
    "FULL",
    "QUICK",
    "CellTimes",
    "Check",
    "Scale",
    "SpeedCell",
    "SpeedResults",
    "run_speed",
    "run_speed_cell",
    "speed_cells",
    "time_ratio",
]

#: The contender that is ours, in every cell; the others are its rivals.
OURS = "coterie"

Measured = Mapping[str, Measurement]


@dataclass(frozen=True)
class Scale:
    """How large the cells are.

    ``n_rows`` of k-means labels, ``n_large`` planted rows, ``n_tuples`` to relax in ``n_iter``
    steps.
    """

    n_rows: int
    n_large: int
    n_tuples: int
    n_iter: int


FULL = Scale(n_rows=200_000, n_large=1_000_000, n_tuples=3_000, n_iter=40)
QUICK = Scale(n_rows=20_000, n_large=50_000, n_tuples=600, n_iter=20)


@dataclass(frozen=True)
class Check:
    """A figure and what it should be: at most, or at least, the limit."""

    what: str
    value: float
    limit: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        """Whether it is so.

        >>> Check("time ratio", 0.4, 0.5).met, Check("speed-up", 10, 20, at_most=False).met
        (True, False)
        """
        return self.value <= self.limit if self.at_most else self.value >= self.limit


@dataclass(frozen=True)
class SpeedCell:
    """One comparison.

    Attributes
    ----------
    name, title : for machines and for people
    inputs : writes the labels that the contenders read
    contenders : by name; ``"coterie"`` is ours
    checks : reads the checks off the measurements
    """

    name: str
    title: str
    inputs: Work
    contenders: Mapping[str, Work]
    checks: Callable[[Measured], list[Check]]


@dataclass(frozen=True)
class CellTimes:
    """A cell's measurements, by contender, and its checks."""

    name: str
    title: str
    measured: Measured
    checks: list[Check]


@dataclass(frozen=True)
class SpeedResults:
    """All cells at a scale, and what first use costs (``"cold"`` and ``"warm"``)."""

    scale: Scale
    cells: list[CellTimes]
    first_use: Mapping[str, FirstUse]
    first_use_checks: list[Check]


def run_speed(
    scale: Scale, repeats: int = 3, before_step: Callable[[str], None] | None = None
) -> SpeedResults:
    """Measure all cells at a scale. The label matrices live in a temporary folder meanwhile.

    Parameters
    ----------
    scale : Scale
    repeats : int
        Most runs of a contender; fewer where a minute in all is reached before.
    before_step : called with a few words on what is measured next
    """
    say = before_step or _say_nothing
    with tempfile.TemporaryDirectory(prefix="coterie-speed-") as folder:
        cells = [run_speed_cell(cell, repeats, say) for cell in speed_cells(scale, Path(folder))]
    say("first use")
    first_use = measure_first_use()
    quick_import = Check("import coterie, seconds", first_use["warm"].import_package, 1.0)
    return SpeedResults(scale, cells, first_use, [quick_import])


def run_speed_cell(cell: SpeedCell, repeats: int, before_step: Callable[[str], None]) -> CellTimes:
    """Make the inputs of a cell and measure its contenders."""
    before_step(f"{cell.title}: making the labels")
    measure(cell.inputs)
    measured = measure_side_by_side(
        cell.contenders, repeats, before_run=lambda name: before_step(f"{cell.title}: {name}")
    )
    return CellTimes(cell.name, cell.title, measured, cell.checks(measured))


def speed_cells(scale: Scale, folder: Path) -> list[SpeedCell]:
    """The cells at a scale; their labels will lie in ``folder``."""
    return [
        _kmeans_cell(scale, folder, "fixed_k", "kmeans", "admm", most_time=0.5),
        _kmeans_cell(scale, folder, "diverse_k", "diverse", "l2", most_time=1.0),
        _relaxation_cell(scale, folder),
        _large_cell(scale, folder),
        _search_cell(scale, folder),
    ]


def time_ratio(measured: Measured) -> float:
    """Our time over that of the fastest rival."""
    return measured[OURS].seconds / min(
        found.seconds for name, found in measured.items() if name != OURS
    )


def _kmeans_cell(
    scale: Scale, folder: Path, name: str, strategy: str, relaxation: str, most_time: float
) -> SpeedCell:
    """Labels of 40 k-means runs, against k-means on their one-hot encoding."""
    path = folder / f"{name}.npz"
    K, V = 8, 40
    kind = f"K = {K}" if strategy == "kmeans" else f"K = {K} to 50"
    return SpeedCell(
        name,
        f"{scale.n_rows:,} × {V} labels by k-means with {kind}",
        contenders.kmeans_labels(path, scale.n_rows, K, V, strategy),
        {
            OURS: contenders.robust_consensus(path, K, relaxation=relaxation),
            "one-hot k-means, sparse": contenders.one_hot_kmeans(path, K, dense=False),
            "one-hot k-means, dense": contenders.one_hot_kmeans(path, K, dense=True),
        },
        partial(_kmeans_checks, most_time=most_time),
    )


def _kmeans_checks(measured: Measured, most_time: float) -> list[Check]:
    ours = measured[OURS]
    return [
        Check("time / faster one-hot k-means", time_ratio(measured), most_time),
        Check("peak memory / label matrix", ours.peak_bytes / ours.facts["label_bytes"], 4.0),
    ]


def _relaxation_cell(scale: Scale, folder: Path) -> SpeedCell:
    """The robust relaxation where nothing compresses, against its textbook form."""
    path = folder / "relaxation.npz"
    K, V = 8, 40
    sizes = tuple(scale.n_tuples // K + (k < scale.n_tuples % K) for k in range(K))
    return SpeedCell(
        "relaxation",
        f"robust relaxation of {scale.n_tuples:,} distinct tuples, {scale.n_iter} steps",
        contenders.planted_labels(path, sizes, V, 0, 0.6),
        {
            OURS: contenders.robust_relaxation(path, K, scale.n_iter),
            "textbook": contenders.reference_relaxation(path, K, scale.n_iter),
        },
        _relaxation_checks,
    )


def _relaxation_checks(measured: Measured) -> list[Check]:
    ours, reference = (measured[name].facts["objective"] for name in (OURS, "textbook"))
    return [
        Check("times as fast as the textbook", 1.0 / time_ratio(measured), 20.0, at_most=False),
        Check("objective above the textbook's, %", 100 * (ours / reference - 1.0), 0.1),
    ]


def _large_cell(scale: Scale, folder: Path) -> SpeedCell:
    """Many points, nearly all distinct, two votes in five wrong together."""
    path = folder / "large.npz"
    shares = (300, 200, 150, 100, 80, 60, 40, 30, 25, 15)
    sizes = tuple(scale.n_large * share // 1000 for share in shares)
    V = 40
    return SpeedCell(
        "large",
        f"{sum(sizes):,} × {V} planted labels, 40% wrong together, 20% noise",
        contenders.planted_labels(path, sizes, V, 2 * V // 5, 0.2),
        {OURS: contenders.robust_consensus(path, len(sizes), relaxation="l2")},
        _no_checks,
    )


def _search_cell(scale: Scale, folder: Path) -> SpeedCell:
    """The discrete search alone, on all cores, against one tuple after the other."""
    path = folder / "search.npz"
    K, V = 10, 24
    return SpeedCell(
        "search",
        f"search over {scale.n_large:,} × {V} planted labels, 20% noise",
        contenders.planted_labels(path, (scale.n_large // K,) * K, V, 0, 0.2),
        {
            OURS: search_speed.sweeps_in_blocks(path, K),
            "one tuple after the other": search_speed.one_tuple_after_the_other(path, K),
        },
        _search_checks,
    )


def _search_checks(measured: Measured) -> list[Check]:
    ours, in_turn = (found.facts["objective"] for found in measured.values())
    # what two cores can do; more cores do more
    return [
        Check("times as fast as in turn", 1.0 / time_ratio(measured), 1.6, at_most=False),
        Check("J above that of in turn, %", 100 * (ours / in_turn - 1.0), 0.1),
    ]


def _no_checks(_: Measured) -> list[Check]:
    return []


def _say_nothing(_: str) -> None:
    """What is said to nobody."""
