"""``coterie ads serve``: forecasts of a model over HTTP, and the what-if page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from coterie.cli import options
from coterie.cli.ads.inputs import subjects


def serve(
    model: subjects.Model,
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 chooses a free one.")
    ] = 8400,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Additional allowed value of the Host header. Repeatable."
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS", help="Proxy or network whose X-Forwarded-For is trusted. Repeatable."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=256, metavar="N", help="Processes that share the port.")
    ] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of tokens, one per line, each after an optional name; SIGHUP reads it "
            "again.",
        ),
    ] = None,
    watch: Annotated[bool, options.flag("Reload the model file when it is replaced.")] = True,
    drain_seconds: Annotated[
        float,
        typer.Option(
            min=0,
            max=3600,
            metavar="S",
            help="After SIGTERM, /health/ready fails for this long before the port is closed.",
        ),
    ] = 2.0,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Format of log lines.")
    ] = "text",
    quiet: Annotated[
        bool, options.flag("Log only requests that failed (5xx).", "--quiet", "-q")
    ] = False,
    traces: Annotated[
        bool,
        options.flag(
            "Send OpenTelemetry traces; OTEL_EXPORTER_OTLP_ENDPOINT says where.", "--traces"
        ),
    ] = False,
) -> None:
    """Serve the forecasts of a model as JSON and as a web page.

    Open the printed address in a browser. A token is needed if other machines
    can reach the service: in the environment variable COTERIE_TOKEN, or in
    --token-file. SIGHUP reloads the model file and the tokens. SIGTERM stops
    the service after the current requests.

    Example: coterie ads serve market.coterie --port 8400
    """
    from coterie.ads.service import serve as run
    from coterie.ads.service.access import ServiceSettings

    run(
        ServiceSettings(
            model,
            host=host,
            port=port,
            workers=workers,
            allowed_hosts=tuple(allowed_host or ()),
            trusted_proxies=tuple(trusted_proxy or ()),
            token_file=token_file,
            watch=watch,
            drain_seconds=drain_seconds,
            log_format=log_format,
            quiet=quiet,
            traces=traces,
        )
    )
