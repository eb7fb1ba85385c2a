"""Accuracy, time, memory and largest n beside other packages, each in its own environment.

All methods that take labels get the same label matrix. All methods that take features or views get
the same ones and make as many runs with as many clusters. On the growing tasks n is doubled until a
method exceeds its limits or fails. Every trial is a fresh process (:mod:`benchmarks.peers.trials`).
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.environment import set_variables
from benchmarks.harness import Context, KeptTrials
from benchmarks.peers.environments import Environment, find_or_make
from benchmarks.peers.tasks import KINDS, Task, fixed_tasks, growing_task, write_task
from benchmarks.peers.trials import Limits, run_trial, trial
from benchmarks.results import (
    Marks,
    Result,
    Table,
    best_cells,
    figure_text,
    line_plot,
    seconds_text,
)
from coterie.datasets.dataset_files import cache_folder
from coterie.errors import DatasetUnavailableError
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "coterie"
_COLOURS = {
    OURS: "blue",
    "scikit-learn": "purple",
    "ensembleclustering": "orange",
    "OpenEnsembles": "vermilion",
    "scikit-network": "green",
    "consensusclustering": "orange",
    "pyckmeans": "vermilion",
    "mvlearn": "green",
}
_NAMED = ("package", "method", "kind")
#: An idle machine may show this load in the minute before, when environments were made.
_BUSY_LOAD = 1.5


class Peer(NamedTuple):
    """A method of a package: its title, its key in ``runner.METHODS`` and what it takes."""

    name: str
    package: str
    method: str
    kind: str


PEERS = (
    Peer("RobustConsensus", OURS, "coterie.robust", "labels"),
    Peer("RobustConsensus, l2", OURS, "coterie.robust-l2", "labels"),
    Peer("L2Consensus", OURS, "coterie.l2", "labels"),
    Peer("one-hot k-means", "scikit-learn", "scikit-learn.one-hot", "labels"),
    *(
        Peer(solver.upper(), "ensembleclustering", f"ensembleclustering.{solver}", "labels")
        for solver in ("cspa", "hgpa", "mcla", "hbgf", "nmf")
    ),
    Peer("average linkage", "OpenEnsembles", "openensembles.linkage", "labels"),
    Peer("majority vote", "OpenEnsembles", "openensembles.majority", "labels"),
    Peer("graph closure", "OpenEnsembles", "openensembles.graph", "labels"),
    Peer("mixture model", "OpenEnsembles", "openensembles.mixture", "labels"),
    Peer("Louvain", "scikit-network", "scikit-network.louvain", "labels"),
    Peer("Leiden", "scikit-network", "scikit-network.leiden", "labels"),
    Peer("ConsensusClusterer", OURS, "coterie.features", "features"),
    Peer("ConsensusClustering", "consensusclustering", "consensusclustering", "features"),
    Peer("CKmeans", "pyckmeans", "pyckmeans", "features"),
    Peer("MultiViewClusterer", OURS, "coterie.views", "views"),
    Peer("MultiviewKMeans", "mvlearn", "mvlearn.kmeans", "views"),
    Peer("MultiviewSpectral", "mvlearn", "mvlearn.spectral", "views"),
    Peer("MultiviewCoRegSpectral", "mvlearn", "mvlearn.co-regularised", "views"),
)


def run(
    context: Context,
    *,
    seconds: float | None = None,
    environments: str | None = None,
    largest_n: int | None = None,
) -> Result:
    """Compare the library with other packages.

    A quick run has only the growing tasks, with 500 and 1,000 points and 3 ``seconds`` a trial. The
    defaults of a full run are 60 s and at most ``largest_n`` = 4,096,000 points. ``environments``
    is the folder of the packages' environments, by default one in the user's cache.
    """
    first_n, largest, limit = (500, 1_000, 3.0) if context.quick else (1_000, 4_096_000, 60.0)
    limits = Limits(seconds or limit)
    folder = cache_folder() / "peers" if environments is None else Path(environments)
    packages = dict.fromkeys(peer.package for peer in PEERS)
    made = {package: find_or_make(package, folder) for package in packages}
    load = os.getloadavg()[0]
    found: list[dict[str, Any]] = []
    left_out = {}
    with (
        tempfile.TemporaryDirectory(prefix="coterie-peers-") as scratch,
        set_variables(COTERIE_DATA=context.data),
    ):
        bench = _Bench(context, context.trials("peers"), limits, made, Path(scratch))
        for task in [] if context.quick else fixed_tasks(first_n):
            try:
                found += bench.try_all(task, [p for p in PEERS if p.kind == task.kind])
            except DatasetUnavailableError as error:
                left_out[task.title] = str(error)
        for kind in KINDS:
            found += bench.grow(kind, first_n, largest_n or largest)
    about = ("version", "installed", "error")
    data = {
        "trials": found,
        "environments": {p: {name: getattr(e, name) for name in about} for p, e in made.items()},
        "left_out": left_out,
        "limits": limits._asdict(),
        "first_n": first_n,
        "load": load,
    }
    return _result(data)


@dataclass(frozen=True)
class _Bench:
    """Limits, environments, a folder for inputs, and kept trials."""

    context: Context
    kept: KeptTrials
    limits: Limits
    environments: Mapping[str, Environment]
    scratch: Path

    def grow(self, kind: str, n: int, largest: int) -> list[dict[str, Any]]:
        """Double n; a method that fails is not tried again."""
        running = [peer for peer in PEERS if peer.kind == kind]
        found: list[dict[str, Any]] = []
        while running and n <= largest:
            latest = self.try_all(growing_task(kind, n), running, growing=True)
            pairs = zip(running, latest, strict=True)
            running = [peer for peer, one in pairs if one["status"] == "done"]
            found += latest
            n *= 2
        return found

    def try_all(
        self, task: Task, peers: Sequence[Peer], growing: bool = False
    ) -> list[dict[str, Any]]:
        """Try peers on a task, in turn."""
        folder = self.scratch / task.name
        # the input is written when the first trial needs it, and removed at the end
        make = functools.cache(functools.partial(write_task, task, folder))
        about = {"kind": task.kind, "task": task.name, "title": task.title, "n": task.n_points}
        about |= {"K": task.n_clusters, "growing": growing}
        found = []
        for peer in self.context.track(peers, task.title):
            tried = self._try(peer, task, folder, make)
            found.append({"package": peer.package, "method": peer.name, **about, **tried})
        shutil.rmtree(folder, ignore_errors=True)
        return found

    def _try(self, peer: Peer, task: Task, folder: Path, make: Any) -> dict[str, Any]:
        environment = self.environments[peer.package]
        if not environment.python:
            return trial("not installed", environment.error)
        key = {"task": task.name, "method": peer.method, "version": environment.version}
        key |= self.limits._asdict()
        known = self.kept.find(key)
        if known is not None:
            return known
        found = run_trial(environment.python, peer.method, folder, make(), self.limits)
        # a crash is cheap to repeat and may have been repaired by then
        return found if found["status"] == "crash" else self.kept.add(key, found)


def _result(data: dict[str, Any]) -> Result:
    trials = data["trials"]
    reaches = _reaches(trials)
    data["reach"] = [
        {
            **{part: reach[part] for part in _NAMED},
            "largest_n": reach["last"]["n"] if reach["last"] else None,
            "stopped": _stop_text(reach),
        }
        for reach in reaches
    ]
    # the fixed tasks, and the smallest growing task of each kind, which comes first
    shown = [one for one in trials if not one["growing"] or one["n"] == data["first_n"]]
    shown.sort(key=lambda one: (KINDS.index(one["kind"]), not one["growing"]))
    names = dict.fromkeys(one["task"] for one in shown)
    tables = [_task_table([one for one in shown if one["task"] == name]) for name in names]
    tables += [_reach_table(reaches, data), _environment_table(data["environments"])]
    notes = [
        f"{one['package']} {one['method']}, {one['title']}: {one['status']}: {one['message']}"
        for one in trials
        if one["status"] not in ("done", "time-out")
    ]
    notes += [f"{title} was left out: {why}" for title, why in data["left_out"].items()]
    if data["load"] > _BUSY_LOAD:
        notes.append(
            f"The machine was busy before the first trial (load {data['load']:.1f}): times are too "
            "long, and limits were reached too early."
        )
    return Result("peers", tables, data, notes, {"": functools.partial(_plot, data)})


def _reaches(trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the last good and the first failed growing trial of every method."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in trials:
        if one["growing"]:
            named = {part: one[part] for part in _NAMED}
            reach = found.setdefault(tuple(named.values()), {**named, "last": None, "failed": None})
            reach["last" if one["status"] == "done" else "failed"] = one
    return list(found.values())


def _task_table(trials: Sequence[Mapping[str, Any]]) -> Table:
    first = trials[0]
    rows = [(one["package"], one["method"], *_trial_texts(one)) for one in trials]
    size = f"n = {first['n']:,}, K = {first['K']}"
    headings = ("package", "method", "accuracy", "J", "clusters", "seconds", "peak memory")
    bold = best_cells([[one["accuracy"]] for one in trials], 2, by="column")
    title = f"{first['kind'].capitalize()} in: {first['title']}; {size}"
    return Table(title, headings, rows, 2, bold)


def _trial_texts(one: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return accuracy, J, clusters, seconds and memory; or the status."""
    if one is None:
        return ("",) * 5
    if one["status"] != "done":
        late = one["status"] == "time-out" and one["seconds"] is not None
        return one["status"], "", "", f"> {seconds_text(one['seconds'])}" if late else "", ""
    return (
        f"{one['accuracy']:.3f}",
        figure_text(one["objective"], ".5g", ""),
        str(one["n_clusters"]),
        seconds_text(one["seconds"]),
        readable_bytes(one["peak_bytes"]),
    )


def _reach_table(reaches: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> Table:
    rows = []
    for reach in reaches:
        accuracy, _, _, seconds, memory = _trial_texts(reach["last"])
        largest = f"{reach['last']['n']:,}" if reach["last"] else f"< {data['first_n']:,}"
        largest = largest if reach["failed"] else f"≥ {largest}"
        named = (reach["kind"], reach["package"], reach["method"])
        rows.append((*named, largest, seconds, memory, accuracy, _stop_text(reach)))
    headings = ("given", "package", "method", "largest n", "seconds", "peak memory", "accuracy")
    title = f"Largest n within {data['limits']['seconds']:g} s"
    return Table(title, (*headings, "then"), rows, n_named=3)


def _stop_text(reach: Mapping[str, Any]) -> str:
    failed = reach["failed"]
    if failed is None:
        return "not tried further"
    installed = failed["status"] != "not installed"
    return f"{failed['status']} at {failed['n']:,}" if installed else "not installed"


def _environment_table(environments: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = []
    for package, made in environments.items():
        beside = [
            f"{name} {made['installed'][name]}"
            for name in ("numpy", "scipy", "scikit-learn")
            if name in made["installed"] and name != package
        ]
        version = made["version"] or f"not installed: {made['error']}"
        rows.append((package, version, ", ".join(beside) or "this environment"))
    return Table("Environments", ("package", "version", "beside"), rows, n_named=3)


def _plot(data: Mapping[str, Any]) -> Figure:
    """Draw seconds against n, both logarithmic: a panel a kind, a line a method."""
    growing = [one for one in data["trials"] if one["growing"]]
    panels = {}
    for kind in KINDS:
        own: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for one in growing:
            if one["kind"] == kind:
                own.setdefault((one["package"], one["method"]), []).append(one)
        packages = [package for package, _ in own]
        # methods of a package have one colour and different markers
        places = [packages[:i].count(package) for i, package in enumerate(packages)]
        lines = zip(own.values(), places, strict=True)
        if own:
            panels[f"{kind.capitalize()} in"] = [
                marks for trials, place in lines for marks in _line_of(trials, "osD^vP*"[place % 7])
            ]
    size = (5.2 * max(1, len(panels)), 6.4)
    figure, all_axes = line_plot(panels, size, sharey=True, xscale="log", yscale="log", xlabel="n")
    for axes in all_axes:
        axes.axhline(data["limits"]["seconds"], color="#999999", linewidth=0.8, linestyle=":")
        below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12)}
        axes.legend(**below, fontsize=7, frameon=False, ncols=2)
    all_axes[0].set_ylabel("seconds")
    return figure


def _line_of(own: Sequence[Mapping[str, Any]], marker: str) -> list[Marks]:
    """Return the good trials of a method, and a dashed line to a cross at the failure."""
    package = own[0]["package"]
    colour = _COLOURS.get(package, "grey")
    n = [one["n"] for one in own]
    # a failure before the clock started is drawn at the bottom
    seconds = [max(one["seconds"] or 0.0, 1e-3) for one in own]
    good = sum(one["status"] == "done" for one in own)
    wide = {"linewidth": 2.2 if package == OURS else 1.1}
    lines = [
        Marks(
            f"{package} {own[0]['method']}", colour, marker, n[:good], seconds[:good], settings=wide
        )
    ]
    if good < len(own):
        dashed = {"ls": "--", "lw": 0.8, "markersize": 8, "mew": 2, "markevery": [-1]}
        lines.append(Marks("", colour, "x", n[-2:], seconds[-2:], settings=dashed))
    return lines
