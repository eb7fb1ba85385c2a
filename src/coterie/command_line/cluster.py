"""``coterie cluster``: features clustered by the consensus of many runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.command_line.terminal import options
from coterie.command_line.terminal.outputs import Outputs
from coterie.command_line.terminal.progress import is_watched, shown_notes, shown_stages
from coterie.command_line.terminal.results import Result
from coterie.consensus.registry import FLAGSHIP

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coterie.estimators.clusterer import ConsensusClusterer

__all__ = ["cluster", "read_features"]

_log = logging.getLogger(__name__)


def cluster(
    features: Annotated[
        Path, typer.Argument(metavar="FEATURES", help="A row a point, a column a feature.")
    ],
    n_clusters: Annotated[
        int, typer.Option("-k", min=1, metavar="K", help="The number of clusters.")
    ],
    output: options.Table = None,
    id_columns: options.IdColumns = None,
    columns: options.Columns = None,
    partitions: Annotated[int, typer.Option(min=1, help="The number of runs.")] = 40,
    ensemble: Annotated[
        Literal["kmeans", "diverse", "subspaces", "subsample", "scalings"],
        typer.Option(help="What varies from run to run, besides the random start."),
    ] = "kmeans",
    method: options.MethodKey = FLAGSHIP,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Runs at a time; -1 for all cores.")
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Picture = None,
    save_model: options.Model = None,
    quiet: options.Quiet = False,
) -> None:
    """Cluster features by the consensus of many k-means runs.

    FEATURES is a CSV, Parquet or NPY table: a row a point, a column a
    feature, all of them numbers, none missing. They are used as they are:
    bring them to one scale first, or try several with --ensemble scalings.

    Example: coterie cluster features.csv --id name -k 3 -o clusters.csv
    """
    outputs = Outputs(output, plot, save_model)
    ids, wanted = options.ids_in(id_columns), options.names_in(columns)
    outputs.check(features, ids)
    with shown_notes() as notes:
        started = time.perf_counter()
        with shown_stages(quiet):
            carried, feature_names, X = _read(features, ids, wanted)
        # The bar of the runs has the terminal to itself: the first spinner is gone by then, and
        # the next one comes with the consensus.
        with shown_stages(quiet):
            estimator = _unfitted(n_clusters, partitions, ensemble, method, jobs, seed)
            estimator.set_params(verbose=is_watched(quiet)).fit(X).set_params(verbose=False)
            _remember_names(estimator, feature_names)
        seconds = time.perf_counter() - started
        names = [f"run {v}" for v in range(partitions)]
        P = estimator.ensemble_.labels
        result = Result(features, estimator, P, names, carried, seconds, method)
        result.write(outputs)
    result.tell(outputs, notes, as_json, quiet)


def read_features(
    path: Path, ids: Sequence[str], columns: list[str] | None
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """The id columns of a table by their names, and its features.

    Parameters
    ----------
    path : Path
        The table.
    ids : sequence of str
    columns : list of str or None
        The features; None for all columns but the ids.
    """
    carried, _, X = _read(path, ids, columns)
    return carried, X


def _read(
    path: Path, ids: Sequence[str], columns: list[str] | None
) -> tuple[dict[str, Any], list[str], NDArray[np.float64]]:
    _log.info("reading %s", path)
    from coterie.files.tables import feature_matrix, read_table

    return feature_matrix(read_table(path), ids, columns)


def _remember_names(estimator: ConsensusClusterer, names: list[str]) -> None:
    """Let predict tell whether a table has the same columns in the same order."""
    import numpy as np

    estimator.feature_names_in_ = np.array(names, dtype=object)


def _unfitted(
    n_clusters: int, partitions: int, ensemble: str, method: str, jobs: int | None, seed: int
) -> ConsensusClusterer:
    from coterie.estimators.clusterer import ConsensusClusterer

    return ConsensusClusterer(
        n_clusters,
        n_partitions=partitions,
        ensemble=ensemble,
        consensus=None if method == FLAGSHIP else method,
        n_jobs=jobs,
        random_state=seed,
    )
