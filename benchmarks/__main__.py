"""Run a benchmark: ``python -m benchmarks NAME``."""

from benchmarks.program import app

app(prog_name="python -m benchmarks")
