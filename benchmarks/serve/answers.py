"""Random questions for a forecast service, and a check that its answers are the model's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.ads.forecasts.forecaster import AdForecaster

_FIGURES = (
    "win_rate", "cost", "impressions", "impressions_interval", "spend", "spend_interval", "clicks",
    "clicks_interval", "conversions",
)  # fmt: skip


def draw_questions(model: AdForecaster, n: int, size: int = 1, seed: int = 0) -> list[bytes]:
    """Draw n bodies: any advertiser, any bid of the grid's range. Above 1, a size makes lists."""
    rng = np.random.default_rng(seed)
    low, high = np.log(model.edges_[[0, -1]] / 1_000_000)
    bids = np.maximum(np.exp(rng.uniform(low, high, n * size)).round(2), 0.01).tolist()
    who = model.advertisers_[rng.integers(len(model.advertisers_), size=n * size)].tolist()
    drawn = [{"advertiser": a, "bid": b} for a, b in zip(who, bids, strict=True)]
    bodies: list[Any] = drawn
    if size > 1:
        bodies = [drawn[start : start + size] for start in range(0, n * size, size)]
    return [json.dumps(body).encode() for body in bodies]


def check_answers(
    bodies: Sequence[bytes], models: Mapping[str, AdForecaster], most: int = 200
) -> dict[str, Any]:
    """Compare answers with what ``AdForecaster.forecast`` of the named model gives.

    ``models`` are given by version. Of the answers, each to one question or to several, at most
    ``most`` forecasts are checked, spread over the bodies. Return how many ``forecasts`` were
    checked, how many are ``wrong``, and the first five ``faults``.
    """
    faults, checked = [], 0
    per_body = max(1, most // max(len(bodies), 1))
    for body in bodies:
        found = json.loads(body)
        model = models.get(found["model"]["version"])
        answers = found.get("answers", [found])
        for answer in answers[:: max(1, len(answers) // per_body)]:
            for forecast in answer["forecasts"]:
                if checked == most:
                    break
                checked += 1
                fault = _fault(answer, forecast, model) if model else "unknown model version"
                if fault:
                    faults.append(f"{answer['advertiser']} at {forecast['bid']}: {fault}")
    return {"forecasts": checked, "wrong": len(faults), "faults": faults[:5]}


def _fault(answer: Mapping[str, Any], forecast: Mapping[str, Any], model: AdForecaster) -> str:
    """Return what differs from the model's forecast; empty if nothing does."""
    right = model.forecast(answer["advertiser"], forecast["bid"]).as_dict()
    found = {**{name: answer[name] for name in ("segment", "curve", "supply")}, **forecast}
    for name in ("segment", "curve", "supply", *_FIGURES):
        if not _same(found.get(name), right[name]):
            return f"{name} is {found.get(name)!r}, not {right[name]!r}"
    return ""


def _same(found: Any, right: Any) -> bool:
    if isinstance(right, tuple):
        return isinstance(found, list) and all(map(_same, found, right))
    if isinstance(right, float) and isinstance(found, int | float):
        return math.isclose(found, right, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == right)
