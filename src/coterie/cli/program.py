"""The program: its commands, its version, and how it handles errors and signals."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer
import typer.core

import coterie
from coterie.cli.ads.budget import budget
from coterie.cli.ads.check import check
from coterie.cli.ads.compare import compare
from coterie.cli.ads.demo import demo as ads_demo
from coterie.cli.ads.evaluate import evaluate
from coterie.cli.ads.export import export
from coterie.cli.ads.forecast import forecast
from coterie.cli.ads.portfolio import portfolio
from coterie.cli.ads.report import report
from coterie.cli.ads.segment import segment
from coterie.cli.ads.serve import serve
from coterie.cli.ads.simulate import simulate
from coterie.cli.ads.targets import targets
from coterie.cli.ads.update import update
from coterie.cli.choose_k import choose_k
from coterie.cli.cluster import cluster
from coterie.cli.consensus import consensus
from coterie.cli.demo import demo
from coterie.cli.layout import print_message
from coterie.cli.methods import methods
from coterie.cli.predict import predict
from coterie.cli.progress import in_options
from coterie.errors import CoterieError, InvalidParameterError
from coterie.runtime.imports import require_extra
from coterie.runtime.wording import visible

# Set by SIGTERM. The exception cannot carry this fact, because write_all and fresh_folder replace
# a KeyboardInterrupt by another one.
_terminated = threading.Event()


class Program(typer.core.TyperGroup):
    """A group of commands with exit codes for bad input, signals and closed pipes.

    Bad input (a :class:`~coterie.errors.CoterieError`) is reported in one line on the standard
    error stream, with exit code 1. An interrupt gives 130, SIGTERM 143. If the reader of the output
    closes the pipe, as ``head`` does, the program ends silently with 141. Any other exception is a
    defect and is not caught.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CoterieError as error:
            print_message(f"error: {in_options(' '.join(str(error).split()))}")
            # what is to be copied, such as a query, stands below in its own lines
            for line in "\n".join(getattr(error, "__notes__", ())).splitlines():
                typer.echo(visible(line), err=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt as interrupt:
            # Its arguments are the files that are complete; write_all sets them.
            written = ", ".join(map(str, interrupt.args))
            result = f" after writing {written}" if written else "; nothing was written"
            event, code = ("terminated", 143) if _terminated.is_set() else ("interrupted", 130)
            print_message(event + result)
            raise typer.Exit(code) from interrupt
        except BrokenPipeError as closed:
            # Python flushes the stream once more when it exits, which would be a second error.
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from closed


class Command(typer.core.TyperCommand):
    """A command whose options have one value each, unless they may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; refuse an option that is given twice, not to ignore a value."""
        if not ctx.resilient_parsing:
            given: Any = self.make_parser(ctx).parse_args(args=list(args))[2]
            for option, times in Counter(given).items():
                has_one_value = option.param_type_name == "option" and not (
                    option.multiple or option.is_flag or option.count
                )
                if times > 1 and has_one_value:
                    raise typer.BadParameter(
                        "it is given more than once; give one value", ctx, option
                    )
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments for the line of usage, without Typer's braces."""
        return [re.sub(r"^\{(.*)\}$", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InvalidParameterError as error:
            # messages of the library about a parameter begin with supply=-1.0, or day='Monday'
            parameter = re.match(r"(\w+)=('?)(.*?)\2: ", str(error), re.DOTALL)
            option = parameter and f"--{parameter[1].replace('_', '-')}"
            if not parameter or not any(option in one.opts for one in self.params):
                raise
            value = parameter[3].strip("[]").replace("'", "")
            message = f"{option} {value}: {str(error)[parameter.end() :]}"
            raise type(error)(message) from error


class LearningCommand(Command):
    """A command that computes with scikit-learn, and imports no more of it than it needs."""

    def invoke(self, ctx: Any) -> Any:
        import_scikit_learn()
        return super().invoke(ctx)


class AdvertisingCommand(Command):
    """A command that needs the packages of an extra."""

    def invoke(self, ctx: Any) -> Any:
        require_extra("ads", "advertising needs", "pyarrow", "ibis", "msgspec")
        return super().invoke(ctx)


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Handle SIGTERM, with which systemd and Kubernetes stop a program, like Control-C.

    Unfinished files are removed. If the caller of the program ignores SIGTERM, it stays ignored.
    """

    def interrupt(*_: object) -> None:
        _terminated.set()
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield  # the handler of the caller, such as SIG_IGN, is kept
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _terminated.clear()


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"coterie {coterie.__version__}")
        raise typer.Exit


class _Later:
    """Stands for a function or a distribution of scipy.stats."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *given: Any, **named: Any) -> Any:
        return getattr(_stats(), self._name)(*given, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(_stats(), self._name), name)


class _LaterModule(ModuleType):
    """Stands for scipy.stats until another name is asked for than sklearn.metrics imports."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        is_imported = name in ("chi2", "gmean", "rankdata", "spearmanr")
        return _Later(name) if is_imported else getattr(_stats(), name)


def _stats() -> ModuleType:
    if isinstance(sys.modules["scipy.stats"], _LaterModule):
        del sys.modules["scipy.stats"]
    return import_module("scipy.stats")


def import_scikit_learn() -> None:
    """Import scikit-learn in half of the time, without pandas and, until used, scipy.stats."""
    if "sklearn" in sys.modules or "scipy.stats" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules["scipy.stats"] = _LaterModule("scipy.stats")
    without_pandas = modules.setdefault("pandas", None) is None
    try:
        import sklearn.base  # noqa: F401
    finally:
        if without_pandas:
            del modules["pandas"]


_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    rich_markup_mode="rich",
    # A defect is shown as Python's usual traceback.
    pretty_exceptions_enable=False,
    context_settings=_HELP_OPTIONS,
)
ads = typer.Typer(
    help="Advertising: segments, forecasts, a report and a service from bid logs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_HELP_OPTIONS,
)


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            callback=_print_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Robust consensus clustering: find the partition that many partitions agree on.

    Example: coterie consensus labels.csv --id name -k 3 -o consensus.csv
    """


for _command in (simulate, check, segment, update, forecast, budget, portfolio, targets):
    ads.command(cls=AdvertisingCommand)(_command)
for _command in (compare, export, evaluate, report, serve):
    ads.command(cls=AdvertisingCommand)(_command)
ads.command("demo", cls=AdvertisingCommand)(ads_demo)

for _command in (consensus, cluster, predict, choose_k):
    app.command(cls=LearningCommand)(_command)
app.command(cls=Command)(methods)
app.add_typer(ads, name="ads")
app.command(cls=LearningCommand)(demo)
