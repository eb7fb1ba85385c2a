"""What the commands that read a log have in common: their options, and the way to histograms."""

from __future__ import annotations

import contextlib
import logging
import shlex
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import unquote

import typer

from coterie.command_line.ads.layout import counted
from coterie.errors import CoterieWarning, OutputError, TableError
from coterie.runtime.atomic_files import check_writable

if TYPE_CHECKING:
    from coterie.ads.histograms.bid_histograms import BidHistograms
    from coterie.ads.logs.bid_logs import BidLogs
    from coterie.ads.logs.checks.log_checks import LogCheck
    from coterie.ads.segments.settings import SegmentSettings

__all__ = [
    "AdvertiserTable",
    "AllowFaults",
    "Auction",
    "Bins",
    "Consensus",
    "Engine",
    "Log",
    "Logs",
    "Segments",
    "Source",
    "check_outputs",
    "checked_logs",
    "numbers_in",
    "read_source",
    "segment_settings",
]

Logs = Annotated[
    str,
    typer.Argument(
        metavar="LOGS", help="A file, folder or glob of Parquet or CSV; or a table of the engine."
    ),
]
AdvertiserTable = Annotated[
    Path | None,
    typer.Option(
        "--advertisers",
        metavar="FILE",
        help="The texts: advertiser_id, description. By default advertisers.parquet or .csv "
        "beside the logs.",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="URL",
        envvar="COTERIE_ENGINE",
        help="duckdb:// (embedded), duckdb://FILE, pyspark://local, pyspark://HOST:PORT.",
    ),
]
Log = Annotated[
    str | None,
    typer.Option("--table", metavar="NAME", help="Which table of a database file."),
]
Auction = Annotated[
    Literal["first", "second"] | None,
    typer.Option("--auction", help="What a winner pays; by default as the log says."),
]
Bins = Annotated[int, typer.Option("--bins", min=2, max=4096, help="Bins of the bid grid.")]
Segments = Annotated[
    str,
    typer.Option(
        "--segments",
        "-k",
        metavar="K[,K…]",
        help="Their number, or the numbers to choose from by backtest.",
    ),
]
Consensus = Annotated[
    Literal["robust", "admm", "l2", "one-hot"],
    typer.Option(
        "--consensus",
        help="Which consensus function makes the segments: the robust one, the same with the "
        "ADMM relaxation, least squares, or one-hot k-means.",
    ),
]

AllowFaults = Annotated[
    bool,
    typer.Option(
        "--allow-faults",
        help="Go on despite faults of single rows: unusable rows are left out, and told.",
    ),
]

_LOG = logging.getLogger("coterie")
_DUCKDB = "duckdb://"


@dataclass(frozen=True)
class Source:
    """A log that was opened, checked and counted."""

    logs: BidLogs
    check: LogCheck
    histograms: BidHistograms
    texts: dict[str, str]


def read_source(
    logs: str,
    engine: str,
    advertisers: Path | None,
    table: str | None,
    auction: str | None,
    bins: int,
    allow_faults: bool = False,
) -> Source:
    """Open a log, check it, and count it.

    A log with faults that make results wrong is refused, and the first of them named, unless
    faults are allowed: then a warning names them.
    """
    from coterie.ads.histograms.counting import read_histograms
    from coterie.ads.logs.bid_logs import read_descriptions

    opened, found = checked_logs(logs, engine, advertisers, table, auction)
    if found.errors:
        worst, *others = found.errors
        more = f", and {counted(len(others), 'other fault')}" if others else ""
        told = f"{opened.source}: {worst.what} ({counted(worst.count, worst.unit[:-1])}){more}"
        see = f"See: {_check_command(logs, engine, advertisers, table, auction)}"
        if not allow_faults:
            raise TableError(f"{told}; {worst.remedy}. {see}")
        warnings.warn(f"{told}; results may be wrong. {see}", CoterieWarning, stacklevel=2)
    with _interruptible():
        return Source(opened, found, read_histograms(opened, bins=bins), read_descriptions(opened))


def checked_logs(
    logs: str, engine: str, advertisers: Path | None, table: str | None, auction: str | None
) -> tuple[BidLogs, LogCheck]:
    """Connect to the engine, open a log there, and check it."""
    from coterie.ads.logs.bid_logs import open_logs
    from coterie.ads.logs.checks.log_checks import check_logs
    from coterie.engines.backends import connect

    with _interruptible():
        _LOG.info("Opening %s", logs)
        opened = open_logs(
            logs, connect(engine), auction=auction, advertisers=advertisers, table=table
        )
        _LOG.info("Checking %s", opened.source)
        return opened, check_logs(opened)


def check_outputs(
    outputs: Mapping[str, Path | None],
    logs: str,
    advertisers: Path | None = None,
    engine: str = _DUCKDB,
) -> None:
    """Refuse, before the work, what cannot be written or would take the place of an input.

    Parameters
    ----------
    outputs : mapping of str to Path or None
        Files to write, by what they hold; None was not asked for.
    logs, advertisers, engine
        What is read. No table is written into a folder of logs either: it would be read as one
        of them the next time.
    """
    taken = _inputs(logs, advertisers, engine)
    for kind, path in outputs.items():
        if path is None:
            continue
        check_writable(path)
        place = path.resolve()
        if place in taken:
            raise OutputError(f"cannot write the {kind} to {path}: it is {taken[place]} already")
        taken[place] = f"the {kind}"
        if kind == "table" and Path(logs).is_dir() and place.is_relative_to(Path(logs).resolve()):
            raise OutputError(
                f"cannot write the table to {path}: it would be read as a part of the log the "
                f"next time; name a file outside {logs}"
            )


def segment_settings(segments: str, consensus: str, seed: int) -> SegmentSettings:
    """The settings a user's options stand for."""
    from coterie.ads.segments.settings import SegmentSettings

    return SegmentSettings(
        n_segments=numbers_in(segments), consensus=_function(consensus, seed), random_state=seed
    )


def numbers_in(text: str) -> list[int]:
    """The whole numbers in ``8,12``.

    >>> numbers_in("8, 12")
    [8, 12]
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise typer.BadParameter(
            f"{text!r} is no number of segments; write 10, or 8,12,16 to choose from",
            param_hint="'--segments'",
        )
    return numbers


def _function(name: str, seed: int) -> Any:
    from coterie.consensus import L2Consensus, OneHotKMeans
    from coterie.consensus.robust.estimator import RobustConsensus

    return {
        "robust": None,
        "admm": RobustConsensus(random_state=seed),
        "l2": L2Consensus(random_state=seed),
        "one-hot": OneHotKMeans(random_state=seed),
    }[name]


def _inputs(logs: str, advertisers: Path | None, engine: str) -> dict[Path, str]:
    """The files that are read, by what they are; none where the engine alone knows them."""
    from coterie.ads.logs.advertiser_texts import texts_beside
    from coterie.ads.logs.log_files import find_files

    files = []
    # a table of the engine, or nothing at all: reading it will tell
    with contextlib.suppress(TableError):
        files = find_files(logs)
    folder = Path(logs) if Path(logs).is_dir() else Path(*files[:1]).parent
    texts = advertisers or (texts_beside(folder) if files else None)
    database = unquote(engine.removeprefix(_DUCKDB).partition("?")[0])
    inputs = {Path(path).resolve(): "a part of the log" for path in files}
    if texts:
        inputs[Path(texts).resolve()] = "the table of advertisers"
    if engine.startswith(_DUCKDB) and database:
        inputs[Path(database).resolve()] = "the database"
    return inputs


def _check_command(
    logs: str, engine: str, advertisers: Path | None, table: str | None, auction: str | None
) -> str:
    """The command that tells all faults of a log."""
    given = {
        "--engine": None if engine == _DUCKDB else engine,
        "--advertisers": advertisers,
        "--table": table,
        "--auction": auction,
    }
    options = [str(word) for pair in given.items() if pair[1] is not None for word in pair]
    return shlex.join(["coterie", "ads", "check", logs, *options])


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let an interrupt be one: DuckDB tells of it by an error of its own."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise
