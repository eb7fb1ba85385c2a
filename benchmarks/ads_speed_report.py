"""Results of the two advertising speed benchmarks as JSON, tables and a page."""

from __future__ import annotations

from typing import Any

from benchmarks.environment import in_words
from benchmarks.result_tables import ResultTable
from coterie.runtime.devices import readable_bytes

__all__ = ["as_page", "as_tables", "summary_lines"]

_ENGINE = {
    "coterie": "ours, through Ibis",
    "sql": "hand-written SQL",
    "from_the_start": "ours, with opening the log and finding the grid",
}
_SIMILARITY = {
    "graph": "similarity graph, ours",
    "distances": "all distances, ours",
    "cdist": "SciPy's cdist, chebyshev",
}


def as_tables(found: dict[str, Any]) -> list[ResultTable]:
    """One table for the engine, one for the similarities."""
    engine, similarity = found["engine"], found["similarity"]
    return [
        ResultTable(
            f"Histograms of {engine['rows']:,} bids, {engine['cells']:,} cells",
            ("", "seconds", "peak memory"),
            [
                (
                    title,
                    f"{engine['seconds'][name]:.2f}",
                    readable_bytes(engine["peak_bytes"][name]),
                )
                for name, title in _ENGINE.items()
            ],
        ),
        ResultTable(
            f"All pairs of {similarity['advertisers']:,} curves at {similarity['points']} points",
            ("", "seconds", "CPU seconds"),
            [
                (
                    title,
                    f"{similarity['seconds'][name]:.1f}",
                    f"{similarity['cpu_seconds'][name]:.1f}",
                )
                for name, title in _SIMILARITY.items()
            ],
        ),
    ]


def summary_lines(found: dict[str, Any]) -> list[str]:
    """The ratios, and whether both ways gave the same."""
    engine, similarity = found["engine"], found["similarity"]
    same = "the same cells" if engine["equal"] else "DIFFERENT CELLS"
    return [
        f"Histograms: {engine['ratio']:.2f} × the time of hand-written SQL (target "
        f"{engine['target_ratio']:g}), {same}.",
        f"Similarity graph: {similarity['times_as_fast']['graph']:.0f} × as fast as cdist (target "
        f"{similarity['target']:g}); {similarity['differing_decisions']} decisions differ. All "
        f"distances: {similarity['times_as_fast']['distances']:.0f} × as fast.",
    ]


def as_page(found: dict[str, Any], described: dict[str, Any]) -> str:
    """A page in Markdown."""
    parts = [
        "# Histograms and similarities",
        "Two things must not be slow for a log to be large: counting it, and comparing every two "
        "advertisers. Histograms are counted by DuckDB through one Ibis expression; beside it, in "
        "fresh processes and in turn, SQL written by hand for the same cells, in the fastest way "
        "that was found. Similarities are computed beside SciPy's `cdist` in the same process, "
        "which uses one thread and computes both halves; ours uses all cores and one half. Peak "
        "memory is that of the whole process.",
    ]
    for table in as_tables(found):
        parts += [f"## {table.title}", table.markdown()]
    parts += [
        *summary_lines(found),
        "Made by `python -m benchmarks ads-speed -o docs/benchmarks`.",
        f"Measured {in_words(described)}.",
    ]
    return "\n\n".join(parts) + "\n"
