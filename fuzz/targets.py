"""All targets by name; a target is imported only when it is used."""

from __future__ import annotations

from importlib import import_module

from coterie.errors import InvalidParameterError
from fuzz.contract import Target

__all__ = ["TARGETS", "make_target"]

#: The module of each target, which has a function ``make``, and what it reads.
TARGETS = {
    "labels": ("label_input", "Label matrices from arrays, lists and tables."),
    "text": ("text_tables", "Tables in CSV and TSV text, plain and gzipped."),
    "models": ("model_files", "Model files: mutated, and forged with right checksums."),
    "service": ("service_requests", "Requests to the service, in the process."),
    "logs": ("bid_logs", "Bid logs in CSV and JSON lines, from the file to histograms."),
}


def make_target(name: str) -> Target:
    """Return a target by name."""
    if name not in TARGETS:
        raise InvalidParameterError(f"no target {name!r}; there are {', '.join(TARGETS)}")
    made: Target = import_module(f"fuzz.{TARGETS[name][0]}").make()
    return made
