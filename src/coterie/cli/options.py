"""Options that several commands share."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from coterie.consensus.registry import CONSENSUS_METHODS, consensus_method
from coterie.errors import InvalidParameterError


def _checked_method(key: str) -> str:
    try:
        return consensus_method(key).key
    except InvalidParameterError as error:
        raise typer.BadParameter(str(error)) from error


def _methods(incomplete: str) -> list[tuple[str, str]]:
    """Return the methods for the completion of a shell: key and summary."""
    known = CONSENSUS_METHODS.values()
    return [(one.key, one.summary) for one in known if one.key.startswith(incomplete)]


def flag(meaning: str, *names: str) -> Any:
    """Return an option without a value; without names, it can also be denied by ``--no-…``."""
    return typer.Option(*names, metavar="", help=meaning)


# Typer reads the options of a command from its annotations, so a shared option is a type alias.
# An option without a name has that of its parameter. If its metavar is this name in capitals, it
# needs a name: Typer would otherwise write the option in capitals, too.
_TABLE = (
    "Write ids, label and confidence here: .csv, .tsv, .parquet, .npy, or - for standard output"
)
Table = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=f"{_TABLE}.")]
TableOrFolder = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help=f"{_TABLE}; with an engine .parquet or a folder."
    ),
]
Clusters = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        "-k",
        metavar="K|free",
        help="Number of clusters, or the word free: as many as give the lowest objective. By "
        "default the number that choose-k recommends.",
    ),
]
Picture = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a plot here: .png, .svg or .pdf.")
]
Model = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the fitted model here, for coterie predict, and coterie.load_model in Python.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write a report here, as one HTML page that opens in any browser."
    ),
]
IdColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        metavar="NAME",
        help="Column that names the rows, copied to the output. By default the only column with a "
        "different value in every row, if it is text or named like an id. Repeatable.",
    ),
]
Columns = Annotated[
    str | None, typer.Option(metavar="A,B,C", help="Columns to use; by default all except the ids.")
]
Factors = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C",
        help="Columns to test against the clusters, such as age or batch; they are not clustered.",
    ),
]
Categories = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C", help="Columns of --factors whose numbers are codes of categories."
    ),
]
MethodKey = Annotated[
    str,
    typer.Option(
        metavar="KEY",
        callback=_checked_method,
        autocompletion=_methods,
        help=f"Consensus method: {', '.join(CONSENSUS_METHODS)}. See coterie methods.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where to process the table: duckdb://, pyspark://HOST:PORT, "
        "postgres://HOST/DB. By default in memory.",
    ),
]
MemoryLimit = Annotated[
    str | None, typer.Option(metavar="SIZE", help="DuckDB memory limit, for example 2GB.")
]
Threads = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Number of threads of the engine.")
]
Standardize = Annotated[
    bool, flag("Scale every column to mean 0 and variance 1 before clustering.", "--standardize")
]
Impute = Annotated[
    Literal["median", "drop"] | None,
    typer.Option(
        help="Missing cells: fill them with the median of their column, or drop their rows, which "
        "get label -1. By default they are refused."
    ),
]
DecimalComma = Annotated[bool, flag("Numbers have a decimal comma, as in 1,5.", "--decimal-comma")]
Seed = Annotated[
    int,
    typer.Option(
        min=0,
        max=2**31 - 1,  # the limit of SegmentSettings
        metavar="N",
        help="Random seed; the same seed gives the same result.",
    ),
]
AsJson = Annotated[bool, flag("Print one JSON object instead of the summary.", "--json")]
Quiet = Annotated[bool, flag("Print no summary and no progress.", "--quiet", "-q")]


def clusters_in(text: str | None) -> int | Literal["free"] | None:
    """Return the number of clusters in ``-k``: a whole number, or ``free``."""
    if text is None or text == "free":
        return text  # type: ignore[return-value]
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(
            f"{text!r} is not a number of clusters; write a whole number from 1, or the word free",
            param_hint="'-k'",
        )
    return int(text)


def ids_in(texts: Sequence[str] | None) -> list[str]:
    """Return the id columns of options that each name one, or several as ``a,b,c``."""
    return [name for text in texts or [] for name in names_in(text, "--id") or []]


def names_in(text: str | None, option: str = "--columns") -> list[str] | None:
    """Return the column names in ``a,b,c``, with quotes as in a CSV file.

    Quotes are needed for a name with a comma, and for the empty name, which pandas gives the index.
    """
    if text is None:
        return None
    names = next(csv.reader([text], skipinitialspace=True), [])
    if not names or (not all(names) and '""' not in text):
        raise typer.BadParameter(
            f"{text!r} has an empty column name; write the names as a,b,c",
            param_hint=f"'{option}'",
        )
    return names
