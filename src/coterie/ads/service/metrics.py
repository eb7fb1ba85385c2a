"""Metrics of the service for Prometheus, summed over the workers."""

from __future__ import annotations

import os

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from coterie.ads.service.service_settings import METRICS_FOLDER_VARIABLE

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What one service counts.

    ====================================================  ======================================
    ``coterie_requests_total{route,method,status}``       answers
    ``coterie_request_seconds{route}``                    how long they took
    ``coterie_queued_work``                               bids times days that wait or run
    ``coterie_forecasts_total``                           forecasts, one for each bid
    ``coterie_model_reloads_total{outcome}``              model files taken or refused
    ``coterie_model_loaded_timestamp_seconds``            when the model was loaded
    ``coterie_model_advertisers``                         number of advertisers in the model
    ====================================================  ======================================

    Routes are templates, never the requested path.

    >>> metrics = Metrics()
    >>> metrics.answered("/v1/model", "GET", 200, 0.002)
    >>> b'coterie_requests_total{method="GET",route="/v1/model",status="200"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self._requests = Counter(
            "coterie_requests_total", "Answers.", ["route", "method", "status"], registry=own
        )
        self._seconds = Histogram(
            "coterie_request_seconds", "Duration.", ["route"], registry=own, buckets=_SECONDS
        )
        self.queued_work = Gauge(
            "coterie_queued_work",
            "Bids times days that wait or run.",
            registry=own,
            multiprocess_mode="livesum",
        )
        self.forecasts = Counter("coterie_forecasts_total", "Forecasts.", registry=own)
        reloads = Counter("coterie_model_reloads_total", "Model files.", ["outcome"], registry=own)
        self.reloads_taken = reloads.labels("taken")
        self.reloads_refused = reloads.labels("refused")
        self.model_loaded = Gauge(
            "coterie_model_loaded_timestamp_seconds",
            "When the model was loaded.",
            registry=own,
            multiprocess_mode="livemax",
        )
        self.model_advertisers = Gauge(
            "coterie_model_advertisers",
            "Advertisers in the model.",
            registry=own,
            multiprocess_mode="livemax",
        )
        # looking up a child by its labels takes longer than counting
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answer."""
        key = (route, method, status)
        children = self._children.get(key)
        if children is None:
            children = (
                self._requests.labels(route, method, str(status)),
                self._seconds.labels(route),
            )
            self._children[key] = children
        children[0].inc()
        children[1].observe(seconds)

    def text(self) -> bytes:
        """Return all metrics, of all workers, in the text format of Prometheus."""
        if METRICS_FOLDER_VARIABLE not in os.environ:
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)
