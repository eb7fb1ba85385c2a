"""Advertising: bid logs in; segments, curves and forecasts out.

The map, in the order in which data flows:

===========  ===================================================================================
logs         :func:`connect`, :func:`open_logs`, :func:`check_logs`, :func:`simulate_logs`
histograms   :func:`read_histograms`, :func:`read_descriptions`, :func:`load_ipinyou_histograms`
curves       :func:`evidence_of`, :func:`own_curves`
similarity   :func:`ks_distances`, :func:`ks_graph`
segments     :class:`AdForecaster`, :class:`SegmentSettings`
forecasts    :class:`AdForecaster`, :class:`Forecast`
evaluation   :func:`evaluate`
report       :func:`report_payload`, :func:`write_report`
service      :class:`Client`, which asks what ``coterie ads serve`` answers
===========  ===================================================================================

A fitted :class:`AdForecaster` is kept and brought back by :func:`coterie.save_model` and
:func:`coterie.load_model`. Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.lazy_names import import_name

_HOME = {
    # from coterie.engines.connections, which label tables use too
    "connect": "logs.bid_logs",
    "BidLogs": "logs.bid_logs",
    "open_logs": "logs.bid_logs",
    "read_descriptions": "logs.bid_logs",
    "check_logs": "logs.checks.log_checks",
    "MarketSettings": "logs.simulation.simulated_traits",
    "simulate_logs": "logs.simulation.simulated_logs",
    "BidHistograms": "histograms.bid_histograms",
    "bid_grid": "histograms.counting",
    "read_histograms": "histograms.counting",
    "load_ipinyou_histograms": "histograms.ipinyou",
    "evidence_of": "curves.landscapes",
    "own_curves": "curves.landscapes",
    "ks_distances": "segments.similarity",
    "ks_graph": "segments.similarity",
    "TextView": "segments.text_view",
    "SegmentSettings": "segments.settings",
    "AdForecaster": "forecasts.forecaster",
    "Forecast": "forecasts.forecast_figures",
    "evaluate": "forecasts.evaluation",
    "report_payload": "report.contents",
    "write_report": "report.rendering",
    "Client": "client.client",
}

__all__ = [  # noqa: RUF022 (in the order in which data flows)
    "connect",
    "BidLogs",
    "open_logs",
    "read_descriptions",
    "check_logs",
    "MarketSettings",
    "simulate_logs",
    "BidHistograms",
    "bid_grid",
    "read_histograms",
    "load_ipinyou_histograms",
    "evidence_of",
    "own_curves",
    "ks_distances",
    "ks_graph",
    "TextView",
    "SegmentSettings",
    "AdForecaster",
    "Forecast",
    "evaluate",
    "report_payload",
    "write_report",
    "Client",
]

if TYPE_CHECKING:
    from coterie.ads.client.client import Client
    from coterie.ads.curves.landscapes import evidence_of, own_curves
    from coterie.ads.forecasts.evaluation import evaluate
    from coterie.ads.forecasts.forecast_figures import Forecast
    from coterie.ads.forecasts.forecaster import AdForecaster
    from coterie.ads.histograms.bid_histograms import BidHistograms
    from coterie.ads.histograms.counting import bid_grid, read_histograms
    from coterie.ads.histograms.ipinyou import load_ipinyou_histograms
    from coterie.ads.logs.bid_logs import BidLogs, open_logs, read_descriptions
    from coterie.ads.logs.checks.log_checks import check_logs
    from coterie.ads.logs.simulation.simulated_logs import simulate_logs
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings
    from coterie.ads.report.contents import report_payload
    from coterie.ads.report.rendering import write_report
    from coterie.ads.segments.settings import SegmentSettings
    from coterie.ads.segments.similarity import ks_distances, ks_graph
    from coterie.ads.segments.text_view import TextView
    from coterie.engines.connections import connect


def __getattr__(name: str) -> object:
    return import_name(name, __name__, _HOME, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
