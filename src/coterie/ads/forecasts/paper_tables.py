"""The paper's four advertising tables in its own form, filled with what was measured here.

The paper's figures come from a private log and cannot be had again; ours stand alone, with the
sources the paper lacks (own curves, pooling) beside its own.
"""

from __future__ import annotations

from typing import Any

from coterie.ads.forecasts.evaluation import Evaluation
from coterie.ads.segments.view_agreement import ViewAgreement, paper_table_of_clusters

__all__ = ["error_table", "paper_tables"]

FEATURE_TYPES = {
    "text": "ad text",
    "win": "win-rate c.d.f.",
    "cost": "eCPM-cost c.d.f.",
    "l2": "averaged consensus",
    "robust": "robust consensus",
    "own": "own curve (not in the paper)",
    "global": "one curve for all (not in the paper)",
}


def paper_tables(evaluation: Evaluation, agreement: ViewAgreement) -> list[dict[str, Any]]:
    """Tables 4 to 7: clusters, agreement of the views, error of impressions and of spend.

    Each is a dict of ``title``, ``columns``, ``rows`` and ``note``.
    """
    return [
        _clusters(evaluation),
        _agreement(agreement),
        error_table(evaluation, "impressions", "6"),
        error_table(evaluation, "spend", "7"),
    ]


def error_table(evaluation: Evaluation, target: str, number: str) -> dict[str, Any]:
    """Return the paper's table of forecast errors by feature type, with and without pooling."""
    rows = []
    for source, title in FEATURE_TYPES.items():
        if source not in evaluation.forecasts:
            continue
        alone = evaluation.measures(source, target)
        pooled = evaluation.measures(f"{source}+pooled", target)
        rows.append([title, alone.mape, pooled.mape, alone.wape, pooled.wape])
    counted = evaluation.measures(next(iter(evaluation.forecasts)), target)
    return {
        "title": f"Table {number} of the paper: error of {target} by feature type",
        "columns": ["feature type", "MAPE", "MAPE, pooled", "WAPE", "WAPE, pooled"],
        "rows": rows,
        "note": (
            f"MAPE over the {counted.mape_advertisers:,} advertisers with {target} above 0 on the "
            "days held out, as in the paper; WAPE over all. Pooling is ours."
        ),
    }


def _clusters(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "title": "Table 4 of the paper: clusters at each level of the test",
        "columns": ["view", "p", "similar pairs", "leader clusters"],
        "rows": [
            [FEATURE_TYPES[view], alpha, pairs, clusters]
            for view, alpha, pairs, clusters in paper_table_of_clusters(evaluation.training.views)
        ],
        "note": (
            "A higher p asks for more likeness, so pairs can only become fewer; the paper has "
            "clusters become fewer too. Shown is what was measured."
        ),
    }


def _agreement(agreement: ViewAgreement) -> dict[str, Any]:
    return {
        "title": "Table 5 of the paper: agreement between views",
        "columns": ["taken as right", "compared", "TPN", "FPN", "Rand", "adjusted Rand"],
        "rows": [
            [row["a"], row["b"], row["tpn"], row["fpn"], row["rand"], row["ari"]]
            for row in agreement.pairs
        ],
        "note": (
            "TPN: of the pairs together in the first, the share together in the second; FPN: of "
            "the pairs apart in the first, the share together in the second."
        ),
    }
