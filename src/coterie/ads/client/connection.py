"""What both clients share: which requests to send, when to repeat them, how to read the answers.

Nothing here sends or waits. A call is a generator: it yields attempts, which the client sends, and
seconds, which the client waits; it returns the result.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import re
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from functools import partial
from random import random
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec
from msgspec import Meta

from coterie import __version__
from coterie.ads import protocol
from coterie.ads.client.question_batches import Asked, Batch, batches_of, checked, one_line
from coterie.ads.decisions.decision_answers import BudgetPlan, BudgetSplit, GoalBid, TargetRanking
from coterie.ads.forecasts.forecast_figures import NO_BID, Forecast
from coterie.errors import CoterieError, CoterieWarning, InvalidParameterError, ServiceError
from coterie.runtime.imports import require_extra

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Attempt", "Call", "Connection"]

T = TypeVar("T")
Transport = TypeVar("Transport", httpx.BaseTransport, httpx.AsyncBaseTransport)
Call: TypeAlias = Generator["Attempt | float", None, T]

_PASSING = frozenset({408, 429, 502, 503, 504})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_MOST_BYTES = 1 << 30
_JSON = {"Content-Type": "application/json"}


class _Settings(msgspec.Struct):
    """What may be set."""

    timeout: Annotated[float, Meta(gt=0, lt=1e9)]
    retries: Annotated[int, Meta(ge=0)]
    deadline: Annotated[float, Meta(gt=0, lt=1e9)]


class Attempt:
    """One request, and its answer or error. It is entered while the request is sent.

    ``arguments`` are those of ``httpx.Client.stream``.
    """

    def __init__(self, end: float, **arguments: Any) -> None:
        self._end, self.arguments = end, arguments
        self.status, self.headers, self.body = 0, httpx.Headers(), bytearray()
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.error = error
        return isinstance(error, httpx.HTTPError | httpx.InvalidURL | UnicodeError)

    def begin(self, response: httpx.Response) -> None:
        """Take status and headers."""
        self.status, self.headers = response.status_code, response.headers

    def add(self, part: bytes) -> None:
        """Take a part of the body; refuse one without end, or not complete at the deadline."""
        self.body += part
        if len(self.body) > _MOST_BYTES:
            raise ServiceError(f"{self.arguments['url']} sends more than {_MOST_BYTES >> 20} MiB")
        if monotonic() >= self._end:
            raise ServiceError(f"{self.arguments['url']} did not finish by the deadline")


class Connection(Generic[Transport]):
    """The settings of a client, and its calls. Parameters are those of a client."""

    _http_class: Any
    _http: Any

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8400",
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
        deadline: float = 30.0,
        allow_plain_http: bool = False,
        transport: Transport | None = None,
    ) -> None:
        self.base_url, is_local = _checked_address(base_url)
        token = token or os.environ.get("COTERIE_TOKEN") or None
        if token is not None and not _is_token(token):
            raise InvalidParameterError(
                "token: it must be a text of ASCII characters without blanks, as headers carry it"
            )
        given = {"timeout": timeout, "retries": retries, "deadline": deadline}
        self._settings = checked(_Settings, given)
        headers = {"User-Agent": f"coterie/{__version__}"}
        if is_local:
            headers["Accept-Encoding"] = "identity"  # to compress would take longer than to send
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
            if self.base_url.startswith("http:") and not (is_local or allow_plain_http):
                raise InvalidParameterError(
                    f"base_url={self.base_url!r}: others could read the token on its way; use "
                    "https, or allow_plain_http=True if the network is your own"
                )
        # None for a scheme is "no proxy", also if the environment names one
        direct = dict.fromkeys(["http://", "https://", "all://"]) if is_local else None
        self._http = self._http_class(headers=headers, transport=transport, mounts=direct)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    def _get(self, path: str, kind: type[T], query: msgspec.Struct | None = None) -> Call[T]:
        """Ask for JSON of a type of the protocol."""
        return self._ask(path, partial(msgspec.json.decode, type=kind), query)

    def _advertiser(self, identifier: object) -> Call[protocol.Advertiser]:
        # dots, too: a segment "." or ".." would be resolved
        segment = quote(checked(str, str(identifier)), safe="").replace(".", "%2E")
        return self._get(f"/v1/advertisers/{segment}", protocol.Advertiser)

    def _advertiser_pages(
        self, query: dict[str, Any]
    ) -> Iterator[Call[list[protocol.AdvertiserItem]]]:
        """Yield a call for each page; a page is to be fetched before the next call is taken."""
        page = pages = 1

        def fetch() -> Call[list[protocol.AdvertiserItem]]:
            nonlocal pages
            asked = checked(protocol.AdvertiserQuery, {**query, "page": page})
            found = yield from self._get("/v1/advertisers", protocol.AdvertiserPage, asked)
            pages = found.pages
            return found.items

        while page <= pages:
            yield fetch()
            page += 1

    def _curves(self, segment: int | None) -> Call[pa.Table]:
        return self._ask("/v1/curves", _table, checked(protocol.CurveQuery, {"segment": segment}))

    def _ready(self) -> Call[bool]:
        try:
            yield from self._ask(
                "/health/ready", partial(msgspec.json.decode, type=protocol.Health), most=0
            )
        except ServiceError as error:
            if error.status is None or error.status in _PASSING:
                return False
            raise
        return True

    def _forecast(self, question: dict[str, Any]) -> Call[Any]:
        """Ask one question; the result is a list if several bids were given."""
        if question["bid"] is None:
            raise InvalidParameterError(NO_BID)
        [batch] = batches_of([question], many=False)
        [found] = yield from self._answers(batch)
        return found if batch.questions[0].gives_list else found[0]

    def _decision(self, path: str, kind: Any, given: dict[str, Any], answer: type[T]) -> Call[T]:
        """Ask for a decision; ``kind`` is the type of the question."""
        part = msgspec.json.encode(checked(kind, given))
        read = partial(msgspec.json.decode, type=answer)
        return self._ask(path, read, batch=Batch(many=False, parts=[part]))

    def _bid(self, **given: Any) -> Call[GoalBid]:
        return self._decision("/v1/bids", protocol.GoalQuestion, given, GoalBid)

    def _budget(self, **given: Any) -> Call[BudgetPlan]:
        return self._decision("/v1/budgets", protocol.BudgetQuestion, given, BudgetPlan)

    def _targets(self, **given: Any) -> Call[TargetRanking]:
        return self._decision("/v1/targets", protocol.TargetsQuestion, given, TargetRanking)

    def _portfolio(self, **given: Any) -> Call[BudgetSplit]:
        return self._decision("/v1/portfolios", protocol.PortfolioQuestion, given, BudgetSplit)

    def _answers(self, batch: Batch) -> Call[list[list[Forecast]]]:
        return self._ask("/v1/forecast", batch.read, batch=batch)

    def _batches(self, questions: Iterable[Asked]) -> Iterator[Call[list[list[Forecast]]]]:
        """Yield a call for each request that many questions need."""
        versions: list[str] = []

        def ask(batch: Batch) -> Call[list[list[Forecast]]]:
            found = yield from self._answers(batch)
            _note_version(versions, found)
            return found

        for batch in batches_of(questions):
            yield ask(batch)

    def _ask(
        self,
        path: str,
        read: Callable[[bytearray], T],
        query: msgspec.Struct | None = None,
        *,
        batch: Batch | None = None,
        most: int | None = None,
    ) -> Call[T]:
        """Ask until there is an answer that ``read`` can read, or no hope of one.

        No request changes anything in a service, so each can be repeated, ``most`` times.
        """
        if self._http.is_closed:
            raise ServiceError("this client is closed; make another one")
        sent = {"method": "GET", "url": self.base_url + path, "params": msgspec.to_builtins(query)}
        if batch is not None:
            sent |= {"method": "POST", "content": batch.body, "headers": _JSON}
        end = monotonic() + self._settings.deadline
        most = self._settings.retries if most is None else most
        for number in itertools.count():
            seconds = max(min(self._settings.timeout, end - monotonic()), 1e-3)
            attempt = Attempt(end, timeout=seconds, **sent)
            yield attempt
            if attempt.status == 200 and attempt.error is None:
                return self._result(attempt, read)
            error, wait = self._failure(attempt, batch or Batch(many=False))
            # a random part, so that clients which failed together do not come back together
            pause = min(_FIRST_PAUSE * 2.0 ** min(number, 60), _LONGEST_PAUSE)
            pause = (wait or 0.0) + pause * (0.5 + 0.5 * random())
            if wait is None or number >= most or monotonic() + pause >= end:
                if number:
                    error.args = (f"{error} (asked {number + 1} times)",)
                raise error
            yield pause
        raise AssertionError

    def _result(self, attempt: Attempt, read: Callable[[bytearray], T]) -> T:
        try:
            return read(attempt.body)
        except (ValueError, OSError, NotImplementedError, RecursionError) as error:
            raise ServiceError(
                f"{attempt.arguments['url']} answered in a form that this client does not know; is "
                "that a coterie service of the same version?",
                status=attempt.status,
                request_id=one_line(attempt.headers.get("x-request-id", "")) or None,
            ) from error

    def _failure(self, attempt: Attempt, batch: Batch) -> tuple[CoterieError, float | None]:
        """Return the error, and the seconds to wait; None if it is no use to ask again."""
        error = attempt.error
        if error is None:
            return _refusal(self.base_url, attempt, batch)
        if isinstance(error, httpx.TimeoutException):
            seconds = attempt.arguments["timeout"]
            return ServiceError(f"{self.base_url} did not answer within {seconds:.3g} s"), 0.0
        reason = f"{self.base_url} cannot be asked ({one_line(error) or type(error).__name__})"
        if isinstance(error, httpx.TransportError | httpx.DecodingError) and not isinstance(
            error, httpx.UnsupportedProtocol
        ):
            return ServiceError(f"{reason}; is coterie ads serve running there?"), 0.0
        return InvalidParameterError(reason), None


def _note_version(seen: list[str], found: list[list[Forecast]]) -> None:
    """Warn once if forecasts of one call are from another model than those before."""
    version = found[0][0].model_version
    if version in seen:
        return
    seen.append(version)
    if len(seen) == 2:
        warnings.warn(
            f"the service got another model meanwhile: the first forecasts are of version "
            f"{one_line(seen[0])}, later ones of {one_line(version)}; see model_version of each",
            CoterieWarning,
            stacklevel=5,  # where the caller takes the forecasts
        )


def _refusal(base_url: str, attempt: Attempt, batch: Batch) -> tuple[CoterieError, float | None]:
    """Return what an answer other than 200 means, in the words of the service if it has some."""
    try:
        problem = msgspec.json.decode(attempt.body, type=protocol.ProblemDocument)
        words = one_line(problem.detail or problem.title)
    except (ValueError, RecursionError):
        problem = protocol.ProblemDocument("", "", attempt.status, "")
        words = "that is no answer of a coterie service; is base_url right?"
    if attempt.status == 422 or problem.type.endswith("/unknown-advertiser"):
        faults = [
            one_line(f"{batch.placed(fault.at)}: {fault.what}").removeprefix(": ")
            for fault in problem.errors or []
        ]
        return InvalidParameterError("; ".join(faults) or words), None
    if 300 <= attempt.status < 400:
        location = one_line(attempt.headers.get("location", ""))
        words = f"it points to {location!r}, where the token must not go; correct base_url"
    elif attempt.status == 401:
        words += "; give token=, or set COTERIE_TOKEN"
    number = one_line(problem.request_id)
    named = f" (request {number})" if number else ""
    message = f"{base_url} answered {attempt.status}: {words}{named}"
    error = ServiceError(message, status=attempt.status, request_id=number or None)
    return error, _wait(attempt.headers) if attempt.status in _PASSING else None


def _wait(headers: Mapping[str, str]) -> float:
    """Return the seconds in Retry-After; a date there is compared with the date of the answer."""
    after = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", after):
        return float(after)
    try:
        until, since = parsedate_to_datetime(after), parsedate_to_datetime(headers.get("date", ""))
        return max((until - since).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return 0.0


def _table(body: bytearray) -> pa.Table:
    require_extra("tables", "tables of curves need", "pyarrow")
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
        return stream.read_all()


def _is_token(token: object) -> bool:
    return isinstance(token, str) and re.fullmatch(r"[\x21-\x7e]+", token) is not None


def _checked_address(base_url: str) -> tuple[str, bool]:
    """Return an address without a final slash, and whether it is on this machine."""
    if "@" in str(base_url):  # the message must not show a password
        raise InvalidParameterError(
            "base_url: an address has no credentials; give token=, or set COTERIE_TOKEN"
        )
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        is_sound = parts.scheme in {"http", "https"} and bool(host) and parts.port != 0
    except (ValueError, AttributeError):
        is_sound = False
    if not is_sound or re.search(r"[\s\x00-\x1f?#\\]", base_url):
        raise InvalidParameterError(
            f"base_url={base_url!r}: it must be an address such as http://127.0.0.1:8400"
        )
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    return base_url.rstrip("/"), is_local
