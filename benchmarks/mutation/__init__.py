"""Mutation testing of the core: which small changes of the code do its tests notice?

Every module gives the same share of its mutants, drawn at random; the interval is that of
stratified sampling. A mutant is killed if a test fails, or if the tests take three times as long.
Mutants that were reviewed and found equivalent, so that no test could notice them, are listed with
reasons in ``equivalents.toml``. They count as survivors in one score, and not at all in the other.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Context
from benchmarks.mutation.mutants import SOURCES, Mutant, draw_mutants
from benchmarks.results import Result, Table, figure_text, item

#: What counts labels, searches, and decides which partitions vote.
MODULES = [
    *(
        f"{folder}/{path.name}"
        for folder in ("labels", "counts", "search")
        for path in sorted((SOURCES / folder).glob("[a-z]*.py"))
    ),
    "consensus/robust/camps.py",
]
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")

Record = dict[str, Any]


def run(context: Context, *, seed: int = 1, share: float = 0.05, only: str = "") -> Result:
    """Run a ``share`` of the mutants of each module, or of those with ``only`` in their path.

    Outcomes are kept by mutant; remove them after a change of the tests.
    """
    equivalent, kept = read_equivalents(EQUIVALENTS), context.trials("mutation")
    found: list[Record] = []
    n_mutants = {}
    for module in [module for module in MODULES if only in module]:
        drawn, n_mutants[module] = draw_mutants(module, 0.01 if context.quick else share, seed)
        outcome = _lazy_outcomes(module)
        for mutant in context.track(drawn, module):
            place = {"module": module, "line": mutant.line, "kind": mutant.kind}
            place |= {"before": mutant.before, "after": mutant.after}
            record = kept.find_or_run(place, lambda mutant=mutant: outcome(mutant))
            why = equivalent.get((module, mutant.before, mutant.after), "")
            found.append({**place, **record, "equivalent": why})
    return summary(found, n_mutants, seed)


def summary(found: Sequence[Record], n_mutants: Mapping[str, int], seed: int) -> Result:
    """Return the tables of outcomes by module and by kind of change."""
    modules = [
        _score(module, [record for record in found if record["module"] == module], n)
        for module, n in n_mutants.items()
    ]
    kinds = [
        _score(kind, [record for record in found if record["kind"] == kind])
        for kind in sorted({record["kind"] for record in found})
    ]
    total = _total(modules)
    columns = {
        "mutants": item("n_mutants", form=","),
        "drawn": item("drawn"),
        "killed": item("killed"),
        "timed out": item("timed out"),
        "survived": item("survived"),
        "of these equivalent": item("equivalent"),
        "score": item("score", form=".0%"),
        "without equivalent": item("score_without", form=".0%"),
    }
    tables = [
        Table.of("Mutants by module", [*modules, total], {"module": item("name"), **columns}),
        Table.of(
            "Mutants by kind of change",
            kinds,
            {"change": item("name"), **{k: v for k, v in columns.items() if k != "mutants"}},
        ),
    ]
    low, high = (figure_text(bound, ".1%") for bound in total["interval"])
    note = f"{total['score']:.1%} of the mutants are killed (95% interval {low} to {high})"
    survivors = [record for record in found if record["outcome"] == "survived"]
    data = {"seed": seed, "total": total, "modules": modules, "kinds": kinds}
    return Result("mutation", tables, {**data, "survivors": survivors}, [note + "."])


def read_equivalents(path: Path) -> dict[tuple[str, str, str], str]:
    """Return the reasons of reviewed equivalent mutants by module, old and new code."""
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    return {(e["module"], e["before"], e["after"]): e["why"] for e in listed}


def _lazy_outcomes(module: str) -> Any:
    """Return what runs a mutant; the tests are first run unchanged when the first one is."""
    tests: list[Any] = []

    def outcome(mutant: Mutant) -> Record:
        from benchmarks.mutation.runs import ModuleTests

        if not tests:
            tests.append(ModuleTests(module))
        found: Record = tests[0].outcome(mutant.source)
        return found

    return outcome


def _score(name: str, found: Sequence[Record], n_mutants: int = 0) -> Record:
    counts = {
        outcome: sum(record["outcome"] == outcome for record in found)
        for outcome in ("killed", "timed out", "survived")
    }
    dead, survived = counts["killed"] + counts["timed out"], counts["survived"]
    equivalent = sum(bool(r["equivalent"]) for r in found if r["outcome"] == "survived")
    return {
        "name": name,
        "n_mutants": n_mutants,
        "drawn": len(found),
        **counts,
        "equivalent": equivalent,
        "score": dead / max(1, dead + survived),
        "score_without": dead / max(1, dead + survived - equivalent),
    }


def _total(modules: Sequence[Record]) -> Record:
    """Return the score of all modules, weighted by their mutants, with its 95% interval."""
    total = sum(module["n_mutants"] for module in modules)
    sums = {
        key: sum(module[key] for module in modules)
        for key in ("n_mutants", "drawn", "killed", "timed out", "survived", "equivalent")
    }
    parts = [(m["n_mutants"] / total, m["score"], m["drawn"], m["n_mutants"]) for m in modules]
    score = sum(weight * p for weight, p, _, _ in parts)
    # p is drawn towards one half, so that a module without survivors is not held for certain
    variance = sum(
        (w**2) * (1 - n / N) * _shrunk(p, n) * (1 - _shrunk(p, n)) / n for w, p, n, N in parts
    )
    margin = 1.96 * math.sqrt(variance)
    without = sum(weight * m["score_without"] for (weight, *_), m in zip(parts, modules, strict=True))
    return {
        "name": "all",
        **sums,
        "score": score,
        "score_without": without,
        "interval": [max(0.0, score - margin), min(1.0, score + margin)],
    }


def _shrunk(p: float, n: int) -> float:
    return (p * n + 1) / (n + 2)
