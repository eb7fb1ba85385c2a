"""A FastAPI service that returns a constant, to measure the forecast service beside it.

It reads no body; uvicorn runs it with the settings of the forecast service, without a log line per
request.
"""

from __future__ import annotations

import sys

from fastapi import FastAPI

COMMAND = (
    *(sys.executable, "-m", "uvicorn", "benchmarks.serve.bare_service:app", "--port", "0"),
    *("--loop", "uvloop", "--http", "httptools", "--no-access-log"),
)

app = FastAPI(openapi_url=None)


@app.post("/v1/forecast")
async def forecast() -> dict[str, float]:
    """Return a small constant."""
    return {"impressions": 1000.0, "spend": 2.5}


@app.get("/health")
async def health() -> dict[str, str]:
    """Return a sign of life."""
    return {"status": "ok"}
