"""The paper's table 3: images described by several views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.accuracy import Cell
from benchmarks.harness import ENSEMBLES, Context
from benchmarks.paper_tables import PaperTable, run_table
from benchmarks.results import Result
from coterie.consensus.registry import DEFAULT_METHOD, consensus_method, multiview_method
from coterie.datasets import dataset_info, load_views
from coterie.inspection.scores import clustering_accuracy

TABLE3 = PaperTable(
    "table3",
    {
        "LBP": "lbp",
        "HOG": "hog",
        "GIST": "gist",
        "FC": "fc",
        "MVKmean": "mvkmeans",
        "AP": "ap",
        "LCC": "lcc",
        "RCC": "rcc",
    },
    {"msrc_v1": "MSRC-v1", "caltech101_7": "Caltech101-7", "caltech101_20": "Caltech101-20"},
    {
        "LBP": (0.4731, 0.5236, 0.3378),
        "HOG": (0.6367, 0.5561, 0.3679),
        "GIST": (0.6283, 0.5473, 0.3925),
        "Classemes": (0.5431, 0.4983, 0.3660),
        "FC": (0.7423, 0.6123, 0.5489),
        "MVKmean": (0.7871, 0.6640, 0.5619),
        "AP": (0.5369, 0.5359, 0.3421),
        "LCC": (0.7542, 0.6643, 0.6287),
        "RCC": (0.8017, 0.6819, 0.6374),
    },
    digits=4,
)
_VIEWS_FLAGSHIP = "rcc-views"
#: The runs of the paper's method in each view.
_PAPER_RUNS = {"ensemble": "kmeans", "n_partitions": 10}

MEASURES = ENSEMBLES


def run(
    context: Context, *, draws: int | None = None, patience: float = 60.0, jobs: int | None = None
) -> Result:
    """Run the methods of table 3 and every single view. Settings as in table 2.

    A quick run leaves out the large datasets.
    """
    return run_table(TABLE3, make_cells, context, draws, patience, jobs)


def make_cells(datasets: Sequence[str]) -> dict[tuple[str, str], list[Cell]]:
    """Return every method and view of every dataset: the paper's, the flagship, other views."""
    columns = TABLE3.columns.values()
    return {
        ("", dataset): [
            Cell(f"table3-{dataset}-{method}", (method,), partial(_load, dataset))
            for method in dict.fromkeys(
                [*columns, DEFAULT_METHOD, *dataset_info(dataset).view_sizes]
            )
        ]
        for dataset in datasets
    }


def _load(dataset: str) -> Callable[[int], Callable[[str], float]]:
    views, y, info = load_views(dataset, return_info=True)
    named = dict(zip(info.view_sizes, views, strict=True))
    n_clusters = len(np.unique(y))

    def accuracy(seed: int, method: str) -> float:
        """Cluster one view spectrally, or all views by the method with that key."""

        def make(key: str, **settings: Any) -> Any:
            chosen = multiview_method(key)
            return chosen.make(n_clusters, seed, standardize=True, **settings)

        if method in named:
            model = make("fc").fit([named[method]])
        elif method in (DEFAULT_METHOD, "rcc"):
            settings = _PAPER_RUNS | {"consensus": consensus_method("rcc").make(None)}
            settings = settings if method == "rcc" else {}
            model = make(_VIEWS_FLAGSHIP, **settings).fit(views)
        else:
            model = make(method).fit(views)
        return clustering_accuracy(y, model.labels_)

    return lambda seed: partial(accuracy, seed)
