"""Mutation testing of the core: the share of small changes of the code that its tests notice.

Every module gives the same share of its mutants, drawn at random; the interval is that of
stratified sampling. A mutant is killed if a test fails, or if the tests take three times as long.
Mutants that were reviewed and found equivalent, so that no test could notice them, are listed with
reasons in ``equivalents.toml``. They count as survivors in one score, and not at all in the other.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Context
from benchmarks.mutation.mutants import SOURCES, Mutant, draw_mutants
from benchmarks.mutation.runs import ModuleTests
from benchmarks.results import Result, Table, item

#: What counts labels, searches, and decides which partitions vote.
MODULES = [
    *(
        f"{folder}/{path.name}"
        for folder in ("labels", "counts", "search")
        for path in sorted((SOURCES / folder).glob("[a-z]*.py"))
    ),
    "consensus/camps.py",
]
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
_SHOWN = ("module", "line", "kind", "before", "after")

Record = dict[str, Any]

MEASURES = ("labels", "counts", "search", "consensus/camps.py")


def run(context: Context, *, seed: int = 1, share: float = 0.05, only: str = "") -> Result:
    """Run a ``share`` of the mutants of each module, or of those with ``only`` in their path.

    Outcomes are kept by mutant; remove them after a change of the tests.
    """
    reasons, kept = read_equivalents(EQUIVALENTS), context.trials("mutation")
    found: list[Record] = []
    n_mutants = {}
    for module in [module for module in MODULES if only in module]:
        drawn, n_mutants[module] = draw_mutants(module, 0.01 if context.quick else share, seed)
        outcome_of = _LazyOutcomes(module)
        for mutant in context.track(drawn, module):
            place = {name: getattr(mutant, name) for name in _SHOWN}
            record = kept.find_or_run(place, partial(outcome_of, mutant))
            why = reasons.get((module, mutant.before, mutant.after), "")
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
    low, high = total["interval"]
    note = (
        f"{total['score']:.1%} of all mutants are killed (95% interval {low:.1%} to {high:.1%}), "
        f"{total['score_without']:.1%} without those that were found equivalent"
    )
    survivors = [record for record in found if record["outcome"] == "survived"]
    data = {"seed": seed, "total": total, "modules": modules, "kinds": kinds}
    return Result("mutation", tables, {**data, "survivors": survivors}, [note + "."])


def read_equivalents(path: Path) -> dict[tuple[str, str, str], str]:
    """Return the reasons of reviewed equivalent mutants by module, old and new code."""
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    return {(e["module"], e["before"], e["after"]): e["why"] for e in listed}


class _LazyOutcomes:
    """Outcomes of the mutants of a module; its tests run unchanged before the first one."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __call__(self, mutant: Mutant) -> Record:
        return self._tests.outcome(mutant.source)

    @cached_property
    def _tests(self) -> ModuleTests:
        return ModuleTests(self._module)


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
    shares = [module["n_mutants"] / total for module in modules]
    scores = {
        key: sum(share * module[key] for share, module in zip(shares, modules, strict=True))
        for key in ("score", "score_without")
    }
    variances = (_variance(m["score"], m["drawn"], m["n_mutants"]) for m in modules)
    margin = 1.96 * math.sqrt(sum(s**2 * v for s, v in zip(shares, variances, strict=True)))
    interval = [max(0.0, scores["score"] - margin), min(1.0, scores["score"] + margin)]
    return {"name": "all", **sums, **scores, "interval": interval}


def _variance(score: float, n: int, n_mutants: int) -> float:
    """Return the variance of a share found in n of all mutants, drawn without replacement.

    One more killed and one more survivor are assumed: a module of which all were killed in the
    sample may have survivors.
    """
    share = (score * n + 1) / (n + 2)
    return (1 - n / n_mutants) * share * (1 - share) / n
