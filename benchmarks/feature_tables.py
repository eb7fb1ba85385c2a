"""Tables, figures and notes of the benchmark of feature tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import feature_scale
from benchmarks.feature_sets import HALVES
from benchmarks.results import (
    OKABE_ITO,
    Marks,
    Result,
    Table,
    best_cells,
    dot_plot,
    item,
    lane_heights,
    line_plot,
    seconds_text,
    short_text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLAGSHIP = "consensus"
#: Title, colour and marker of every method.
METHODS = {
    FLAGSHIP: ("ConsensusClusterer", "blue", "D"),
    "consensus_kmeans": ('ConsensusClusterer, "kmeans"', "sky", "d"),
    "kmeans": ("k-means", "vermilion", "o"),
    "mixture": ("Gaussian mixture", "green", "s"),
    "ward": ("Ward", "orange", "^"),
    "spectral": ("spectral", "purple", "v"),
    "hdbscan": ("HDBSCAN", "grey", "x"),
    "genie": ("Genie", "black", "*"),
}
#: Methods of this package.
OURS = (FLAGSHIP, "consensus_kmeans")
#: The choice of the number of clusters, among the trials of a set.
NUMBER = "number"
_HALF_COLOURS = {"develop half": "orange", "report half": "blue"}

Found = Mapping[str, Any]
Sets = Sequence[Found]


def make_result(data: dict[str, Any]) -> Result:
    """Return the result of what was measured, with its summaries."""
    sets = data["sets"]
    groups = {"all sets": sets}
    names = dict.fromkeys(one["list"] for one in sets)
    groups |= {f"{name} list": [s for s in sets if s["list"] == name] for name in names}
    groups |= {f"{half} half": [s for s in sets if s["half"] == half] for half in HALVES}
    groups = {name: some for name, some in groups.items() if some}
    data["summary"] = {name: {"name": name, **_summary(some)} for name, some in groups.items()}
    calibration = {
        "sets": item("name"),
        "expected calibration error": item("calibration_error", form=short_text),
        "mean |confidence − accuracy| of a set": item("set_gap", form=short_text),
    }
    views = {
        "views": item("name"),
        "MultiViewClusterer": item("views", form=short_text),
        "k-means, joined views": item("kmeans", form=short_text),
    }
    times = {
        "method": lambda time: METHODS[time["method"]][0],
        "n × p": lambda time: f"{time['n']:,} × {time['p']}",
        "s": item("seconds", form=seconds_text),
        "ARI": item("ari", form=short_text),
    }
    tables = [
        _mean_table(data["summary"], sets),
        _score_table(sets),
        _number_table(groups),
        _each_number_table(sets),
        Table.of("Calibration of confidence_", data["summary"].values(), calibration),
        Table.of("Several views: accuracy, mean of the seeds", data["views"], views),
        Table.of("Time of one fit", data["times"], times, n_named=2),
        *feature_scale.tables_of(data["sizes"]),
    ]
    plots = {"": partial(_plot, sets), "calibration": partial(_plot_calibration, data["summary"])}
    if data["sizes"]["trials"]:
        plots["sizes"] = partial(feature_scale.draw_sizes, data["sizes"]["trials"])
    tables = [table for table in tables if table.rows]
    return Result("features", tables, data, _notes(data), plots)


def _measured(sets: Sets) -> list[str]:
    """Return the methods that were measured; Genie needs a package that may be missing."""
    return [method for method in METHODS if all(method in one["methods"] for one in sets)]


def _ari(one: Found, method: str) -> float:
    """Return the mean index; a method that failed counts as one cluster of all points: 0."""
    return float(one["methods"][method]["mean"] or 0.0)


def _summary(sets: Sets) -> dict[str, Any]:
    # every set has the same weight, however many points it has
    every = np.array([one["bins"] for one in sets])  # (sets, bins, 3)
    bins = every.mean(axis=0)
    return {
        "n_sets": len(sets),
        "mean": {m: float(np.mean([_ari(s, m) for s in sets])) for m in _measured(sets)},
        "calibration_error": float(np.abs(bins[:, 1] - bins[:, 2]).sum()),
        "set_gap": float(np.abs(every[:, :, 1].sum(axis=1) - every[:, :, 2].sum(axis=1)).mean()),
        "bins": bins.tolist(),
    }


def _mean_table(summary: Found, sets: Sets) -> Table:
    rows, figures = [], []
    for method in _measured(sets):
        title = METHODS[method][0]
        means = [group["mean"][method] for group in summary.values()]
        least = min(_ari(one, method) - _ari(one, "kmeans") for one in sets)
        seconds = np.mean([one["methods"][method]["seconds"] for one in sets])
        rows.append((title, *map(short_text, means), f"{least:+.3f}", seconds_text(float(seconds))))
        figures.append(means)
    headings = [f"{name} ({group['n_sets']})" for name, group in summary.items()]
    headings = ["method", *headings, "least difference to k-means", "s a fit, one thread"]
    bold = best_cells(figures, 1, by="column")
    return Table("Mean adjusted Rand index, true K given", headings, rows, bold=bold)


def _score_table(sets: Sets) -> Table:
    columns = {name: item(name) for name in ("name", "list", "half", "n", "p")} | {"K": _numbers}
    scores = {
        title: item("methods", method, "mean", form=short_text, missing="failed")
        for method, (title, *_) in METHODS.items()
        if method in _measured(sets)
    }
    scored = [[s["methods"][m]["mean"] for m in _measured(sets)] for s in sets]
    bold = best_cells(scored, len(columns))
    title = "Adjusted Rand index of each set, mean of the seeds"
    return Table.of(title, sets, columns | scores, n_named=3, bold=bold)


def _numbers(one: Found) -> str:
    """Return the numbers of clusters of the references."""
    return " or ".join(map(str, sorted(set(one["K"]))))


def _number_table(groups: Mapping[str, Sets]) -> Table:
    rows = []
    for name, sets in groups.items():
        strong = [one for one in sets if not one[NUMBER]["is_weak"]]
        for title, some, key, ari in (
            ("ConsensusClusterer", sets, "chosen", "accuracy"),
            ("the same, evidence not weak", strong, "chosen", "accuracy"),
            ("silhouette of k-means", sets, "silhouette", "silhouette_ari"),
        ):
            off = np.array([min(abs(one[NUMBER][key] - K) for K in one["K"]) for one in some])
            mean = float(np.mean([one[NUMBER][ari] for one in some])) if some else None
            counts = (len(some), (off == 0).sum(), (off <= 1).sum())
            rows.append((name, title, *map(str, counts), short_text(mean)))
    headings = ("sets", "K chosen by", "number", "right", "within one", "mean ARI")
    return Table("K by itself", headings, rows, n_named=2)


def _each_number_table(sets: Sets) -> Table:
    columns = {"name": item("name"), "half": item("half"), "K": _numbers}
    chosen = {
        "chosen": item(NUMBER, "chosen"),
        "evidence": lambda one: "weak" if one[NUMBER]["is_weak"] else "",
        "ARI": item(NUMBER, "accuracy", form=short_text),
        "silhouette": item(NUMBER, "silhouette"),
        "its ARI": item(NUMBER, "silhouette_ari", form=short_text),
    }
    return Table.of("K by itself, each set", sets, columns | chosen, n_named=2)


def _notes(data: Found) -> list[str]:
    sets = data["sets"]
    difference = {one["name"]: _ari(one, FLAGSHIP) - _ari(one, "kmeans") for one in sets}
    worst = min(difference, key=difference.__getitem__)
    notes = [f"ConsensusClusterer less k-means is least on {worst}: {difference[worst]:+.3f}."]
    behind = []
    for one in sets:
        best = max((m for m in _measured(sets) if m not in OURS), key=partial(_ari, one))
        less = _ari(one, best) - _ari(one, FLAGSHIP)
        if less >= 0.01:
            behind.append((less, f"{one['name']} ({METHODS[best][0]}, −{less:.3f})"))
    listed = ", ".join(text for _, text in sorted(behind, reverse=True)) or "none"
    notes.append(f"Sets on which the best other method is better by .01 or more: {listed}.")
    notes += [
        f"{METHODS[method][0]} on {one['name']} {message}; this counts as 0."
        for one in sets
        for method, found in one["methods"].items()
        for message in found["messages"]
    ]
    notes += data["sizes"]["notes"]
    return notes + [f"Not run: {name}; {why}" for name, why in data["missing"].items()]


def _plot(sets: Sets) -> Figure:
    marks = []
    methods = _measured(sets)
    for method, height in zip(methods, lane_heights(len(methods)), strict=True):
        means = [one["methods"][method]["mean"] for one in sets]
        size = {"markersize": 7 if method == FLAGSHIP else 4}
        marks.append(Marks(*METHODS[method], means, height=height, settings=size))
    names = [f"{one['name']} ({one['half']})" for one in sets]
    return dot_plot(names, {"": marks}, "adjusted Rand index, true K given (mean of the seeds)")


def _plot_calibration(summary: Found) -> Figure:
    """Draw the reliability curve of each half; the area of a mark is the share of the points."""
    halves = {name: colour for name, colour in _HALF_COLOURS.items() if name in summary}
    curves, areas = [], []
    for name, colour in halves.items():
        share, confidence, right = np.array([b for b in summary[name]["bins"] if b[0] > 0]).T
        x, y = (confidence / share).tolist(), (right / share).tolist()
        curves.append(Marks(name, colour, "", x, y))
        areas.append({"x": x, "y": y, "s": 300 * share, "color": OKABE_ITO[colour]})
    exact = Marks("exact", "grey", "", [0, 1], [0, 1], settings={"linestyle": ":"})
    figure, (axes,) = line_plot({"": [exact, *curves]}, (5, 4.4))
    for area in areas:
        axes.scatter(**area, alpha=0.7)
    axes.set(xlabel="mean confidence_ of the bin", ylabel="share of right labels")
    axes.legend(frameon=False, fontsize=8)
    return figure
