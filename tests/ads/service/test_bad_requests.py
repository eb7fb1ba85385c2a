"""Bad requests: each is refused with the right problem, and the service goes on."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from coterie.ads.service.problems import KINDS
from running_service import PATIENCE, running_service, wait_until

TOKEN = "a-token-that-nobody-guesses"
GOOD = {"advertiser": "adv-00023", "bid": 2.5}
GOOD_BODY = json.dumps(GOOD).encode()
JSON = "application/json"
ASK = "/v1/forecast"


class BadRequest(NamedTuple):
    """What is sent, and the status and type of the problem expected.

    A status of 0 is a connection that is closed without an answer.
    """

    name: str
    sent: bytes
    status: int
    kind: str


def request(
    target: str | bytes,
    method: str = "GET",
    body: bytes = b"",
    *,
    version: str = "HTTP/1.1",
    **headers: str | None,
) -> bytes:
    """Return the bytes of a request; a header that is None is left out."""
    given: dict[str, str | None] = {
        "Host": "localhost",
        "Authorization": f"Bearer {TOKEN}",
        "Connection": "close",
        "Content-Length": str(len(body)) if body or method == "POST" else None,
    }
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    path = target if isinstance(target, bytes) else target.encode()
    lines = [b"%s %s %s" % (method.encode(), path, version.encode())]
    lines += [f"{k}: {v}".encode("latin-1") for k, v in given.items() if v is not None]
    return b"\r\n".join([*lines, b"", body])


def ask(body: Any, target: str = ASK, **headers: str | None) -> bytes:
    """Return the bytes of a request with questions."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request(target, "POST", content, **{"Content_Type": JSON} | headers)


MALFORMED = [
    *(b"", b" ", b"\n", b"{", b"}", b"[", b"]", b"{]", b"[}", b"[]]", b"[] x"),
    *(b"nul", b"True", b"undefined", b"NaN", b"Infinity", b"-Infinity", b"-", b"+1"),
    *(b"01", b"1.", b".5", b"1e", b"1e+", b"--1", b"#", b"//", b"/**/"),
    *(b"'a'", b'"', b'"a', b'"\\x41"', b'"\\u12"', b'"\\u12G4"', b'"\\ud800"', b'"\\ud800\\u0041"'),
    *(b'"\\udc00"', b'"\t"', b'"\n"', b'"\0"', b"\0", b"\xff"),
    *(b'{"advertiser":"%s","bid":1}' % one for one in (b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82")),
    *(b'{"text":"\xf4\x90\x80\x80","bid":1}', b'{"advertiser":"a","bid":1_000}'),
    b"\xef\xbb\xbf" + GOOD_BODY,
    *(GOOD_BODY + b"x", GOOD_BODY[:-1], GOOD_BODY[:5], GOOD_BODY + b"\0", GOOD_BODY * 2),
    *(json.dumps(GOOD).encode(coding) for coding in ("utf-16", "utf-16-le", "utf-32")),
    *(b'{"advertiser":"a","bid":1,}', b'{"advertiser":"a" "bid":1}', b'{advertiser:"a"}'),
    *(b'{"advertiser":"a","bid":[1,]}', b'{"advertiser":"a","bid":[1 2]}'),
    *(b"{'bid':1}", b'{"bid"}'),
    *(b'{"advertiser":"a","bid":NaN}', b'{"advertiser":"a","bid":1,"supply":Infinity}'),
    *(b'{"advertiser":"\xe9","bid":1}', b'{"advertiser":"a\nb","bid":1}', b'{"bid":1,1:2}'),
    *(b"\x1f\x8b\x08\0\0\0\0\0", b"a=1&b=2", b"<a/>"),
]

_DATES = [
    *("", "9 March", "2026-03-09 ", "٢٠٢٦-٠٣-٠٩"),
    *("2026-02-30", "20260309", "2026-3-9", "2026-03-09T00:00:00", "03/09/2026", "2026-13-01"),
    *("10000-01-01", "-001-01-01", "today", "0000-01-01"),
]
_ANY = [None, True, 7, 2.5, "x", [], [1], {}, {"a": 1}]
_TAKEN = {"advertiser": str, "text": str, "supply": int | float, "days": int, "bid": int | float}
_BAD_BIDS = [0, -1, -0.0, 1e10, 1e300, -1e-300, "2.5", None, True, [], {}]
_BAD_VALUES: dict[str, list[Any]] = {
    "bid": [*_BAD_BIDS, *([1, one] for one in _BAD_BIDS), [[1]], [{"from": 1, "to": 2, "step": 1}]],
    "supply": [-1, -1e-300, 1e16, 1e300, "1000"],
    "days": [0, -1, 367, 1.5, 10**30, "7", 1e300],
    "level": [0, 1, 0.85, 90, -0.9, 0.9000001, "0.9", 1e300],
    "day": [*_DATES, 20260309],
    "advertiser": ["a" * 1_025, "\U0001f600" * 1_025],
    "text": ["a" * 10_001],
}
_RANGE = {"from": 1, "to": 5, "step": 0.5}
_BAD_RANGES: list[Any] = [
    *({**_RANGE, name: value} for name in _RANGE for value in (0, -1, "1", None, True, [1], {})),
    *({key: _RANGE[key] for key in _RANGE if key != name} for name in _RANGE),
    {**_RANGE, "by": 1},
    {**_RANGE, "to": 0.5},
    {**_RANGE, "to": 1e10},
    {**_RANGE, "from": 1e10, "to": 2e10},
    {"from": 1, "to": 10_001, "step": 1},
    {"from": 1, "to": 1e9, "step": 1e-9},
    {"from": 1e-300, "to": 1e9, "step": 5e-324},
]


def invalid_questions() -> Iterator[tuple[str, Any]]:
    """Yield bodies that are JSON, but no questions."""
    for name in (*_TAKEN, "day", "level"):
        for value in _ANY:
            good = isinstance(value, _TAKEN.get(name, ())) and not isinstance(value, bool)
            if not good and not (name == "bid" and value == [1]):
                yield f"{name} {value!r}", {**GOOD, name: value}
    for name, values in _BAD_VALUES.items():
        yield from ((f"{name} {value!r:.40}", {**GOOD, name: value}) for value in values)
    yield from ((f"range {one!r:.50}", {**GOOD, "bid": one}) for one in _BAD_RANGES)
    for number in ("1e400", "-1e400", "9" * 400):
        for name in ("bid", "supply", "days", "level"):
            body = json.dumps({**GOOD, name: "?"}).replace('"?"', number)
            yield f"{name} of {number:.9}", body.encode()
    for one in (None, True, 3, "x", [], [[]], [None], [GOOD, []], [GOOD, 7], [[GOOD]], {}, [{}]):
        yield f"no question {one!r:.40}", one
    yield "a fault, then no JSON", b"[1, {"
    yield "nesting", b"[" * 100_000
    yield "nesting in a member", b'[{"advertiser":' * 50_000
    yield "a fault, then deep nesting", b'[{"bid":"x"},' + b"[" * 100_000
    yield "a fault, then no UTF-8", b'[{"bid":"x"},{"advertiser":"\xff","bid":1}]'
    yield "unknown member", {**GOOD, "colour": "red"}
    yield "member in other case", {"Advertiser": "a", "bid": 1}
    yield "member twice", b'{"advertiser":"a","bid":1,"bid":"x"}'
    yield "megabyte of a name", b'{"%s":1}' % (b"y" * 1_000_000)
    yield "nobody", {"bid": 1}
    yield "no bid", {"advertiser": "a"}
    yield "supply and day", {**GOOD, "supply": 1, "day": "2026-03-09"}
    yield "stranger without supply", {"advertiser": "nobody", "bid": 1}
    yield "stranger in a list", [GOOD, {"text": "hotel", "bid": 1}]
    yield "1,001 questions", [GOOD] * 1_001
    yield "10,001 bids", {**GOOD, "bid": [1.0] * 10_001}
    yield "10,001 bids in all", [{**GOOD, "bid": [1.0] * 73}] * 137
    yield "ranges that explode", [{**GOOD, "bid": {"from": 1, "to": 10_000, "step": 1}}] * 900
    yield "101 texts", [{"text": f"t{n}", "bid": 1, "supply": 1} for n in range(101)]
    texts = [{"text": f"{n:05}" * 2_000, "bid": 1, "supply": 1} for n in range(21)]
    yield "210,000 characters", texts


PATHS = {
    **dict.fromkeys([ASK, "/v1/bids", "/v1/budgets", "/v1/targets", "/v1/portfolios"], "POST"),
    **dict.fromkeys(["/v1/curves", "/v1/model", "/v1/segments", "/v1/advertisers"], "GET"),
    **dict.fromkeys(["/v1/advertisers/adv-00023", "/health/live", "/health/ready"], "GET"),
    **dict.fromkeys(["/metrics", "/openapi.json", "/", "/assets/page.css"], "GET"),
    "/problems/busy": "GET",
}
_QUERIES = {
    "/v1/model": ["x=1", "version=1", "a", "=", "%00=1", "x=1&x=2"],
    "/v1/segments": ["x=1", "segment=1"],
    "/v1/advertisers/adv-00023": ["x=1", "page=1"],
    "/v1/curves": [
        *("x=1", "format=csv", "format=", "format=ARROW", "format=arrow&format=arrow"),
        *("segment=-1", "segment=x", "segment=1.5", "segment=", "segment=1&segment=1"),
    ],
    "/v1/advertisers": [
        *(f"page={one}" for one in ("0", "-1", "x", "1.5", "", "10000000000", "9" * 40)),
        *(f"page_size={one}" for one in ("0", "101", "-5", "x", "", "null", "true", "%31%00")),
        *(f"segment={one}" for one in ("-1", "x", "", "1.5", "1;2", "9" * 30, "%FF")),
        *("x=1", "sort=cost", "sort=--bid", "Page=1", "page=1&page=2", "search=a&search=b"),
        *(f"search={'a' * 1_025}", "page[]=1"),
    ],
}
_NOWHERE = [
    *("/v2", "/v1", "/v1/", "/v1/model/", "//v1/model", "/V1/MODEL", "/.env", "/docs", "/redoc"),
    *("/v1/forecast/", "/v1/forecast/stream", "/v1/forecast/x", "/health", "/health/"),
    *("/metrics/", "/openapi.yaml", "/assets/", "/assets/..%2Fpages.py", "/assets/no.js"),
    *("/assets/a/b", "/problems/none", "/problems/", "/%2e%2e/etc/passwd", "/../etc/passwd"),
    *("/%00", "/%", "/%zz", "/v1%2Fmodel%2F"),
    *("/" + "a" * 4_000, "/index.php?x=1", "/v1/model%0A", "/metrics%0a", "/%0A", "*"),
]
_NOBODY = [
    *("", "nobody", "ADV-00023", "adv-00023%20", "adv-00023/", "%FF%FE", "%00", "%", "%zz"),
    *("a" * 2_000, "..%2F..%2Fetc", "../../etc", "%F0%9F%98%80", "%ED%A0%80", "adv-00023%00"),
    *("adv-00023%0A", "a%0Ab", "'%20or%201=1"),
]
_HOSTS = [
    *("", "localhost, localhost", "\xfflocalhost"),
    *("evil.example", "localhost.evil.example", "10.0.0.1", "user@localhost", "localhost/x"),
    *("localhost:x", "[localhost]", "::1", "127.0.0.1.nip.io"),
]
_TOKENS = [
    *(None, "", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x"),
    *(f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN} {TOKEN}", f"Bearer,{TOKEN}"),
    *(f"Bearer {TOKEN.upper()}", "Bearer \xff", "Token x", f"Bearer\t{TOKEN}"),
    *(f"Bearer {TOKEN},", "Bearer null", "Bearer " + "x" * 5_000),
]
_TYPES = [
    *(None, "", "multipart/form-data; boundary=x", "application/json; charset=latin-1"),
    *("application/json; charset=utf-16", "application/json, text/plain", "application/json; x=y"),
    *("text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application"),
    *("json", "*/*", "application/xml", "application/x-ndjson", "application/problem+json"),
    "application/msgpack",
]
_METHODS = ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]

_HOST = b"Host: localhost\r\nAuthorization: Bearer %s\r\n" % TOKEN.encode()
_POST = b"POST /v1/forecast HTTP/1.1\r\n" + _HOST + b"Content-Type: application/json\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
_CHUNKED_POST = _POST + _CHUNKED
_CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD_BODY), GOOD_BODY)
NOT_HTTP = {
    "nonsense": b"nonsense\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "NUL": b"\0" * 64,
    "unknown method": b"FETCH / HTTP/1.1\r\n" + _HOST + b"\r\n",
    "method in lower case": b"get / HTTP/1.1\r\n" + _HOST + b"\r\n",
    "no version": b"GET /\x01 \r\n\r\n",
    "version": b"GET / HTTP/x.y\r\n" + _HOST + b"\r\n",
    "blank in the path": b"GET /a b HTTP/1.1\r\n" + _HOST + b"\r\n",
    "bytes in the path": b"GET /\xff HTTP/1.1\r\n" + _HOST + b"\r\n",
    "long path": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + _HOST + b"\r\n",
    "connect": b"CONNECT localhost:80 HTTP/1.1\r\n" + _HOST + b"\r\n",
    "header without colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "blank before colon": b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "header without name": b"GET / HTTP/1.1\r\n: x\r\n" + _HOST + b"\r\n",
    "NUL in a header": b"GET / HTTP/1.1\r\n" + _HOST + b"X: \0\r\n\r\n",
    "carriage return alone": b"GET / HTTP/1.1\r\n" + _HOST + b"X: a\rb\r\n\r\n",
    "two lengths": _POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
    "list of lengths": _POST + b"Content-Length: 5, 5\r\n\r\n{}   ",
    "negative length": _POST + b"Content-Length: -1\r\n\r\n{}",
    "length with a sign": _POST + b"Content-Length: +2\r\n\r\n{}",
    "length in hex": _POST + b"Content-Length: 0x2\r\n\r\n{}",
    "empty length": _POST + b"Content-Length: \r\n\r\n{}",
    "huge length": _POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",
    "length and chunks": b"%sContent-Length: 5\r\n%s" % (_POST, _CHUNKED + _CHUNK),
    "chunks and length": _CHUNKED_POST[:-2] + b"Content-Length: 5\r\n\r\n" + _CHUNK,
    "coding unknown": _POST + b"Transfer-Encoding: gzip\r\n\r\n" + _CHUNK,
    "chunked not last": _POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + _CHUNK,
    "no chunk size": _CHUNKED_POST + b"zz\r\n{}\r\n0\r\n\r\n",
    "negative chunk": _CHUNKED_POST + b"-2\r\n{}\r\n0\r\n\r\n",
    "huge chunk": _CHUNKED_POST + b"" + b"f" * 17 + b"\r\n{}\r\n",
    "chunk too long": _CHUNKED_POST + b"1\r\n{}\r\n0\r\n\r\n",
}


def bad_requests() -> Iterator[BadRequest]:
    """Yield all bad requests, those that are not HTTP included."""
    for number, body in enumerate(MALFORMED):
        yield BadRequest(f"malformed {number} {body[:24]!r}", ask(body), 400, "malformed-body")
    for name, body in invalid_questions():
        yield BadRequest(f"invalid {name}", ask(body), 422, "invalid-question")
    for kind in _TYPES:
        name, sent = f"type {kind}", ask(GOOD, Content_Type=kind)
        yield BadRequest(name, sent, 415, "unsupported-media-type")
    yield from _bad_targets()
    yield from _bad_access()
    yield from _odd_bodies()
    for name, sent in NOT_HTTP.items():
        yield BadRequest(name, sent, 400, "malformed-request")


def _bad_targets() -> Iterator[BadRequest]:
    for path, method in PATHS.items():
        for other in (*_METHODS, "POST" if method == "GET" else "GET"):
            sent = request(path, other)
            yield BadRequest(f"{other} {path}", sent, 405, "method-not-allowed")
    for path, queries in _QUERIES.items():
        for query in queries:
            sent = request(f"{path}?{query}")
            yield BadRequest(f"query {path}?{query:.30}", sent, 422, "invalid-query")
    yield BadRequest("query of a question", ask(GOOD, f"{ASK}?x=1"), 422, "invalid-query")
    for path in _NOWHERE:
        yield BadRequest(f"path {path:.40}", request(path), 404, "not-found")
    for one in _NOBODY:
        sent = request(f"/v1/advertisers/{one}")
        yield BadRequest(f"id {one:.40}", sent, 404, "unknown-advertiser")


def _bad_access() -> Iterator[BadRequest]:
    for host in _HOSTS:
        for path in ("/v1/model", "/health/live"):
            yield BadRequest(f"host {host} {path}", request(path, Host=host), 421, "unknown-host")
    for version in ("HTTP/1.1", "HTTP/1.0"):
        sent = request("/v1/model", Host=None, version=version)
        yield BadRequest(f"no host {version}", sent, 400, "malformed-request")
    for token in _TOKENS:
        for sent in (request("/v1/model", Authorization=token), ask(GOOD, Authorization=token)):
            yield BadRequest(f"token {token!r:.40}", sent, 401, "token-required")


def _odd_bodies() -> Iterator[BadRequest]:
    for name, values in {
        "Host": ("localhost", "evil.example"),
        "Authorization": (f"Bearer {TOKEN}", "Bearer x"),
        "Content-Type": (JSON, "text/plain"),
    }.items():
        for first, last in (values, values[::-1]):
            twice = ask(GOOD, **{name: f"{first}\r\n{name}: {last}"})
            yield BadRequest(f"two of {name}, {last} last", twice, 400, "malformed-request")
    for target in (path for path, method in PATHS.items() if method == "POST"):
        deep = ask(b"[" * 500 + b"]" * 500, target)
        yield BadRequest(f"deep body {target}", deep, 422, "invalid-question")
        yield BadRequest(f"half a body {target}", ask(b"{", target), 400, "malformed-body")
        sent = ask({}, target, Content_Type="text/csv")
        yield BadRequest(f"table for {target}", sent, 415, "unsupported-media-type")
    members = ask(b"[" + b"{}," * 60_000 + b"{}]")
    yield BadRequest("many members", members, 413, "body-too-large")
    declared = _POST + b"Connection: close\r\nContent-Length: 1048577\r\n\r\n" + b" " * 10
    yield BadRequest("large body declared", declared, 413, "body-too-large")
    chunks = _POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    chunks += (b"10000\r\n" + b" " * 65_536 + b"\r\n") * 17 + b"0\r\n\r\n"
    yield BadRequest("large body in chunks", chunks, 413, "body-too-large")
    zipped = ask(b"\x1f\x8b", Content_Encoding="gzip")
    yield BadRequest("zipped body", zipped, 400, "malformed-body")
    empty = _POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"
    yield BadRequest("no chunks", empty, 400, "malformed-body")
    yield BadRequest("body that stops", _POST + b"Content-Length: 50\r\n\r\n{", 0, "")
    yield BadRequest("chunk that stops", _CHUNKED_POST + b"5\r\n{", 0, "")
    yield BadRequest("headers that stop", b"GET / HTTP/1.1\r\nHost: local", 0, "")
    yield BadRequest("nothing", b"", 0, "")
    yield BadRequest("empty lines", b"\r\n" * 50, 0, "")


BAD = list(bad_requests())

# the service is shared: by one worker, so that it is started once


@pytest.fixture(scope="module")
def service(models, tmp_path_factory):
    """A service that needs a token; afterwards it has failed on nothing."""
    folder = tmp_path_factory.mktemp("bad")
    options = ("--no-watch", "--drain-seconds", "0")
    environment = {"COTERIE_TOKEN": TOKEN}
    with running_service(models[0], folder, *options, environment=environment) as running:
        yield running
        with running.client(headers={"authorization": f"Bearer {TOKEN}"}) as client:
            assert 'status="5' not in client.get("/metrics").text
        assert "ERROR" not in running.logged and "WARNING" not in running.logged


def answers(service, sent, *, ends=False):
    """Return all that comes back until the connection is closed; by this side first if it ends."""
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as connection:
        with contextlib.suppress(ConnectionError):  # refused before all was sent
            connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as reading, contextlib.suppress(ConnectionResetError):
            return reading.read()
        return b""


def parsed(answer):
    """Return status, headers and body of one answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines), body


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name.encode("unicode_escape").decode())
def test_bad_request_is_refused(service, bad):
    """The status and the type of the problem are right; after it a good question is answered."""
    answer = answers(service, bad.sent, ends=not bad.status)
    if not bad.status:
        assert answer == b""
    elif answer or bad.kind != "body-too-large":  # the answer may be lost if not all is read
        status, headers, body = parsed(answer)
        assert (status, headers["content-type"]) == (bad.status, "application/problem+json"), body
        told = json.loads(body)
        assert told["type"] == f"/problems/{bad.kind}"
        assert (told["status"], told["title"]) == (status, KINDS[bad.kind].title)
        assert told["request_id"] == headers["x-request-id"]
        assert 0 < len(body) < 10_000
        assert headers.get("allow") in ({"GET, HEAD", "POST"} if status == 405 else {None})
        assert (status == 401) == ("www-authenticate" in headers)
        assert bool(told.get("errors")) == (status == 422)
    status, _, body = parsed(answers(service, ask(GOOD)))
    assert (status, json.loads(body)["known"]) == (200, True)


def test_requests_sent_ahead_are_answered_in_order(service):
    """Bad requests between good ones on the same connection cost none its answer."""
    keep = {"Connection": "keep-alive"}
    several = [ask(GOOD, **keep), ask(b"{", **keep), request("/nowhere", **keep), ask(GOOD)]
    found = answers(service, b"".join(several)).split(b"HTTP/1.1 ")[1:]
    assert [one[:3] for one in found] == [b"200", b"400", b"404", b"200"]


def test_client_that_leaves_is_no_failure(service):
    """A client that goes away before its answer is noted as 499."""
    long = {**GOOD, "bid": {"from": 1, "to": 2_000, "step": 1}, "days": 30}
    for sent in (ask(long), ask(GOOD)[:-5]):
        with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as connection:
            connection.sendall(sent)
    wait_until(lambda: f"POST {ASK} 499 " in service.logged, "the line in the log")
