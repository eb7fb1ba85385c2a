"""``coterie ads serve``: forecasts of a model over HTTP, and the what-if page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["serve"]


def serve(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file from coterie ads segment.")
    ],
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, metavar="N", help="Port; 0 chooses a free one."),
    ] = 8400,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="Additional allowed value of the Host header. Repeatable.",
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            metavar="ADDRESS",
            help="Proxy or network whose X-Forwarded-For is trusted. Repeatable.",
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch/--no-watch", metavar="", help="Reload the model file when it is replaced."
        ),
    ] = True,
    log_format: Annotated[
        Literal["text", "json"], typer.Option("--log-format", help="Format of log lines.")
    ] = "text",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="Log only requests that failed (5xx).")
    ] = False,
) -> None:
    """Serve the forecasts of a model as JSON and as a web page.

    Open the printed address in a browser. The environment variable
    COTERIE_TOKEN must hold a token if other machines can reach the service.
    SIGHUP reloads the model file. SIGTERM stops the service after the current
    requests.

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
        log_format=log_format,
        quiet=quiet,
    )
