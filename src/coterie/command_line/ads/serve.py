"""``coterie ads serve``: the forecasts of a model over HTTP, and the what-if page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["serve"]


class LogFormat(StrEnum):
    """How the log is written."""

    text = "text"
    json = "json"


def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="From coterie ads segment.")],
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, metavar="N", help="0 is one that the system chooses."
        ),
    ] = 8400,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="A further name by which it may be asked for. Repeatable.",
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            metavar="ADDRESS",
            help="A proxy, or a network of them, that tells who asks. Repeatable.",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch/--no-watch", help="Take a model file that is replaced.")
    ] = True,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Of the lines on the standard error stream.")
    ] = LogFormat.text,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Log no request but those it failed on (5xx).")
    ] = False,
) -> None:
    """Serve the forecasts of a model, to programs as JSON and to people as a page.

    Open the address that it prints. Whatever lets others than this machine
    ask needs a token in the variable COTERIE_TOKEN. SIGHUP loads the model
    file again; SIGTERM ends the service once requests are finished.

    Example: coterie ads serve market.coterie --port 8400
    """
    from coterie.ads.service.server import serve as run

    run(
        model,
        host=host,
        port=port,
        allowed_hosts=allowed_host or (),
        trusted_proxies=trusted_proxy or (),
        watch=watch,
        log_format=log_format.value,
        quiet=quiet,
    )
