"""The benchmark of the service: grown models, and checked answers."""

import json
from functools import cache

import numpy as np

from benchmarks.serve.models import check_answers, draw_questions, fitted_market, grow
from coterie.ads.forecasts.model_checks import check_model
from coterie.ads.logs.simulation.simulated_traits import MarketSettings

SMALL = MarketSettings(advertisers=50, segments=3, days=4, bids_per_day=20.0, seed=3)


@cache
def small_market():
    """Return a forecaster of fifty advertisers; shared, so not to be changed."""
    return fitted_market(SMALL)


def test_grown_models_are_consistent():
    """The service would take them; shares sum to 1, and counts could have been observed."""
    model = grow(small_market(), 180, seed=5)
    assert len(set(model.advertisers_.tolist())) == 180
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1.0)
    check_model(model)
    assert (model.shares_[:, :-1].argmax(axis=1) == model.labels_).all()
    assert not np.array_equal(model.win_, grow(small_market(), 180, seed=6).win_)
    assert ((model.trials_by_bin_ - model.successes_).toarray() >= 0).all()
    np.testing.assert_allclose(model.observations_, model.trials_by_bin_.sum(axis=1))


def test_answers_are_compared_figure_by_figure():
    """A right answer passes; a changed figure, and an unknown version, are faults."""
    model = small_market()
    question = json.loads(draw_questions(model, 2, size=4)[1])[3]
    right = model.forecast(question["advertiser"], question["bid"]).as_dict()
    answer = json.loads(json.dumps({"model": {"version": "ab"}, **right, "forecasts": [right]}))
    assert check_answers([json.dumps(answer).encode()], {"ab": model})["faults"] == []
    (fault,) = check_answers([json.dumps(answer).encode()], {"cd": model})["faults"]
    assert "version" in fault
    answer["forecasts"][0]["spend"] = 2 * answer["forecasts"][0]["spend"] + 1
    (fault,) = check_answers([json.dumps(answer).encode()], {"ab": model})["faults"]
    assert "spend is" in fault
