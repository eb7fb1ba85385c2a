"""The least a FastAPI service can do, to measure ours beside it: it returns a constant.

Run as a script, ``python -m benchmarks.bare_service``, it listens on a free port of the
loopback address, says which, and answers ``POST /v1/forecast`` and ``GET /health`` until it is
told to end. It reads no body, checks nothing, computes nothing, and logs nothing; uvicorn runs
as it does for the service (uvloop, httptools, no access log).
"""

from __future__ import annotations

import socket
import sys
from typing import Any

from coterie.errors import MissingExtraError

__all__ = ["CONSTANT", "bare_application", "main"]

#: What every question is answered with; small, so that writing it costs next to nothing.
CONSTANT = {"impressions": 1000.0, "spend": 2.5}
_WAITING = 2048


def bare_application() -> Any:
    """The application, as short as FastAPI's own documentation has it."""
    try:
        from fastapi import FastAPI
    except ImportError as error:
        raise MissingExtraError(
            "a service to compare with needs FastAPI: pip install 'coterie[service]'"
        ) from error
    app = FastAPI(openapi_url=None)

    @app.post("/v1/forecast")
    async def forecast() -> dict[str, float]:
        return CONSTANT

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app


def main() -> None:
    """Listen on a free port, say which, and serve."""
    import uvicorn

    app = bare_application()
    with socket.create_server(("127.0.0.1", 0), backlog=_WAITING) as listening:
        port = listening.getsockname()[1]
        sys.stdout.write(f"listening on http://127.0.0.1:{port}\n")
        sys.stdout.flush()
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", access_log=False, log_level="warning"
        )
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
