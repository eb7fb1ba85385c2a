"""The paper's four advertising tables in its own form: its figures next to ours.

The printed figures come from a private log and cannot be measured again. Rows for the sources that
the paper lacks, and columns for pooling and WAPE, are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.ads.evaluation.evaluation import Evaluation
    from coterie.ads.segments.segment_profiles import ViewAgreement

#: Titles of the sources, those of the paper first.
FEATURE_TYPES = {
    "text": "ad text",
    "win": "win-rate c.d.f.",
    "cost": "eCPM-cost c.d.f.",
    "l2": "averaged consensus",
    "robust": "robust consensus",
    "own": "own curve (not in the paper)",
    "global": "one curve for all (not in the paper)",
    "lognormal": "log-normal empirical Bayes (not in the paper)",
    "boosting": "gradient boosting (not in the paper)",
    "dictionary": "dictionary of curves, the default (not in the paper)",
}

#: Table 4: clusters by view and p.
PRINTED_CLUSTERS = {
    "win": {0.01: 65, 0.05: 47, 0.1: 32},
    "cost": {0.01: 73, 0.05: 51, 0.1: 40},
}
#: Table 5: TPN and FPN of the win view and the cost view.
PRINTED_AGREEMENT = (0.7421, 0.2579)
#: Tables 6 and 7: MAPE by target and source.
PRINTED_MAPE = {
    "impressions": {
        "text": 0.3098,
        "win": 0.1810,
        "cost": 0.2031,
        "l2": 0.1787,
        "robust": 0.1596,
    },
    "spend": {"text": 0.2578, "win": 0.1234, "cost": 0.1356, "l2": 0.1278, "robust": 0.0964},
}
_PRIVATE = "The paper's figures come from a private log."


def paper_tables(evaluation: Evaluation, agreement: ViewAgreement) -> list[dict[str, Any]]:
    """Return Tables 4 to 7: clusters, agreement of views, errors of impressions and of spend.

    Each is a dict of ``title``, ``columns``, ``rows`` and ``note``. A cell without a figure is
    None.
    """
    figures = ["TPN", "TPN, paper", "FPN", "FPN, paper", "adjusted Rand"]
    rows = []
    for row in agreement.pairs:
        of_paper = {row["a"], row["b"]} == {"win", "cost"}
        tpn, fpn = PRINTED_AGREEMENT if of_paper else (None, None)
        rows.append([row["a"], row["b"], row["tpn"], tpn, row["fpn"], fpn, row["ari"]])
    return [
        {
            "title": "Table 4 of the paper: clusters at each level of the test",
            "columns": ["view", "p", "similar pairs", "leader clusters", "paper"],
            "rows": [
                [
                    FEATURE_TYPES.get(view, view),
                    alpha,
                    similar,
                    found.leaders.get(alpha),
                    PRINTED_CLUSTERS.get(view, {}).get(alpha),
                ]
                for view, found in evaluation.training.views.items()
                for alpha, similar in found.edges.items()
            ],
            "note": (
                "A higher p asks for more likeness, so pairs can only become fewer; in the paper "
                f"clusters become fewer too. It does not say how it counted them. {_PRIVATE}"
            ),
        },
        {
            "title": "Table 5 of the paper: agreement between views",
            "columns": ["view", "compared with", *figures],
            "rows": rows,
            "note": (
                "TPN: share of the pairs of advertisers that are together in both partitions or "
                "apart in both; FPN: share of the other pairs. With many clusters most pairs are "
                "apart in any two partitions; the adjusted Rand index allows for this. The paper "
                f"compares the win rate with the eCPM cost only. {_PRIVATE}"
            ),
        },
        error_table(evaluation, "impressions", "6"),
        error_table(evaluation, "spend", "7"),
    ]


def error_table(evaluation: Evaluation, target: str, number: str) -> dict[str, Any]:
    """Return the paper's table of forecast errors by feature type, with and without pooling.

    A source that was not evaluated has no row. One that is not pooled has None there.
    """
    rows = []
    for source, title in FEATURE_TYPES.items():
        if source not in evaluation.forecasts:
            continue
        mape, wape = _errors(evaluation, source, target)
        pooled_mape, pooled_wape = _errors(evaluation, f"{source}+pooled", target)
        printed = PRINTED_MAPE[target].get(source)
        rows.append([title, mape, printed, pooled_mape, wape, pooled_wape])
    counted = evaluation.measures(next(iter(evaluation.forecasts)), target)
    return {
        "title": f"Table {number} of the paper: error of {target} by feature type",
        "columns": ["feature type", "MAPE", "MAPE, paper", "MAPE, pooled", "WAPE", "WAPE, pooled"],
        "rows": rows,
        "note": (
            f"MAPE, as in the paper, over the {counted.mape_advertisers:,} advertisers with "
            f"{target} above 0 on the days held out; WAPE over all. Pooling and WAPE are not in "
            "the paper. In the robust row, unlike there, advertisers also move to the segment that "
            "their own auctions and texts fit. "
            f"{_PRIVATE}"
        ),
    }


def _errors(evaluation: Evaluation, name: str, target: str) -> tuple[float | None, float | None]:
    """Return MAPE and WAPE of a source, None if it was not evaluated."""
    if name not in evaluation.forecasts:
        return None, None
    found = evaluation.measures(name, target)
    return found.mape, found.wape
