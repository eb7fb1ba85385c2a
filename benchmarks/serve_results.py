"""What the benchmark of the service is asked to measure, and what it has found."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.grown_models import MARKET
from benchmarks.serve_answers import CheckedAnswers
from benchmarks.serve_load import LoadRun
from benchmarks.serve_processes import Memory
from coterie.ads.logs.simulation.simulated_traits import MarketSettings

__all__ = [
    "BATCH",
    "FULL",
    "QUICK",
    "Batches",
    "Effort",
    "Reloads",
    "Rounds",
    "ServeResults",
    "Singles",
    "Size",
]

#: Questions in a batch.
BATCH = 1_000


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes
    ----------
    seconds : int
        Of a round.
    rounds : int
    reload_seconds, reloads : int
        How long the load goes on while the model is replaced, and how often it is.
    sizes : tuple of int
        Advertisers; the last is served in all but the question of size.
    connections, batch_connections : tuples of int
    starts : int
    market : MarketSettings
        What the models are grown from.
    """

    seconds: int = 4
    rounds: int = 5
    reload_seconds: int = 60
    reloads: int = 5
    sizes: tuple[int, ...] = (10_000, 100_000)
    connections: tuple[int, ...] = (1, 8, 64)
    batch_connections: tuple[int, ...] = (1, 2, 8)
    starts: int = 3
    market: MarketSettings = MARKET


FULL = Effort()
QUICK = Effort(seconds=1, rounds=2, reload_seconds=12, sizes=(1_000, 10_000), starts=2)


@dataclass(frozen=True)
class Rounds:
    """The same load on a service, several times.

    Attributes
    ----------
    runs : tuple of LoadRun
    processor_seconds : tuple of float or None
        Of the service, in each; None where the system does not tell.
    """

    runs: tuple[LoadRun, ...]
    processor_seconds: tuple[float | None, ...]

    @property
    def a_second(self) -> float:
        """Requests a second, the median of the rounds."""
        return median(run.a_second for run in self.runs)

    @property
    def p50(self) -> float:
        """Seconds that half of the answers take at most, the median of the rounds."""
        return median(run.p50 for run in self.runs)

    @property
    def p99(self) -> float:
        """Seconds that all but one in a hundred take at most, the median of the rounds."""
        return median(run.p99 for run in self.runs)

    @property
    def requests(self) -> int:
        """Of all rounds."""
        return sum(run.requests for run in self.runs)

    @property
    def failed(self) -> int:
        """Of all rounds."""
        return sum(run.failed for run in self.runs)

    @property
    def processor_a_request(self) -> float | None:
        """Seconds on processors for one request, the median of the rounds."""
        each = [
            seconds / run.requests
            for run, seconds in zip(self.runs, self.processor_seconds, strict=True)
            if seconds is not None and run.requests
        ]
        return median(each) if each else None


@dataclass(frozen=True)
class Singles:
    """One forecast a request, by the service and the bare one in turn."""

    connections: int
    service: Rounds
    bare: Rounds

    @property
    def ratio(self) -> float:
        """The service's requests a second over the bare one's, medians of the rounds both."""
        return _over(self.service.a_second, self.bare.a_second)

    @property
    def ratios(self) -> list[float]:
        """The same of every round, lowest first: the two were measured right after one another."""
        pairs = zip(self.service.runs, self.bare.runs, strict=True)
        return sorted(_over(ours.a_second, bare.a_second) for ours, bare in pairs)


@dataclass(frozen=True)
class Batches:
    """:data:`BATCH` forecasts a request."""

    connections: int
    service: Rounds

    @property
    def forecasts_a_second(self) -> float:
        """Of the median round."""
        return self.service.a_second * BATCH


@dataclass(frozen=True)
class Reloads:
    """A load that goes on while the model file is replaced.

    Attributes
    ----------
    run : LoadRun
    waits : tuple of float
        Seconds from each replacement until the service said it had taken it.
    missed : int
        Replacements it had not taken in time.
    before, after : Memory
    """

    run: LoadRun
    waits: tuple[float, ...]
    missed: int
    before: Memory
    after: Memory


@dataclass(frozen=True)
class Size:
    """A model of some size: its file, what it takes to start, what it takes in memory.

    Attributes
    ----------
    advertisers, file_bytes : int
    starts : tuple of float
        Seconds from the command to the first answer.
    start_processor : float or None
        Seconds on processors in the last of them.
    started, loaded : Memory
        Right after it, and after a second of single forecasts.
    """

    advertisers: int
    file_bytes: int
    starts: tuple[float, ...]
    start_processor: float | None
    started: Memory
    loaded: Memory


@dataclass(frozen=True)
class ServeResults:
    """All that was found.

    Attributes
    ----------
    generator : str
        Where the loads came from.
    cores : int
        What the service and the loads had between them.
    load : float
        How many processes wanted to run before it began.
    """

    effort: Effort
    generator: str
    cores: int
    sizes: list[Size]
    singles: list[Singles]
    batches: list[Batches]
    reloads: Reloads
    checked: CheckedAnswers
    load: float


def _over(ours: float, bare: float) -> float:
    """The ratio of two rates; 0 where the other service answered nothing, which proves nothing."""
    return ours / bare if bare > 0 else 0.0
