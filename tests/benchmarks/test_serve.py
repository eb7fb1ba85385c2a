"""The benchmark of the service: a small run end to end, grown models, and checked answers."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from benchmarks.harness import Context
from benchmarks.serve import run
from benchmarks.serve.answers import check_answers, draw_questions
from benchmarks.serve.grown_models import fitted_market, grow
from benchmarks.serve.processes import running_service
from coterie.ads.forecasts.forecaster import AdForecaster
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.errors import CoterieError, InvalidParameterError

SMALL = MarketSettings(advertisers=50, segments=3, days=4, bids_per_day=20.0, seed=3)


@cache
def small_market() -> AdForecaster:
    """Return a forecaster of fifty advertisers; shared, so not to be changed."""
    return fitted_market(SMALL)


def test_a_small_run_measures_everything_and_loses_nothing():
    """Requests are answered, none fails, also while the model is replaced; answers are right."""
    few = {"rounds": 1, "reloads": 2, "reload_seconds": 4, "starts": 1, "sizes": (60,)}
    context = Context(quick=True)
    result = run(context, **few, connections=(2,), batch_connections=(1,), market=SMALL)
    found = json.loads(result.json_text())
    (single,), (batch,) = found["singles"], found["batches"]
    for load in (single["service"], single["bare"], batch, found["reloads"]["run"]):
        assert load["requests"] > 0
        assert load["failed"] == 0
    assert len(found["reloads"]["waits"]) == 2
    assert None not in found["reloads"]["waits"]
    assert found["checked"]["forecasts"] > 0
    assert found["checked"]["wrong"] == 0
    assert all(len(row) == len(table.headings) for table in result.tables for row in table.rows)
    assert result.plots[""]() is not None


def test_a_service_that_does_not_start_is_an_error():
    """The last line of its output is in the message."""
    with (
        pytest.raises(CoterieError, match="did not start: no such model"),
        running_service(("sh", "-c", "echo no such model; exit 3")),
    ):
        pass


def test_grown_models_are_consistent():
    """Shares sum to 1, sizes follow from labels, and counts could have been observed."""
    model = grow(small_market(), 180, seed=5)
    assert len(set(model.advertisers_.tolist())) == 180
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1.0)
    assert (model.memberships_.labels == model.labels_).all()
    sizes = np.bincount(model.labels_, minlength=len(model.segments_))
    assert [profile.size for profile in model.segments_] == sizes.tolist()
    assert (np.diff(sizes) <= 0).all()
    assert ((model.trials_by_bin_ - model.successes_).toarray() >= 0).all()
    np.testing.assert_allclose(model.observations_, model.trials_by_bin_.sum(axis=1))
    with pytest.raises(InvalidParameterError, match="at least 50"):
        grow(small_market(), 49)


def test_answers_are_compared_figure_by_figure():
    """A right answer passes; a changed figure, and an unknown version, are faults."""
    model = small_market()
    question = json.loads(draw_questions(model, 2, size=4)[1])[3]
    right = model.forecast(question["advertiser"], question["bid"]).as_dict()
    answer = json.loads(json.dumps({"model": {"version": "ab"}, **right, "forecasts": [right]}))
    assert check_answers([json.dumps(answer).encode()], {"ab": model})["wrong"] == 0
    assert check_answers([json.dumps(answer).encode()], {"cd": model})["wrong"] == 1
    answer["forecasts"][0]["spend"] = 2 * answer["forecasts"][0]["spend"] + 1
    found = check_answers([json.dumps(answer).encode()], {"ab": model})
    assert found["wrong"] == 1
    assert "spend is" in found["faults"][0]
