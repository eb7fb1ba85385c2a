"""Draw the pictures of the user guide: ``python docs/make_guide_pictures.py [NAME …]``.

A picture shows what the code on its page computes. They are written to docs/images.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, make_blobs

import coterie
from coterie.inspection.scores import adjusted_rand_index
from coterie.inspection.stability import resampled_ensembles

IMAGES = Path(__file__).parent / "images"
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#B8B8B8"


def main(names: list[str]) -> None:
    """Draw the named pictures, or all."""
    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.titlelocation": "left"})
    for name in names or PICTURES:
        figure = PICTURES[name]()
        path = IMAGES / f"{name}.png"
        figure.savefig(path, dpi=110, facecolor="white")
        plt.close(figure)
        # a palette needs a third of the space; maximum coverage keeps colours of few pixels
        Image.open(path).convert("RGB").quantize(
            128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        ).save(path, optimize=True)


def partitions() -> plt.Figure:
    """Draw ten partitions of a hundred points, their agreement, and the consensus."""
    P, _ = coterie.planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.1, random_state=0)
    est = coterie.RobustConsensus(3, random_state=0).fit(P)
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.3), layout="constrained")
    colours = np.array([_rgb(BLUE), _rgb(ORANGE), _rgb("#009E73")])
    order = np.argsort(est.labels_, kind="stable")
    panels[0].imshow(colours[P[order]], aspect="auto", interpolation="nearest")
    panels[0].set(title="given: 10 partitions", xlabel="partition", ylabel="point")
    panels[0].set_xticks(range(10))
    matrix = np.array([[adjusted_rand_index(a, b) for b in P.T] for a in P.T])
    image = panels[1].imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    panels[1].set(title="who agrees with whom", xlabel="partition", ylabel="partition")
    panels[1].set_xticks(range(10))
    panels[1].set_yticks(range(10))
    figure.colorbar(image, ax=panels[1], label="adjusted Rand index", shrink=0.8)
    shade = 0.25 + 0.75 * est.confidence_[order][:, None]
    panels[2].imshow(
        (1 - shade * (1 - colours[est.labels_[order]]))[:, None],
        aspect="auto",
        interpolation="nearest",
    )
    panels[2].set(title="answer, paler where uncertain", ylabel="point", xticks=[])
    return figure


def the_default() -> plt.Figure:
    """Draw the three decisions of the default on one ensemble."""
    P, _ = coterie.planted_partitions([120, 60, 30, 15, 8], 12, 4, 0.35, random_state=0)
    est = coterie.RobustConsensus(5, random_state=0).fit(P)
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.3), layout="constrained")
    order = np.argsort(est.partition_groups_, kind="stable")
    scores = est.dissent_.scores[np.ix_(order, order)].astype(float)
    np.fill_diagonal(scores, np.nan)
    image = panels[0].imshow(scores, cmap="Blues", vmin=0, vmax=12)
    figure.colorbar(image, ax=panels[0], label="z-score of their agreement", shrink=0.8)
    panels[0].set(title="1. Which partitions vote?", xlabel="partition", ylabel="partition")
    panels[0].set_xticks(range(12), order)
    panels[0].set_yticks(range(12), order)
    start = 0
    for camp, size in enumerate(np.bincount(est.partition_groups_)):
        if size > 1:
            edge = ORANGE if camp == 0 else GREY
            square = plt.Rectangle(
                (start - 0.5, start - 0.5), size, size, fill=False, ec=edge, lw=2.5
            )
            panels[0].add_patch(square)
        start += size
    answers = est.selected_["answers"]
    names = list(answers)[::-1]
    values = [answers[name]["agreement"] or 0.0 for name in names]
    chosen = [ORANGE if name == est.selected_["method"] else BLUE for name in names]
    panels[1].barh(names, values, color=chosen)
    panels[1].set(title="2. Which answer?", xlim=(0, 1))
    panels[1].set_xlabel("mean agreement with the other answers")
    better, worse = map(
        float, re.findall(r"\(([\d.]+) against ([\d.]+), mean sil", est.selected_["reason"])[-1]
    )
    titles = ["the largest camp", "all partitions"]
    heights = (better, worse) if est.selected_["votes"] == titles[0] else (worse, better)
    won = [ORANGE if title == est.selected_["votes"] else BLUE for title in titles]
    panels[2].bar(titles, heights, color=won, width=0.5)
    panels[2].set(title="3. Should the others vote, too?", ylabel="separation of the answer")
    for ax in panels[1:]:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def wine() -> plt.Figure:
    """Draw the clusters of the wines, and how much each kind of run deserves trust."""
    X, _ = coterie.load_dataset("wine")
    est = coterie.ConsensusClusterer(3, standardize=True, random_state=0).fit(X)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    figure, panels = plt.subplots(
        1, 2, figsize=(9.6, 3.4), layout="constrained", width_ratios=(3, 2)
    )
    coterie.PointsDisplay.from_estimator(est, scaled, ax=panels[0])
    kinds = est.kinds_[::-1]
    decides = [one.kind == est.selected_["kind"] for one in kinds]
    panels[1].barh(
        [one.kind for one in kinds],
        [one.trust for one in kinds],
        color=[ORANGE if chosen else BLUE for chosen in decides],
    )
    panels[1].set(title="trust in each kind of run", xlim=(0, 1))
    panels[1].spines[["top", "right"]].set_visible(False)
    return figure


def views() -> plt.Figure:
    """Draw which runs of which view had a vote, when one view is noise."""
    est = coterie.MultiViewClusterer(10, random_state=0).fit(_digit_views())
    figure, ax = plt.subplots(figsize=(6.4, 2.2), layout="constrained")
    names = list(est.view_agreement_)[::-1]
    voted = [est.view_weight_[name] > 0 for name in names]
    ax.barh(
        names,
        [est.view_agreement_[name] for name in names],
        color=[BLUE if vote else ORANGE for vote in voted],
    )
    for place, name in enumerate(names):
        text = f"{est.view_weight_[name]:.0%} of its runs vote"
        ax.text(max(est.view_agreement_[name], 0) + 0.01, place, text, va="center")
    ax.set(xlim=(0, 1), xlabel="mean agreement of the runs of a view with the answer")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def methods() -> plt.Figure:
    """Draw the answers of four methods on clusters of unequal and of equal size."""
    figure, panels = plt.subplots(2, 4, figsize=(9.6, 4.6), layout="constrained")
    centres = [[0, 0], [4.5, 0], [0, 4.5]]
    rows = {
        "unequal sizes": make_blobs([400, 40, 30], centers=np.array(centres) * 1.2,
                                    cluster_std=[1.2, 0.5, 0.4],
                                    random_state=0),
        "equal sizes, overlapping": make_blobs([150] * 3, centers=np.array(centres) * 0.6,
                                               cluster_std=1.0, random_state=0),
    }  # fmt: skip
    for line, (title, (X, y)) in zip(panels, rows.items(), strict=True):
        P = coterie.make_partitions(
            X, [5, 6, 7, 8, 9, 10, 12], n_partitions=20, ensemble="kmeans", random_state=0
        )
        answers = {
            "RobustConsensus": coterie.RobustConsensus(3, random_state=0),
            "LocallyWeighted": coterie.LocallyWeightedConsensus(3),
            "HBGF": coterie.HBGF(3, random_state=0),
            "search": coterie.RobustConsensus(3, refine="search", random_state=0),
        }
        for ax, (name, method) in zip(line, answers.items(), strict=True):
            labels = method.fit(P).labels_
            index = adjusted_rand_index(y, labels)
            ax.scatter(*X.T, s=3, linewidths=0, c=np.array([BLUE, ORANGE, "#009E73"])[labels])
            ax.set_title(f"{name}: {index:.2f}", fontsize=9)
            ax.set(xticks=[], yticks=[])
        line[0].set_ylabel(title)
    return figure


def _digits() -> tuple[Any, Any]:
    X, _ = load_digits(return_X_y=True)
    est = coterie.ConsensusClusterer(10, n_partitions=20, ensemble="kmeans", random_state=0)
    return X, est.fit(X)


def _iris() -> tuple[Any, Any]:
    X, _ = coterie.load_dataset("iris")
    est = coterie.ConsensusClusterer(3, n_partitions=20, ensemble="kmeans", random_state=0)
    return X, est.fit(X)


def display_points() -> plt.Figure:
    """Draw PointsDisplay."""
    X, est = _iris()
    return _sized(coterie.PointsDisplay.from_estimator(est, X), 5.2, 3.8)


def display_coassociation() -> plt.Figure:
    """Draw CoassociationDisplay."""
    return _sized(coterie.CoassociationDisplay.from_estimator(_iris()[1]), 4.6, 3.8)


def display_clustermap() -> plt.Figure:
    """Draw ClustermapDisplay."""
    return _sized(coterie.ClustermapDisplay.from_estimator(_digits()[1], max_points=400), 5.6, 4.2)


def display_clusters() -> plt.Figure:
    """Draw ClusterConsensusDisplay."""
    return _sized(coterie.ClusterConsensusDisplay.from_estimator(_iris()[1]), 6.4, 4)


def display_agreement() -> plt.Figure:
    """Draw PartitionAgreementDisplay."""
    P, _ = coterie.planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.1, random_state=0)
    est = coterie.RobustConsensus(3, random_state=0).fit(P)
    names = ["ann", "bob", "cem", "dia", "eli", "fay", "gil", "hue", "ida", "jon"]
    return _sized(coterie.PartitionAgreementDisplay.from_estimator(est, names), 6.4, 3.4)


def display_k() -> plt.Figure:
    """Draw ChooseKDisplay."""
    P, _ = coterie.planted_partitions([60, 40, 30, 20], 12, 4, 0.15, random_state=0)
    choice = coterie.choose_k(P, range(2, 8), random_state=0)
    return _sized(coterie.ChooseKDisplay.from_choice(choice), 10.5, 3)


def display_cdf() -> plt.Figure:
    """Draw ConsensusCDFDisplay."""
    return _sized(coterie.ConsensusCDFDisplay.from_ensembles(_samples()), 7, 3)


def display_tracking() -> plt.Figure:
    """Draw TrackingDisplay."""
    return _sized(coterie.TrackingDisplay.from_ensembles(_samples()), 7, 2.6)


def display_convergence() -> plt.Figure:
    """Draw ConvergenceDisplay."""
    P, _ = coterie.planted_partitions([60, 30, 10], 10, n_bad=4, noise=0.1, random_state=0)
    est = coterie.RobustConsensus(3, random_state=0).fit(P)
    return _sized(coterie.ConvergenceDisplay.from_estimator(est), 7, 4.2)


def _samples() -> Any:
    return resampled_ensembles(_iris()[0], range(2, 7), n_resamples=20, random_state=0)


def _digit_views() -> dict[str, Any]:
    images = load_digits().images[:300]
    return {
        "pixels": images.reshape(-1, 64),
        "rows": images.sum(axis=2),
        "columns": images.sum(axis=1),
        "noise": np.random.default_rng(0).normal(size=(300, 5)),
    }


def _sized(display: Any, width: float, height: float) -> plt.Figure:
    display.figure_.set_size_inches(width, height)
    return display.figure_


def _rgb(colour: str) -> tuple[float, ...]:
    return plt.matplotlib.colors.to_rgb(colour)


PICTURES: dict[str, Callable[[], plt.Figure]] = {
    one.__name__: one
    for one in (
        partitions,
        the_default,
        wine,
        views,
        methods,
        display_points,
        display_coassociation,
        display_clustermap,
        display_clusters,
        display_agreement,
        display_k,
        display_cdf,
        display_tracking,
        display_convergence,
    )
}

if __name__ == "__main__":
    main(sys.argv[1:])
