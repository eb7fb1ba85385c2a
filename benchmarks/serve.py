"""The forecast service under load: how many forecasts a second, how late, how large, how steady.

Everything is asked over HTTP of ``coterie ads serve`` in a process of its own
(:mod:`~benchmarks.serve_processes`), by a load from another
(:mod:`~benchmarks.serve_load`). Single forecasts are measured beside a bare FastAPI service
(:mod:`~benchmarks.bare_service`), the two taking turns, so that both have the same machine.
Models are grown from a small fitted one (:mod:`~benchmarks.grown_models`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.grown_models import fitted_market, grown
from benchmarks.serve_answers import (
    CheckedAnswers,
    batch_bodies,
    checked_answers,
    single_bodies,
)
from benchmarks.serve_load import LoadRun, generator_in_words, run_load
from benchmarks.serve_processes import (
    BARE,
    RunningService,
    running_service,
    serve_command,
)
from benchmarks.serve_reloads import Replacements, version_of
from benchmarks.serve_results import (
    BATCH,
    FULL,
    Batches,
    Effort,
    Reloads,
    Rounds,
    ServeResults,
    Singles,
    Size,
)
from coterie.ads.forecasts.forecaster import AdForecaster
from coterie.files.model_files import save_model
from coterie.runtime.devices import n_threads

__all__ = ["run_serve"]

_FIRST, _SINGLES, _N_BATCHES = 1_000, 20_000, 20
_RELOAD_CONNECTIONS = 8
# the first of every so many answers is checked
_KEPT_SINGLES, _KEPT_BATCHES, _KEPT_RELOADS = 50, 5, 200

Say = Callable[[str], None]
_Round = tuple[LoadRun, float | None]


def run_serve(effort: Effort = FULL, before_step: Say | None = None) -> ServeResults:
    """Grow the models, serve them, and measure.

    Parameters
    ----------
    effort : Effort
    before_step : called with a few words on what is done next
    """
    say = before_step or (lambda _: None)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="coterie-serve-") as name:
        bench = _Bench(effort, Path(name), say)
        say("compiling kernels")
        with running_service(serve_command(bench.files[0])):
            pass
        sizes = [bench.size(n) for n in range(len(effort.sizes))]
        singles, batches = bench.throughput()
        reloads = bench.reloads()
    return ServeResults(
        effort,
        generator_in_words(),
        n_threads(),
        sizes,
        singles,
        batches,
        reloads,
        bench.checked,
        load,
    )


class _Bench:
    """The models and their files, the questions, and the answers that were checked so far."""

    def __init__(self, effort: Effort, folder: Path, say: Say) -> None:
        self.effort, self.folder, self.say = effort, folder, say
        self.checked = CheckedAnswers()
        say("fitting a market")
        small = fitted_market(effort.market)
        self.files: list[Path] = []
        self.first_questions: list[list[bytes]] = []
        for advertisers in effort.sizes:
            say(f"growing {advertisers:,} advertisers")
            model = grown(small, advertisers)
            self.files.append(self._saved(model, f"{advertisers}.coterie"))
            self.first_questions.append(single_bodies(model, _FIRST))
        self.other_model = grown(small, effort.sizes[-1], seed=1)
        self.other = self._saved(self.other_model, "other.coterie")
        self.model = model  # of the largest size, the one that is served
        self.questions = single_bodies(self.model, _SINGLES)

    def size(self, number: int) -> Size:
        """Start a service of the model several times, and weigh the last."""
        advertisers, file = self.effort.sizes[number], self.files[number]
        starts: list[float] = []
        for turn in range(self.effort.starts):
            self.say(f"{advertisers:,} advertisers: start {turn + 1}")
            with running_service(serve_command(file)) as service:
                starts.append(service.start_seconds)
                started, processor = service.memory(), service.processor_seconds()
                if turn == self.effort.starts - 1:
                    run_load(service.port, self.first_questions[number], 1, 1)
                    loaded = service.memory()
        return Size(advertisers, file.stat().st_size, tuple(starts), processor, started, loaded)

    def throughput(self) -> tuple[list[Singles], list[Batches]]:
        """Single forecasts beside the bare service, then batches, of the largest model."""
        with (
            running_service(serve_command(self.files[-1])) as service,
            running_service(BARE) as bare,
        ):
            self._check(service, self.questions, _KEPT_SINGLES)
            run_load(bare.port, self.questions, 8, 1)
            singles = [self._singles(service, bare, n) for n in self.effort.connections]
            batches = batch_bodies(self.model, _N_BATCHES, BATCH)
            self._check(service, batches, _KEPT_BATCHES)
            return singles, [
                self._batches(service, batches, n) for n in self.effort.batch_connections
            ]

    def reloads(self) -> Reloads:
        """Replace the model under load, by renaming another file over it, to and fro."""
        files = (self.other, self.files[-1])
        models = {version_of(self.files[-1]): self.model, version_of(self.other): self.other_model}
        served = self.folder / "served.coterie"
        os.link(self.files[-1], served)
        self.say("replacing the model under load")
        with running_service(serve_command(served)) as service:
            run_load(service.port, self.questions, _RELOAD_CONNECTIONS, 1)
            before = service.memory()
            seconds = self.effort.reload_seconds
            changes = Replacements(service, served, files, self.effort.reloads, seconds)
            run = run_load(
                service.port,
                self.questions,
                _RELOAD_CONNECTIONS,
                seconds,
                keep_every=_KEPT_RELOADS,
                meanwhile=changes.make,
            )
            after = service.memory()
        self.checked += checked_answers(run.kept, models)
        return Reloads(run, tuple(changes.waits), changes.missed, before, after)

    def _singles(self, service: RunningService, bare: RunningService, connections: int) -> Singles:
        self.say(f"single forecasts, {connections} connections")
        both: tuple[list[_Round], list[_Round]] = ([], [])
        for _ in range(self.effort.rounds):
            for one, rounds in zip((service, bare), both, strict=True):
                rounds.append(_round(one, self.questions, connections, self.effort.seconds))
        return Singles(connections, _rounds(both[0]), _rounds(both[1]))

    def _batches(
        self, service: RunningService, bodies: Sequence[bytes], connections: int
    ) -> Batches:
        self.say(f"batches of {BATCH:,}, {connections} connections")
        found = [
            _round(service, bodies, connections, self.effort.seconds)
            for _ in range(self.effort.rounds)
        ]
        return Batches(connections, _rounds(found))

    def _check(self, service: RunningService, bodies: Sequence[bytes], kept: int) -> None:
        """A second of load whose answers are looked at, before those that are only counted."""
        self.say("checking answers")
        run = run_load(service.port, bodies, 8, 1, keep_every=kept)
        self.checked += checked_answers(run.kept, {version_of(self.files[-1]): self.model})

    def _saved(self, model: AdForecaster, name: str) -> Path:
        save_model(model, self.folder / name)
        return self.folder / name


def _round(
    service: RunningService, bodies: Sequence[bytes], connections: int, seconds: int
) -> _Round:
    before = service.processor_seconds()
    run = run_load(service.port, bodies, connections, seconds)
    after = service.processor_seconds()
    return run, None if before is None or after is None else after - before


def _rounds(found: Sequence[_Round]) -> Rounds:
    return Rounds(tuple(run for run, _ in found), tuple(seconds for _, seconds in found))
