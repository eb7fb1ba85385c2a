"""Placement: the advertiser of a question is known, like others by its text, or unknown."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from coterie.arrays import Floats, Ints
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from coterie.ads.forecasts.fitted_market import FittedMarket


_NEIGHBOURS = 15
_ALIKE = 0.1
# so many products with all advertisers take little memory
_TEXTS_TOGETHER = 16
# what rounding may do to a cosine
_ROUNDING = 1e-9
_MOST_SHOWN = 80
#: Runs of digits, and of letters.
_PARTS = re.compile(r"\d+|[^\W\d_]+")
#: More advertisers are not compared, and no more than so many ids are suggested.
_MOST_COMPARED, _MOST_SIMILAR = 20_000, 3


@dataclass(frozen=True)
class Placement:
    """The advertiser of a question, and on what grounds it is forecast."""

    name: str  # empty where only a text was given
    row: int | None  # among the advertisers of the log; None for one that is not there
    shares: Floats  # (K + 1,), in each segment; the last is "no segment in particular"
    weights: Floats  # (A,), of the advertisers its rates of clicks are taken from; they sum to 1
    segment: str  # the name of that with the largest share; empty where there is none
    curve: str  # "pooled", "text" or "global": see forecast_figures.Forecast
    why: str


class Placer:
    """Places an advertiser among the advertisers and segments of a model.

    An advertiser of the log is found by its id. Another is placed next to those with the most
    similar texts, or else with all advertisers.
    """

    def __init__(self, model: FittedMarket) -> None:
        self._advertisers, self._observations = model.advertisers_, model.observations_
        self._labels, self._confidence = model.labels_, model.confidence_
        self._shares = model.shares_
        self._names = [segment.name for segment in model.segments_]
        self._text_view, self._vectors = model.text_view_, model.vectors_
        stored = getattr(model, "stored_days_", None)
        self._has_campaigns = stored is not None and stored.unit == "campaign"

    def placed(self, advertiser: str | None = None, text: str | None = None) -> Placement:
        """Return the place of one advertiser; one that is not known is placed by its text."""
        if advertiser is not None:
            advertiser = str(advertiser)  # as the log's are, if they are numbers there
            # numpy's search would make every id as long as the one it looks for
            row = bisect_left(self._advertisers, advertiser)
            if row < len(self._advertisers) and self._advertisers[row] == advertiser:
                return self._known(row)
            self.refuse_whole_advertiser(advertiser)
        if advertiser is None and text is None:
            raise InvalidParameterError("name an advertiser, or give the text of a new one")
        [place] = self.placed_by_texts([text or ""])
        return self.named(place, advertiser or "")

    def refuse_whole_advertiser(self, name: str) -> None:
        """Refuse the id of an advertiser whose campaigns are in the model, each under its name."""
        row = bisect_left(self._advertisers, f"{name}/")
        campaign = str(self._advertisers[row]) if row < len(self._advertisers) else ""
        if self._has_campaigns and campaign.rpartition("/")[0] == name:
            raise InvalidParameterError(
                f"{quoted(name)} has campaigns in this model; name one of them, such as "
                f"{quoted(campaign)}"
            )

    def unknown(self, name: str) -> str:
        """Return that an id is not in the log, with those that are written almost like it."""
        similar = self._by_form.get(_form(name), [])
        if name and not similar:
            first = bisect_left(self._advertisers, name)
            similar = self._advertisers[first : first + _MOST_SIMILAR + 1].tolist()
            similar = [other for other in similar if other.startswith(name)]
        few = ", ".join(map(quoted, similar)) if len(similar) <= _MOST_SIMILAR else ""
        who = quoted(name) if name else "a new advertiser"
        return f"{who} is not in the log" + (f" (similar: {few})" if few else "")

    def _called(self, name: str) -> str:
        """Return how the grounds of an advertiser that is not in the log begin."""
        return self.unknown(name) if name else "no advertiser was named"

    def needs_supply(self, name: str) -> str:
        """Return the same, and what to do about a question that needs a supply."""
        return f"{self.unknown(name)}; check the id, or give supply, its number of auctions"

    @cached_property
    def _by_form(self) -> dict[str, list[str]]:
        """Return the ids by their forms; none if there are too many to do this for an error."""
        found: dict[str, list[str]] = {}
        for name in self._advertisers.tolist() if len(self._advertisers) <= _MOST_COMPARED else []:
            found.setdefault(_form(name), []).append(name)
        return found

    def placed_by_texts(self, texts: Sequence[str]) -> list[Placement]:
        """Return the places of advertisers that are not in the log, by their texts, under no names.

        Many texts take little longer than one: they are compared with all advertisers at once.
        Each gets the place it would get alone, to the last bit.
        """
        given = [text for text in texts if text.strip()]
        if not given or self._text_view is None or self._vectors is None:
            return [self._like_all(text) for text in texts]
        places = iter(self._by_vectors(self._vectors_of(given), self._vectors))
        return [(next(places) if text.strip() else None) or self._like_all(text) for text in texts]

    def why(self, row: int) -> str:
        """Return the grounds of the forecasts of an advertiser of the log."""
        n, segment = self._observations[row], self.segment(row)
        share = f"the segment {quoted(segment)} (share {self._confidence[row]:.0%})"
        return (
            f"its {n:,.0f} bid{'' if n == 1 else 's'}, completed by "
            f"{share if segment else 'all advertisers'}"
        )

    def segment(self, row: int) -> str:
        """Return the name of the segment of an advertiser of the log; empty where there is none."""
        return self._names[self._labels[row]] if self._names and self._labels[row] >= 0 else ""

    def named(self, placement: Placement, name: str) -> Placement:
        """Return the placement of an advertiser that is not in the log, under another name."""
        why = self._called(name) + placement.why.removeprefix(self._called(placement.name))
        return replace(placement, name=name, why=why)

    def average_placement(self) -> Placement:
        """Return the placement of an unknown advertiser: the overall average."""
        return self._like_all("")

    def in_segment(self, segment: int) -> Placement:
        """Return the placement of a new advertiser of one segment; of any for −1."""
        shares = np.zeros(self._shares.shape[1])
        shares[segment] = 1.0
        return replace(self.average_placement(), shares=shares)

    def _known(self, row: int) -> Placement:
        weights = np.zeros(len(self._advertisers))
        weights[row] = 1.0
        name = str(self._advertisers[row])
        shares, segment = self._shares[row], self.segment(row)
        return Placement(name, row, shares, weights, segment, "pooled", self.why(row))

    def _like_all(self, text: str) -> Placement:
        shares = np.zeros(self._shares.shape[1])
        shares[-1] = 1.0
        weights = self._observations / max(self._observations.sum(), 1e-12)
        reason = "its text resembles no other" if self._text_view else "nor are there any texts"
        if not text.strip():
            reason = "and no text was given"
        why = f"{self._called('')}, {reason}: the curve of all advertisers"
        return Placement("", None, shares, weights, "", "global", why)

    def _like_some(self, rows: Ints, cosines: Floats) -> Placement:
        """Return a placement between some advertisers, at least one, weighted by likeness."""
        parts = cosines / cosines.sum()
        shares = parts @ self._shares[rows]
        segment = self._names[int(shares[:-1].argmax())] if self._names else ""
        weights = np.zeros(len(self._advertisers))
        weights[rows] = parts
        n, least, most = len(rows), f"{cosines.min():.2f}", f"{cosines.max():.2f}"
        others = (
            f"{n} advertisers with similar ones" if n > 1 else "1 advertiser with a similar one"
        )
        likeness = least if least == most else f"{least} to {most}"
        why = f"{self._called('')}: placed by its text, beside {others} (likeness {likeness})"
        if segment:
            why += f", {'most of them' if n > 1 else 'mostly'} in the segment {quoted(segment)}"
        return Placement("", None, shares, weights, segment, "text", why)

    @cached_property
    def _vectors_of(self) -> Callable[[Iterable[str | None]], Floats]:
        assert self._text_view is not None
        return self._text_view.make_transform()

    def _by_vectors(self, texts: Floats, vectors: Floats) -> Iterable[Placement | None]:
        """Return the places of vectors of texts, (n, d); None for one that resembles no other."""
        silent = np.flatnonzero(self._observations <= 0)
        cosines = chain.from_iterable(
            texts[first : first + _TEXTS_TOGETHER] @ vectors.T
            for first in range(0, len(texts), _TEXTS_TOGETHER)
        )
        for text, cosine in zip(texts, cosines, strict=True):
            cosine[silent] = 0.0
            # how many texts are compared at once changes last digits, so these are made anew
            rows = _largest(cosine, _NEIGHBOURS, at_least=_ALIKE)
            exact = np.add.reduce(vectors[rows] * text, axis=1)
            # of equal ones those that come first
            nearest = np.sort(np.argsort(-exact, kind="stable")[:_NEIGHBOURS])
            nearest = nearest[exact[nearest] > _ALIKE]
            yield self._like_some(rows[nearest], exact[nearest]) if len(nearest) else None


def quoted(name: str) -> str:
    """Return a name in quotation marks, cut to what fits in a sentence.

    >>> quoted("adv-7"), len(quoted("a" * 1000))
    ("'adv-7'", 82)
    """
    return repr(name if len(name) <= _MOST_SHOWN else f"{name[: _MOST_SHOWN - 1]}…")


def _form(name: str) -> str:
    """Return an id without case, punctuation and leading zeros.

    >>> _form("ADV 0033"), _form("adv-00033/a")
    ('adv 33', 'adv 33 a')
    """
    parts = _PARTS.findall(name[:_MOST_SHOWN].casefold())
    return " ".join(part.lstrip("0") or part for part in parts)


def _largest(values: Floats, n: int, at_least: float) -> Ints:
    """Return indices of the n largest, first of equals, and of n that rounding may have demoted."""
    rows = np.flatnonzero(values > at_least - _ROUNDING)
    if len(rows) <= n:
        return rows
    likely = values[rows]
    least = np.partition(likely, -n)[-n]
    is_near = np.abs(likely - least) <= _ROUNDING
    return rows[(likely > least + _ROUNDING) | (is_near & (np.cumsum(is_near) <= n))]
