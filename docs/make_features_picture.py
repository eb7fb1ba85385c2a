"""Draw docs/images/features.png: clusters of feature tables beside those of scikit-learn.

The scores are those of ``python -m benchmarks features -o docs/benchmarks/generated``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from coterie import ConsensusClusterer
from coterie.inspection.scores import adjusted_rand_index

DOCS = Path(__file__).parent
SCORES = DOCS / "benchmarks" / "generated" / "features.json"
PICTURE = DOCS / "images" / "features.png"
SHOWN = ("moons", "circles", "unequal blobs")

PEERS = ("kmeans", "mixture", "ward", "spectral", "hdbscan")
BLUE, VERMILION, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#E69F00", "#009E73", "#8A8A8A"


def main(scores: Path = SCORES, picture: Path = PICTURE) -> None:
    """Read the scores and draw."""
    if not scores.exists():
        sys.exit(f"{scores} is missing; run: python -m benchmarks features -o {SCORES.parent}")
    rows = _rows(json.loads(scores.read_text(encoding="utf-8"))["sets"])
    figure = plt.figure(figsize=(9.6, 1.6 + 0.225 * len(rows)), layout="constrained")
    grid = figure.add_gridspec(len(SHOWN), 2, width_ratios=(2.9, 1))
    _draw_scores(figure.add_subplot(grid[:, 0]), rows)
    for place, name in enumerate(SHOWN):
        _draw_clusters(figure.add_subplot(grid[place, 1]), name)
    figure.savefig(picture, dpi=110, facecolor="white")
    # a palette needs a third of the space; maximum coverage keeps colours of few pixels
    Image.open(picture).convert("RGB").quantize(
        128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    ).save(picture, optimize=True)


def _rows(sets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each set, by falling score, and then the means."""
    rows = []
    for one in sets:
        mean = {name: found["mean"] or 0.0 for name, found in one["methods"].items()}
        rows.append(
            {
                "name": one["name"],
                "half": one["half"],
                "kmeans": mean["kmeans"],
                "best": max(mean[name] for name in PEERS),
                "ours": mean["consensus"],
            }
        )
    rows.sort(key=lambda row: -row["ours"])
    halves = {"mean, report half": ("report",), "mean of all sets": ("develop", "report")}
    means = []
    for title, wanted in halves.items():
        some = [row for row in rows if row["half"] in wanted]
        average = {key: np.mean([row[key] for row in some]) for key in ("kmeans", "best", "ours")}
        means.append({"name": f"{title} ({len(some)})", "half": "mean", **average})
    return rows + means


def _draw_scores(ax: plt.Axes, rows: list[dict[str, Any]]) -> None:
    # the means are apart from the sets
    y = np.array([place + 0.6 * (row["half"] == "mean") for place, row in enumerate(rows)])
    kmeans, best, ours = (
        np.array([row[key] for row in rows]) for key in ("kmeans", "best", "ours")
    )
    colours = np.where(ours >= kmeans, BLUE, VERMILION)
    ax.hlines(y, kmeans, ours, colors=colours, linewidth=3, alpha=0.3, zorder=2)
    ax.plot(best, y, "|", color="black", markersize=11, mew=1.6, zorder=3)
    ax.plot(kmeans, y, "o", color="white", mec=GREY, mew=1.6, markersize=6, zorder=4)
    ax.plot(ours, y, "D", color=BLUE, markersize=6.5, zorder=5)
    ax.set_yticks(y, [row["name"] for row in rows], fontsize=9)
    for label, row in zip(ax.get_yticklabels(), rows, strict=True):
        label.set_color("0.5" if row["half"] == "develop" else "black")
        label.set_fontweight("bold" if row["half"] == "mean" else "normal")
    for row, place in zip(rows, y, strict=True):
        if row["half"] == "mean":
            ax.axhspan(place - 0.5, place + 0.5, color="#eef4f9", zorder=0)
            figures = "k-means {kmeans:.2f},  best {best:.2f},  coterie {ours:.2f}".format(**row)
            ax.text(-0.05, place, figures, va="center", fontsize=8.5)
    _finish_scores(ax, y)


def _finish_scores(ax: plt.Axes, y: np.ndarray) -> None:
    ax.set_ylim(y[-1] + 0.6, -0.7)
    ax.set_xlim(-0.06, 1.03)
    ax.grid(axis="x", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(
        "adjusted Rand index with the true number of clusters (1: the true classes)\n"
        "names in grey: sets on which defaults were chosen",
        fontsize=9,
    )
    ax.plot([], [], "o", color="white", mec=GREY, mew=1.6, markersize=6, label="k-means")
    ax.plot(
        [],
        [],
        "|",
        color="black",
        markersize=11,
        mew=1.6,
        label="best of five clusterers, in hindsight",
    )
    ax.plot([], [], "D", color=BLUE, markersize=6.5, label="coterie")
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, frameon=False, fontsize=9)


def _draw_clusters(ax: plt.Axes, name: str) -> None:
    X, y = _feature_set(name)
    est = ConsensusClusterer(len(np.unique(y)), random_state=0).fit(X)
    colours = np.array([BLUE, ORANGE, GREEN])[est.labels_]
    ax.scatter(*X.T, s=3, c=colours, linewidths=0)
    ax.set_title(f"{name}: {adjusted_rand_index(y, est.labels_):.2f}", fontsize=9, loc="left")
    ax.set_aspect("equal")
    ax.set_axis_off()


def _feature_set(name: str) -> tuple[np.ndarray, np.ndarray]:
    sys.path.insert(0, str(DOCS.parent))  # the benchmarks are not installed
    from benchmarks.feature_sets import LISTS

    return next(one for sets in LISTS.values() for one in sets if one.name == name).load()


if __name__ == "__main__":
    main()
