"""Rendering of the report on a consensus as one self-contained HTML file.

Tables, bars and curves are written into the page. A small script draws the heat maps and the map
of points from numbers in the page, sorts tables and filters points.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from importlib import resources
from os import PathLike
from typing import Any

import numpy as np

from coterie.consensus.results import KFacts, bound_in_words, indices_in_words, sizes_in_words
from coterie.inspection.displays.colours_and_axes import NO_LABEL, cluster_colours
from coterie.inspection.displays.numbers_of_clusters import CRITERIA
from coterie.inspection.report.consensus_contents import (
    MOST_QUOTED,
    ConsensusReport,
    HeatMap,
    consensus_contents,
)
from coterie.inspection.report.features import PointsMap
from coterie.runtime.atomic_files import atomic_file, check_writable
from coterie.runtime.html_pages import content_policy, embedded_json, page_templates
from coterie.runtime.wording import UNKNOWN, capitalised, in_words, number_of

#: Arrays over K that say nothing by themselves.
_NOT_DRAWN = ("n_clusters", "information", "eigengap", "cdf_area", "delta_area")
#: Least mean confidence for each word.
_CONFIDENCE_WORDS = ((0.9, "clear"), (0.75, "mostly clear"), (0.625, "mixed"))
#: Width and height of a curve, and its margins: left, right, top, bottom.
_CURVE_SIZE, _CURVE_MARGINS = (280, 140), (52, 12, 10, 26)
#: With more partitions the agreement is a picture instead of a table.
_MOST_IN_TABLE = 12


def write_report(
    estimator: Any,
    path: str | PathLike[str],
    X: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    names: Sequence[str] | None = None,
    index: Sequence[Any] | None = None,
) -> None:
    """Write a report on a fitted consensus to one HTML file.

    The page says what was decided, by which partitions, how sure the answer is, which number of
    clusters was chosen and why, which points are doubtful, and which features tell the clusters
    apart. It holds everything that it shows and loads nothing from the network. If writing fails,
    an existing file stays as it was.

    Parameters
    ----------
    estimator : fitted consensus function, ConsensusClusterer or MultiViewClusterer
    path : path of the HTML file
    X : (n, p) array, table or sparse matrix; or list or dict of several views, optional
        Features of the fitted points, to compare the clusters. Without X the page has no part on
        features. Columns of several views are named "view: column".
    feature_names : sequence of p str, optional
        By default the names of the columns of X.
    title : str, optional
    names : sequence of V str, optional
        Names of the partitions, by default those of the columns of P or of the runs.
    index : sequence of n names, optional
        Names of the points, by default the index of the fitted table or of X.

    Raises
    ------
    InvalidParameterError
        If X, or names of features, partitions or points, do not fit the estimator.
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from coterie import RobustConsensus, planted_partitions, write_report
    >>> P, _ = planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.1, random_state=0)
    >>> est = RobustConsensus(3, random_state=0).fit(P)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(est, path)
    >>> "4 dissent" in path.read_text(encoding="utf-8")
    True
    """
    check_writable(path)
    contents = consensus_contents(
        estimator, X, feature_names=feature_names, title=title, names=names, index=index
    )
    page = render_report(contents)
    with atomic_file(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8", newline="\n")


def render_report(contents: ConsensusReport) -> str:
    """Return the report as HTML.

    Its Content-Security-Policy allows only the script and the style in the page, by their SHA-256.
    """
    folder = resources.files("coterie.inspection.report").joinpath("page")
    script, style = (
        folder.joinpath(f"consensus.{kind}").read_text(encoding="utf-8") for kind in ("js", "css")
    )
    facts, features = contents.facts, contents.features
    confidence = facts.mean_confidence or 0.0
    differences = [
        abs(one.difference)
        for cluster in (features.clusters if features is not None else [])
        for one in cluster.features
    ]
    points = None if features is None else features.map
    filters: dict[str, Callable[..., Any]] = {"decimals": _decimals, "figure": _figure}
    template = page_templates("coterie.inspection.report", filters).get_template("consensus.html")
    return template.render(
        report=contents,
        facts=facts,
        policy=content_policy([script], style),
        style=style,
        script=script,
        data=embedded_json(
            {
                "colours": [*cluster_colours(facts.clusters), NO_LABEL],
                "agreement": _heat_data(contents.agreement),
                "coassociation": _heat_data(contents.coassociation),
                "points": None if points is None else _points_data(points),
            }
        ),
        colours=cluster_colours(facts.clusters),
        sizes=sizes_in_words(facts),
        certainty=next((word for least, word in _CONFIDENCE_WORDS if confidence >= least), "weak"),
        dissent=capitalised(facts.dissent or ""),
        camps=_camps_in_words([len(camp.partitions) for camp in facts.camps or []]),
        bound=capitalised(bound_in_words(facts)),
        indices=indices_in_words(facts.feature_indices or {}),
        most_quoted=MOST_QUOTED,
        agreement_in_table=len(contents.partitions) <= _MOST_IN_TABLE,
        k_charts=[] if facts.k_choice is None else _k_charts(facts.k_choice),
        largest_difference=max(differences, default=0.0) or 1.0,
    )


def _decimals(number: float | None) -> str:
    """Return a number with two decimals."""
    return UNKNOWN if number is None else f"{number:.2f}".replace("-", "−")


def _figure(number: float | None) -> str:
    """Return a number with four significant digits; large ones in full."""
    if number is None:
        return UNKNOWN
    in_full = 1e4 <= abs(number) < 1e9
    return (f"{number:,.0f}" if in_full else f"{number:,.4g}").replace("-", "−")


def _camps_in_words(camps: Sequence[int]) -> str:
    """Return the sizes of the camps in words."""
    together = [f"{size:,}" for size in camps if size > 1]
    alone = len(camps) - len(together)
    parts = [f"{in_words(together)} partitions"] if together else []
    return ", and ".join([*parts, f"{number_of(alone, 'partition')} alone"] if alone else parts)


def _k_charts(choice: KFacts) -> list[dict[str, Any]]:
    """Return the curves of the criteria in the coordinates of their pictures."""
    curves = choice.known_curves
    known = [name for name in CRITERIA if name in curves]
    others = [name for name in curves if name not in (*known, *_NOT_DRAWN)]
    return [_k_chart(choice, name) for name in (*known, *others)]


def _k_chart(choice: KFacts, name: str) -> dict[str, Any]:
    (width, height), (left, right, top, bottom) = _CURVE_SIZE, _CURVE_MARGINS
    values = {k: v for k, v in zip(choice.ks, choice.curves[name], strict=True) if v is not None}
    low, high = min(values.values()), max(values.values())
    across = np.interp(choice.ks, [min(choice.ks), max(choice.ks)], [left, width - right])
    place = {
        k: (float(x), float(np.interp(values[k], [low, high], [height - bottom, top])))
        for k, x in zip(choice.ks, across, strict=True)
        if k in values
    }
    every = -(-len(choice.ks) // 10)
    return {
        "caption": CRITERIA.get(name, name.replace("_", " ")),
        "size": _CURVE_SIZE,
        "low": low,
        "high": high,
        "points": [(k, values[k], round(x, 1), round(y, 1)) for k, (x, y) in place.items()],
        "ticks": [(k, round(float(x), 1)) for k, x in zip(choice.ks, across, strict=True)][::every],
        "best": place.get(choice.recommended),
    }


def _heat_data(heat: HeatMap) -> dict[str, Any]:
    """Return a matrix as bytes in base 64: 255 is 1."""
    cells = np.round(255 * heat.matrix).astype(np.uint8).tobytes()
    return {
        "cells": base64.b64encode(cells).decode("ascii"),
        "blocks": heat.blocks,
        "names": heat.names,
    }


def _points_data(points: PointsMap) -> dict[str, Any]:
    """Return coordinates from 0 to 1, clusters, confidences and names."""
    low = points.coordinates.min(axis=0)
    span = np.ptp(points.coordinates, axis=0)
    share = (points.coordinates - low) / np.where(span > 0, span, 1.0)
    return {
        "x": share[:, 0].round(4).tolist(),
        "y": share[:, 1].round(4).tolist(),
        "cluster": points.labels.tolist(),
        "confidence": points.confidence.round(3).tolist(),
        "names": points.names,
        "axes": points.axis_names,
    }
