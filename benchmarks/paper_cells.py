"""The cells of the paper's tables 2 and 3: a set under a condition, and the methods run on it.

A draw of a cell of table 2 is an ensemble of k-means runs, which all methods share; of table 3 it
is a seed. The paper says neither how it scaled features nor, beyond "40 k-means runs", what it
combined. So a *recipe* says what the runs look at, an *ensemble* how many clusters they make, and
neither looks at the classes:

================  ==========================================================================
``raw``           features as published
``standardised``  every feature to mean 0 and variance 1; of text, tf–idf rows of unit length
``mixed``         a third of the runs raw, a third standardised, a third min–max; of text, half
                  of them tf–idf rows of unit length, half their 50-dimensional truncated SVD
``fixed``         as many clusters as there are classes in every run
``diverse``       K_v uniform on {K, …, min(⌊√n⌋, 50)}
================  ==========================================================================

*Mixed* is the one recipe for all sets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from benchmarks.paper_figures import TABLE2, TABLE3
from coterie.consensus.registry import (
    CONSENSUS_METHODS,
    FLAGSHIP,
    MULTIVIEW_METHODS,
    consensus_method,
    multiview_method,
)
from coterie.datasets.loading import dataset_info, load_dataset, load_views
from coterie.ensembles.making import make_partitions
from coterie.ensembles.scalings import standard_and_min_max
from coterie.inspection.scores import clustering_accuracy

__all__ = [
    "BASE_RUNS",
    "ENSEMBLES",
    "N_PARTITIONS",
    "RECIPES",
    "TABLE2_METHODS",
    "TABLE3_METHODS",
    "Cell",
    "Table2Cell",
    "Table3Cell",
    "load_features",
    "looks_of",
    "method_title",
    "partitions_of",
    "table2_cells",
    "table3_cells",
]

RECIPES = ("raw", "standardised", "mixed")
#: By name, the strategy of :func:`coterie.make_partitions`.
ENSEMBLES = {"fixed": "kmeans", "diverse": "diverse"}
#: V, the paper's.
N_PARTITIONS = 40
#: The mean over the runs of the ensemble, each for itself.
BASE_RUNS = "k-means"

#: The method that stands for each column of the paper's table 2.
TABLE2_METHODS: Mapping[str, str] = {
    BASE_RUNS: BASE_RUNS,
    **{method.paper_name: key for key, method in CONSENSUS_METHODS.items() if method.paper_name},
}
#: The same for table 3; features called Classemes are not to be had.
TABLE3_METHODS: Mapping[str, str] = {
    **{"LBP": "lbp", "HOG": "hog", "GIST": "gist"},
    **{method.paper_name: key for key, method in MULTIVIEW_METHODS.items() if method.paper_name},
    # the paper's is the relaxation alone; the flagship stands beside it
    "RCC": "rcc",
}
_VIEWS_FLAGSHIP = "rcc-views"
_SUBSETS = {"reuters": "2900"}
_SVD_DIMENSIONS = 50

#: Accuracy of the method with that key.
Score = Callable[[str], float]


class Cell(Protocol):
    """A dataset under a condition, and the methods that are run on it."""

    @property
    def dataset(self) -> str:
        """Its name."""

    @property
    def condition(self) -> str:
        """Recipe and ensemble; empty in table 3."""

    @property
    def name(self) -> str:
        """Unique among all cells; part of a file's name."""

    @property
    def methods(self) -> tuple[str, ...]:
        """Their keys."""

    def opened(self) -> Callable[[int], Score]:
        """``opened()(seed)(method)`` is an accuracy: read the set, make a draw, score a method."""


@dataclass(frozen=True)
class Table2Cell:
    """One set, one recipe, one kind of ensemble."""

    dataset: str
    recipe: str
    ensemble: str
    methods: tuple[str, ...]

    @property
    def condition(self) -> str:
        """Recipe and ensemble."""
        return f"{self.recipe}, {self.ensemble}"

    @property
    def name(self) -> str:
        """Unique among all cells."""
        return f"table2-{self.dataset}-{self.recipe}-{self.ensemble}"

    def opened(self) -> Callable[[int], Score]:
        """Read the set; a draw makes the partitions that the methods share."""
        X, y = load_features(self.dataset)
        looks, n_clusters = looks_of(X, self.recipe), len(np.unique(y))

        def draw(seed: int) -> Score:
            P = partitions_of(looks, n_clusters, self.ensemble, seed)

            def accuracy(method: str) -> float:
                if method == BASE_RUNS:
                    return float(np.mean([clustering_accuracy(y, run) for run in P.T]))
                fitted = consensus_method(method).make(n_clusters, seed).fit(P)
                return clustering_accuracy(y, fitted.labels_)

            return accuracy

        return draw


@dataclass(frozen=True)
class Table3Cell:
    """One set of several views and one method: a key of the list, "rcc", or a view's name."""

    dataset: str
    method: str
    condition: str = ""

    @property
    def name(self) -> str:
        """Unique among all cells."""
        return f"table3-{self.dataset}-{self.method}"

    @property
    def methods(self) -> tuple[str, ...]:
        """The one method."""
        return (self.method,)

    def opened(self) -> Callable[[int], Score]:
        """Read the views; a draw is a seed."""
        views, y, info = load_views(self.dataset, return_info=True)
        named = dict(zip(info.view_sizes, views, strict=True))
        n_clusters = len(np.unique(y))

        def accuracy(method: str, seed: int) -> float:
            seen = [named[method]] if method in named else views
            key = "fc" if method in named else method
            fitted = _multiview_estimator(key, n_clusters, seed).fit(seen)
            return clustering_accuracy(y, fitted.labels_)

        return lambda seed: lambda method: accuracy(method, seed)


def table2_cells(
    datasets: Sequence[str],
    conditions: Sequence[tuple[str, str]] = tuple(itertools.product(RECIPES, ENSEMBLES)),
    all_methods: bool = False,
) -> list[Table2Cell]:
    """Every condition (recipe, ensemble) of every set, with the methods in the paper's order."""
    methods = dict.fromkeys([*(TABLE2_METHODS[column] for column in TABLE2.columns), FLAGSHIP])
    if all_methods:
        methods |= dict.fromkeys(CONSENSUS_METHODS)
    return [
        Table2Cell(dataset, *condition, tuple(methods))
        for dataset, condition in itertools.product(datasets, conditions)
    ]


def table3_cells(datasets: Sequence[str]) -> list[Table3Cell]:
    """Every method and every view of every set, in the paper's order, then the other views."""
    columns = [TABLE3_METHODS[column] for column in TABLE3.columns if column in TABLE3_METHODS]
    return [
        Table3Cell(dataset, method)
        for dataset in datasets
        for method in dict.fromkeys([*columns, FLAGSHIP, *dataset_info(dataset).view_sizes])
    ]


def method_title(method: str) -> str:
    """How a table calls a method of the lists, a view, or the mean of the runs.

    >>> method_title("kl"), method_title("lbp"), method_title("robust")
    ('ES-style', 'LBP', 'RobustConsensus')
    """
    known = {**MULTIVIEW_METHODS, **CONSENSUS_METHODS}
    if method in known:
        return known[method].title
    return method if method == BASE_RUNS else method.upper().replace("_", " ")


def load_features(dataset: str) -> tuple[Any, NDArray[np.int64]]:
    """Features and classes; of Reuters, the subset as large as the paper's."""
    return load_dataset(dataset, subset=_SUBSETS.get(dataset, "all"))


def looks_of(X: Any, recipe: str) -> list[Any]:
    """What the runs of a recipe look at: one array for each share of the runs.

    Parameters
    ----------
    X : (n, p) array, or sparse matrix of a text set
    recipe : {"raw", "standardised", "mixed"}

    Examples
    --------
    >>> raw, standardised, ranged = looks_of(np.array([[1.0], [3.0]]), "mixed")
    >>> raw.ravel().tolist(), standardised.ravel().tolist(), ranged.ravel().tolist()
    ([1.0, 3.0], [-1.0, 1.0], [0.0, 1.0])
    """
    if recipe == "raw":
        return [X]
    if sp.issparse(X):
        rows = _tfidf_rows(X)
        return [rows] if recipe == "standardised" else [rows, _reduced(rows)]
    standardised, ranged = (view.transform(X) for view in standard_and_min_max(X))
    return [standardised] if recipe == "standardised" else [X, standardised, ranged]


def partitions_of(
    looks: Sequence[Any],
    n_clusters: int,
    ensemble: str,
    seed: int,
    n_partitions: int = N_PARTITIONS,
) -> NDArray[np.int32]:
    """Label matrix (n, V) of k-means runs: Lloyd, random centres, one start.

    The runs are dealt to the looks as evenly as can be, the first ones getting one more.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> partitions_of([X, X], 2, "fixed", seed=0, n_partitions=5).shape
    (4, 5)
    """
    rng = check_random_state(seed)
    shares = [len(share) for share in np.array_split(np.arange(n_partitions), len(looks))]
    return np.hstack(
        [
            make_partitions(look, n_clusters, share, strategy=ENSEMBLES[ensemble], random_state=rng)
            for look, share in zip(looks, shares, strict=True)
            if share
        ]
    )


def _multiview_estimator(method: str, n_clusters: int, seed: int) -> Any:
    """The estimator of several views; "robust" and "rcc" differ in the consensus of the runs."""
    if method == FLAGSHIP:
        return multiview_method(_VIEWS_FLAGSHIP).make(n_clusters, seed)
    if method == TABLE3_METHODS["RCC"]:
        relaxation = consensus_method("rcc").make(None)
        return multiview_method(_VIEWS_FLAGSHIP).make(n_clusters, seed, consensus=relaxation)
    return multiview_method(method).make(n_clusters, seed)


def _tfidf_rows(X: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfTransformer

    return TfidfTransformer(norm="l2").fit_transform(X)


def _reduced(rows: Any) -> NDArray[np.float64]:
    from sklearn.decomposition import TruncatedSVD

    dimensions = min(_SVD_DIMENSIONS, min(rows.shape) - 1)
    return TruncatedSVD(dimensions, random_state=0).fit_transform(rows)
