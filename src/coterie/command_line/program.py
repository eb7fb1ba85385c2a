"""The program itself: its commands, its version, and what becomes of errors and signals."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Annotated, Any

import typer
import typer.core

import coterie
from coterie.command_line.ads.program import app as ads
from coterie.command_line.choose_k import choose_k
from coterie.command_line.cluster import cluster
from coterie.command_line.consensus import consensus
from coterie.command_line.demo import demo
from coterie.command_line.methods import methods
from coterie.command_line.terminal.terminal_text import one_line
from coterie.errors import CoterieError

__all__ = ["Program", "app", "stopped_by_sigterm"]

#: Set once SIGTERM has come; what catches its exception on the way may raise another.
_terminated = threading.Event()


class Program(typer.core.TyperGroup):
    """A group of commands that ends with 1 on bad input, 130 when interrupted, 143 by SIGTERM.

    Bad input (a :class:`~coterie.errors.CoterieError`) is one line on the standard error
    stream. Any other exception is a defect and shows as what it is.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except CoterieError as error:
            typer.echo(f"error: {one_line(' '.join(str(error).split()))}", err=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt as interrupt:
            # Its arguments are the files that were complete by then.
            written = ", ".join(map(one_line, interrupt.args))
            what = f" after writing {written}" if written else "; nothing was written"
            how, code = ("terminated", 143) if _terminated.is_set() else ("interrupted", 130)
            typer.echo(f"{how}{what}", err=True)
            raise typer.Exit(code) from interrupt


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM, by which systemd and Kubernetes stop a program, end it as Control-C does.

    Files that are unfinished are removed on the way out. A SIGTERM that whoever started the program
    has set to be ignored stays ignored.
    """
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        if before is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, before)
            _terminated.clear()


def _interrupt(*_: object) -> None:
    _terminated.set()
    raise KeyboardInterrupt


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"coterie {coterie.__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Robust consensus clustering: many partitions in, the one they agree on out.

    Example: coterie consensus labels.csv --id name -k 3 -o consensus.csv
    """


app.command("consensus")(consensus)
app.command("cluster")(cluster)
app.command("choose-k")(choose_k)
app.command("methods")(methods)
app.add_typer(ads, name="ads")
app.command("demo")(demo)
