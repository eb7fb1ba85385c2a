"""The mixed load of the soak: every kind of request with its weight and the statuses expected."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from coterie.ads.fitting.forecaster import AdForecaster

_JSON = {"Content-Type": "application/json"}
_BATCH = 100


class Sent(NamedTuple):
    """One request; ``expected`` is the only status that is right."""

    kind: str
    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    expected: int = 200


class MixedRequests:
    """Draws requests of all endpoints, good and bad, about the advertisers of a model."""

    def __init__(self, model: AdForecaster, rng: Generator) -> None:
        self._rng = rng
        self._names: list[str] = model.advertisers_.tolist()
        self._segments = int(model.labels_.max()) + 1
        self._low, self._high = np.log(model.edges_[[0, -1]] / 1_000_000)
        kinds = _kinds()
        self._makers = [make for make, _ in kinds]
        weights = np.array([weight for _, weight in kinds], dtype=np.float64)
        self._shares = weights / weights.sum()

    def draw(self) -> Sent:
        """Return the next request."""
        made: Sent = self._makers[self._rng.choice(len(self._makers), p=self._shares)](self)
        return made

    def name(self) -> str:
        """Return the id of any advertiser."""
        return self._names[int(self._rng.integers(len(self._names)))]

    def bid(self) -> float:
        """Return a bid of the range of the model's grid."""
        return max(0.01, round(float(np.exp(self._rng.uniform(self._low, self._high))), 2))

    def question(self) -> dict[str, Any]:
        """Return a question about an advertiser at a bid."""
        return {"advertiser": self.name(), "bid": self.bid()}

    def segment(self) -> int:
        """Return the index of any segment."""
        return int(self._rng.integers(self._segments))

    def one_of(self, choices: Sequence[Any]) -> Any:
        """Return any of some choices."""
        return choices[int(self._rng.integers(len(choices)))]


_Maker = Callable[[MixedRequests], Sent]


def _asked(kind: str, path: str, body: Callable[[MixedRequests], Any], status: int = 200) -> _Maker:
    def make(mixed: MixedRequests) -> Sent:
        content = body(mixed)
        sent = content if isinstance(content, bytes) else json.dumps(content).encode()
        return Sent(kind, "POST", path, sent, _JSON, status)

    return make


def _got(kind: str, path: Callable[[MixedRequests], str] | str, status: int = 200) -> _Maker:
    return lambda mixed: Sent(
        kind, "GET", path if isinstance(path, str) else path(mixed), expected=status
    )


def _bid_range(mixed: MixedRequests) -> dict[str, Any]:
    asked = {"from": 0.5, "to": 10.0, "step": 0.05}
    return {"advertiser": mixed.name(), "bid": asked, "days": 7}


def _newcomer(mixed: MixedRequests) -> dict[str, Any]:
    words = mixed.one_of(["cheap flights and hotels", "car insurance quote", "free puzzle game"])
    number = int(mixed._rng.integers(1_000_000))
    text = f"{words} {number}"
    return {"advertiser": f"new-{number}", "text": text, "supply": 1_000, "bid": mixed.bid()}


def _search(mixed: MixedRequests) -> str:
    return f"/v1/advertisers?search={mixed.name()[-2:]}&page_size=50&sort=-spend"


def _curves(mixed: MixedRequests) -> str:
    return f"/v1/curves?format={mixed.one_of(['arrow', 'parquet'])}&segment={mixed.segment()}"


def _kinds() -> list[tuple[_Maker, float]]:
    """Return all kinds, with how often each is asked relative to the others."""
    assets = ["numbers.js", "charts.js", "what_if.js", "page.css"]
    return [*_good_questions(), *_looks(assets), *_bad_requests()]


def _good_questions() -> list[tuple[_Maker, float]]:
    batch = partial_batch(_BATCH)
    return [
        (_asked("forecast", "/v1/forecast", MixedRequests.question), 30),
        (_asked("batch", "/v1/forecast", batch), 8),
        (_asked("bid range", "/v1/forecast", _bid_range), 5),
        (_asked("new advertiser", "/v1/forecast", _newcomer), 4),
        (_asked("bids", "/v1/bids", lambda m: {"advertiser": m.name(), "impressions": 50}), 4),
        (_asked("budgets", "/v1/budgets", lambda m: {"advertiser": m.name(), "budget": 5}), 4),
        (_asked("targets", "/v1/targets", lambda m: {"advertiser": m.name()}), 4),
        (_asked("portfolios", "/v1/portfolios", lambda m: {"segment": m.segment()}), 1),
    ]


def partial_batch(size: int) -> Callable[[MixedRequests], list[dict[str, Any]]]:
    """Return what draws a list of so many questions."""
    return lambda mixed: [mixed.question() for _ in range(size)]


def _looks(assets: Sequence[str]) -> list[tuple[_Maker, float]]:
    return [
        (_got("model", "/v1/model"), 4),
        (_got("segments", "/v1/segments"), 2),
        (_got("advertisers", _search), 5),
        (_got("advertiser", lambda m: f"/v1/advertisers/{m.name()}"), 8),
        (_got("curves", _curves), 1),
        (_got("what-if page", "/"), 4),
        (_got("assets", lambda m: f"/assets/{m.one_of(assets)}"), 4),
        (_got("metrics", "/metrics"), 3),
        (_got("openapi", "/openapi.json"), 1),
        (_got("health", lambda m: f"/health/{m.one_of(['live', 'ready'])}"), 5),
    ]


def _bad_requests() -> list[tuple[_Maker, float]]:
    invalid = [{"advertiser": "x", "bid": -1}, {}, [], [{"advertiser": 7, "bid": 1}]]
    malformed = [b"", b"{", b"nonsense", b'{"text": "\xff", "bid": 1}']
    ask = "/v1/forecast"
    return [
        (_asked("malformed body", ask, lambda m: m.one_of(malformed), 400), 3),
        (_asked("invalid question", ask, lambda m: m.one_of(invalid), 422), 3),
        (_asked("large body", ask, lambda _: b" " * 1_100_000, 413), 0.5),
        (_asked("unknown path", "/v1/nothing", lambda _: {}, 404), 1),
        (_got("wrong method", ask, 405), 1),
        (_got("unknown advertiser", "/v1/advertisers/nobody", 404), 1),
        (_got("invalid query", "/v1/advertisers?page=0", 422), 1),
        (lambda _: Sent("wrong media", "POST", ask, b"{}", {"Content-Type": "a/b"}, 415), 0.5),
    ]
