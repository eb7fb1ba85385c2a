"""Logs on the command line: the options that say where a log is, and its reading."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import re
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints
from urllib.parse import unquote

import typer

from coterie.cli.layout import counted
from coterie.cli.outputs import is_stream
from coterie.errors import CoterieWarning, InvalidParameterError, OutputError, TableError
from coterie.runtime.atomic_files import check_writable

if TYPE_CHECKING:
    from coterie.ads.histograms.bid_histograms import BidHistograms
    from coterie.ads.histograms.target_counts import TargetCounts
    from coterie.ads.logs.bid_logs import BidLogs
    from coterie.ads.logs.checks.log_checks import LogCheck
    from coterie.ads.segments.settings import SegmentSettings

_DUCKDB = "duckdb://"
_LOG = logging.getLogger("coterie")

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOGS",
        default_factory=list,
        show_default=False,
        help="Parquet, CSV or JSON-lines files, folders or globs of them, a DuckDB file, or a "
        "table of the engine. May be left out if --sql names what it reads.",
    ),
]
By = Annotated[
    Literal["advertiser", "campaign"],
    typer.Option(
        "--by",
        help="What is forecast; campaign needs the column campaign_id, and campaigns of an "
        "advertiser borrow from each other.",
    ),
]
Dimensions = Annotated[
    list[str] | None,
    typer.Option(
        "--dimension",
        metavar="NAME[=COLUMN]",
        help="Column whose values are targets, such as device; repeat for several. hour comes from "
        "the time stamp.",
    ),
]
Segments = Annotated[
    str,
    typer.Option(
        "--segments",
        "-k",
        metavar="K[,K…]",
        help="Number of segments, or several numbers; a backtest then chooses one.",
    ),
]
Consensus = Annotated[
    Literal["robust", "admm", "l2", "one-hot"],
    typer.Option(
        "--consensus",
        help="Consensus function of the segments; admm is robust with the ADMM relaxation, l2 is "
        "least squares, one-hot is k-means on one-hot labels.",
    ),
]

AllowFaults = Annotated[
    bool,
    typer.Option("--allow-faults", metavar="", help="Use a log with errors, and print a note."),
]

_option = functools.partial(typer.Option, rich_help_panel="The log")


@dataclass(frozen=True)
class LogOptions:
    """What the options say about a log; each field is the option of its name."""

    advertisers: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Table of texts, with columns advertiser_id and description; by default "
            "advertisers.parquet or .csv next to the logs.",
        ),
    ] = None
    engine: Annotated[
        str,
        _option(
            metavar="URL",
            envvar="COTERIE_ENGINE",
            help="Engine: duckdb:// (embedded), duckdb://FILE, pyspark://local, "
            "pyspark://HOST:PORT or postgres://HOST/DATABASE.",
        ),
    ] = _DUCKDB
    table: Annotated[
        str | None, _option(metavar="NAME", help="Table to read, if the log is a DuckDB file.")
    ] = None
    sql: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Query of the engine whose result is the log: it has coterie's columns, and reads "
            "LOGS as the table log.",
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        _option(
            metavar="ROLE=NAME",
            help="Column of the log for a role: advertiser, time, day, bid, won, price, "
            "min_to_win, floor, auction_type, currency, weight, click, conversion or campaign. "
            "Usual names are recognised.",
        ),
    ] = None
    amounts: Annotated[
        str,
        _option(
            metavar="UNIT",
            help="Unit of amounts: micros, cents or currency, for a thousand impressions; with "
            "/impression for one.",
        ),
    ] = ""
    time_zone: Annotated[
        str, _option(metavar="ZONE", help="Zone of times without one; by default UTC.")
    ] = ""
    currency: Annotated[
        str,
        _option(metavar="CODE", help="Currency of amounts, such as EUR, if no column has it."),
    ] = ""
    auction: Annotated[
        Literal["first", "second"] | None,
        _option(
            help="Auction type; by default that in the log, or else that of the model to update."
        ),
    ] = None

    def __post_init__(self) -> None:
        _ = self.columns  # refuses what is badly written

    @property
    def columns(self) -> dict[str, str]:
        """The columns by role, of texts such as ``bid=bid_price``."""
        values: dict[str, str] = {}
        for text in self.column or ():
            name, equals, value = (part.strip() for part in text.partition("="))
            problem = "" if equals else "write ROLE=NAME"
            if problem or name in values:
                message = f"{text!r}: {problem or f'{name} is given twice'}"
                raise typer.BadParameter(message, param_hint="'--column'")
            values[name] = value
        return values

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``open_logs`` that say the same."""
        given = dict(vars(self))
        del given["engine"], given["column"]
        try:
            sql = "" if self.sql is None else self.sql.expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            if re.search(r"\bfrom\s", str(self.sql), re.IGNORECASE):
                raise TableError(
                    "--sql takes a FILE that holds the query, not the query itself"
                ) from error
            raise TableError(f"{self.sql}: the query cannot be read: {error}") from error
        return given | {"columns": self.columns, "sql": sql}

    def words(self) -> list[str]:
        """Return the options that say the same."""
        words = []
        for name, value in vars(self).items():
            for one in value if isinstance(value, list) else [value]:
                if one and one != _DUCKDB:
                    words += [f"--{name.replace('_', '-')}", str(one)]
        return words


def with_fields(
    parameter: str, record: type[Any], hints: Mapping[str, Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what gives a command an option for each field of a record, annotated by ``hints``.

    The command gets the record as its parameter of this name.
    """
    shared = inspect.signature(record).parameters

    def give(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(command).parameters)
        del own[parameter]

        @functools.wraps(command)
        def with_options(**values: Any) -> None:
            given = {name: values.pop(name) for name in shared}
            command(**values, **{parameter: record(**given)})

        every = get_type_hints(command, include_extras=True) | dict(hints)
        # Typer calls commands by keywords and reads their options here
        ordered = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=every[one.name])
            for one in (*own.values(), *shared.values())
        ]
        with_options.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        with_options.__annotations__ = {one.name: every[one.name] for one in ordered}
        return with_options

    return give


with_log_options = with_fields(
    "log_options", LogOptions, get_type_hints(LogOptions, include_extras=True)
)


@dataclass(frozen=True)
class CountedLog:
    """A log that was opened, checked and counted."""

    logs: BidLogs
    check: LogCheck
    histograms: BidHistograms
    texts: dict[str, str]
    targets: TargetCounts | None = None


@dataclass(frozen=True)
class LogInput:
    """A log as given on the command line, and the outputs of the command."""

    logs: str | Sequence[str]  # its files, folders or tables
    options: LogOptions = field(default_factory=LogOptions)
    outputs: Mapping[str, Path | None] = field(default_factory=dict)  # by kind
    by: str = "advertiser"  # or "campaign"
    dimensions: Mapping[str, str] = field(default_factory=dict)  # the column of each
    usual_auction: str | None = None  # if neither the options nor the log says one

    @property
    def sources(self) -> list[str]:
        """The files, folders or tables of the log."""
        return [self.logs] if isinstance(self.logs, str) else list(self.logs)

    def check_outputs(self) -> None:
        """Refuse, before the log is opened, outputs that cannot be written or replace an input."""
        taken, options = {}, self.options
        # A URL may have options after the path, as in duckdb://FILE?threads=2.
        database = unquote(options.engine.removeprefix(_DUCKDB).partition("?")[0])
        if options.engine.startswith(_DUCKDB) and database:
            taken[Path(database).resolve()] = "the database"
        for given, what in (
            (options.advertisers, "the table of advertisers"),
            (options.sql, "the query of the log"),
        ):
            if given is not None:
                taken[given.resolve()] = what
        for kind, path in self.outputs.items():
            if path is None or (is_stream(path) and kind == "table"):
                continue
            if is_stream(path):
                raise OutputError(f"cannot write the {kind} to standard output; name a file")
            check_writable(path)
            _refuse_taken(kind, path, taken)
            taken[path.resolve()] = f"the {kind}"
            for folder in map(Path, self.sources if kind == "table" else ()):
                if folder.is_dir() and path.resolve().is_relative_to(folder.resolve()):
                    raise OutputError(
                        f"cannot write the table to {path}: the next run would read it as a part "
                        f"of the log; name a file outside {folder}"
                    )

    def like_model(self, auction: str, by: str, dimensions: Sequence[str] = ()) -> LogInput:
        """Return this input by the unit of a model, with its auction type if the log says none.

        It has the dimensions of the model; where no column is given, it has the name of one.
        """
        columns = {name: self.dimensions.get(name, name) for name in dimensions}
        others = [name for name in self.dimensions if name not in columns]
        if others:
            known = ", ".join(dimensions) or "none"
            raise InvalidParameterError(
                f"--dimension {others[0]}: the dimensions of the model are {known}"
            )
        return replace(self, usual_auction=auction, by=by, dimensions=columns)

    def check(self) -> tuple[BidLogs, LogCheck]:
        """Connect to the engine, open the log there, and check it."""
        from coterie.ads.logs.bid_logs import open_logs
        from coterie.ads.logs.checks.log_checks import check_logs
        from coterie.tables.engines import connect

        options = self.options
        if not self.sources and options.sql is None:
            raise typer.BadParameter("name the log, or give --sql", param_hint="'LOGS'")
        sources, given = self.sources, options.arguments()
        _LOG.info("Opening %s", ", ".join(sources) or "the query")
        opened = open_logs(
            sources[0] if len(sources) == 1 else sources or None,
            connect(options.engine),
            **given,
            by=self.by,
            dimensions=self.dimensions,
        )
        # Opening reads only headers, so this is still before the work.
        taken = {Path(path).resolve(): "a part of the log" for path in opened.files}
        for name in re.findall("'([^']+)'", given["sql"]):
            taken[Path(name).resolve()] = "a file that the query names"
        if isinstance(opened.texts, str):
            taken[Path(opened.texts).resolve()] = "the table of advertisers"
        for kind, path in self.outputs.items():
            if path is not None:
                _refuse_taken(kind, path, taken)
        if self.usual_auction is not None:
            # of several types the check speaks
            with contextlib.suppress(TableError):
                if opened.auction_source == "default":
                    opened = replace(opened, given_auction=self.usual_auction)
        _LOG.info("Checking %s", opened.source)
        return opened, check_logs(opened)

    def read(self, allow_faults: bool = False) -> CountedLog:
        """Open the log, check it, and count it.

        A log with errors is refused with its first error. With ``allow_faults`` a warning names
        the error instead. What makes it doubtful that the log is read rightly is a warning, too.
        """
        from coterie.ads.histograms.counting import read_histograms, read_targets
        from coterie.ads.logs.bid_logs import read_descriptions

        opened, check = self.check()
        if check.errors:
            worst, *others = check.errors
            more = f", and {counted(len(others), 'other fault')}" if others else ""
            fault = f"{opened.source}: {worst.what} ({counted(worst.count, worst.unit[:-1])}){more}"
            words = ["coterie", "ads", "check", *self.sources, *self.options.words()]
            see = f"See: {shlex.join(words)}"
            if not allow_faults:
                raise TableError(f"{fault}; {worst.remedy}. {see}")
            warnings.warn(f"{fault}; results may be wrong. {see}", CoterieWarning, stacklevel=2)
        for doubt in check.doubts:
            count = counted(doubt.count, doubt.unit[:-1])
            what = f"{opened.source}: {doubt.what} ({count}); {doubt.remedy}"
            warnings.warn(what, CoterieWarning, stacklevel=2)
        histograms = read_histograms(opened)
        targets = read_targets(opened, histograms) if opened.dimensions else None
        return CountedLog(opened, check, histograms, read_descriptions(opened), targets)


def dimensions_in(texts: list[str] | None) -> dict[str, str]:
    """Return the column of each dimension in ``device`` or ``device=device_type``.

    >>> dimensions_in(["country", "device=device_type"])
    {'country': 'country', 'device': 'device_type'}
    """
    pairs = [text.partition("=") for text in texts or ()]
    columns = {name.strip(): (column if sign else name).strip() for name, sign, column in pairs}
    if not all(columns) or not all(columns.values()) or len(columns) < len(pairs):
        raise InvalidParameterError(
            f"--dimension {' '.join(texts or ())}: write NAME or NAME=COLUMN, each name once"
        )
    return columns


def segment_settings(segments: str, consensus: str, seed: int) -> SegmentSettings:
    """Return the settings for the options --segments, --consensus and --seed."""
    from coterie.ads.segments.settings import SegmentSettings
    from coterie.consensus import L2Consensus, OneHotKMeans
    from coterie.consensus.robust import RobustConsensus

    functions: dict[str, Any] = {
        "robust": None,  # the default of SegmentSettings, with the fast relaxation
        "admm": RobustConsensus(random_state=seed),
        "l2": L2Consensus(random_state=seed),
        "one-hot": OneHotKMeans(random_state=seed),
    }
    return SegmentSettings(
        n_segments=numbers_in(segments), consensus=functions[consensus], random_state=seed
    )


def numbers_in(text: str) -> list[int]:
    """Return the whole numbers in ``8,12``.

    >>> numbers_in("8, 12")
    [8, 12]
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise typer.BadParameter(
            f"{text!r} is not a number of segments; write 10, or 8,12,16 to choose from",
            param_hint="'--segments'",
        )
    return numbers


def _refuse_taken(kind: str, path: Path, taken: Mapping[Path, str]) -> None:
    place = path.resolve()
    if place in taken:
        raise OutputError(f"cannot write the {kind} to {path}: this path is {taken[place]}")
