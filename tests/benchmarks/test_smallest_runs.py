"""The smallest run of each benchmark: its figures are finite, and kept trials are used again."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from benchmark_results import check_result, measured_here
from benchmarks import (
    ads,
    ads_decisions,
    ads_scale,
    ads_segments,
    ads_speed,
    ads_targets,
    divided,
    feature_scale,
    feature_tables,
    features,
    first_use,
    gpu,
    growing,
    kills,
    measuring,
    noise,
    paper_ads,
    paper_table2,
    paper_table3,
    regret,
    relaxation,
    scale,
    speed,
    tables,
)
from benchmarks.feature_sets import FeatureSet
from benchmarks.harness import Context
from benchmarks.noise import NoiseCell
from benchmarks.planted_tables import N_TUPLES, PlantedTables
from coterie import ConsensusClusterer, RobustConsensus, clustering_accuracy
from coterie.errors import MissingExtraError
from coterie.inspection.scores import adjusted_rand_index
from coterie.runtime.devices import gpu_obstacle


def decisions_hold_in_the_week_after(data):
    """Intervals contain most outcomes, and a division by marginal cost beats that of the log."""
    for found in data["means"].values():
        assert found["impressions inside"] > 0.75 and found["spend inside"] > 0.75
        assert found["log amount"] < found["ours amount"] <= found["best amount"] * 1.1
        assert abs(found["below the solver"]) < 1e-3
        assert abs(found["below the bound"]) < 1e-3


def new_advertisers_gain_from_planted_segments(data):
    """Nothing but its group is known of a new advertiser: planted groups beat none."""
    for cell in data["cells"]:
        wapes = {name: cell["wape"][name]["impressions"] for name in ads_segments.GROUPS}
        assert wapes["planted"]["new"] < wapes["none"]["new"]


def curves_beat_the_own_mean(data):
    """Segments are found, and the model's error is less than that of each one's own mean."""
    (trial,) = data["trials"]
    assert trial["status"] == "done" and trial["ari"] > 0.1
    assert trial["wape"]["model"]["impressions"] < trial["wape"]["own mean"]["impressions"] < 1


def moving_and_pooling_help(data):
    """Curves of segments alone are worst; their members' own auctions improve them."""
    (market,) = data["markets"]
    for errors in market["draws"][0]["errors"].values():
        for source in paper_ads.CONSENSUS:
            alone = errors[source]["mape"]
            assert errors[f"{source} moved"]["mape"] < alone > errors[f"{source}+pooled"]["mape"]
    assert data["curves"]["segments"] == [0, 0, 1, 1, 2, 2]


def clusters_are_found(data):
    """The program finds the planted clusters."""
    assert all(trial["accuracy"] > 0.99 for trial in data["trials"])


#: Settings of runs that keep their trials, and what must hold for the figures.
KEEPING = {
    "ads": (ads, {"advertisers": 40}),
    "ads_decisions": (ads_decisions, {"advertisers": 80}, decisions_hold_in_the_week_after),
    "ads_segments": (
        ads_segments,
        {"advertisers": 240},
        new_advertisers_gain_from_planted_segments,
    ),
    "ads_targets": (ads_targets, {}),
    "ads_scale": (ads_scale, {}, curves_beat_the_own_mean),
    "features": (features, {"seeds": 2, "jobs": 1}),
    "noise": (noise, {"draws": 2}),
    "paper_ads": (paper_ads, {"advertisers": 80}, moving_and_pooling_help),
    "paper_table2": (paper_table2, {"draws": 2, "jobs": 1}),
    "regret": (regret, {"draws": 1, "methods": "l2,cspa", "jobs": 1}),
    "scale": (scale, {"most": 10_000}, clusters_are_found),
}
BLOBS = partial(make_blobs, 60, centers=3, cluster_std=1.5, random_state=1)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Reduce the benchmarks to few and small sets, and measure works in this process."""
    replaced = {
        ads_scale: {"SIZES": {60: 12_000}, "AUCTIONS": {"second": ("blue", "o")}},
        features: {
            "LISTS": {"first": (FeatureSet("blobs", BLOBS),)},
            "_QUICK_SETS": {"blobs"},
            "_VIEWS": (),
            "clustbench_sets": lambda _: (),
            "_TIMED": {},
            "_QUICK_TIMED": {},
        },
        feature_scale: {
            "SIZES": {"features": (600,), "views": (600,)},
            "REAL_SETS": {},
            "measure": measured_here,
        },
        noise: {"CORE_CELLS": (NoiseCell((20, 12, 8), 6, 2, 0.1),)},
        regret: {"SUITE": tuple(c for c in regret.SUITE if c.dataset in (None, "iris"))[:4]},
        relaxation: {"SIZES": (150, 10_000), "measure": measured_here},
        speed: {
            "QUICK": {"n_rows": 200, "n_large": 250, "n_tuples": 50, "n_iter": 8},
            "WARM_UP_ROWS": 50,
            "_WARM_UP_TUPLES": 50,
        },
        growing: {"N_BEFORE": 8, "N_NEW": 2},
        measuring: {"measure": measured_here},
    }
    for module, values in replaced.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(
        Context,
        "missing_datasets",
        lambda _, names: {name: "not here" for name in names if name != "iris"},
    )


@pytest.mark.parametrize("name", KEEPING)
def test_a_run_has_tables_and_pictures_and_keeps_its_trials(name, tmp_path):
    """Every row has every column, every figure is finite, and a second run gives the same."""
    module, how, *checks = KEEPING[name]
    context = Context(quick=True, keep=tmp_path)
    result = module.run(context, **how)
    data = check_result(result)
    for check in checks:
        check(data)
    assert module.run(context, **how).data == result.data


def test_methods_get_the_draws_and_seeds_of_their_trials():
    """Accuracies are those of the estimators on the same labels, K and seed."""
    (cell,) = noise.CORE_CELLS
    found = noise.run(Context(quick=True), draws=2).data["cells"][0]["methods"][noise.FLAGSHIP]
    for seed, accuracy in enumerate(found["accuracies"]):
        P, y = cell.draw(seed)
        labels = RobustConsensus(3, random_state=seed).fit(P).labels_
        assert accuracy == clustering_accuracy(y, labels)
    (one,) = features.run(Context(), seeds=2, jobs=1).data["sets"]
    X, y = BLOBS()
    for seed, ari in enumerate(one["methods"][feature_tables.FLAGSHIP]["accuracies"]):
        labels = ConsensusClusterer(3, random_state=seed).fit(X).labels_
        assert ari == adjusted_rand_index(y, labels)


def test_both_ways_of_histograms_give_the_same_answer():
    """Hand-written SQL counts the same cells; the graph decides like float64 arithmetic."""
    result = ads_speed.run(Context(quick=True), rows=4000, advertisers=120, repeats=1)
    engine, similarity = check_result(result)["engine"], result.data["similarity"]
    assert engine["equal"] and similarity["differing_decisions"] == 0
    assert similarity["largest_error"] < 2**-23


def test_parts_of_a_relaxation(monkeypatch):
    """A row for each size of parts; without the undivided relaxation its figures are missing."""
    draw = partial(divided._planted, (60, 40), 9, 0.5)
    cells = [
        divided.Cell("both", 2, draw, (50, 30)),
        divided.Cell("parts", 2, draw, (50,), undivided=False),
    ]
    monkeypatch.setattr(divided, "cells_of", lambda _: cells)
    rows = check_result(divided.run(Context()))["rows"]
    assert [row["part_size"] for row in rows] == [50, 30, 50]
    assert rows[0]["excess"]["l2"] >= rows[0]["excess"]["divided"] > -0.05
    assert "excess" not in rows[2]


def test_contenders_of_speed_reach_the_same_answer():
    """Ratios follow from the measured figures, and objectives agree."""
    cells = check_result(speed.run(Context(quick=True), repeats=1))["cells"]
    fixed, _, steps, _, search = cells
    ours, sparse, dense = fixed["contenders"].values()
    assert fixed["time_ratio"] == ours["seconds"] / min(sparse["seconds"], dense["seconds"])
    assert fixed["memory_ratio"] == ours["peak_bytes"] / (4 * 200 * 40)
    for cell, tolerance in ((steps, 1e-3), (search, 0.01)):
        ours, other = (found["facts"] for found in cell["contenders"].values())
        assert ours["objective"] == pytest.approx(other["objective"], rel=tolerance)
    for cell in check_result(growing.run(Context(), rows=100, repeats=1))["cells"]:
        assert abs(cell["objective_percent"]) < 5


@pytest.mark.filterwarnings("ignore:.*stopped after:UserWarning")
def test_steps_first_use_and_kills():
    """A step takes time, a first consensus two of them; a killed command leaves no part."""
    (size,) = check_result(relaxation.run(Context(quick=True), steps=4))["sizes"]
    assert (size["n_tuples"], size["n_runs"], size["n_steps"]) == (150, 2, 4)
    assert np.isfinite(size["ratio"]) and size["ratio"] > 0
    assert len(check_result(first_use.run(Context(), repeats=1))["trials"]) == 2
    (found,) = check_result(kills.run(Context(), times=2, only="consensus to NPY"))["commands"]
    assert found["faults"] == [] and sum(found["states"].values()) == 2


def test_tables_stay_in_their_engine(tmp_path):
    """The program finds the planted clusters, and its facts are understood."""
    with PlantedTables(tmp_path) as planted:
        bench = tables.Bench(planted, tmp_path)
        found = bench.run("", bench.planted(12_000), "out.parquet")
    assert (found["message"], found["n_tuples"], found["path"]) == ("", N_TUPLES, "tuples")
    assert found["accuracy"] > 0.99
    assert {"group", "fit", "write"} <= set(found["stages"])


def test_table_3_without_data_is_empty():
    """Without data there are no tables, and one note a dataset."""
    result = paper_table3.run(Context(), jobs=1)
    assert not result.tables and len(result.notes) == len(paper_table3.TABLE3.titles)


def test_a_gpu_is_measured_or_missed(monkeypatch):
    """Every figure is positive, and objectives agree; without a GPU the error says so."""
    monkeypatch.setattr(gpu, "QUICK_SIZES", (600,))
    if gpu_obstacle():
        with pytest.raises(MissingExtraError, match="no GPU"):
            gpu.run(Context(quick=True))
        return
    (row,) = check_result(gpu.run(Context(quick=True), steps=5))["rows"]
    assert all(value > 0 for value in row["milliseconds"].values())
    assert abs(row["above_cpu"]) < 1e-3
