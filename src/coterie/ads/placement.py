"""Who is asked about, and on what grounds: a known advertiser, one like others, or anyone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from coterie.ads.fitted_market import FittedMarket

__all__ = ["Placement", "Placer", "rate_and_doubt"]

Floats = NDArray[np.float64]

_NEIGHBOURS = 15
_ALIKE = 0.1


@dataclass(frozen=True)
class Placement:
    """Who is asked about.

    Attributes
    ----------
    name : str
        Empty where only a text was given.
    row : int or None
        Among the advertisers of the log; None for one that is not there.
    shares : (K + 1,) array
        In each segment; the last is "no segment in particular".
    weights : (A,) array
        Of the advertisers its rates of clicks are taken from; they sum to 1.
    segment : str
        The name of the segment with the largest share; empty where there is none.
    curve : {"pooled", "text", "global"}
        Where the curve comes from: see :class:`~coterie.ads.forecast_figures.Forecast`.
    why : str
    """

    name: str
    row: int | None
    shares: Floats
    weights: Floats
    segment: str
    curve: str
    why: str


class Placer:
    """Places whoever is asked about among the advertisers and segments of a model.

    An advertiser of the log is found by its id. Another is placed beside those with the most
    similar texts, or else with all advertisers.

    Parameters
    ----------
    model : FittedMarket
        Fitted.
    """

    def __init__(self, model: FittedMarket) -> None:
        self._advertisers = model.advertisers_
        self._observations = model.observations_
        self._labels, self._confidence = model.labels_, model.confidence_
        self._shares = model.shares_
        self._names = [segment.name for segment in model.segments_]
        self._text_view, self._vectors = model.text_view_, model.vectors_

    def placed(self, advertiser: str | None = None, text: str | None = None) -> Placement:
        """The place of one advertiser.

        Parameters
        ----------
        advertiser : str, optional
            One that is not known is placed by ``text``, or else by all advertisers.
        text : str, optional
            Of an advertiser that is not known.

        Raises
        ------
        InvalidParameterError
            Where neither is given.
        """
        if advertiser is not None:
            advertiser = str(advertiser)  # as the log's are, if they are numbers there
            # numpy's search would make every id as long as the one it looks for
            row = bisect_left(self._advertisers, advertiser)
            if row < len(self._advertisers) and self._advertisers[row] == advertiser:
                return self._known(row)
        if advertiser is None and text is None:
            raise InvalidParameterError("name an advertiser, or give the text of a new one")
        return self._unknown(advertiser or "", text or "")

    def why(self, row: int) -> str:
        """The grounds of the forecasts of an advertiser of the log."""
        n, segment = self._observations[row], self.segment(row)
        share = f"the segment {segment!r} (share {self._confidence[row]:.0%})"
        return (
            f"{n:,.0f} bid{'' if n == 1 else 's'} of its own, completed by "
            f"{share if segment else 'all advertisers'}"
        )

    def segment(self, row: int) -> str:
        """The name of the segment of an advertiser of the log; empty where there is none."""
        return self._names[self._labels[row]] if self._names else ""

    def named(self, placement: Placement, name: str) -> Placement:
        """The place of somebody not in the log, under a name that is not there either."""
        why = _called(name) + placement.why.removeprefix(_called(placement.name))
        return replace(placement, name=name, why=why)

    def anyone(self) -> Placement:
        """The place of somebody of whom nothing is known."""
        return self._unknown("", "")

    def _known(self, row: int) -> Placement:
        weights = np.zeros(len(self._advertisers))
        weights[row] = 1.0
        name = str(self._advertisers[row])
        shares, segment = self._shares[row], self.segment(row)
        return Placement(name, row, shares, weights, segment, "pooled", self.why(row))

    def _unknown(self, name: str, text: str) -> Placement:
        likeness = self._likeness(text)
        called = _called(name)
        if likeness is None:
            everyone = np.zeros(self._shares.shape[1])
            everyone[-1] = 1.0
            weights = self._observations / max(self._observations.sum(), 1e-12)
            told = "its text resembles no other" if self._text_view else "nor are there any texts"
            told = told if text.strip() else "and no text was given"
            why = f"{called}, {told}: the curve of all advertisers"
            return Placement(name, None, everyone, weights, "", "global", why)
        shares = likeness @ self._shares
        segment = self._names[int(shares[:-1].argmax())] if self._names else ""
        why = (
            f"{called}: placed by its text, beside {int((likeness > 0).sum())} advertisers with "
            f"similar ones, most of them in the segment {segment!r}"
        )
        return Placement(name, None, shares, likeness, segment, "text", why)

    @cached_property
    def _vectors_of(self) -> Callable[[Iterable[str | None]], Floats]:
        assert self._text_view is not None
        return self._text_view.ready()

    def _likeness(self, text: str) -> Floats | None:
        """Weights of the advertisers with the most similar texts, summing to 1; None without."""
        if not text.strip() or self._text_view is None or self._vectors is None:
            return None
        cosine = self._vectors @ self._vectors_of([text])[0]
        cosine[self._observations <= 0] = 0.0
        nearest = _largest(cosine, _NEIGHBOURS)
        weights = np.zeros(len(cosine))
        weights[nearest] = np.where(cosine[nearest] > _ALIKE, cosine[nearest], 0.0)
        total = weights.sum()
        return weights / total if total > 0 else None


def rate_and_doubt(
    weights: Floats, rates: Floats | None, worth: Floats | None
) -> tuple[float | None, float]:
    """The rate of an advertiser, or of several weighted, and its standard deviation.

    A rate worth M impressions has the variance p(1 − p)/(M + 1); that between the advertisers
    a new one is likened to is added.

    Examples
    --------
    >>> rate_and_doubt(np.array([0.0, 1.0]), np.array([0.1, 0.5]), np.array([9.0, 24.0]))
    (0.5, 0.1)
    """
    if rates is None or worth is None:
        return None, 0.0
    mean = float(weights @ rates)
    variance = weights @ (rates * (1 - rates) / (worth + 1)) + weights @ (rates - mean) ** 2
    return mean, float(np.sqrt(variance))


def _called(name: str) -> str:
    """How the grounds of somebody who is not in the log begin."""
    return f"{name!r} is not in the log" if name else "no advertiser was named"


def _largest(values: Floats, n: int) -> NDArray[np.int64]:
    """The indices of the n largest; of equal ones those that come first."""
    if len(values) <= n:
        return np.arange(len(values))
    least = np.partition(values, len(values) - n)[len(values) - n]
    above = np.flatnonzero(values > least)
    return np.concatenate([above, np.flatnonzero(values == least)[: n - len(above)]])
