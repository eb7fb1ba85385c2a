"""Results of the paper's tables, made up, for the tests of reports and pages."""

from __future__ import annotations

from benchmarks.paper_figures import TABLE2, TABLE3
from benchmarks.paper_tables import MethodResult, Outcome, RunSettings, TableResults


def ran(*accuracies: float, **warned: int) -> MethodResult:
    """A method that ran, two seconds a draw; its warnings are those of the first draw."""
    return MethodResult(
        tuple(
            Outcome("ran", 2.0, a, "", warned if d == 0 else {}) for d, a in enumerate(accuracies)
        )
    )


def could_not(status: str, message: str) -> MethodResult:
    """A method that did not run."""
    return MethodResult((Outcome(status, 1.0, None, message),))


def table2_results() -> TableResults:
    """Two conditions: in one the flagship reaches the paper's RCC on one of two sets."""
    rows = {
        "raw, fixed": {
            "wine": {
                "k-means": ran(0.6, 0.7),
                "cspa": could_not("too large", "CSPA\nhas limits"),
                "rcc": ran(0.7, 0.7),
                "robust": ran(0.72, 0.68),
            }
        },
        "mixed, fixed": {
            "wine": {
                "k-means": ran(0.8, 0.9),
                "cspa": could_not("failed", "<b> & co"),
                "rcc": ran(0.96, 0.96),
                "robust": ran(0.96, 0.98, LabelWarning=3),
            },
            "zoo": {
                "k-means": ran(0.6, 0.6),
                "cspa": ran(0.9),
                "rcc": ran(0.7, 0.7),
                "robust": ran(0.8, 0.8),
            },
        },
    }
    return TableResults(TABLE2, rows, {"reuters": "it is far away"}, RunSettings(2))


def table3_results() -> TableResults:
    """One set of two views."""
    rows = {"": {"msrc_v1": {"lbp": ran(0.5), "rcc": ran(0.81), "color_moment": ran(0.3)}}}
    return TableResults(TABLE3, rows, {}, RunSettings(1))
