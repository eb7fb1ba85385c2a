"""Counts of what the service did, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Upper ends of the bins of answering times, in seconds.
BINS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """All that one service counts, in a registry of its own.

    ====================================================  ======================================
    ``coterie_requests_total{route,method,status}``       answers given
    ``coterie_request_seconds{route}``                    how long they took
    ``coterie_in_flight``                                 requests under way
    ``coterie_forecasts_total``                           forecasts given, one for each bid
    ``coterie_model_reloads_total{outcome}``              another model file: taken or refused
    ``coterie_model_loaded_timestamp_seconds``            when the model of now was loaded
    ``coterie_model_advertisers``                         how many advertisers it knows
    ====================================================  ======================================

    Routes are templates, never what was asked for.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.answered("/v1/model", "GET", 200, 0.002)
    >>> b'coterie_requests_total{method="GET",route="/v1/model",status="200"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._answers = _Answers()
        self.registry.register(self._answers)
        self.in_flight = Gauge("coterie_in_flight", "Requests under way.", registry=self.registry)
        self._forecasts = Counter(
            "coterie_forecasts_total", "Forecasts given, one for each bid.", registry=self.registry
        )
        self._reloads = Counter(
            "coterie_model_reloads_total",
            "Other model files that were taken or refused.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in ("taken", "refused"):
            self._reloads.labels(outcome)
        self._loaded = Gauge(
            "coterie_model_loaded_timestamp_seconds",
            "When the model of now was loaded.",
            registry=self.registry,
        )
        self._advertisers = Gauge(
            "coterie_model_advertisers",
            "How many advertisers the model knows.",
            registry=self.registry,
        )

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answer; for the thread of the event loop alone."""
        self._answers.add(route, method, status, seconds)

    def count_forecasts(self, number: int) -> None:
        """Count forecasts that were given."""
        self._forecasts.inc(number)

    def model_in_use(self, loaded_at: float, advertisers: int) -> None:
        """Note the model of now: when it was loaded (seconds since 1970), and its size."""
        self._loaded.set(loaded_at)
        self._advertisers.set(advertisers)

    def reload_taken(self) -> None:
        """Count a model file that took the place of another."""
        self._reloads.labels("taken").inc()

    def reload_refused(self) -> None:
        """Count a model file that was refused."""
        self._reloads.labels("refused").inc()

    def text(self) -> bytes:
        """All counts, as Prometheus reads them; see :data:`CONTENT_TYPE`."""
        return generate_latest(self.registry)


class _Answers(Collector):
    """Answers by route, method and status, and their times by route.

    Counted in plain dictionaries, since the service counts far oftener than it is read; the
    library's own counters take a lock for every label. A reader in another thread copies them.
    """

    def __init__(self) -> None:
        self._number: dict[tuple[str, str, int], int] = {}
        self._times: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method, status)
        self._number[key] = self._number.get(key, 0) + 1
        bins = self._times.get(route)
        if bins is None:
            bins = self._times[route] = [0] * (len(BINS) + 1)
            self._seconds[route] = 0.0
        bins[bisect_left(BINS, seconds)] += 1
        self._seconds[route] += seconds

    def describe(self) -> list[Metric]:
        return [self._requests(), self._histogram()]

    def collect(self) -> Iterator[Metric]:
        number = self._requests()
        for (route, method, status), count in sorted(self._number.copy().items()):
            number.add_metric([route, method, str(status)], count)
        yield number
        times = self._histogram()
        for route, counts in sorted(self._times.copy().items()):
            times.add_metric([route], _cumulative(counts), self._seconds[route])
        yield times

    @staticmethod
    def _requests() -> CounterMetricFamily:
        return CounterMetricFamily(
            "coterie_requests", "Answers given.", labels=["route", "method", "status"]
        )

    @staticmethod
    def _histogram() -> HistogramMetricFamily:
        return HistogramMetricFamily(
            "coterie_request_seconds", "How long answers took.", labels=["route"]
        )


def _cumulative(counts: list[int]) -> list[tuple[str, float]]:
    """Return the bins as Prometheus wants them: each counts all that is at most its end."""
    ends = [*map(str, BINS), "+Inf"]
    total, bins = 0, []
    for end, count in zip(ends, counts, strict=True):
        total += count
        bins.append((end, float(total)))
    return bins
