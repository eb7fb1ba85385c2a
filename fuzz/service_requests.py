"""Requests to the service, answered in the process: bodies in JSON, queries, methods, media."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote_from_bytes

from hypothesis import strategies as st

from coterie.ads.protocol import OPERATIONS
from coterie.errors import ServiceError
from fuzz.contract import Target
from service_calls import JSON, Service, served

__all__ = ["make"]

_PATHS = ("/v1/forecast", "/v1/bids", "/v1/budgets", "/v1/targets", "/v1/portfolios")
_QUERIES = ("/v1/advertisers", "/v1/curves", "/v1/model", "/v1/segments")
_EXPECTED = frozenset({200, 304, 400, 404, 405, 413, 415, 422})
_FIELDS: dict[str, tuple[Any, ...]] = {
    "advertiser": ("adv-00001", "adv-00023", "nobody", "", "é" * 40, "\0"),
    "advertisers": (["adv-00001"], ["adv-00001", "adv-00002"], ["nobody"], []),
    "bid": (2.5, 0.01, 1e9, 1e-300, 0, -1, [1, 2], {"from": 1, "to": 3, "step": 0.5}, []),
    "budget": (10, 1e-9, 1e15, 0),
    "by": ("impressions", "cost_per_click", "x"),
    "clicks": (1, 1e15, 1e-300),
    "conversions": (1, 0),
    "day": ("2026-03-09", "0001-01-01", "9999-12-31", "x"),
    "days": (1, 7, 366, 367, 0),
    "dimension": ("device", ["device", "country"], "x", []),
    "goal": ("impressions", "clicks", "conversions", "x"),
    "impressions": (50, 1e15, 1e-300, -1),
    "level": (0.9, 0.8, 0.5, 1),
    "segment": (0, 1, 99, -1, "travel", "", 2**70),
    "spend": (10, 1e15),
    "step": (1, 1e-300),
    "supply": (100, 0, 1e15, 1e-300, -1),
    "text": ("hotel by the beach", "", "é", "\0", "a " * 400),
    "where": ({"device": "phone"}, {"device": "x"}, {}, {"": ""}, {"country": "DE", "device": ""}),
}


class Asked(NamedTuple):
    """One request."""

    method: str
    target: str
    media: str
    body: bytes


def make() -> Target:
    """Return the target."""
    anything = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=6,
    )
    fields = st.dictionaries(st.sampled_from(sorted(_FIELDS)), st.integers(0, 8), max_size=6)
    question = st.builds(
        _question, fields, st.dictionaries(st.sampled_from(sorted(_FIELDS)), anything, max_size=1)
    )
    body = st.one_of(question, question, st.lists(question, max_size=3), anything).map(
        lambda value: json.dumps(value).encode()
    )
    posts = st.builds(
        Asked,
        st.just("POST"),
        st.sampled_from(_PATHS),
        st.just(JSON),
        body | st.binary(max_size=40),
    )
    gets = st.builds(_query, st.sampled_from(_QUERIES), st.binary(max_size=30) | _queries())
    ids = st.binary(max_size=20).map(
        lambda raw: Asked("GET", f"/v1/advertisers/{_quoted(raw)}", "", b"")
    )
    odd = st.builds(
        Asked,
        st.sampled_from(["GET", "PUT", "HEAD", "POST"]),
        st.sampled_from([*_PATHS, *_QUERIES, "/", "/x", "/assets/x", "/problems/busy"]),
        st.sampled_from(["", JSON, "text/plain", "application/json; charset=x"]),
        st.binary(max_size=20),
    )
    inputs = st.one_of(posts, posts, gets, ids, odd)
    return Target("service", check, inputs, seeds, from_bytes, (ServiceError,), prepare=_service)


def check(asked: Asked) -> str:
    """Ask; the status is never that of a failure, and JSON is valid."""
    headers = {"content-type": asked.media} if asked.media else {}
    reply = _service().ask(asked.method, asked.target, content=asked.body, headers=headers)
    assert reply.status in _EXPECTED, f"status {reply.status}: {reply.body[:300]!r}"
    if reply.status >= 400 and asked.method != "HEAD":
        assert reply.problem["detail"]
    elif reply.headers.get("content-type") == JSON and reply.body and asked.method != "HEAD":
        json.loads(json.dumps(reply.json), parse_constant=_refuse)
    return f"status {reply.status}"


def from_bytes(data: bytes) -> Asked:
    """Return a request of the kind that the first byte names; the rest is its body or query."""
    kind, rest = data[0] if data else 0, data[1:]
    kind %= len(_PATHS) + len(_QUERIES)
    if kind < len(_PATHS):
        return Asked("POST", _PATHS[kind], JSON, rest)
    return _query(_QUERIES[kind - len(_PATHS)], rest)


def seeds() -> Iterator[bytes]:
    """Yield valid requests of every kind."""
    yield b'\0{"advertiser":"adv-00023","bid":[1,2.5],"days":7,"day":"2026-03-09","level":0.8}'
    yield b'\0[{"text":"hotel","bid":{"from":1,"to":3,"step":0.5},"supply":9}]'
    yield b'\0{"advertiser":"adv-00001","bid":2,"where":{"device":"phone"}}'
    yield b'\1{"advertiser":"adv-00023","impressions":50,"days":3}'
    yield b'\2{"advertiser":"adv-00023","budget":10,"bid":2,"days":2}'
    yield b'\3{"advertiser":"adv-00023","dimension":["device"],"by":"impressions"}'
    yield b'\4{"segment":0,"budget":100,"goal":"clicks","days":2}'
    yield b"\5search=adv&page=1&page_size=5&sort=-spend&segment=0"
    yield b"\6format=parquet&segment=0"


_made: list[Service] = []


def _service() -> Service:
    if not _made:
        assert {*_PATHS, *_QUERIES} <= {one.path for one in OPERATIONS.values()}
        _made.append(Service(served("targets_model")))
    return _made[0]


def _queries() -> st.SearchStrategy[bytes]:
    names = st.sampled_from(["search", "segment", "sort", "page", "page_size", "format", "x"])
    values = st.sampled_from(
        ["", "0", "1", "-1", "99", "arrow", "parquet", "-spend", "adv", "9" * 30]
    )
    pairs = st.lists(st.tuples(names, values).map("=".join), max_size=4)
    return pairs.map(lambda found: "&".join(found).encode())


def _query(path: str, raw: bytes) -> Asked:
    return Asked("GET", f"{path}?{quote_from_bytes(raw, safe='=&')}", "", b"")


def _quoted(raw: bytes) -> str:
    return quote_from_bytes(raw, safe="")


def _question(fields: dict[str, int], others: dict[str, Any]) -> dict[str, Any]:
    known = {name: _FIELDS[name][place % len(_FIELDS[name])] for name, place in fields.items()}
    return {**known, **others}


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
