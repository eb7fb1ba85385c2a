"""``coterie cluster``: features clustered by the consensus of many runs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from coterie.cli import options
from coterie.cli.inputs import (
    factors_in,
    read_features,
    read_views,
    run_factor_tests,
    warn_of_units,
)
from coterie.cli.outputs import Outputs, index_of, input_name, refuse_json
from coterie.cli.progress import is_watched, progress_unless, shown_notes
from coterie.cli.summary import Run, print_run
from coterie.consensus.registry import DEFAULT_METHOD


def cluster(
    features: Annotated[
        list[Path],
        typer.Argument(
            metavar="FEATURES...",
            help="Table with a row per point and a column per feature; - for standard input. With "
            "--views several tables.",
        ),
    ],
    n_clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters",
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
        options.flag(
            "The columns are distances to all rows, in the order of the rows.", "--distances"
        ),
    ] = False,
    views: Annotated[
        bool, options.flag("Each table is a view: other features of the same rows.", "--views")
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of runs.",
            show_default="16 of each kind, or 12 for each view",
        ),
    ] = None,
    ensemble: Annotated[
        Literal[
            "auto",
            "mixed",
            "spectral",
            "mixture",
            "diagonal mixture",
            "linkage",
            "ward",
            "diverse",
            "kmeans",
            "subspaces",
            "subsample",
            "scalings",
        ]
        | None,
        typer.Option(
            metavar="KIND",
            help="Kind of the runs: auto (the most trusted of five kinds), mixed (spectral runs "
            "and Gaussian mixtures together), spectral, mixture, diagonal mixture, linkage, ward, "
            "diverse, kmeans, subspaces, subsample or scalings.",
            show_default="auto, or mixed for views",
        ),
    ] = None,
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
    per feature. All values must be finite numbers. Columns of different units
    are also clustered standardised, unless you name an --ensemble; add
    --standardize to cluster only standardised columns.

    Five kinds of runs are compared. The kind that finds the same clusters
    again, and that other kinds confirm, decides; without -k it also decides
    how many clusters there are. The confidence is the estimated probability
    that a label is right. --factors tests whether other columns differ
    between the clusters. With --distances, FEATURES has the distances
    of all pairs of rows instead.

    With --views, several tables describe the same rows. Each is clustered
    separately, and the consensus of all runs shows which tables agree. Rows are
    matched by their ids, or by their order if there are none.

    Example: coterie cluster features.csv --id name -k 3 -o clusters.csv
    Several views: coterie cluster size.csv colour.csv --views --id name -k 3
    """
    with_views = {"--columns": columns, "--factors": factors, "--distances": distances}
    if len(features) > 1 and not views:
        raise typer.BadParameter(
            "several tables are views of the same rows; add --views", param_hint="'FEATURES'"
        )
    for option, given in with_views.items() if views else ():
        if given:
            raise typer.BadParameter("it works with one table, without --views", param_hint=option)
    outputs = Outputs(output, plot, save_model, report)
    refuse_json(as_json, outputs.table)
    ids, column_names = options.ids_in(id_columns), options.names_in(columns)
    tested, coded = factors_in(factors, categories)
    for path in features:
        outputs.check(path, ids)
    cells: dict[str, Any] = {"impute": impute, "decimal_comma": decimal_comma}
    settings: dict[str, Any] = {
        "n_clusters": n_clusters,
        "consensus": None if method == DEFAULT_METHOD else method,
        "standardize": standardize,
        "n_jobs": jobs,
        "random_state": seed,
        "verbose": is_watched(quiet),
    }
    settings |= {"n_partitions": partitions} if partitions else {}
    settings |= {"ensemble": ensemble} if ensemble else {}
    with shown_notes() as notes:
        started = time.perf_counter()
        # Two blocks, because the progress bar of the runs needs the terminal without a spinner.
        with progress_unless(quiet):
            read = (
                read_views(features, ids, **cells)
                if views
                else read_features(features[0], ids, column_names, tested, **cells)
            )
        with progress_unless(quiet):
            import numpy as np

            from coterie.ensembles.scalings import notes_on_units
            from coterie.estimators.clusterer import ConsensusClusterer
            from coterie.estimators.view_clusterer import MultiViewClusterer

            if not standardize:
                for view, one in read.views.items():
                    warn_of_units(one.X, [f"{view}: {name}" for name in one.names])
            # With names, predict can find the columns of the fit.
            estimator: Any
            if views:
                estimator = MultiViewClusterer(**settings)
                estimator.fit({view: one.X for view, one in read.views.items()})
                estimator.view_columns_ = {view: one.names for view, one in read.views.items()}
            else:
                metric = "precomputed" if distances else "euclidean"
                estimator = ConsensusClusterer(metric=metric, **settings).fit(read.X)
                estimator.feature_names_in_ = np.array(read.names, dtype=object)
                if estimator.notes_:  # with names of columns
                    warn_of_units(read.X, read.names)
                    estimator.notes_ = tuple(notes_on_units(read.X, read.names))
            if impute == "median":  # filled cells do not change a median
                tables = read.views.values() or [read]
                estimator.medians_ = [np.median(one.X, axis=0) for one in tables]
            estimator.set_params(verbose=False)
        seconds = time.perf_counter() - started
        described = None if distances else (read.X, read.names)
        outputs.write_consensus(estimator, read.ids, features=described, kept=read.kept)
        tests = run_factor_tests(estimator.labels_, read.factors, seed, coded)
    from coterie.consensus.results import consensus_facts

    index = index_of(read.ids, read.kept)
    facts = consensus_facts(estimator, index=index, method=method, find_dissent=False)
    agreement = getattr(estimator, "view_agreement_", None)
    run = Run(
        ", ".join(map(input_name, features)),
        replace(facts, remarks=[]),  # warn_of_units has said it in the program's words
        seconds,
        outputs.written,
        notes,
        tests,
        agreement and {v: (a, estimator.view_weight_[v]) for v, a in agreement.items()},
    )
    print_run(run, as_json, quiet, outputs.to_stdout)
