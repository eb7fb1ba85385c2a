"""Questions drawn at random for a forecast service, and whether its answers are the model's.

An answer tells who was asked about and at which bids, and which model gave it. So it is checked
by itself: every figure must be the one that :meth:`AdForecaster.forecast
<coterie.ads.forecasts.forecaster.AdForecaster.forecast>` of that model gives, whatever load it
came from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.ads.forecasts.forecaster import AdForecaster

__all__ = ["CheckedAnswers", "batch_bodies", "checked_answers", "single_bodies"]

_MICROS = 1_000_000
_SAME = 1e-9
_MOST_TOLD = 5
_FIGURES = (
    "win_rate",
    "cost",
    "impressions",
    "impressions_interval",
    "spend",
    "spend_interval",
    "clicks",
    "clicks_interval",
    "conversions",
)


@dataclass(frozen=True)
class CheckedAnswers:
    """How many forecasts were looked at, how many are not the model's, and what is wrong."""

    forecasts: int = 0
    wrong: int = 0
    faults: tuple[str, ...] = field(default=())

    def __add__(self, other: CheckedAnswers) -> CheckedAnswers:
        return CheckedAnswers(
            self.forecasts + other.forecasts,
            self.wrong + other.wrong,
            (*self.faults, *other.faults)[:_MOST_TOLD],
        )


def single_bodies(model: AdForecaster, n: int, seed: int = 0) -> list[bytes]:
    """Bodies of one question each: any advertiser, any bid of the grid's range, to the cent."""
    return [json.dumps(question).encode() for question in _questions(model, n, seed)]


def batch_bodies(model: AdForecaster, n: int, size: int, seed: int = 0) -> list[bytes]:
    """Bodies of so many questions each."""
    drawn = _questions(model, n * size, seed)
    return [json.dumps(drawn[at : at + size]).encode() for at in range(0, n * size, size)]


def checked_answers(
    bodies: Sequence[bytes], models: Mapping[str, AdForecaster], most: int = 200
) -> CheckedAnswers:
    """Compare answers with what the models give.

    Parameters
    ----------
    bodies : sequence of bytes
        As the service wrote them, to one question or to several.
    models : mapping of str to AdForecaster
        By version.
    most : int
        Forecasts to look at, spread over the bodies.
    """
    found = CheckedAnswers()
    a_body = max(1, most // max(len(bodies), 1))
    for body in bodies:
        if found.forecasts >= most:
            break
        found += _checked_body(body, models, a_body)
    return found


def _questions(model: AdForecaster, n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    low, high = np.log(model.edges_[[0, -1]] / _MICROS)
    bids = np.maximum(np.exp(rng.uniform(low, high, n)).round(2), 0.01)
    who = model.advertisers_[rng.integers(len(model.advertisers_), size=n)]
    return [
        {"advertiser": advertiser, "bid": bid}
        for advertiser, bid in zip(who.tolist(), bids.tolist(), strict=True)
    ]


def _checked_body(body: bytes, models: Mapping[str, AdForecaster], most: int) -> CheckedAnswers:
    try:
        told = json.loads(body)
        version = told["model"]["version"]
        answers = told.get("answers", [told])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return CheckedAnswers(1, 1, (f"an answer that cannot be read: {error!r}",))
    if version not in models:
        return CheckedAnswers(1, 1, (f"an answer of a model {version} that was never served",))
    found = CheckedAnswers()
    for answer in answers[:: max(1, len(answers) // most)]:
        found += _checked_answer(answer, models[version])
    return found


def _checked_answer(answer: Mapping[str, Any], model: AdForecaster) -> CheckedAnswers:
    advertiser = answer.get("advertiser")
    found = CheckedAnswers()
    for told in answer.get("forecasts", [{}]):
        fault = _fault(answer, told, model)
        at = f"{advertiser} at a bid of {told.get('bid')}: {fault}"
        found += CheckedAnswers(1, 1, (at,)) if fault else CheckedAnswers(1)
    return found


def _fault(answer: Mapping[str, Any], told: Mapping[str, Any], model: AdForecaster) -> str:
    """What differs from the model's own forecast; empty where nothing does."""
    if answer.get("advertiser") is None or told.get("bid") is None:
        return "it does not tell who was asked about, and at which bid"
    right = model.forecast(answer["advertiser"], told["bid"]).as_dict()
    for name in ("segment", "curve"):
        if answer.get(name) != right[name]:
            return f"{name} is {answer.get(name)!r}, not {right[name]!r}"
    if not _same(answer.get("supply"), right["supply"]):
        return f"supply is {answer.get('supply')}, not {right['supply']}"
    for name in _FIGURES:
        if name not in told or not _same(told[name], right[name]):
            return f"{name} is {told.get(name)}, not {right[name]}"
    return ""


def _same(told: Any, right: Any) -> bool:
    """Equal numbers, pairs of numbers, or None."""
    if right is None or told is None:
        return right is None and told is None
    if isinstance(right, tuple):
        return isinstance(told, list) and len(told) == len(right) and all(map(_same, told, right))
    return isinstance(told, int | float) and math.isclose(told, right, rel_tol=_SAME, abs_tol=_SAME)
