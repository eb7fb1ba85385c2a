"""A Starlette service that returns a constant, to compare the forecast service with.

It reads no body; uvicorn runs it with the settings of the forecast service, without a log line per
request.
"""

from __future__ import annotations

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

COMMAND = (
    *(sys.executable, "-m", "uvicorn", "benchmarks.serve.bare_service:app", "--port", "0"),
    *("--loop", "uvloop", "--http", "httptools", "--no-access-log"),
)


async def forecast(request: Request) -> JSONResponse:  # noqa: ARG001 (Starlette's signature)
    """Return a small constant."""
    return JSONResponse({"impressions": 1000.0, "spend": 2.5})


async def ready(request: Request) -> JSONResponse:  # noqa: ARG001
    """Return a sign of life."""
    return JSONResponse({"status": "ready"})


app = Starlette(
    routes=[Route("/v1/forecast", forecast, methods=["POST"]), Route("/health/ready", ready)]
)
