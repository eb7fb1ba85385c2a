"""Results of the relaxation's benchmark as JSON, as a table and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.environment import in_words
from benchmarks.relaxation_speed import (
    LIMITED_FROM,
    MOST_RATIO,
    N_CLUSTERS,
    N_FIRST,
    N_PARTITIONS,
    NOISE,
    StepTimes,
)
from benchmarks.result_tables import ResultTable
from benchmarks.speed_report import seconds_in_short
from coterie.runtime.devices import readable_bytes

__all__ = ["METHOD", "as_json", "as_page", "as_table", "summary_lines"]

METHOD = (
    f"Planted labels of {N_CLUSTERS} clusters in {N_PARTITIONS} partitions, {NOISE:.0%} of them "
    "drawn anew, so that all tuples are distinct and nothing compresses. A step updates the state, "
    "half of a symmetric matrix, and refines its leading eigenvectors. The yardstick is reading "
    "and writing a whole matrix in single precision once, and multiplying it twice by "
    f"{N_CLUSTERS + 6} columns with NumPy's BLAS, in the same process and on as many threads. "
    f"Steps are means after the first {N_FIRST}, of the quietest run; parts of the yardstick are "
    "the least of all runs. Up to 4,000 tuples the state is in double precision, and as long as "
    "the yardstick's matrix fits the caches, the small algebra of a step weighs more. The estimate "
    "is what the library says beforehand that state and M will take."
)


def as_json(results: Sequence[StepTimes], described: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"sizes": [{n_tuples, step_seconds, …, seconds, yardstick, ratio, too_slow}], "most_ratio": …,
    "method": …, "environment": …}``
    """
    return {
        "sizes": [
            {
                **asdict(found),
                "seconds": found.seconds,
                "yardstick": found.yardstick,
                "ratio": found.ratio,
                "too_slow": found.too_slow,
            }
            for found in results
        ],
        "most_ratio": MOST_RATIO,
        "method": METHOD,
        "environment": described,
    }


def as_table(results: Sequence[StepTimes]) -> ResultTable:
    """A row a size; ratios above the limit in bold."""
    headings = (
        "tuples", "runs", "steps", "a step, s", "read and write, s", "product, s", "yardstick, s",
        "ratio", "M", "peak beyond M", "both", "estimate",
    )  # fmt: skip
    rows = [
        (
            f"{found.n_tuples:,}",
            str(found.n_runs),
            str(len(found.step_seconds)),
            *map(
                seconds_in_short,
                (
                    found.seconds,
                    found.read_write_seconds,
                    found.product_seconds,
                    found.yardstick,
                ),
            ),
            f"{found.ratio:.2f}",
            readable_bytes(found.matrix_bytes),
            readable_bytes(found.peak_bytes),
            readable_bytes(found.matrix_bytes + found.peak_bytes),
            readable_bytes(found.estimated_bytes),
        )
        for found in results
    ]
    missed = {(r, 7) for r, found in enumerate(results) if found.too_slow}
    return ResultTable("A step of the robust relaxation", headings, rows, stressed=missed)


def summary_lines(results: Sequence[StepTimes]) -> list[str]:
    """The verdict, and how time grows."""
    wanted = f"at most {MOST_RATIO:g} times the yardstick from {LIMITED_FROM:,} tuples on"
    over = [f"{found.n_tuples:,}" for found in results if found.too_slow]
    if results[-1].n_tuples < LIMITED_FROM:
        verdict = f"A step should take {wanted}; fewer were measured."
    elif over:
        verdict = f"Missed: a step should take {wanted}, and takes more at {', '.join(over)}."
    else:
        verdict = f"Met: a step takes {wanted}."
    largest = results[-1]
    return [
        verdict,
        f"At {largest.n_tuples:,} tuples a step takes {seconds_in_short(largest.seconds)} s, "
        f"{largest.ratio:.2f} times the yardstick, and "
        f"{readable_bytes(largest.matrix_bytes + largest.peak_bytes)} in all.",
    ]


def as_page(results: Sequence[StepTimes], described: dict[str, Any]) -> str:
    """A page in Markdown."""
    parts = [
        "# The robust relaxation, step by step",
        METHOD,
        as_table(results).markdown(),
        *summary_lines(results),
        f"Measured {in_words(described)}.",
    ]
    return "\n\n".join(parts) + "\n"
