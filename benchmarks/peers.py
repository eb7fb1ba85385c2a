"""The library beside the packages one would pick instead, each in an environment of its own.

Labels in: all get the same label matrix. Features in: all get the same features and make as many
runs with as many clusters. Then the same with n doubled until a method runs out of time or
memory. Every trial is a fresh process (:mod:`~benchmarks.peer_trials`).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import get_args

from benchmarks.peer_environments import (
    ENVIRONMENTS,
    MadeEnvironment,
    default_folder,
    make_environment,
    this_environment,
)
from benchmarks.peer_tasks import (
    Kind,
    Material,
    Task,
    fixed_tasks,
    growing_task,
    write_task,
)
from benchmarks.peer_trials import Limits, Trial, run_trial
from coterie.errors import DatasetUnavailableError
from coterie.runtime.atomic_files import atomic_file

__all__ = [
    "FULL",
    "PEERS",
    "QUICK",
    "Effort",
    "Peer",
    "PeerResults",
    "PeerTrial",
    "Reach",
    "reaches",
    "run_peers",
]

OURS = "coterie"


@dataclass(frozen=True)
class Peer:
    """A method of a package.

    Attributes
    ----------
    name : str
    package : str
        Its name on PyPI.
    method : str
        Its name in :data:`~benchmarks.peer_runner.METHODS`.
    kind : {"labels", "features", "views"}
        What it takes.
    how : str
        How it is called, where that is not plain.
    """

    name: str
    package: str
    method: str
    kind: Kind
    how: str = ""


PEERS = (
    Peer("RobustConsensus", OURS, "coterie.robust", "labels", "as it comes"),
    Peer("RobustConsensus, l2", OURS, "coterie.robust-l2", "labels", "relaxation='l2'"),
    Peer("L2Consensus", OURS, "coterie.l2", "labels"),
    Peer(
        "one-hot k-means", "scikit-learn", "scikit-learn.one-hot", "labels",
        "OneHotEncoder, then KMeans with 10 starts",
    ),
    *(
        Peer(solver.upper(), "ensembleclustering", f"ensembleclustering.{solver}", "labels")
        for solver in ("cspa", "hgpa", "mcla", "hbgf", "nmf")
    ),
    Peer(
        "average linkage", "OpenEnsembles", "openensembles.linkage", "labels",
        "cut at co-occurrence 1/2, since it takes no K",
    ),
    Peer("majority vote", "OpenEnsembles", "openensembles.majority", "labels", "takes no K"),
    Peer("graph closure", "OpenEnsembles", "openensembles.graph", "labels", "at 1/2; takes no K"),
    Peer("mixture model", "OpenEnsembles", "openensembles.mixture", "labels"),
    *(
        Peer(
            name, "scikit-network", f"scikit-network.{name.lower()}", "labels",
            "Potts at 1/2 on the co-association graph, which is part of the time; takes no K",
        )
        for name in ("Louvain", "Leiden")
    ),
    Peer("ConsensusClusterer", OURS, "coterie.features", "features", "as it comes"),
    Peer(
        "ConsensusClustering", "consensusclustering", "consensusclustering", "features",
        "k-means with one start on 80% of the rows; it gives a matrix, which average linkage cuts",
    ),
    Peer(
        "CKmeans", "pyckmeans", "pyckmeans", "features",
        "one start on 80% of rows and columns; no metrics of the single runs",
    ),
    Peer("MultiViewClusterer", OURS, "coterie.views", "views", "as it comes"),
    Peer(
        "MultiviewKMeans", "mvlearn", "mvlearn.kmeans", "views",
        "the first two views, as it takes no more; as many starts as we have runs a view",
    ),
    Peer("MultiviewSpectral", "mvlearn", "mvlearn.spectral", "views"),
    Peer("MultiviewCoRegSpectral", "mvlearn", "mvlearn.co-regularised", "views"),
)  # fmt: skip


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes
    ----------
    limits : Limits
    first_n, largest_n : int
        n is doubled from the one to the other.
    fixed : bool
        Whether the tasks of a given size are measured as well.
    """

    limits: Limits = field(default_factory=Limits)
    first_n: int = 1_000
    largest_n: int = 4_096_000
    fixed: bool = True

    @property
    def sizes(self) -> Iterator[int]:
        """The sizes, in turn.

        >>> list(Effort(first_n=500, largest_n=2500).sizes)
        [500, 1000, 2000]
        """
        n = self.first_n
        while n <= self.largest_n:
            yield n
            n *= 2


FULL = Effort()
QUICK = Effort(Limits(seconds=3.0), first_n=500, largest_n=1_000, fixed=False)


@dataclass(frozen=True)
class PeerTrial:
    """A trial of a peer on a task; ``growing`` if the task is one of those that grow."""

    peer: Peer
    task: Task
    growing: bool
    trial: Trial


@dataclass(frozen=True)
class PeerResults:
    """All that was found.

    Attributes
    ----------
    effort : Effort
    trials : list of PeerTrial
    environments : dict of str to MadeEnvironment
        By package.
    left_out : dict of str to str
        Tasks that could not be had, with the reason.
    load : float
        Processes that wanted to run, on average over the minute before the first trial.
    """

    effort: Effort
    trials: list[PeerTrial]
    environments: Mapping[str, MadeEnvironment]
    left_out: Mapping[str, str]
    load: float = 0.0


@dataclass(frozen=True)
class Reach:
    """How far a peer came: its last good trial, if any, and the one that failed, if any."""

    peer: Peer
    last: PeerTrial | None
    stopped: PeerTrial | None


def run_peers(
    effort: Effort = FULL,
    *,
    peers: Sequence[Peer] = PEERS,
    environments: Path | None = None,
    keep: Path | None = None,
    before_step: Callable[[str], None] | None = None,
) -> PeerResults:
    """Compare peers.

    Parameters
    ----------
    effort : Effort
    peers : sequence of Peer
    environments : Path, optional
        The folder of their environments, made where they are missing; one in the user's cache
        if not given.
    keep : Path, optional
        A folder for the outcome of each trial; those already there are not tried again. Crashes
        are not kept.
    before_step : called with a few words on what is done next
    """
    say = before_step or _say_nothing
    folder = default_folder() if environments is None else environments
    made = {package: _environment(package, folder, say) for package in _packages(peers)}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="coterie-peers-") as scratch:
        bench = _Bench(effort.limits, made, Path(scratch), keep, say)
        left_out: dict[str, str] = {}
        trials = list(_fixed_trials(effort, peers, bench, left_out))
        for kind in get_args(Kind):
            trials += _growing_trials(effort, [p for p in peers if p.kind == kind], kind, bench)
    return PeerResults(effort, trials, made, left_out, load)


def reaches(results: PeerResults) -> list[Reach]:
    """How far each peer came on the tasks that grow, in the order of the peers."""
    found: dict[Peer, Reach] = {}
    for one in results.trials:
        if one.growing:
            before = found.get(one.peer, Reach(one.peer, None, None))
            done = one.trial.status == "done"
            found[one.peer] = (
                Reach(one.peer, one, None) if done else Reach(one.peer, before.last, one)
            )
    return list(found.values())


def _fixed_trials(
    effort: Effort, peers: Sequence[Peer], bench: _Bench, left_out: dict[str, str]
) -> Iterator[PeerTrial]:
    for task in fixed_tasks(effort.first_n) if effort.fixed else ():
        able = [peer for peer in peers if peer.kind == task.kind]
        try:
            yield from [PeerTrial(peer, task, False, t) for peer, t in bench.tried(task, able)]
        except DatasetUnavailableError as error:
            left_out[task.title] = str(error)


def _growing_trials(
    effort: Effort, peers: Sequence[Peer], kind: Kind, bench: _Bench
) -> Iterator[PeerTrial]:
    """Double n; whoever fails is not tried again."""
    running = list(peers)
    for n in effort.sizes:
        if not running:
            return
        task = growing_task(kind, n)
        found = list(bench.tried(task, running))
        yield from (PeerTrial(peer, task, True, trial) for peer, trial in found)
        running = [peer for peer, trial in found if trial.status == "done"]


@dataclass(frozen=True)
class _Bench:
    """Where trials are made: limits, environments, room for inputs, and outcomes kept."""

    limits: Limits
    environments: Mapping[str, MadeEnvironment]
    scratch: Path
    keep: Path | None
    say: Callable[[str], None]

    def tried(self, task: Task, peers: Sequence[Peer]) -> Iterator[tuple[Peer, Trial]]:
        """Try the peers in turn. The input is made when first needed, and removed at the end."""
        inputs = _Inputs(task, self.scratch / task.name)
        try:
            for peer in peers:
                yield peer, self._trial(peer, task, inputs)
        finally:
            shutil.rmtree(inputs.folder, ignore_errors=True)

    def _trial(self, peer: Peer, task: Task, inputs: _Inputs) -> Trial:
        made = self.environments[peer.package]
        if not made.python:
            return Trial("not installed", made.error)
        kept = None if self.keep is None else self.keep / self._file_name(peer, task, made)
        known = None if kept is None else _read_trial(kept)
        if known is not None:
            return known
        self.say(f"{task.title}: {peer.package} {peer.name}")
        found = run_trial(made.python, peer.method, inputs.folder, inputs.material, self.limits)
        # a crash costs little to repeat, and may be mended by then
        if kept is not None and found.status != "crash":
            kept.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(kept) as unfinished:
                unfinished.write_text(json.dumps(asdict(found)), encoding="utf-8")
        return found

    def _file_name(self, peer: Peer, task: Task, made: MadeEnvironment) -> str:
        limits = f"{self.limits.seconds:g}s-{self.limits.memory / 1e9:g}GB"
        return f"{task.name}-{peer.method}-{made.version}-{limits}.json"


@dataclass(frozen=True)
class _Inputs:
    """A task's arrays, in memory and in a folder, made when somebody asks for them."""

    task: Task
    folder: Path

    @cached_property
    def material(self) -> Material:
        return write_task(self.task, self.folder)


def _read_trial(path: Path) -> Trial | None:
    """A trial that was kept; None where there is none, or a file that is not ours."""
    try:
        return Trial(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _environment(package: str, folder: Path, say: Callable[[str], None]) -> MadeEnvironment:
    if package in ENVIRONMENTS:
        return make_environment(ENVIRONMENTS[package], folder, say)
    return this_environment(package)


def _packages(peers: Sequence[Peer]) -> list[str]:
    return list(dict.fromkeys(peer.package for peer in peers))


def _say_nothing(_: str) -> None:
    """What is said to nobody."""
