"""``coterie predict``: the labels of new rows, by a model that was saved."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.inputs import read_features, read_labels, read_views
from coterie.cli.outputs import Outputs, input_name, refuse_json, result_columns
from coterie.cli.progress import progress_unless, shown_notes
from coterie.errors import InvalidParameterError


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="Model that --save-model of consensus or cluster wrote."
        ),
    ],
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE...",
            help="Table with the columns of the fit; a table per view for a model of views; - for "
            "standard input.",
        ),
    ],
    output: options.Table = None,
    id_columns: options.IdColumns = None,
    impute: options.Impute = None,
    decimal_comma: options.DecimalComma = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Label new rows with a saved model.

    The model finds its columns by their names; other columns are left out. A
    row gets the label of the cluster it belongs to, and the estimated
    probability that this label is right. The label -1 means that nothing is
    known about the row.

    Example: coterie predict shops.coterie new_shops.csv --id shop -o new.csv
    """
    import numpy as np

    from coterie.consensus.results import partition_names
    from coterie.models import load_model

    outputs = Outputs(output)
    refuse_json(as_json, output)
    ids = options.ids_in(id_columns)
    for path in (model, *tables):
        outputs.check(path, ids)
    with shown_notes() as notes, progress_unless(quiet):
        started = time.perf_counter()
        estimator = load_model(model)
        views = getattr(estimator, "view_names_", [""])
        if not hasattr(estimator, "predict_proba"):
            raise InvalidParameterError(
                f"{model} is a {type(estimator).__name__}, which labels no rows of a table; name a "
                "model of coterie consensus or coterie cluster"
            )
        if getattr(estimator, "metric", "euclidean") == "precomputed":
            raise InvalidParameterError(
                f"{model} was fitted to distances, which say nothing about new rows; fit it to "
                "features"
            )
        if len(tables) != len(views):
            raise InvalidParameterError(
                f"{model} was fitted to {layout.counted(len(views), 'table')}; give as many"
            )
        # the cells of a new row have the medians of the fit, whatever the other new rows are
        medians = getattr(estimator, "medians_", [])
        if impute == "median" and not medians:
            raise InvalidParameterError(
                f"{model} was saved without --impute median, so it has no medians to fill cells "
                "with; save it again with --impute median, or use --impute drop"
            )
        cells: dict[str, Any] = {"impute": impute, "decimal_comma": decimal_comma}
        X: Any
        kept = None
        if hasattr(estimator, "view_names_"):
            # only a model of the program has the names of its columns
            columns_of = getattr(estimator, "view_columns_", {}).values()
            read = read_views(tables, ids, columns_of, medians=medians, **cells)
            id_values = read.ids
            X = {view: one.X for view, one in zip(views, read.views.values(), strict=True)}
        elif hasattr(estimator, "consensus_"):
            names = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
            table = read_features(
                tables[0], ids, names or None, medians=next(iter(medians), None), **cells
            )
            id_values, X, kept = table.ids, table.X, table.kept
            vars(estimator).pop("feature_names_in_", None)  # X has these columns, without names
        else:
            id_values, _, X = read_labels(tables[0], ids, partition_names(estimator, None))
        labels = estimator.predict(X)
        of_label = estimator.predict_proba(X)[np.arange(len(labels)), labels]
        confidence = np.where(labels < 0, 0.0, of_label)
        seconds = time.perf_counter() - started
        columns = result_columns(estimator, labels, confidence, kept)
        outputs.write({**id_values, **columns}, estimator)
    is_labelled = columns["label"] >= 0
    facts = {
        "input": ", ".join(map(input_name, tables)),
        "model": str(model),
        "points": len(is_labelled),
        "unlabelled": int((~is_labelled).sum()),
        "sizes": np.bincount(columns["label"][is_labelled], minlength=1).tolist(),
        "mean_confidence": float(columns["confidence"].mean()),
        "seconds": round(seconds, 3),
        "written": outputs.written,
        "notes": notes,
    }
    layout.print_answer(facts, _print_summary, as_json, quiet, outputs.to_stdout)


def _print_summary(facts: dict[str, Any]) -> None:
    console = layout.stdout_console()
    layout.print_heading(console, facts["input"], f": {layout.counted(facts['points'], 'point')}")
    sizes = enumerate(facts["sizes"])
    rows = {
        "clusters": ", ".join(f"{size:,} in {cluster}" for cluster, size in sizes if size),
        "confidence": f"{facts['mean_confidence']:.2f} on average (estimated probability that a "
        "label is right)",
        "unlabelled": f"{facts['unlabelled']:,}" if facts["unlabelled"] else None,
        "model": facts["model"],
        "time": f"{facts['seconds']:.2f} s",
    }
    layout.print_indented(console, layout.facts_grid(rows))
    layout.print_written(console, facts["written"])
