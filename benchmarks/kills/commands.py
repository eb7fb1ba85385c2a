"""Commands of the program that write files, and their inputs, in a small simulated market."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.kills.processes import run_whole
from coterie.tables.writing import write_table

_MARKET = ("--advertisers", "60", "--segments", "3", "--days", "3", "--bids-per-day", "40")
_PERIODS = ("--before", "2026-03-02:2026-03-03", "--after", "2026-03-04:2026-03-04")
_EASY = ("-k", "3", "--quiet")


@dataclass(frozen=True)
class Writing:
    """A command and the outputs that it writes into its own folder.

    ``words`` name outputs as ``{out}/NAME`` and inputs as ``{inputs}/NAME``. ``fresh`` outputs are
    folders that must be new or empty, so that the command does not replace an earlier output.
    ``replaces`` is an input that is copied to the folder first, because the command replaces it.
    ``slow`` commands are killed less often.
    """

    name: str
    words: Sequence[str]
    outputs: Sequence[str]
    fresh: bool = False
    replaces: str = ""
    slow: bool = False

    def command(self, inputs: Path, out: Path) -> list[str]:
        """Return the words of the command line."""
        return [word.format(inputs=inputs, out=out) for word in self.words]


def make_inputs(folder: Path, chosen: Sequence[Writing]) -> None:
    """Write what the commands read: labels and features, and for some two logs and a model."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 100)
    labels = {
        f"run{v}": np.where(rng.random(300) < 0.1, rng.integers(0, 3, 300), truth).tolist()
        for v in range(5)
    }
    names = [f"row-{number}" for number in range(300)]
    for ending in ("csv", "parquet"):
        write_table(folder / f"labels.{ending}", {"name": names, **labels})
    points = truth[:, None] * 4.0 + rng.normal(size=(300, 3))
    features = {f"x{j}": points[:, j] for j in range(3)}
    write_table(folder / "features.csv", {"name": names, **features})
    read = "".join(word for one in chosen for word in one.words)
    if "{inputs}/clusters" in read:
        model = ("--save-model", str(folder / "clusters.coterie"))
        run_whole(["cluster", str(folder / "features.csv"), *_EASY, *model], folder / "notes")
    if "{inputs}/m" in read:
        _make_market(folder)


def _make_market(folder: Path) -> None:
    for number in (0, 1):
        start = f"2026-03-0{2 + 3 * number}"
        words = ("ads", "simulate", str(folder / f"market{number}"), *_MARKET)
        run_whole([*words, "--start", start, "--dimensions", "2", "--quiet"], folder / "notes")
    dimensions = ("--dimension", "device", "--dimension", "country")
    segment = ("ads", "segment", str(folder / "market0"), "-o", str(folder / "model.coterie"))
    run_whole([*segment, *dimensions, "--quiet"], folder / "notes")


def commands() -> list[Writing]:
    """Return every command that writes files, with several formats of output."""
    return [*_clusterings(), *_logs(), *_from_a_model()]


def _clusterings() -> list[Writing]:
    labels, features = "{inputs}/labels.csv", "{inputs}/features.csv"
    files = ("-o", "{out}/c.csv", "--save-model", "{out}/m.coterie", "--report", "{out}/r.html")
    written = ("c.csv", "m.coterie", "r.html")
    return [
        Writing(
            "consensus to CSV, model, report and plot",
            ("consensus", labels, *_EASY, *files, "--plot", "{out}/p.png"),
            (*written, "p.png"),
        ),
        Writing(
            "consensus to gzipped TSV",
            ("consensus", labels, *_EASY, "-o", "{out}/c.tsv.gz"),
            ("c.tsv.gz",),
        ),
        Writing("consensus to NPY", ("consensus", labels, *_EASY, "-o", "{out}/c.npy"), ("c.npy",)),
        Writing(
            "consensus in DuckDB to Parquet",
            (
                *("consensus", "{inputs}/labels.parquet", *_EASY, "--id", "name"),
                *("--engine", "duckdb://", "-o", "{out}/c.parquet"),
            ),
            ("c.parquet",),
        ),
        Writing(
            "consensus in DuckDB to a folder",
            (
                *("consensus", "{inputs}/labels.parquet", *_EASY, "--id", "name"),
                *("--engine", "duckdb://", "-o", "{out}/c/"),
            ),
            ("c",),
            fresh=True,
        ),
        Writing("cluster", ("cluster", features, *_EASY, *files), written),
        Writing(
            "choose-k",
            ("choose-k", labels, "--from", "2", "--to", "4", "--plot", "{out}/p.svg", "--quiet"),
            ("p.svg",),
        ),
        Writing(
            "predict",
            ("predict", "{inputs}/clusters.coterie", features, "-o", "{out}/c.csv", "--quiet"),
            ("c.csv",),
        ),
        Writing(
            "demo",
            ("demo", "--output", "{out}", "--shops", "60", "--quiet"),
            ("shops.csv", "clusters.csv", "shops.coterie", "report.html"),
        ),
    ]


def _logs() -> list[Writing]:
    market, quiet = "{inputs}/market0", "--quiet"
    return [
        Writing(
            "ads simulate",
            ("ads", "simulate", "{out}/market", *_MARKET, quiet),
            ("market",),
            fresh=True,
        ),
        Writing(
            "ads segment",
            ("ads", "segment", market, "-o", "{out}/m.coterie", "--members", "{out}/s.csv", quiet),
            ("m.coterie", "s.csv"),
            slow=True,
        ),
        Writing(
            "ads update in place",
            ("ads", "update", "{out}/model.coterie", "{inputs}/market1", quiet),
            ("model.coterie",),
            replaces="model.coterie",
            slow=True,
        ),
        Writing(
            "ads report",
            ("ads", "report", market, "-o", "{out}/r.html", quiet),
            ("r.html",),
            slow=True,
        ),
        Writing(
            "ads evaluate",
            ("ads", "evaluate", market, "--holdout-days", "1", "-o", "{out}/e.json", quiet),
            ("e.json",),
            slow=True,
        ),
        Writing(
            "ads demo",
            ("ads", "demo", "--output", "{out}", "--advertisers", "40", quiet),
            ("market", "market.coterie", "segments.csv", "report.html"),
            slow=True,
        ),
    ]


def _from_a_model() -> list[Writing]:
    model, quiet = "{inputs}/model.coterie", "--quiet"
    about = ("--advertiser", "adv-00001")

    def of_model(name: str, *words: str, output: str, fresh: bool = False) -> Writing:
        line = ("ads", name, model, *words, "-o", "{out}/" + output, quiet)
        return Writing(f"ads {name}", line, (output.rstrip("/"),), fresh)

    return [
        of_model("forecast", *about, "--bid", "1:3:0.5", output="f.csv"),
        of_model("budget", *about, "--budget", "20", output="b.parquet"),
        of_model("portfolio", "--budget", "50", output="p.csv.gz"),
        of_model("targets", *about, output="t.tsv"),
        of_model("compare", *_PERIODS, output="c.csv"),
        of_model("export", output="tables/", fresh=True),
    ]
