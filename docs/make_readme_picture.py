"""Draw docs/images/spoiled_votes.png: accuracy of consensus methods by the share of wrong votes."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from coterie import (
    CoassociationDisplay,
    OneHotKMeans,
    RobustConsensus,
    clustering_accuracy,
    planted_partitions,
)

PICTURE = Path(__file__).parent / "images" / "spoiled_votes.png"
N_WRONG = (0, 2, 4, 6, 7, 8, 9, 11, 12)
N_DRAWS = 5

_equal_votes = {"refine": False, "partition_weights": None, "random_state": 0}
METHODS = {
    "RobustConsensus": (RobustConsensus(3, random_state=0), "D-", "#0072B2"),
    "one-hot k-means": (OneHotKMeans(3, random_state=0), "o:", "#999999"),
    "ℓ2 relaxation": (RobustConsensus(3, relaxation="l2", **_equal_votes), "s--", "#E69F00"),
    "ADMM alone (the paper's RCC)": (RobustConsensus(3, **_equal_votes), "^-.", "#009E73"),
}


def main() -> None:
    """Measure and draw."""
    figure, (matrix, curves) = plt.subplots(
        1, 2, figsize=(9.6, 4.0), layout="constrained", width_ratios=(1, 1.45)
    )
    _draw_votes(matrix)
    _draw_accuracy(curves)
    figure.savefig(PICTURE, dpi=110, facecolor="white")
    # a palette looks the same and needs a third of the space
    Image.open(PICTURE).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(
        PICTURE, optimize=True
    )


def _votes(n_wrong: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return planted_partitions([200, 60, 40], 20, n_wrong, 0.2, random_state=seed)


def _draw_votes(ax: plt.Axes) -> None:
    P, _ = _votes(8, 0)
    est = RobustConsensus(3, random_state=0).fit(P)
    display = CoassociationDisplay.from_labels(P, est.labels_, ax=ax, colorbar=False)
    ax.set_title("20 partitions, 8 of them wrong", loc="left", fontsize=10)
    ax.set(xlabel="300 points, by the clusters found", ylabel="")
    bar = ax.figure.colorbar(display.image_, ax=ax, shrink=0.7, location="left")
    bar.set_label("share of partitions")


def _draw_accuracy(ax: plt.Axes) -> None:
    share = 100 * np.array(N_WRONG) / 20
    for name, (est, style, colour) in METHODS.items():
        accuracy = [
            np.mean([_accuracy(est, *_votes(wrong, seed)) for seed in range(N_DRAWS)])
            for wrong in N_WRONG
        ]
        ax.plot(share, accuracy, style, color=colour, label=name, linewidth=2, markersize=5)
    ax.axvline(50, color="0.8", linewidth=1, zorder=0)
    ax.set_title(f"Planted clusters recovered (accuracy, {N_DRAWS} draws)", loc="left", fontsize=10)
    ax.set(xlabel="partitions that are wrong in the same way (%)", ylim=(0.28, 1.03))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower left")


def _accuracy(est: RobustConsensus, P: np.ndarray, y: np.ndarray) -> float:
    return clustering_accuracy(y, est.fit(P).labels_)


if __name__ == "__main__":
    main()
