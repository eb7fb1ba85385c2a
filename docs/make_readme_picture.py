"""Draw docs/images/compared.png: coterie next to packages that people know.

The scores are those of ``python -m benchmarks features peers -o docs/benchmarks/generated``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

DOCS = Path(__file__).parent
SCORES = DOCS / "benchmarks" / "generated"
PICTURE = DOCS / "images" / "compared.png"
BLUE, GREY = "#0072B2", "#8A8A8A"
CLUSTERERS = {
    "hdbscan": "HDBSCAN",
    "ward": "agglomerative (Ward)",
    "kmeans": "k-means",
    "mixture": "Gaussian mixture",
    "spectral": "spectral",
    "genie": "Genie",
    "consensus": "coterie",
}
#: Colour, marker and line of each package.
PACKAGES = {
    "coterie": (BLUE, "D", "-"),
    "scikit-learn": ("#CC79A7", "o", ":"),
    "ensembleclustering": ("#E69F00", "s", "--"),
    "OpenEnsembles": ("#D55E00", "^", "-."),
    "scikit-network": ("#009E73", "v", ":"),
}


def main(scores: Path = SCORES, picture: Path = PICTURE) -> None:
    """Read the scores and draw."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.6, 4.1), layout="constrained", width_ratios=(1, 1.1)
    )
    _draw_clusterers(left, _read(scores / "features.json")["sets"])
    _draw_wrong_votes(right, _read(scores / "peers.json")["wrong_votes"])
    figure.savefig(picture, dpi=110, facecolor="white")
    # a palette needs a third of the space; maximum coverage keeps colours of few pixels
    Image.open(picture).convert("RGB").quantize(
        128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    ).save(picture, optimize=True)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _draw_clusterers(ax: plt.Axes, sets: list[dict[str, Any]]) -> None:
    """Draw the score of each clusterer on each set, and the mean."""
    # defaults were chosen on the other sets
    sets = [one for one in sets if one["half"] == "report"]
    spread = np.linspace(-0.2, 0.2, len(sets))
    for y, (key, name) in enumerate(CLUSTERERS.items()):
        colour = BLUE if name == "coterie" else GREY
        found = np.array([one["methods"][key]["mean"] or 0.0 for one in sets])
        ax.plot(found, y + spread, "o", color=colour, alpha=0.35, markersize=4, mew=0)
        ax.plot(found.mean(), y, "|", color=colour, markersize=20, mew=3)
        ax.annotate(
            f"{found.mean():.2f}", (found.mean(), y + 0.38), ha="center", fontsize=9, color=colour
        )
    ax.set_yticks(range(len(CLUSTERERS)), list(CLUSTERERS.values()))
    ax.set_ylim(-0.5, len(CLUSTERERS) - 0.35)
    ax.set_xlabel(f"adjusted Rand index: {len(sets)} sets (dots) and mean")
    ax.set_title("From features: report halves of three lists", loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_wrong_votes(ax: plt.Axes, trials: list[dict[str, Any]]) -> None:
    """Draw the accuracy of the best method of each package by the share of wrong partitions."""
    for package, (colour, marker, line) in PACKAGES.items():
        methods: dict[str, dict[int, list[float]]] = {}
        for one in trials:
            if one["package"] == package:
                by_wrong = methods.setdefault(one["method"], {})
                by_wrong.setdefault(one["wrong"], []).append(one.get("accuracy") or 0.0)
        curves = {
            name: np.array([np.mean(draws) for draws in by_wrong.values()])
            for name, by_wrong in methods.items()
        }
        best = max(curves, key=lambda name: curves[name].mean())
        share = 5 * np.array(list(methods[best]))
        style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 5}
        label = package if package == "coterie" else f"{package}: {best}"
        ax.plot(share, curves[best], **style, linewidth=2, label=label, clip_on=False)
    ax.set(xlabel="partitions that are wrong in the same way (%)", ylabel="accuracy")
    ax.set_title("From labels: the best method of each package", loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower left", fontsize=9)


if __name__ == "__main__":
    main()
