"""The paper's table 2: the consensus of k-means runs on eight datasets.

The paper states neither how features were scaled nor, beyond "40 k-means runs", which partitions
were combined. Here a *recipe* says which features the runs use, and an *ensemble* how many clusters
they make. Neither uses the classes.

================  =========================================================================
``raw``           features as published
``standardised``  every feature with mean 0 and variance 1; for text, tf–idf rows of unit length
``mixed``         a third of the runs raw, a third standardised, a third min–max; for text, half
                  of them tf–idf rows of unit length, half their 50-dimensional truncated SVD
``fixed``         as many clusters as classes in every run
``diverse``       K_v uniform on {K, …, min(⌊√n⌋, 50)}
================  =========================================================================
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from benchmarks.accuracy import Cell
from benchmarks.harness import CONSENSUS, Context
from benchmarks.paper_tables import BASE_RUNS, PaperTable, run_table
from benchmarks.results import Result
from coterie.consensus.registry import CONSENSUS_METHODS, DEFAULT_METHOD, consensus_method
from coterie.datasets import load_dataset
from coterie.ensembles.generate import make_partitions
from coterie.ensembles.scalings import standard_and_min_max
from coterie.inspection.scores import clustering_accuracy

TABLE2 = PaperTable(
    "table2",
    {
        "k-means": "k-means",  # the mean of the single runs
        "KC": "kc",
        "CSPA": "cspa",
        "HPGA": "hgpa",
        "NMFC": "nmf",
        "WC": "weighted",
        "L2CC": "l2",
        "ES": "kl",
        "CorC": "correlation",
        "RCC": "rcc",
    },
    {
        "glass": "Glass",
        "ionosphere": "Ionosphere",
        "iris": "Iris",
        "soybean_small": "Soybean",
        "wine": "Wine",
        "zoo": "Zoo",
        "cstr": "CSTR",
        "reuters": "Reuters",
    },
    {
        "k-means": (0.38, 0.70, 0.83, 0.72, 0.68, 0.61, 0.45, 0.45),
        "KC": (0.45, 0.71, 0.72, 0.82, 0.68, 0.59, 0.38, 0.44),
        "CSPA": (0.43, 0.68, 0.86, 0.70, 0.69, 0.56, 0.50, 0.43),
        "HPGA": (0.40, 0.52, 0.69, 0.81, 0.52, 0.58, 0.62, 0.44),
        "NMFC": (0.49, 0.71, 0.89, 0.89, 0.70, 0.62, 0.56, 0.43),
        "WC": (0.49, 0.71, 0.89, 0.91, 0.72, 0.70, 0.64, 0.44),
        "L2CC": (0.49, 0.71, 0.86, 0.76, 0.65, 0.80, 0.61, 0.43),
        "RCC": (0.52, 0.72, 0.89, 1.00, 0.96, 0.84, 0.65, 0.45),
        "ES": (0.52, 0.71, 0.88, 0.98, 0.84, 0.79, 0.64, 0.44),
        "CorC": (0.50, 0.70, 0.86, 0.95, 0.89, 0.82, 0.61, 0.43),
    },
    digits=2,
)
RECIPES = ("raw", "standardised", "mixed")
#: By name, the ``ensemble`` of :func:`coterie.make_partitions`.
ENSEMBLES = {"fixed": "kmeans", "diverse": "diverse"}
#: V of the paper.
N_PARTITIONS = 40
_SVD_DIMENSIONS = 50

MEASURES = (*CONSENSUS, "ensembles")


def run(
    context: Context,
    *,
    draws: int | None = None,
    all_methods: bool = False,
    patience: float = 60.0,
    jobs: int | None = None,
) -> Result:
    """Run the consensus functions of table 2 under every recipe and ensemble.

    A quick run has the small datasets and the mixed recipe. ``draws`` of each cell are 20 by
    default, 2 in a quick run; draw d is seeded with d. ``all_methods`` adds the consensus functions
    that are not in the paper. After ``patience`` seconds of processor time a method gets no further
    draws of a cell. ``jobs`` is the number of worker processes, by default one per core.
    """
    recipes = RECIPES[2:] if context.quick else RECIPES
    cells = partial(make_cells, recipes=recipes, all_methods=all_methods)
    return run_table(TABLE2, cells, context, draws, patience, jobs)


def make_cells(
    datasets: Sequence[str], recipes: Sequence[str] = RECIPES, all_methods: bool = False
) -> dict[tuple[str, str], list[Cell]]:
    """Return every recipe and ensemble of every dataset, the methods in the paper's order."""
    methods = dict.fromkeys([*TABLE2.columns.values(), DEFAULT_METHOD])
    if all_methods:
        methods |= dict.fromkeys(CONSENSUS_METHODS)
    cells = {}
    for dataset, recipe, ensemble in itertools.product(datasets, recipes, ENSEMBLES):
        name, load = (dataset, recipe, ensemble), partial(_load, dataset, recipe, ensemble)
        cell = Cell("-".join(("table2", *name)), tuple(methods), load)
        cells[f"{recipe}, {ensemble}", dataset] = [cell]
    return cells


def recipe_features(X: Any, recipe: str) -> list[Any]:
    """Return the features that the runs of a recipe use: one array for each share of the runs.

    ``X`` is an (n, p) array, or a sparse matrix of word counts.

    >>> raw, standardised, ranged = recipe_features(np.array([[1.0], [3.0]]), "mixed")
    >>> raw.ravel().tolist(), standardised.ravel().tolist(), ranged.ravel().tolist()
    ([1.0, 3.0], [-1.0, 1.0], [0.0, 1.0])
    """
    if recipe == "raw":
        return [X]
    if sp.issparse(X):
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfTransformer

        rows = TfidfTransformer(norm="l2").fit_transform(X)
        if recipe == "standardised":
            return [rows]
        dimensions = min(_SVD_DIMENSIONS, min(rows.shape) - 1)
        return [rows, TruncatedSVD(dimensions, random_state=0).fit_transform(rows)]
    standardised, ranged = (scaling.transform(X) for scaling in standard_and_min_max(X))
    return [standardised] if recipe == "standardised" else [X, standardised, ranged]


def make_runs(
    features: Sequence[Any],
    n_clusters: int,
    ensemble: str,
    seed: int,
    n_partitions: int = N_PARTITIONS,
) -> NDArray[np.int32]:
    """Return the label matrix (n, V) of k-means runs: Lloyd, random centres, one start.

    The runs are divided among the feature arrays as evenly as possible, the first arrays getting
    one more.

    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> make_runs([X, X], 2, "fixed", seed=0, n_partitions=5).shape
    (4, 5)
    """
    rng = check_random_state(seed)
    shares = [len(share) for share in np.array_split(np.arange(n_partitions), len(features))]
    return np.hstack(
        [
            make_partitions(X, n_clusters, share, ensemble=ENSEMBLES[ensemble], random_state=rng)
            for X, share in zip(features, shares, strict=True)
            if share
        ]
    )


def _load(dataset: str, recipe: str, ensemble: str) -> Callable[[int], Callable[[str], float]]:
    # of Reuters, the subset that is as large as the paper's
    X, y = load_dataset(dataset, subset="2900" if dataset == "reuters" else "all")
    features, n_clusters = recipe_features(X, recipe), len(np.unique(y))

    def draw(seed: int) -> Callable[[str], float]:
        P = make_runs(features, n_clusters, ensemble, seed)

        def accuracy(method: str) -> float:
            if method == BASE_RUNS:
                return float(np.mean([clustering_accuracy(y, labels) for labels in P.T]))
            fitted = consensus_method(method).make(n_clusters, seed).fit(P)
            return clustering_accuracy(y, fitted.labels_)

        return accuracy

    return draw
