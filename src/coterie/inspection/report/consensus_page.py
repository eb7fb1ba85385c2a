"""The report on a consensus: its contents, and their rendering as one self-contained HTML file.

Tables, bars and curves are written into the page. A small script draws the heat maps and the map
of points from numbers in the page, sorts tables and filters points. Names have visible symbols in
place of control characters.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np

import coterie
from coterie.arrays import Floats
from coterie.consensus.choice_of_k import KChoice
from coterie.consensus.results import (
    ClusterRow,
    ConsensusFacts,
    PartitionRow,
    UncertainPoint,
    bound_in_words,
    cluster_report,
    consensus_facts,
    fitted_consensus,
    indices_in_words,
    least_certain,
    partition_names,
    partition_report,
    point_name,
    row_index,
    runner_up_clusters,
    sizes_in_words,
)
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.coassociation import CoassociationDisplay
from coterie.inspection.displays.colours_and_axes import NO_LABEL, cluster_colours
from coterie.inspection.displays.numbers_of_clusters import CRITERIA
from coterie.inspection.displays.partitions import PartitionAgreementDisplay
from coterie.inspection.report.features import FeaturesPart, features_part
from coterie.labels.encode import LabelMatrix, refuse_other_rows, row_index_of
from coterie.runtime.atomic_files import atomic_file, check_writable
from coterie.runtime.html_pages import content_policy, embedded_json, page_templates
from coterie.runtime.wording import UNKNOWN, capitalised, in_words, number_of, short_repr, visible

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


@dataclass(frozen=True)
class KindRow:
    """Partitions of one kind, or of one view: how many there are, decide, and agree on average."""

    kind: str
    size: int
    deciding: int
    agreement: float


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A symmetric matrix (s, s) with values in [0, 1], and the blocks of its rows in order.

    ``blocks`` are (name, number of rows); ``names`` (s,) are those of the rows. ``total`` is the
    number of rows of which s are shown.
    """

    matrix: Floats
    blocks: list[tuple[str, int]]
    names: list[str]
    total: int

    __repr__ = short_repr

    def as_json(self) -> dict[str, Any]:
        """Return the matrix as bytes in base 64, where 255 is 1, with blocks and names."""
        cells = np.round(255 * self.matrix).astype(np.uint8).tobytes()
        coded = base64.b64encode(cells).decode("ascii")
        return {"cells": coded, "blocks": self.blocks, "names": self.names}


@dataclass(frozen=True)
class ConsensusReport:
    """Everything that the report on a consensus shows."""

    title: str
    made: str
    version: str
    estimator: str
    facts: ConsensusFacts
    clusters: list[ClusterRow]
    histograms: list[list[int]]  # of each cluster: its points in ten bins of confidence
    words: list[list[tuple[str, str]]]  # of each cluster, as of cluster_words
    partitions: list[PartitionRow]
    n_deciding: int
    kinds: list[KindRow]
    agreement: HeatMap
    coassociation: HeatMap
    has_finer_runs: bool  # whether the default ensemble's runs have more clusters than the answer
    k_given: bool
    n_doubtful: int
    has_index: bool  # whether the points have names other than their row numbers
    # the doubtful points, or a few that are less certain than others, and their next best clusters
    points: list[tuple[UncertainPoint, int | None]]
    features: FeaturesPart | None

    __repr__ = short_repr


def consensus_contents(
    estimator: Any,
    X: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    names: Sequence[str] | None = None,
    index: Sequence[Any] | None = None,
) -> ConsensusReport:
    """Collect the contents of a report; see :func:`write_report` for the parameters."""
    consensus = fitted_consensus(estimator)
    labels, confidence = estimator.labels_, estimator.confidence_
    names = [visible(name) for name in partition_names(consensus, names)]
    V = len(names)
    index = _row_names(estimator, X, index, len(consensus.labels_))
    clusters, partitions = cluster_report(estimator), partition_report(estimator, names)
    finer = sum(row.n_clusters > estimator.n_clusters_ for row in partitions)

    # 0.9 may be stored as 0.8999…, and belongs to the bin from 0.9
    bins = (confidence * _CONFIDENCE_BINS + _ROUNDING).astype(np.int64)
    histograms = np.zeros((len(clusters), _CONFIDENCE_BINS), dtype=np.int64)
    labelled = labels >= 0
    np.add.at(histograms, (labels[labelled], np.minimum(bins, _CONFIDENCE_BINS - 1)[labelled]), 1)

    # one row per kind of partition, or per view; none if there is only one
    weights, agreement = consensus.partition_weights_, consensus.partition_agreement_
    ensembles = getattr(estimator, "ensembles_", {"": getattr(estimator, "ensemble_", None)})
    kind_of = np.array(
        [
            visible(view or kind)
            for view, ensemble in ensembles.items()
            for kind in getattr(ensemble, "kinds", ())
        ]
    )
    kinds = {kind: kind_of == kind for kind in dict.fromkeys(kind_of.tolist())}
    if len(kinds) < 2 or len(kind_of) != V:
        kinds = {}

    heat = PartitionAgreementDisplay._of_estimator(consensus, names)
    compared = np.unique(np.linspace(0, V - 1, min(V, _MOST_COMPARED)).round().astype(np.int64))
    camps = [(name, int(np.isin(members, compared).sum())) for name, members in heat.blocks]
    pairs = CoassociationDisplay._of_estimator(
        consensus, max_points=_MOST_COASSOCIATED, random_state=0
    )
    of_cluster = zip(*np.unique(pairs.labels, return_counts=True), strict=True)

    n_doubtful = int((labelled & (confidence < _DOUBTFUL_BELOW)).sum())
    most = min(n_doubtful, _MOST_DOUBTFUL) or _LEAST_CERTAIN
    runner_up = runner_up_clusters(estimator).tolist()
    return ConsensusReport(
        title=f"Consensus of {V} partitions" if title is None else visible(str(title)),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        version=coterie.__version__,
        estimator=type(estimator).__name__,
        facts=consensus_facts(estimator, names),
        clusters=clusters,
        histograms=histograms.tolist(),
        words=cluster_words(estimator, names),
        partitions=partitions,
        n_deciding=sum(row.weight > 0 for row in partitions),
        kinds=[
            KindRow(
                kind, int(own.sum()), int((weights[own] > 0).sum()), float(agreement[own].mean())
            )
            for kind, own in kinds.items()
        ],
        agreement=HeatMap(
            np.clip(heat.agreement[np.ix_(compared, compared)], 0, 1),
            [(name, size) for name, size in camps if size],
            [heat.names[v] for v in compared],
            V,
        ),
        coassociation=HeatMap(
            pairs.matrix,
            [(str(cluster), int(size)) for cluster, size in of_cluster],
            [point_name(i, index) for i in pairs.points.tolist()],
            len(consensus._tuples.inverse),
        ),
        has_finer_runs=getattr(estimator, "ensemble", None) == "mixed" and 2 * finer > V,
        k_given=isinstance(getattr(estimator, "n_clusters", None), Integral),
        n_doubtful=n_doubtful,
        has_index=not isinstance(index, range),
        points=[
            (point, runner_up[point.row] if runner_up[point.row] >= 0 else None)
            for point in least_certain(estimator, index, most, below=_DOUBTFUL_BELOW)
        ],
        features=None if X is None else features_part(estimator, X, feature_names, index),
    )


def _row_names(estimator: Any, X: Any, index: Sequence[Any] | None, n: int) -> Sequence[Any]:
    """Return the names (n,) of the points, or ``range(n)`` if they have only row numbers."""
    fitted, given = row_index(estimator), row_index_of(X)
    refuse_other_rows(given, fitted, "X", "the fit")
    for row_names in (index, fitted, given):
        if row_names is not None:
            if len(row_names) != n:
                raise InvalidParameterError(
                    f"index has {len(row_names)} names for {n} points; give one name per point"
                )
            return [visible(point_name(row, row_names)) for row in range(n)]
    return range(n)


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
    cards, points = (features.clusters, features.map) if features is not None else ([], None)
    differences = [abs(one.difference) for card in cards for one in card.features]
    choice = facts.k_choice
    curves = {} if choice is None else choice.curves
    drawn = [name for name in CRITERIA if name in curves]
    drawn += [name for name in curves if name not in (*drawn, *_NOT_DRAWN)]
    # the sizes of the camps, and how many partitions are alone
    sizes = [len(camp.partitions) for camp in facts.camps or []]
    together, alone = [f"{size:,}" for size in sizes if size > 1], sizes.count(1)
    camps = [f"{in_words(together)} partitions"] if together else []
    camps += [f"{number_of(alone, 'partition')} alone"] if alone else []
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
                "agreement": contents.agreement.as_json(),
                "coassociation": contents.coassociation.as_json(),
                "points": None if points is None else points.as_json(),
            }
        ),
        colours=cluster_colours(facts.clusters),
        sizes=sizes_in_words(facts),
        certainty=next((word for least, word in _CONFIDENCE_WORDS if confidence >= least), "weak"),
        dissent=capitalised(facts.dissent or ""),
        camps=", and ".join(camps),
        bound=capitalised(bound_in_words(facts)),
        indices=indices_in_words(facts.feature_indices or {}),
        most_quoted=MOST_QUOTED,
        doubtful_below=_DOUBTFUL_BELOW,
        agreement_in_table=len(contents.partitions) <= _MOST_IN_TABLE,
        k_charts=[_k_chart(choice, name) for name in drawn] if choice is not None else [],
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
