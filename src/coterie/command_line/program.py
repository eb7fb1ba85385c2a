"""The program itself: its commands, its version, and what becomes of errors and interrupts."""

from __future__ import annotations

from typing import Annotated, Any

import typer
import typer.core

import coterie
from coterie.benchmarks.program import app as bench
from coterie.command_line.ads.program import app as ads
from coterie.command_line.choose_k import choose_k
from coterie.command_line.cluster import cluster
from coterie.command_line.consensus import consensus
from coterie.command_line.demo import demo
from coterie.command_line.methods import methods
from coterie.command_line.terminal_text import one_line
from coterie.errors import CoterieError

__all__ = ["Program", "app"]


class Program(typer.core.TyperGroup):
    """A group of commands that ends with 1 on bad input, and with 130 when interrupted.

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
            typer.echo(f"interrupted{what}", err=True)
            raise typer.Exit(130) from interrupt


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
app.add_typer(bench, name="bench")
app.command("demo")(demo)
