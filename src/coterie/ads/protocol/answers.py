"""Answers to questions, which are open to new members, and problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from coterie.ads.forecasts.forecast_figures import Forecast
from coterie.ads.protocol.questions import Days, Level

__all__ = [
    "Answer",
    "Answers",
    "Fault",
    "Figures",
    "Health",
    "ModelVersion",
    "ProblemDocument",
    "answer_of",
]

Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Interval = Annotated[tuple[float, float], Meta(description="Lower and upper end.")]
Curve = Literal["pooled", "text", "global"]


class Figures(Struct, omit_defaults=True, gc=False):
    """What to expect at one bid; money in units of currency.

    Clicks and conversions are null if the log has none. `remark` adds to `why` of the answer.
    """

    bid: Annotated[float, Meta(gt=0, description="Per thousand impressions (CPM).")]
    win_rate: Annotated[float, Meta(ge=0, le=1, description="Share of auctions won.")]
    cost: Annotated[float, Meta(ge=0, description="Of a thousand impressions (eCPM).")]
    impressions: Amount
    impressions_interval: Interval
    spend: Amount
    spend_interval: Interval
    clicks: Amount | None
    clicks_interval: Interval | None
    conversions: Amount | None
    conversions_interval: Interval | None
    remark: str | UnsetType = UNSET


class ModelVersion(Struct, gc=False):
    """The model that answered; equal versions give equal answers."""

    version: str


class Answer(Struct, gc=False):
    """The answer to one question: a forecast for each bid, in the order asked."""

    model: ModelVersion
    currency: Annotated[str, Meta(description="Of all amounts; empty if the log has none.")]
    advertiser: Annotated[str, Meta(description="Empty if only a text was given.")]
    known: Annotated[bool, Meta(description="Whether the advertiser is in the model.")]
    segment: Annotated[str, Meta(description="That with the largest share; may be empty.")]
    curve: Curve
    why: Annotated[str, Meta(description="What the forecasts are based on.")]
    days: Days
    level: Level
    supply: Annotated[float, Meta(ge=0, description="Auctions of all days together.")]
    forecasts: list[Figures]

    def each(self) -> list[Forecast]:
        """Return a forecast for each bid, as Python's forecasters return it."""
        return [_forecast(self, one) for one in self.forecasts]


class Answers(Struct):
    """The answers to a list of questions, in the order asked."""

    model: ModelVersion
    currency: str
    answers: list[Answer]


def answer_of(found: Sequence[Forecast], *, known: bool, days: int, version: str = "") -> Answer:
    """Return forecasts of one advertiser as the answer of a service.

    The shortest ``why`` is that of the answer. Where another says more, this is its remark.
    """
    first = found[0]
    why = min((one.why for one in found), key=len)
    return Answer(
        ModelVersion(version),
        first.currency,
        first.advertiser,
        known,
        first.segment,
        cast("Curve", first.curve),
        why,
        days,
        first.level,
        first.supply,
        [_figures(one, one.why.removeprefix(why)) for one in found],
    )


class Health(Struct):
    """The state of the service."""

    status: Literal["live", "ready"]


class Fault(Struct):
    """What is wrong at one place of a request, for example `[3].bid`."""

    at: str
    what: str


class ProblemDocument(Struct, omit_defaults=True):
    """Why a request was not answered (RFC 9457). `type` names the kind of problem."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str = ""
    errors: list[Fault] | UnsetType = UNSET


def _forecast(answer: Answer, one: Figures) -> Forecast:
    return Forecast(
        advertiser=answer.advertiser,
        bid=one.bid,
        supply=answer.supply,
        win_rate=one.win_rate,
        cost=one.cost,
        impressions=one.impressions,
        impressions_interval=one.impressions_interval,
        spend=one.spend,
        spend_interval=one.spend_interval,
        clicks=one.clicks,
        clicks_interval=one.clicks_interval,
        conversions=one.conversions,
        conversions_interval=one.conversions_interval,
        level=answer.level,
        segment=answer.segment,
        curve=answer.curve,
        why=answer.why + (one.remark or ""),
        currency=answer.currency,
        model_version=answer.model.version,
    )


def _figures(one: Forecast, remark: str) -> Figures:
    named: dict[str, Any] = {
        name: getattr(one, name) for name in Figures.__struct_fields__ if name != "remark"
    }
    return Figures(**named, remark=remark or UNSET)
