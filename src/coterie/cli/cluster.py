"""``coterie cluster``: features clustered by the consensus of many runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.cli import options
from coterie.cli.factors import factors_in, tests_of_factors
from coterie.cli.inputs import read_features, warn_of_units
from coterie.cli.outputs import Outputs, input_name, refuse_json
from coterie.cli.progress import is_watched, progress_unless, shown_notes
from coterie.cli.summary import Run, print_run
from coterie.consensus.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from coterie.arrays import Floats
    from coterie.estimators.clusterer import ConsensusClusterer


def cluster(
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES",
            help="Table with a row per point and a column per feature; - for standard input.",
        ),
    ],
    n_clusters: Annotated[
        int | None,
        typer.Option(
            "-k",
            min=1,
            metavar="K",
            help="Number of clusters. By default the number that the runs recommend.",
        ),
    ] = None,
    output: options.Table = None,
    id_columns: options.IdColumns = None,
    columns: options.Columns = None,
    factors: options.Factors = None,
    categories: options.Categories = None,
    distances: Annotated[
        bool,
        typer.Option(
            "--distances",
            metavar="",
            help="The columns are distances to all rows, in the order of the rows.",
        ),
    ] = False,
    partitions: Annotated[int, typer.Option(min=1, metavar="N", help="Number of runs.")] = 32,
    ensemble: Annotated[
        Literal[
            "mixed",
            "spectral",
            "mixture",
            "diagonal mixture",
            "ward",
            "diverse",
            "kmeans",
            "subspaces",
            "subsample",
            "scalings",
        ],
        typer.Option(help="Kind of the runs; mixed is spectral runs and Gaussian mixtures."),
    ] = "mixed",
    standardize: options.Standardize = False,
    impute: options.Impute = None,
    decimal_comma: options.DecimalComma = False,
    method: options.MethodKey = DEFAULT_METHOD,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Number of parallel runs; -1 uses all cores.")
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Picture = None,
    report: options.Report = None,
    save_model: options.Model = None,
    quiet: options.Quiet = False,
) -> None:
    """Cluster features by the consensus of many different runs.

    FEATURES is a CSV, Parquet or NPY table with a row per point and a column
    per feature. All values must be finite numbers. Features are not scaled
    unless you add --standardize, which columns of different units need.

    The default runs are spectral clusterings and Gaussian mixtures with
    different numbers of clusters. Without -k, the number of clusters on which
    halves of the runs agree is chosen. The confidence is the estimated
    probability that a label is right. --factors tests whether other columns
    differ between the clusters. With --distances, FEATURES has the distances
    of all pairs of rows instead.

    Example: coterie cluster features.csv --id name -k 3 -o clusters.csv
    """
    outputs = Outputs(output, plot, save_model, report)
    refuse_json(as_json, outputs.table)
    ids, column_names = options.ids_in(id_columns), options.names_in(columns)
    tested, coded = factors_in(factors, categories)
    outputs.check(features, ids)
    with shown_notes() as notes:
        started = time.perf_counter()
        with progress_unless(quiet):
            read = read_features(
                features, ids, column_names, tested, impute=impute, decimal_comma=decimal_comma
            )
        # Two blocks, because the progress bar of the runs needs the terminal without a spinner.
        with progress_unless(quiet):
            estimator = _fit(
                read.X,
                read.names,
                n_clusters=n_clusters,
                n_partitions=partitions,
                ensemble=ensemble,
                consensus=None if method == DEFAULT_METHOD else method,
                standardize=standardize,
                metric="precomputed" if distances else "euclidean",
                n_jobs=jobs,
                random_state=seed,
                verbose=is_watched(quiet),
            )
        seconds = time.perf_counter() - started
        runs = estimator.ensemble_
        outputs.write_consensus(
            estimator,
            runs.labels,
            runs.names,
            read.ids,
            features=None if distances else read.X,
            feature_names=None if distances else read.names,
            kept=read.kept,
        )
        tests = tests_of_factors(estimator.labels_, read.kept_rows(read.factors), seed, coded)
    from coterie.consensus.facts import consensus_facts

    facts = consensus_facts(estimator, runs.names, method=method, find_dissent=False)
    run = Run(input_name(features), facts, seconds, outputs.written, notes, tests)
    print_run(run, as_json, quiet, outputs.to_stdout)


def _fit(X: Floats, names: Sequence[str], **settings: Any) -> ConsensusClusterer:
    """Fit a clusterer with these settings to features with these names."""
    import numpy as np

    from coterie.estimators.clusterer import ConsensusClusterer

    if not settings["standardize"] and settings["metric"] == "euclidean":
        warn_of_units(X, names)
    estimator = ConsensusClusterer(**settings).fit(X).set_params(verbose=False)
    # With names, predict can check that a table has the same columns in the same order.
    estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator
