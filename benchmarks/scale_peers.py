"""How far other packages come on growing label matrices, by ``peers``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import OURS
from coterie.errors import TableError

__all__ = ["MeasuredPeers", "PeerCurve", "read_peers"]


@dataclass(frozen=True)
class PeerCurve:
    """One method of another package.

    Attributes
    ----------
    package, method : str
    points : tuple of (n, seconds, peak bytes)
        Where it had an answer.
    stopped : (n, seconds or None, status) or None
        Where it had none, and why; None if it was not tried further.
    """

    package: str
    method: str
    points: tuple[tuple[int, float, int], ...]
    stopped: tuple[int, float | None, str] | None


@dataclass(frozen=True)
class MeasuredPeers:
    """Curves of all methods that take labels, and where and when they were measured.

    Attributes
    ----------
    curves : tuple of PeerCurve
    seconds, memory : what a trial was allowed, the latter in bytes of address space
    date, machine : str
    """

    curves: tuple[PeerCurve, ...]
    seconds: float
    memory: int
    date: str
    machine: str


def read_peers(path: Path) -> MeasuredPeers | None:
    """What is in a file that ``python -m benchmarks peers`` has written; None if there is none.

    Our own methods are left out, and so are methods that could not be installed.
    """
    if not path.exists():
        return None
    try:
        everything = json.loads(path.read_text(encoding="utf-8"))
        return _as_peers(everything)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(
            f"{path} is not what python -m benchmarks peers writes ({error!r}); make it anew "
            "or remove it"
        ) from error


def _as_peers(everything: dict[str, Any]) -> MeasuredPeers:
    trials: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for trial in everything["trials"]:
        tried = trial["growing"] and trial["kind"] == "labels" and trial["package"] != OURS
        if tried and trial["status"] != "not installed":
            trials.setdefault((trial["package"], trial["method"]), []).append(trial)
    described = everything["environment"]
    return MeasuredPeers(
        tuple(_as_curve(package, method, own) for (package, method), own in trials.items()),
        float(everything["limits"]["seconds"]),
        int(everything["limits"]["memory"]),
        described["date"],
        f"{described['cpu']}, {described['threads']} threads",
    )


def _as_curve(package: str, method: str, own: list[dict[str, Any]]) -> PeerCurve:
    done = [t for t in own if t["status"] == "done"]
    failed = next((t for t in own if t["status"] != "done"), None)
    return PeerCurve(
        package,
        method,
        tuple((t["n"], t["seconds"], t["peak_bytes"]) for t in done),
        None if failed is None else (failed["n"], failed["seconds"], failed["status"]),
    )
