"""Accuracy, time, memory and largest n compared with other packages, each in its own environment.

All methods that take labels get the same label matrix. All methods that take features or views get
the same ones and make as many runs with as many clusters. On the growing tasks n is doubled until a
method exceeds its limits or fails. Every trial is a fresh process (:mod:`benchmarks.peers.trials`).
"""

from __future__ import annotations

import functools
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.environment import set_variables
from benchmarks.harness import ENSEMBLES, Context, KeptTrials
from benchmarks.peers.tasks import (
    WRONG_OF_20,
    Task,
    fixed_tasks,
    growing_task,
    write_task,
    wrong_vote_tasks,
)
from benchmarks.peers.trials import Environment, Limits, Material, find_or_make, run_trial
from benchmarks.program_runs import busy_notes
from benchmarks.results import Marks, Result, Table, best_cells, item, line_plot, seconds_text
from coterie.datasets.loading import cache_folder
from coterie.errors import DatasetUnavailableError
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "coterie"
#: What a method takes.
KINDS = ("labels", "features", "views")

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

Trial = dict[str, Any]


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

MEASURES = ENSEMBLES
FIGURES = {"limit": lambda data: f"{data['limits']['seconds']:g}"}


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
    trials: list[Trial] = []
    notes = []
    with (
        tempfile.TemporaryDirectory(prefix="coterie-peers-") as scratch,
        set_variables(COTERIE_DATA=context.data),
    ):
        bench = _Bench(context, context.trials("peers"), limits, made, Path(scratch))
        for kind in KINDS:
            trials += bench.grow(kind, first_n, largest_n or largest)
        for task in [] if context.quick else fixed_tasks(first_n):
            try:
                trials += bench.try_all(task, [peer for peer in PEERS if peer.kind == task.kind])
            except DatasetUnavailableError as error:
                notes.append(f"{task.title} was left out: {error}")
        votes = [] if context.quick else bench.try_wrong_votes()
    data = {
        "trials": trials,
        "wrong_votes": votes,
        "reach": reach_of(trials),
        "environments": [{"package": p, **e._asdict()} for p, e in made.items()],
        "limits": limits._asdict(),
    }
    # the fixed tasks, and the smallest growing task of each kind
    shown = [one for one in trials if not one["growing"] or one["n"] == first_n]
    notes += [
        f"{one['package']} {one['method']}, {one['title']}: {one['status']}: {one['message']}"
        for one in trials
        if one["status"] not in ("done", "time-out")
    ]
    plots = {"": lambda: _plot(trials, limits.seconds)}
    return Result("peers", _tables(data, shown), data, [*notes, *busy_notes(load)], plots)


class _Bench(NamedTuple):
    """Limits, environments, a folder for inputs, and kept trials."""

    context: Context
    kept: KeptTrials
    limits: Limits
    environments: Mapping[str, Environment]
    scratch: Path

    def grow(self, kind: str, n: int, largest: int) -> list[Trial]:
        """Double n; a method that fails is not tried again."""
        running = [peer for peer in PEERS if peer.kind == kind]
        found: list[Trial] = []
        while running and n <= largest:
            latest = self.try_all(growing_task(kind, n), running, growing=True)
            pairs = zip(running, latest, strict=True)
            running = [peer for peer, one in pairs if one["status"] == "done"]
            found += latest
            n *= 2
        return found

    def try_all(self, task: Task, peers: Sequence[Peer], growing: bool = False) -> list[Trial]:
        """Try peers on a task, in turn."""
        folder = self.scratch / task.name
        # the input is written when the first trial needs it, and removed at the end
        make = functools.cache(partial(write_task, task, folder))
        about = {"kind": task.kind, "task": task.name, "title": task.title, "n": task.n_points}
        about |= {"K": task.n_clusters, "growing": growing}
        found = []
        for peer in self.context.track(peers, task.title):
            tried = self._try(peer, task, folder, make)
            found.append({"package": peer.package, "method": peer.name, **about, **tried})
        shutil.rmtree(folder, ignore_errors=True)
        return found

    def try_wrong_votes(self) -> list[Trial]:
        """Try methods of labels on partitions of which more and more are wrong.

        Only accuracy counts here, so the limits are wide.
        """
        # one method of ours next to those of others
        peers = [p for p in PEERS if p.kind == "labels" and p.package != OURS]
        return [
            {"wrong": wrong, **one}
            for (wrong, _), task in wrong_vote_tasks().items()
            for one in self._replace(limits=Limits()).try_all(task, [PEERS[0], *peers])
        ]

    def _try(self, peer: Peer, task: Task, folder: Path, make: Callable[[], Material]) -> Trial:
        environment = self.environments[peer.package]
        if environment.error:
            return {"status": "not installed", "message": environment.error}
        key = {"task": task.name, "method": peer.method, **self.limits._asdict()}
        key["installed"] = dict(environment.installed)
        known = self.kept.find(key)
        if known is not None:
            return known
        found = run_trial(environment.python, peer.method, folder, make(), self.limits)
        # a crash is cheap to repeat and may have been repaired by then
        return found if found["status"] == "crash" else self.kept.add(key, found)


def reach_of(trials: Iterable[Trial]) -> list[Trial]:
    """Return the last good growing trial of every method, and how the next one ended."""
    found: dict[tuple[str, ...], Trial] = {}
    for one in trials:
        if one["growing"]:
            named = {part: one[part] for part in ("kind", "package", "method")}
            reach = found.setdefault(tuple(named.values()), {**named, "then": "not tried further"})
            if one["status"] == "done":
                reach |= {part: one[part] for part in ("n", "seconds", "peak_bytes", "accuracy")}
            else:
                reach["then"] = f"{one['status']} at {one['n']:,}"
    return list(found.values())


def accuracy_by_wrong_votes(trials: Iterable[Trial]) -> list[Trial]:
    """Return the mean accuracy of each method by the number of wrong partitions.

    It is None where a draw gave no answer.
    """
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for one in trials:
        by_wrong = found.setdefault((one["package"], one["method"]), {})
        by_wrong.setdefault(str(one["wrong"]), []).append(one.get("accuracy", math.nan))
    return [
        {
            "package": package,
            "method": method,
            "accuracy": {
                wrong: None if math.isnan(sum(draws)) else sum(draws) / len(draws)
                for wrong, draws in by_wrong.items()
            },
        }
        for (package, method), by_wrong in found.items()
    ]


def _tables(data: Mapping[str, Any], shown: Sequence[Trial]) -> list[Table]:
    named = {"package": item("package"), "method": item("method")}
    used = {
        "seconds": item("seconds", form=seconds_text),
        "peak memory": item("peak_bytes", form=readable_bytes),
    }
    accuracy = item("accuracy", form=".3f")
    columns = {
        **named,
        "accuracy": lambda one: accuracy(one) if one["status"] == "done" else one["status"],
        "J": item("objective", form=".5g"),
        "clusters": item("n_clusters"),
        **used,
    }
    tables = []
    for title in dict.fromkeys(one["title"] for one in shown):
        own = [one for one in shown if one["title"] == title]
        heading = (
            f"{own[0]['kind'].capitalize()} in: {title}; n = {own[0]['n']:,}, K = {own[0]['K']}"
        )
        bold = best_cells([[one.get("accuracy")] for one in own], 2, by="column")
        tables.append(Table.of(heading, own, columns, n_named=2, bold=bold))
    if data["wrong_votes"]:
        rows = accuracy_by_wrong_votes(data["wrong_votes"])
        by_wrong = {
            f"{wrong} wrong": item("accuracy", str(wrong), form=".3f", missing="none")
            for wrong in WRONG_OF_20
        }
        title = "Labels in: accuracy when so many of 20 partitions are wrong in the same way"
        bold = best_cells([list(row["accuracy"].values()) for row in rows], 2, by="column")
        tables.append(Table.of(title, rows, {**named, **by_wrong}, n_named=2, bold=bold))
    reach = {"given": item("kind"), **named, "largest n": item("n", form=",", missing="none")}
    reach |= {**used, "accuracy": accuracy, "then": item("then")}
    title = f"Largest n within {data['limits']['seconds']:g} s"
    tables.append(Table.of(title, data["reach"], reach, n_named=3))
    names = ("numpy", "scipy", "scikit-learn")
    versions = {
        "package": item("package"),
        "version": lambda made: made["error"] or made["installed"].get(made["package"].lower()),
        **{name: item("installed", name) for name in names},
    }
    return [*tables, Table.of("Environments", data["environments"], versions, n_named=2)]


def _plot(trials: Sequence[Trial], limit: float) -> Figure:
    """Draw seconds against n, both logarithmic: a panel a kind, a line a method."""
    panels: dict[str, list[Marks]] = {}
    for peer in PEERS:
        panel = panels.setdefault(f"{peer.kind.capitalize()} in", [])
        own = [
            one
            for one in trials
            if one["growing"] and one["method"] == peer.name and one["status"] == "done"
        ]
        # methods of a package have one colour and different markers
        colour = _COLOURS[peer.package]
        marker = "osD^vP*"[sum(marks.colour == colour for marks in panel)]
        n, seconds = [one["n"] for one in own], [one["seconds"] for one in own]
        if own:
            panel.append(Marks(f"{peer.package} {peer.name}", colour, marker, n, seconds))
    size = (5.2 * len(panels), 6.4)
    figure, all_axes = line_plot(panels, size, sharey=True, xscale="log", yscale="log", xlabel="n")
    for axes in all_axes:
        axes.axhline(limit, color="#999999", linewidth=0.8, linestyle=":")
        below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12)}
        axes.legend(**below, fontsize=7, frameon=False, ncols=2)
    all_axes[0].set_ylabel("seconds")
    return figure
