"""Options for the advertiser and the days of a question, for all commands that ask a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.cli import layout
from coterie.cli.outputs import (
    check_table,
    is_stream,
    output_name,
    refuse_json,
    write_output,
)
from coterie.cli.progress import shown_notes
from coterie.errors import InvalidParameterError, OutputError

if TYPE_CHECKING:
    from coterie.ads.fitting.forecaster import AdForecaster

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file from coterie ads segment.")
]
Advertiser = Annotated[str | None, typer.Option(metavar="ID", help="Advertiser id in the log.")]
Supply = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        help="Number of auctions of all days together, for example 1e6; by default the number "
        "to expect.",
    ),
]
Day = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="First day to forecast; prices and the number of auctions depend on the day.",
    ),
]
Days = Annotated[
    int,
    typer.Option(
        min=1,
        max=366,
        metavar="N",
        help="Number of days to forecast together, from --day or the end of the log on.",
    ),
]
Level = Annotated[
    Literal["50", "80", "90", "95"],
    typer.Option(
        help="Level of the intervals, in percent. Half of the rest is above: with 90, the safe bid "
        "of a goal reaches it with a probability of 95%."
    ),
]
Text = Annotated[
    str | None, typer.Option("--text", metavar="TEXT", help="Text of a new advertiser.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Only auctions with this value, such as device=phone; repeat for several dimensions.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write a table here: .csv, .tsv, .parquet, .npy, or - for standard output.",
    ),
]


def check_output(output: Path | None, model: Path, as_json: bool) -> None:
    """Refuse a table that cannot be written, before the model is loaded."""
    if output is None:
        return
    refuse_json(as_json, output)
    check_table(output)
    refuse_model(output, model, "the table")


def refuse_model(output: Path, model: Path, kind: str) -> None:
    """Refuse to write over the model that is asked."""
    if output.resolve() == model.resolve():
        raise OutputError(f"cannot write {kind} to {output}: this path is the model")


def load_quietly(model: Path, quiet: bool) -> AdForecaster:
    """Load a model; its notes are shown unless quiet."""
    from coterie.ads.fitting.forecaster import load_forecaster

    with shown_notes(quiet):
        return load_forecaster(model)


def values_in(where: list[str] | None) -> dict[str, str] | None:
    """Return the value of each dimension in ``device=phone``; None if there is none.

    >>> values_in(["device=phone", "country=DE"])
    {'device': 'phone', 'country': 'DE'}
    """
    pairs = [part.partition("=") for part in where or ()]
    values = {name.strip(): value.strip() for name, _, value in pairs}
    if not all(sign and name.strip() for name, sign, _ in pairs) or len(values) < len(pairs):
        raise InvalidParameterError(
            f"--where {' '.join(where or ())}: write NAME=VALUE, such as device=phone, each "
            "dimension once"
        )
    return values or None


def question(level: str, **members: Any) -> dict[str, Any]:
    """Return the arguments of a question; the option of the level is in percent."""
    return members | {"level": int(level) / 100}


def answer(
    model: Path,
    ask: Callable[[AdForecaster], Any],
    print_summary: Callable[[Any], None],
    rows: Callable[[Any], Sequence[Any]],
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Ask a model, write the rows of the answer if requested, and print its summary or its JSON."""
    check_output(output, model, as_json)
    found = ask(load_quietly(model, quiet))
    write_and_print(
        lambda: print_summary(found),
        lambda: answer_facts(found, model),
        lambda: columns_of(rows(found)),
        output,
        as_json,
        quiet,
    )


def write_and_print(
    print_summary: Callable[[], None],
    facts: Callable[[], dict[str, Any]],
    columns: Callable[[], Mapping[str, Any]],
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the table of an answer if it was requested, and print its summary or its JSON."""
    if output is not None:
        write_output(output, columns())

    def print_all(_: dict[str, Any]) -> None:
        print_summary()
        if output is not None:
            layout.print_files(layout.stdout_console(), [output_name(output)])

    layout.print_answer(facts() if as_json else {}, print_all, as_json, quiet, is_stream(output))


def answer_facts(answer: Any, model: Path) -> dict[str, Any]:
    """Return an answer as a service with this model file gives it."""
    import msgspec

    from coterie.ads.decisions.decision_answers import of_version
    from coterie.ads.service.served_model import file_version

    facts: dict[str, Any] = msgspec.to_builtins(of_version(answer, file_version(model)))
    return facts


def columns_of(records: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of dataclasses as columns; an interval has two, and None becomes NaN."""
    import numpy as np

    columns: dict[str, list[Any]] = {}
    for record in records:
        for field in fields(record):
            value, name = getattr(record, field.name), field.name
            if name.endswith("_interval"):
                low, high = value or (math.nan, math.nan)
                stem = name.removesuffix("_interval")
                columns.setdefault(f"{stem}_low", []).append(low)
                columns.setdefault(f"{stem}_high", []).append(high)
            else:
                columns.setdefault(name, []).append(math.nan if value is None else value)
    return {name: np.array(values) for name, values in columns.items()}
