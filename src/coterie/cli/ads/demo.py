"""``coterie ads demo``: two simulated weeks of auctions, their segments, forecasts and report."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.ads.evaluate import verdicts
from coterie.cli.ads.inputs.reading import LogInput
from coterie.cli.ads.report import make_report
from coterie.cli.ads.segment import segment_columns
from coterie.cli.ads.simulate import market_facts, simulate_market
from coterie.cli.demo import fresh_folder
from coterie.cli.layout import counted
from coterie.cli.outputs import write_all
from coterie.cli.progress import progress_unless, shown_notes
from coterie.runtime.wording import format_count, money, percent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coterie.ads.fitting.forecaster import AdForecaster
    from coterie.ads.forecasts.forecast_figures import Forecast

MARKET, MODEL, SEGMENTS, REPORT = "market", "market.coterie", "segments.csv", "report.html"

#: The sources of curves in the summary, and their names there.
SOURCES = {
    "own": "own curve",
    "global": "one curve for all",
    "robust+pooled": "own curve pooled with segments",
    "dictionary": "market curves, the default",
}

_DEFAULT = "dictionary"
# Every weekday is seen before the last day, which is held out.
_DAYS = 14
# Advertisers with few bids gain most from segments.
_THIN = "10–199 bids"
_EXAMPLE_BIDS = 100
_EXAMPLE_SUPPLY = 100_000


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for all files.")
    ] = Path("demo-output"),
    advertisers: Annotated[
        int, typer.Option(min=20, metavar="N", help="Number of advertisers.")
    ] = 1268,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Simulate two weeks of auctions, find segments, forecast, and write a report.

    FOLDER receives market/ (bid logs, texts, and the truth), market.coterie
    (the model), segments.csv and report.html. Files of an earlier demo are
    replaced; other files are kept.

    Example: coterie ads demo --output demo-output
    """
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings
    from coterie.ads.segments.settings import SegmentSettings
    from coterie.tables.writing import write_table

    started = time.perf_counter()
    market = MarketSettings(advertisers=advertisers, days=_DAYS, seed=seed)
    report, model_file, table = (output / name for name in (REPORT, MODEL, SEGMENTS))
    names = MARKET, MODEL, SEGMENTS, REPORT
    with (
        shown_notes(quiet) as notes,
        fresh_folder(output, "coterie ads demo", names),
    ):
        simulated = simulate_market(market, output / MARKET, quiet)
        with progress_unless(quiet):
            log = LogInput(str(output / MARKET)).read()
            made = make_report(log, SegmentSettings(random_state=seed), holdout_days=1)
            steps = made.steps(report, model_file)
            steps[table] = lambda path: write_table(path, segment_columns(made.model))
            write_all(steps)
    truth = read_truth(simulated.truth, made.model.advertisers_)
    example = example_forecast(made.model)
    command = ("coterie", "ads", "forecast", str(model_file), "--advertiser", example.advertiser)
    bid, supply = f"{example.bid:.2f}", f"{example.supply:.0f}"
    evaluated = None if made.evaluation is None else made.evaluation.as_dict()
    facts = {
        "market": market_facts(simulated, market),
        "faults": {"errors": len(log.check.errors), "warnings": len(log.check.warnings)},
        "segments": recovery_facts(made.model, truth),
        "holdout": evaluated["holdout"] if evaluated else [],
        "wape": error_facts(evaluated) if evaluated else {},
        "verdicts": verdicts(evaluated) if evaluated else [],
        "currency": made.model.currency_,
        "forecast": {
            "command": shlex.join([*command, "--bid", bid, "--supply", supply]),
            **example.as_dict(),
        },
        "serve": shlex.join(["coterie", "ads", "serve", str(model_file)]),
        "written": [str(path) for path in (output / MARKET, model_file, table, report)],
        "seconds": round(time.perf_counter() - started, 1),
        "notes": notes,
    }
    layout.print_answer(facts, print_demo, as_json, quiet)


def read_truth(path: Path, advertisers: NDArray[np.str_]) -> dict[str, NDArray[Any]]:
    """Return the simulated truth by column: segment, theme and outlier of the given advertisers."""
    import numpy as np
    import pyarrow.parquet as pq

    columns = pq.read_table(path, columns=["advertiser_id", "segment", "theme", "outlier"])
    table = {name: np.array(values) for name, values in columns.to_pydict().items()}
    ids = table.pop("advertiser_id")
    order = np.argsort(ids)
    rows = order[np.searchsorted(ids, advertisers, sorter=order)]
    return {name: values[rows] for name, values in table.items()}


def recovery_facts(model: AdForecaster, truth: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Compare the segments found with those planted, ready for JSON."""
    import numpy as np

    from coterie.inspection.scores import adjusted_rand_index

    names = [profile.name for profile in model.segments_]
    segments = []
    for planted in np.unique(truth["segment"]):
        of_it = truth["segment"] == planted
        labels = model.labels_[of_it]
        sizes = np.bincount(labels[labels >= 0], minlength=max(len(names), 1))
        most = int(sizes.argmax())  # the found segment with most of its advertisers
        segments.append(
            {
                "planted": str(truth["theme"][of_it][0]),
                "advertisers": len(labels),
                "found_as": names[most] if names else "",
                "share": float(sizes[most] / len(labels)),
            }
        )
    is_outlier = np.isin(np.arange(len(model.labels_)), model.outliers_)
    return {
        "planted": len(segments),
        "found": len(names),
        "adjusted_rand": float(adjusted_rand_index(truth["segment"], model.labels_)),
        "segments": segments,
        "outliers_planted": int(truth["outlier"].sum()),
        "outliers_found": int(is_outlier.sum()),
        "outliers_right": int((is_outlier & truth["outlier"]).sum()),
    }


def error_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the WAPE of impressions, of spend, and of impressions of thin advertisers."""
    [thin] = [stratum for stratum in facts["strata"] if stratum["name"] == _THIN]
    return {
        name: {
            "impressions": facts["sources"][name]["impressions"]["wape"],
            "spend": facts["sources"][name]["spend"]["wape"],
            "impressions_of_thin": thin["sources"][name]["impressions"]["wape"],
        }
        for name in SOURCES
        if name in facts["sources"]
    }


def example_forecast(model: AdForecaster) -> Forecast:
    """Forecast an advertiser with few bids and a clear segment, at about its mean bid."""
    import numpy as np

    is_doubtful = np.isin(np.arange(len(model.labels_)), [*model.outliers_, *model.doubtful_])
    distance = np.abs(model.observations_ - _EXAMPLE_BIDS) + np.where(is_doubtful, np.inf, 0.0)
    row = int(np.argmin(distance))
    bid = max(round(float(model.bid_[row]) / 1e6, 2), 0.01)
    example: Forecast = model.forecast(str(model.advertisers_[row]), bid, supply=_EXAMPLE_SUPPLY)
    return example


def print_demo(facts: dict[str, Any]) -> None:
    """Print the facts of a demo for people."""
    console = layout.stdout_console()
    market, segments, faults = facts["market"], facts["segments"], facts["faults"]
    console.print(
        f"Simulated {counted(market['days'], 'day')} of auctions: {market['rows']:,} bids of "
        f"{market['advertisers']:,} advertisers in {market['segments']} segments. The check of "
        f"the log found {counted(faults['errors'], 'error')} and "
        f"{counted(faults['warnings'], 'warning')}."
    )
    console.print()
    console.print(
        f"Found {counted(segments['found'], 'segment')}; {segments['planted']} were planted "
        f"(adjusted Rand index {segments['adjusted_rand']:.2f}). Found "
        f"{counted(segments['outliers_found'], 'outlier')}, {segments['outliers_right']:,} of them "
        f"true; {segments['outliers_planted']:,} were planted."
    )
    table = layout.figures_table(["planted", "found in"], ["advertisers", "share"])
    for row in segments["segments"]:
        figures = f"{row['advertisers']:,}", f"{row['share']:.0%}"
        table.add_row(row["planted"], row["found_as"], *figures)
    layout.print_indented(console, table)
    if facts["wape"]:
        console.print(
            f"On {', '.join(facts['holdout'])} all bids changed. Errors (WAPE) of the forecasts of "
            f"that day from the days before, by source of the curve. The column thin is the error "
            f"of impressions for advertisers with {_THIN} before:"
        )
        table = layout.figures_table(["curve"], ["impressions", "spend", "thin"])
        for name, errors in facts["wape"].items():
            style = "bold" if name == _DEFAULT else ""
            table.add_row(SOURCES[name], *map(percent, errors.values()), style=style)
        layout.print_indented(console, table)
        for sentence in facts["verdicts"]:
            console.print(sentence)
        console.print()
    one, currency = facts["forecast"], facts["currency"]
    console.print("An example forecast:")
    console.print(f"  {layout.one_line(one['command'])}", style="bold", soft_wrap=True)
    console.print(
        f"{format_count(one['supply'])} auctions, {percent(one['win_rate'])} of them won: "
        f"{format_count(one['impressions'])} impressions "
        f"({' to '.join(map(format_count, one['impressions_interval']))}) for "
        f"{money(one['spend'])} {currency} ({' to '.join(map(money, one['spend_interval']))})."
    )
    console.print()
    *_, report = facts["written"]
    console.print(
        f"Written in {facts['seconds']:.0f} s. The report shows forecasts for any advertiser and "
        "any bid. Open it in a browser:"
    )
    console.print(f"  {layout.one_line(report)}", style="bold", soft_wrap=True)
    console.print("To serve the forecasts as a web page and as JSON:")
    console.print(f"  {layout.one_line(facts['serve'])}", style="bold", soft_wrap=True)
