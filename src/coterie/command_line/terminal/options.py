"""The options that several commands share, and how their text is understood."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from coterie.consensus.registry import CONSENSUS_METHODS, consensus_method
from coterie.errors import InvalidParameterError

__all__ = [
    "AsJson",
    "Columns",
    "Engine",
    "IdColumns",
    "MemoryLimit",
    "MethodKey",
    "Model",
    "Picture",
    "Quiet",
    "Seed",
    "Table",
    "TableOrFolder",
    "Threads",
    "ids_in",
    "names_in",
]


def _known(key: str) -> str:
    try:
        return consensus_method(key).key
    except InvalidParameterError as error:
        raise typer.BadParameter(str(error)) from error


_TABLE = "Write ids, label and confidence here: .csv, .tsv, .parquet or .npy"
Table = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=f"{_TABLE}.")]
TableOrFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"{_TABLE}; with an engine .parquet or a folder.",
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw a picture here: .png, .svg or .pdf."),
]
Model = Annotated[
    Path | None,
    typer.Option(
        "--save-model",
        metavar="FILE",
        help="Keep the fitted model here, for coterie.load_model in Python.",
    ),
]
IdColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--id", metavar="NAME", help="A column that names the rows; carried through. Repeatable."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="A,B,C", help="The columns to use; by default all."),
]
MethodKey = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="KEY",
        callback=_known,
        help=f"The consensus function: {', '.join(CONSENSUS_METHODS)}. See coterie methods.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="URL",
        help="Leave the table in duckdb:// or pyspark://host:port; none: read all of it.",
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="SIZE", help="Of DuckDB, such as 2GB."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="Of the engine.")
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, max=2**32 - 1, metavar="N", help="The same seed, the same answer."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of the summary.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no summary and show no progress.")
]


def ids_in(texts: Sequence[str] | None) -> list[str]:
    """The id columns of options that each name one, or several as ``a,b,c``.

    >>> ids_in(["site", "user,day"])
    ['site', 'user', 'day']
    """
    return [name for text in texts or [] for name in names_in(text, "--id") or []]


def names_in(text: str | None, option: str = "--columns") -> list[str] | None:
    """The column names in ``a,b,c``; one with a comma in it is quoted as in a CSV.

    >>> names_in('a, "b,c"')
    ['a', 'b,c']
    """
    if text is None:
        return None
    names = next(csv.reader([text], skipinitialspace=True), [])
    if not names or not all(names):
        raise typer.BadParameter(
            f"{text!r} names no column, or one without a name; write them as a,b,c",
            param_hint=f"'{option}'",
        )
    return names
