"""A FastAPI service that returns a constant, to measure the forecast service beside it.

``python -m benchmarks.serve.bare_service`` listens on a free loopback port, prints it, and answers
``POST /v1/forecast`` and ``GET /health``. It reads no body and logs nothing; uvicorn runs as it
does for the forecast service.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from fastapi import FastAPI

app = FastAPI(openapi_url=None)


@app.post("/v1/forecast")
async def forecast() -> dict[str, float]:
    """Return a small constant."""
    return {"impressions": 1000.0, "spend": 2.5}


@app.get("/health")
async def health() -> dict[str, str]:
    """Return a sign of life."""
    return {"status": "ok"}


def main() -> None:
    """Listen on a free port, print it, and serve."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        sys.stdout.write(f"listening on http://127.0.0.1:{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", access_log=False, log_level="warning"
        )
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
