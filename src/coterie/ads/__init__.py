"""Advertising: bid logs in; segments, curves and forecasts out.

The map, in the order in which data flows:

===========  ===================================================================================
logs         :func:`connect`, :func:`open_logs`, :func:`check_logs`,
             :func:`simulate_logs`
histograms   :func:`read_histograms`, :func:`read_targets`, :func:`read_descriptions`,
             :func:`load_ipinyou_histograms`
curves       :func:`evidence_of`, :func:`own_curves`
similarity   :func:`ks_distances`, :func:`ks_graph`
segments     :class:`AdForecaster`, :class:`SegmentSettings`
forecasts    :class:`AdForecaster`, :class:`Forecast`
decisions    :func:`bid_for`, :func:`plan_budget`, :func:`split_budget`, :func:`rank_targets`
comparison   :func:`compare_models`, :func:`compare_periods`
export       :func:`export_model`
evaluation   :func:`evaluate`
report       :func:`report_payload`, :func:`write_report`
service      :class:`Client`, which asks what ``coterie ads serve`` answers
===========  ===================================================================================

A fitted :class:`AdForecaster` is kept and brought back by :func:`coterie.save_model` and
:func:`coterie.load_model`. Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.imports import lazy_names

# Each public name is listed once, here; lazy_names reads the list.
if TYPE_CHECKING:
    from coterie.ads.client import Client as Client
    from coterie.ads.curves.landscapes import evidence_of as evidence_of
    from coterie.ads.curves.landscapes import own_curves as own_curves
    from coterie.ads.decisions.budgets import plan_budget as plan_budget
    from coterie.ads.decisions.comparison import ModelComparison as ModelComparison
    from coterie.ads.decisions.comparison import compare_models as compare_models
    from coterie.ads.decisions.comparison import compare_periods as compare_periods
    from coterie.ads.decisions.decision_answers import BudgetPlan as BudgetPlan
    from coterie.ads.decisions.decision_answers import BudgetSplit as BudgetSplit
    from coterie.ads.decisions.decision_answers import GoalBid as GoalBid
    from coterie.ads.decisions.decision_answers import TargetRanking as TargetRanking
    from coterie.ads.decisions.goals import bid_for as bid_for
    from coterie.ads.decisions.model_export import export_model as export_model
    from coterie.ads.decisions.portfolios import split_budget as split_budget
    from coterie.ads.decisions.target_ranking import rank_targets as rank_targets
    from coterie.ads.evaluation.evaluation import evaluate as evaluate
    from coterie.ads.fitting.forecaster import AdForecaster as AdForecaster
    from coterie.ads.forecasts.forecast_figures import Forecast as Forecast
    from coterie.ads.histograms.bid_histograms import BidHistograms as BidHistograms
    from coterie.ads.histograms.counting import read_histograms as read_histograms
    from coterie.ads.histograms.counting import read_targets as read_targets
    from coterie.ads.histograms.ipinyou import load_ipinyou_histograms as load_ipinyou_histograms
    from coterie.ads.histograms.price_grid import price_grid as price_grid
    from coterie.ads.histograms.target_counts import TargetCounts as TargetCounts
    from coterie.ads.logs.bid_logs import BidLogs as BidLogs
    from coterie.ads.logs.bid_logs import open_logs as open_logs
    from coterie.ads.logs.bid_logs import read_descriptions as read_descriptions
    from coterie.ads.logs.checks.log_checks import check_logs as check_logs
    from coterie.ads.logs.simulation.simulated_logs import simulate_logs as simulate_logs
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings as MarketSettings
    from coterie.ads.report.contents import report_payload as report_payload
    from coterie.ads.report.rendering import write_report as write_report
    from coterie.ads.segments.settings import SegmentSettings as SegmentSettings
    from coterie.ads.segments.similarity import ks_distances as ks_distances
    from coterie.ads.segments.similarity import ks_graph as ks_graph
    from coterie.ads.segments.text_view import TextView as TextView
    from coterie.tables.engines import connect as connect
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, extra="ads")
