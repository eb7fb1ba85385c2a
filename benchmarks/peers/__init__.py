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
from benchmarks.peers.environments import Environment, default_folder, find_or_make
from benchmarks.peers.tasks import KINDS, Task, fixed_tasks, growing_task, write_task
from benchmarks.peers.trials import Limits, run_trial, trial
from benchmarks.results import OKABE_ITO, Result, Table, best_places, seconds_text
from coterie.errors import DatasetUnavailableError
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["OURS", "PEERS", "Peer", "run"]

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
    folder = default_folder() if environments is None else Path(environments)
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
    data = {
        "trials": found,
        "environments": {name: _environment_data(one) for name, one in made.items()},
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
        found = []
        for peer in self.context.track(peers, task.title):
            described = {
                "package": peer.package,
                "method": peer.name,
                "kind": peer.kind,
                "task": task.name,
                "title": task.title,
                "n": task.n_points,
                "K": task.n_clusters,
                "growing": growing,
            }
            found.append({**described, **self._try(peer, task, folder, make)})
        shutil.rmtree(folder, ignore_errors=True)
        return found

    def _try(self, peer: Peer, task: Task, folder: Path, make: Any) -> dict[str, Any]:
        environment = self.environments[peer.package]
        if not environment.python:
            return trial("not installed", environment.error)
        key = {
            "task": task.name,
            "method": peer.method,
            "version": environment.version,
            **self.limits._asdict(),
        }
        known = self.kept.find(key)
        if known is not None:
            return known
        found = run_trial(environment.python, peer.method, folder, make(), self.limits)
        # a crash is cheap to repeat and may have been repaired by then
        return found if found["status"] == "crash" else self.kept.add(key, found)


def _environment_data(made: Environment) -> dict[str, Any]:
    return {"version": made.version, "installed": made.installed, "error": made.error}


def _result(data: dict[str, Any], **environment: Any) -> Result:
    trials = data["trials"]
    reaches = _reaches(trials)
    data["reach"] = [
        {**{part: reach[part] for part in ("package", "method", "kind")},
         "largest_n": reach["last"]["n"] if reach["last"] else None,
         "stopped": _stop_text(reach["stopped"])}
        for reach in reaches
    ]  # fmt: skip
    # the fixed tasks, and the smallest growing task of each kind
    shown = [one for one in trials if not one["growing"] or one["n"] == data["first_n"]]
    names = sorted(
        dict.fromkeys(one["task"] for one in shown), key=lambda name: _order(name, shown)
    )
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
    return Result("peers", tables, data, notes, {"": functools.partial(_plot, data)}, **environment)


def _order(name: str, shown: Sequence[Mapping[str, Any]]) -> tuple[int, bool]:
    """Return the sorting key of a task: its kind, the growing task first."""
    one = next(one for one in shown if one["task"] == name)
    return KINDS.index(one["kind"]), not one["growing"]


def _reaches(trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the last good and the first failed growing trial of every method."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in trials:
        if one["growing"]:
            named = {part: one[part] for part in ("package", "method", "kind")}
            reach = found.setdefault(
                tuple(named.values()), {**named, "last": None, "stopped": None}
            )
            reach["last" if one["status"] == "done" else "stopped"] = one
    return list(found.values())


def _task_table(trials: Sequence[Mapping[str, Any]]) -> Table:
    first = trials[0]
    rows = [(one["package"], one["method"], *_trial_texts(one)) for one in trials]
    bold = {(r, 2) for r in best_places([one["accuracy"] for one in trials])}
    title = (
        f"{first['kind'].capitalize()} in: {first['title']}; n = {first['n']:,}, K = {first['K']}"
    )
    headings = ("package", "method", "accuracy", "J", "clusters", "seconds", "peak memory")
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
        "" if one["objective"] is None else f"{one['objective']:.5g}",
        str(one["n_clusters"]),
        seconds_text(one["seconds"]),
        readable_bytes(one["peak_bytes"]),
    )


def _reach_table(reaches: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> Table:
    rows = []
    for reach in reaches:
        accuracy, _, _, seconds, memory = _trial_texts(reach["last"])
        largest = f"{reach['last']['n']:,}" if reach["last"] else f"< {data['first_n']:,}"
        rows.append(
            (
                *(reach[part] for part in ("kind", "package", "method")),
                largest if reach["stopped"] else f"≥ {largest}",
                *(seconds, memory, accuracy, _stop_text(reach["stopped"])),
            )
        )
    headings = ("given", "package", "method", "largest n", "seconds", "peak memory", "accuracy")
    title = f"Largest n within {data['limits']['seconds']:g} s"
    return Table(title, (*headings, "then"), rows, n_named=3)


def _stop_text(stopped: Mapping[str, Any] | None) -> str:
    if stopped is None:
        return "not tried further"
    installed = stopped["status"] != "not installed"
    return f"{stopped['status']} at {stopped['n']:,}" if installed else "not installed"


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
    from matplotlib.figure import Figure

    growing = [one for one in data["trials"] if one["growing"]]
    kinds = [kind for kind in KINDS if any(one["kind"] == kind for one in growing)]
    width = max(1, len(kinds))
    figure = Figure(figsize=(5.2 * width, 6.4), layout="constrained")
    panels = figure.subplots(1, width, sharey=True, squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=False):
        trials = [one for one in growing if one["kind"] == kind]
        places: dict[str, int] = {}
        for package, method in dict.fromkeys((one["package"], one["method"]) for one in trials):
            places[package] = place = places.get(package, -1) + 1
            own = [one for one in trials if (one["package"], one["method"]) == (package, method)]
            _draw_line(axes, own, "osD^vP*"[place % 7])
        axes.axhline(data["limits"]["seconds"], color="#999999", linewidth=0.8, linestyle=":")
        axes.set(xscale="log", yscale="log", xlabel="n", title=f"{kind.capitalize()} in")
        axes.grid(color="#e4e4e4", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        place_below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12)}
        axes.legend(**place_below, fontsize=7, frameon=False, ncols=2)
    panels[0].set_ylabel("seconds")
    return figure


def _draw_line(axes: Axes, own: Sequence[Mapping[str, Any]], marker: str) -> None:
    """Draw the good trials of a method, and a cross at the failure."""
    colour = OKABE_ITO[_COLOURS.get(own[0]["package"], "grey")]
    # a failure before the clock started is drawn at the bottom
    at = [(one["n"], max(one["seconds"] or 0.0, 1e-3)) for one in own]
    done = [point for point, one in zip(at, own, strict=True) if one["status"] == "done"]
    axes.plot(
        *zip(*done, strict=True) if done else ([], []),
        color=colour,
        marker=marker,
        markersize=4,
        linewidth=2.2 if own[0]["package"] == OURS else 1.1,
        label=f"{own[0]['package']} {own[0]['method']}",
    )
    if len(done) < len(at):
        axes.plot(*at[-1], "x", color=colour, markersize=8, mew=2)
        axes.plot(*zip(*at[-2:], strict=True), color=colour, linewidth=0.8, linestyle="--")
