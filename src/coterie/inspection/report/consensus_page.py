"""The report on a consensus: its contents, and their rendering as one self-contained HTML file.

Tables, bars and curves are written into the page. A small script draws the heat maps and the map
of points from numbers in the page, sorts tables and filters points. Names have visible symbols in
place of control characters.
"""

from __future__ import annotations

import base64
import contextlib
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np

import coterie
from coterie.consensus.choice_of_k import KChoice
from coterie.consensus.results import (
    bound_in_words,
    cluster_report,
    consensus_facts,
    fitted_consensus,
    fitted_rows,
    indices_in_words,
    least_certain,
    partition_names,
    partition_report,
    point_name,
    row_index,
    runner_up_clusters,
    sizes_in_words,
    trust_in_words,
)
from coterie.errors import CoterieError, InvalidParameterError
from coterie.inspection.displays.coassociation import ordered_sample
from coterie.inspection.displays.colours_and_axes import NO_LABEL, cluster_colours
from coterie.inspection.displays.numbers_of_clusters import CRITERIA
from coterie.inspection.displays.partitions import PartitionAgreementDisplay
from coterie.inspection.report.features import features_part
from coterie.labels.encode import LabelMatrix, refuse_other_rows, row_index_of
from coterie.runtime.atomic_files import atomic_file, check_writable
from coterie.runtime.html_pages import content_policy, embedded_json, page_templates
from coterie.runtime.wording import UNKNOWN, in_words, number_of, visible

#: The most points of the co-association, partitions of the agreement, and doubtful points.
_MOST_COASSOCIATED, _MOST_COMPARED, _MOST_DOUBTFUL = 300, 200, 100
#: Points of a smaller confidence are doubtful. If none is, ten are listed.
_DOUBTFUL_BELOW, _LEAST_CERTAIN = 0.75, 10
_CONFIDENCE_BINS, _ROUNDING = 10, 1e-9
#: With more voting partitions, the ones that agree most with the consensus are quoted.
MOST_QUOTED = 6
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


# ---- Contents


def consensus_contents(
    estimator: Any,
    X: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    names: Sequence[str] | None = None,
    index: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Collect what the page shows, by the names in its template; see :func:`write_report`."""
    consensus = fitted_consensus(estimator)
    if X is not None and estimator is consensus and _are_fitted_labels(estimator, X):
        raise InvalidParameterError(
            "X has the labels of the fit, but it takes features: leave it out, or give features of "
            "the points"
        )
    labels, confidence = estimator.labels_, estimator.confidence_
    names = [visible(name) for name in partition_names(consensus, names)]
    V, n = len(names), len(consensus.labels_)
    clusters, partitions = cluster_report(estimator), partition_report(estimator, names)
    finer = sum(row.n_clusters > estimator.n_clusters_ for row in partitions)

    # names of the points: those given, of the fitted table, or of X
    fitted, of_features = row_index(estimator), row_index_of(X)
    refuse_other_rows(of_features, fitted, "X", "the fit")
    index = next((each for each in (index, fitted, of_features) if each is not None), None)
    if index is not None:
        if len(index) != n:
            raise InvalidParameterError(
                f"index has {len(index)} names for {n} points; give one name per point"
            )
        index = [visible(point_name(row, index)) for row in range(n)]

    # 0.9 may be stored as 0.8999…, and belongs to the bin from 0.9
    bins = (confidence * _CONFIDENCE_BINS + _ROUNDING).astype(np.int64)
    histograms = np.zeros((len(clusters), _CONFIDENCE_BINS), dtype=np.int64)
    labelled = labels >= 0
    np.add.at(histograms, (labels[labelled], np.minimum(bins, _CONFIDENCE_BINS - 1)[labelled]), 1)

    # one row per kind of partition, or per view; none if there is only one
    weights, agreement = consensus.partition_weights_, consensus.partition_agreement_
    ensembles = getattr(estimator, "ensembles_", {"": getattr(estimator, "ensemble_", None)})
    kind_of = [
        visible(view or kind)
        for view, ensemble in ensembles.items()
        for kind in getattr(ensemble, "kinds", ())
    ]
    kinds = []
    if len(set(kind_of)) > 1 and len(kind_of) == V:
        for kind in dict.fromkeys(kind_of):
            own = np.array(kind_of) == kind
            row = {"kind": kind, "size": int(own.sum()), "agreement": float(agreement[own].mean())}
            kinds.append({**row, "deciding": int((weights[own] > 0).sum())})

    heat = PartitionAgreementDisplay._of_estimator(consensus, names)
    compared = np.unique(np.linspace(0, V - 1, min(V, _MOST_COMPARED)).round().astype(np.int64))
    camps = [(name, int(np.isin(members, compared).sum())) for name, members in heat.blocks]

    tuples, rows = consensus._tuples, fitted_rows(consensus)
    alpha = consensus.partition_weights_[tuples.partition_order]
    own = consensus.labels_[rows], consensus.confidence_[rows]
    M, points = ordered_sample(tuples, *own, alpha, _MOST_COASSOCIATED, random_state=0)
    of_cluster = zip(*np.unique(own[0][points], return_counts=True), strict=True)

    n_doubtful = int((labelled & (confidence < _DOUBTFUL_BELOW)).sum())
    most = min(n_doubtful, _MOST_DOUBTFUL) or _LEAST_CERTAIN
    runner_up = [None if b < 0 else b for b in runner_up_clusters(estimator).tolist()]
    doubtful = least_certain(estimator, index, most, below=_DOUBTFUL_BELOW)
    return {
        "title": f"Consensus of {V} partitions" if title is None else visible(str(title)),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": coterie.__version__,
        "estimator": type(estimator).__name__,
        "facts": consensus_facts(estimator, names, index=index),
        "clusters": clusters,
        "histograms": histograms.tolist(),  # of each cluster: its points in bins of confidence
        "words": cluster_words(estimator, names),
        "partitions": partitions,
        "kinds": kinds,
        # matrices with values in [0, 1], the sizes of blocks of rows, the names of the rows, and
        # the number of all rows, of which some are shown
        "agreement": {
            "matrix": np.clip(heat.agreement[np.ix_(compared, compared)], 0, 1),
            "blocks": [(name, size) for name, size in camps if size],
            "names": [heat.names[v] for v in compared],
            "total": V,
        },
        "coassociation": {
            "matrix": M,
            "blocks": [(str(cluster), int(size)) for cluster, size in of_cluster],
            "names": [point_name(i, index) for i in rows[points].tolist()],
            "total": len(rows),
        },
        # the runs of the default ensemble have more clusters than the answer
        "has_finer_runs": getattr(estimator, "ensemble", None) in ("auto", "mixed")
        and 2 * finer > V,
        "k_given": isinstance(getattr(estimator, "n_clusters", None), Integral),
        "n_doubtful": n_doubtful,
        # the doubtful points, or a few of the least certain, and their next best clusters
        "points": [(point, runner_up[point.row]) for point in doubtful],
        "features": None if X is None else features_part(estimator, X, feature_names, index),
    }


def _are_fitted_labels(estimator: Any, X: Any) -> bool:
    """Return whether X can be read as labels and gets the answer of the fit."""
    with (
        contextlib.suppress(CoterieError, TypeError, ValueError),
        warnings.catch_warnings(action="ignore"),
    ):
        return np.array_equal(estimator.predict(X), estimator.labels_)
    return False


def cluster_words(estimator: Any, names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return for each cluster the names of voting partitions and their most common label in it.

    A partition without a label in the cluster is left out. The lists are empty if all labels are
    numbers, which say nothing, or if partitions are soft.
    """
    consensus = fitted_consensus(estimator)
    vocabulary, table = consensus._vocabulary, consensus._tables.table
    voting = np.flatnonzero(consensus.partition_weights_ > 0)
    words: list[list[tuple[str, str]]] = [[] for _ in range(table.shape[1])]
    if not isinstance(vocabulary, LabelMatrix):
        return words
    if not any(vocabulary.categories[v].dtype.kind == "U" for v in voting):
        return words
    counts = np.split(table[consensus._tuples.recode], np.cumsum(vocabulary.n_labels)[:-1])
    by_agreement = voting[np.argsort(-consensus.partition_agreement_[voting], kind="stable")]
    for v in np.sort(by_agreement[:MOST_QUOTED]).tolist():
        for cluster, own in enumerate(counts[v].T):
            if own.any():
                label = vocabulary.categories[v][own.argmax()]
                words[cluster].append((names[v], visible(str(label))))
    return words


# ---- Page


def render_report(contents: Mapping[str, Any]) -> str:
    """Return the report as HTML.

    Its Content-Security-Policy allows only the script and the style in the page, by their SHA-256.
    """
    folder = resources.files("coterie.inspection.report").joinpath("page")
    script, style = (
        folder.joinpath(f"consensus.{kind}").read_text(encoding="utf-8") for kind in ("js", "css")
    )
    facts, features = contents["facts"], contents["features"]
    confidence = facts.mean_confidence or 0.0
    choice, curves = facts.k_choice, {} if facts.k_choice is None else facts.k_choice.curves
    drawn = [name for name in CRITERIA if name in curves]
    drawn += [name for name in curves if name not in (*drawn, *_NOT_DRAWN)]
    # the sizes of the camps, and how many partitions are alone
    sizes = [len(camp.partitions) for camp in facts.camps or []]
    together, alone = [f"{size:,}" for size in sizes if size > 1], sizes.count(1)
    camps = [f"{in_words(together)} partitions"] if together else []
    camps += [f"{number_of(alone, 'partition')} alone"] if alone else []
    colours = cluster_colours(facts.clusters)
    data: dict[str, Any] = {"colours": [*colours, NO_LABEL], "points": None}
    for name in ("agreement", "coassociation"):
        heat = contents[name]
        # cells are bytes, 255 for the value 1
        cells = base64.b64encode(np.round(255 * heat["matrix"]).astype(np.uint8).tobytes())
        data[name] = {
            "cells": cells.decode("ascii"),
            "blocks": heat["blocks"],
            "names": heat["names"],
        }
    if features is not None and (shown := features["map"]) is not None:
        low, span = shown["coordinates"].min(axis=0), np.ptp(shown["coordinates"], axis=0)
        x, y = ((shown["coordinates"] - low) / np.where(span > 0, span, 1.0)).round(4).T.tolist()
        data["points"] = {
            "x": x,
            "y": y,
            "cluster": shown["cluster"].tolist(),
            "confidence": shown["confidence"].round(3).tolist(),
            "names": shown["names"],
            "axes": shown["axes"],
        }
    own = (sizes_in_words, bound_in_words, indices_in_words, trust_in_words)
    filters = {"decimals": _decimals, "figure": _figure, **{one.__name__: one for one in own}}
    template = page_templates("coterie.inspection.report", filters).get_template("consensus.html")
    return template.render(
        report=contents,
        facts=facts,
        policy=content_policy([script], style),
        style=style,
        script=script,
        data=embedded_json(data),
        colours=colours,
        certainty=next((word for least, word in _CONFIDENCE_WORDS if confidence >= least), "weak"),
        camps=", and ".join(camps),
        most_quoted=MOST_QUOTED,
        doubtful_below=_DOUBTFUL_BELOW,
        agreement_in_table=len(contents["partitions"]) <= _MOST_IN_TABLE,
        k_charts=[_k_chart(choice, name) for name in drawn],
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


def _k_chart(choice: KChoice, name: str) -> dict[str, Any]:
    """Return the curve of a criterion in the coordinates of its picture."""
    (width, height), (left, right, top, bottom) = _CURVE_SIZE, _CURVE_MARGINS
    ks = choice.ks.tolist()
    values = {k: v for k, v in zip(ks, choice.curves[name], strict=True) if v is not None}
    low, high = min(values.values()), max(values.values())
    across = np.interp(ks, [min(ks), max(ks)], [left, width - right])
    place = {
        k: (float(x), float(np.interp(values[k], [low, high], [height - bottom, top])))
        for k, x in zip(ks, across, strict=True)
        if k in values
    }
    every = -(-len(ks) // 10)
    return {
        "caption": CRITERIA.get(name, name.replace("_", " ")),
        "size": _CURVE_SIZE,
        "low": low,
        "high": high,
        "points": [(k, values[k], round(x, 1), round(y, 1)) for k, (x, y) in place.items()],
        "ticks": [(k, round(float(x), 1)) for k, x in zip(ks, across, strict=True)][::every],
        "best": place.get(choice.best_k),
    }
