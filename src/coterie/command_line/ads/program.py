"""The group of commands ``coterie ads``."""

from __future__ import annotations

import typer

from coterie.command_line.ads.check import check
from coterie.command_line.ads.evaluate import evaluate
from coterie.command_line.ads.forecast import forecast
from coterie.command_line.ads.report import report
from coterie.command_line.ads.segment import segment
from coterie.command_line.ads.serve import serve
from coterie.command_line.ads.simulate import simulate

__all__ = ["app"]

app = typer.Typer(
    name="ads",
    help="Advertising: bid logs in; segments, forecasts, a report and a service out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("simulate")(simulate)
app.command("check")(check)
app.command("segment")(segment)
app.command("forecast")(forecast)
app.command("evaluate")(evaluate)
app.command("report")(report)
app.command("serve")(serve)
