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

from coterie.lazy_names import imported_name

_HOME = {
    # from coterie.engines, which label tables use too
    "connect": "bid_logs",
    "BidLogs": "bid_logs",
    "open_logs": "bid_logs",
    "read_descriptions": "bid_logs",
    "check_logs": "log_checks",
    "MarketSettings": "simulated_traits",
    "simulate_logs": "simulated_logs",
    "BidHistograms": "histograms",
    "bid_grid": "histogram_queries",
    "read_histograms": "histogram_queries",
    "load_ipinyou_histograms": "ipinyou",
    "evidence_of": "curves",
    "own_curves": "curves",
    "ks_distances": "similarity",
    "ks_graph": "similarity",
    "TextView": "text_view",
    "SegmentSettings": "settings",
    "AdForecaster": "forecaster",
    "Forecast": "forecast_figures",
    "evaluate": "evaluation",
    "report_payload": "report_contents",
    "write_report": "report",
    "Client": "client",
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
    from coterie.ads.bid_logs import BidLogs, open_logs, read_descriptions
    from coterie.ads.client import Client
    from coterie.ads.curves import evidence_of, own_curves
    from coterie.ads.evaluation import evaluate
    from coterie.ads.forecast_figures import Forecast
    from coterie.ads.forecaster import AdForecaster
    from coterie.ads.histogram_queries import bid_grid, read_histograms
    from coterie.ads.histograms import BidHistograms
    from coterie.ads.ipinyou import load_ipinyou_histograms
    from coterie.ads.log_checks import check_logs
    from coterie.ads.report import write_report
    from coterie.ads.report_contents import report_payload
    from coterie.ads.settings import SegmentSettings
    from coterie.ads.similarity import ks_distances, ks_graph
    from coterie.ads.simulated_logs import simulate_logs
    from coterie.ads.simulated_traits import MarketSettings
    from coterie.ads.text_view import TextView
    from coterie.engines import connect


def __getattr__(name: str) -> object:
    return imported_name(name, __name__, _HOME, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
