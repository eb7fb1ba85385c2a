"""The client of a forecast service: what ``coterie ads serve`` answers, as Python objects."""

from __future__ import annotations

import ipaddress
import itertools
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from numbers import Integral
from random import random
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, TypeVar, overload
from urllib.parse import quote, urlsplit

from coterie.runtime.imports import require_extra

# what follows needs these packages
# ruff: noqa: E402
require_extra("client", "a client of the service needs", "httpx", "msgspec")

import httpx
import msgspec
from msgspec import Meta

from coterie import __version__
from coterie.ads.decisions.decision_answers import BudgetPlan, BudgetSplit, GoalBid, TargetRanking
from coterie.ads.forecasts.forecast_figures import NO_BID, Forecast
from coterie.ads.protocol import (
    JSON,
    OPERATIONS,
    Advertiser,
    AdvertiserItem,
    Answer,
    Answers,
    BidRange,
    Limits,
    Model,
    NoQuery,
    ProblemDocument,
    Question,
    Segments,
)
from coterie.ads.protocol.faults import fault_of
from coterie.errors import CoterieError, CoterieWarning, InvalidParameterError, ServiceError
from coterie.runtime.wording import visible

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

T = TypeVar("T")
#: A question, or its members by name.
Asked: TypeAlias = Question | Mapping[str, Any]
#: Several bids: a mapping of ``from``, ``to`` and ``step`` is a range.
Bids: TypeAlias = "Sequence[float] | NDArray[Any] | Mapping[str, float] | BidRange"

_PASSING = frozenset({408, 429, 502, 503, 504})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_MOST_BYTES = 1 << 30
_MOST_SHOWN = 2_000
_LIMITS = Limits()
# Unknown advertisers without a text count as one text more. With a quarter of the work that may
# wait, four threads of a client are admitted together.
_MOST = (
    _LIMITS.questions,
    _LIMITS.bids,
    _LIMITS.texts - 1,
    _LIMITS.all_text_chars,
    _LIMITS.queued_work_per_client // 4,
    _LIMITS.body_bytes - 2,
    _LIMITS.commas,
)


class _Settings(msgspec.Struct):
    timeout: Annotated[float, Meta(gt=0, lt=1e9)]
    retries: Annotated[int, Meta(ge=0)]
    deadline: Annotated[float, Meta(gt=0, lt=1e9)]


class Client:
    """Ask a forecast service: what ``coterie ads serve`` answers, as Python objects.

    Forecasts are equal to those of :meth:`AdForecaster.forecast`, bit for bit, if the service has
    the same model. Many threads can use one client; they share its connections. If the service is
    busy or cannot be reached, the client asks again after growing pauses. That is always safe,
    because asking changes nothing.

    Parameters
    ----------
    base_url : str
    token : str, optional
        By default the environment variable ``COTERIE_TOKEN``, if it is set.
    timeout : float
        Seconds to wait for a connection, and for each next part of an answer.
    retries : int
        Attempts after the first.
    deadline : float
        Seconds for one request with all its attempts and pauses.
    allow_plain_http : bool
        Whether a token may go to other machines over http, too.
    transport : httpx.BaseTransport, optional
        In place of the network; ``httpx.HTTPTransport(verify=…)`` has your own certificates.

    Raises
    ------
    InvalidParameterError
        If a question is invalid; the message names the place.
    ServiceError
        If there is no answer, or another error; ``status`` and ``request_id`` tell which.

    Examples
    --------
    ``client.forecast("adv-00033", 2.50, supply=1e6)`` is the forecast of one advertiser at one bid.

    >>> from coterie.ads import Client
    >>> with Client("http://127.0.0.1:8400") as client:
    ...     client
    Client('http://127.0.0.1:8400')
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8400",
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
        deadline: float = 30.0,
        allow_plain_http: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url, is_local = _checked_address(base_url)
        token = token or os.environ.get("COTERIE_TOKEN") or None
        if token is not None and not (
            isinstance(token, str) and re.fullmatch(r"[\x21-\x7e]+", token)
        ):
            raise InvalidParameterError(
                "token: it must be a text of ASCII characters without blanks, as headers carry it"
            )
        given = {"timeout": timeout, "retries": retries, "deadline": deadline}
        self._settings = _checked(_Settings, given)
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
        # None for a scheme is "no proxy", even if the environment names one
        direct = dict.fromkeys(["http://", "https://", "all://"]) if is_local else None
        self._http = httpx.Client(headers=headers, transport=transport, mounts=direct)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; nothing can be asked afterwards."""
        self._http.close()

    @overload
    def forecast(
        self, advertiser: str | None = ..., bid: float = ..., **details: Any
    ) -> Forecast: ...
    @overload
    def forecast(
        self, advertiser: str | None = ..., bid: Bids = ..., **details: Any
    ) -> list[Forecast]: ...
    def forecast(self, advertiser: str | None = None, bid: Any = None, **details: Any) -> Any:
        """Forecast impressions, spend, clicks and conversions at a bid, or at several.

        Parameters
        ----------
        advertiser : str, optional
            One that is not known is placed by ``text``, or else by all advertisers.
        bid : float, sequence, or mapping
            In units of currency per thousand impressions (CPM); a mapping of ``from``, ``to`` and
            ``step`` is a range. Required.
        **details
            ``supply``, ``day``, ``days``, ``text``, ``level`` and ``where`` as in
            :meth:`AdForecaster.forecast`.

        Returns
        -------
        Forecast, or list of Forecast
            A list if ``bid`` is a sequence or a range.
        """
        if bid is None:
            raise InvalidParameterError(NO_BID)
        [batch] = _batches_of([{"advertiser": advertiser, "bid": bid, **details}], many=False)
        [found] = self._ask("forecast", batch=batch, read=batch.read)
        return found if batch.questions[0].gives_list else found[0]

    def forecast_many(self, questions: Iterable[Asked]) -> list[list[Forecast]]:
        """Answer many questions in few requests; return a list of forecasts for each.

        Parameters
        ----------
        questions : iterable of mapping or Question
            Each with the arguments of :meth:`forecast` by name.

        Warns
        -----
        CoterieWarning
            If the service got another model meanwhile; ``model_version`` of each forecast tells.
        """
        return list(self.forecast_each(questions))

    def forecast_each(self, questions: Iterable[Asked]) -> Iterator[list[Forecast]]:
        """Yield what :meth:`forecast_many` returns, with one request in memory at a time.

        Questions are taken when they are needed.

        Parameters
        ----------
        questions : iterable of mapping or Question
        """
        versions: list[str] = []
        for batch in _batches_of(questions):
            found = self._ask("forecast", batch=batch, read=batch.read)
            version = found[0][0].model_version
            if version not in versions:
                versions.append(version)
                if len(versions) == 2:
                    warnings.warn(
                        "the service got another model meanwhile: the first forecasts are of "
                        f"version {_one_line(versions[0])}, later ones of {_one_line(version)}; "
                        "see model_version of each",
                        CoterieWarning,
                        stacklevel=2,  # where the caller takes the forecasts
                    )
            yield from found

    def bid_for(self, advertiser: str | None = None, **asked: Any) -> GoalBid:
        """Find the bid for a goal.

        Parameters
        ----------
        advertiser, **asked
            As in :func:`coterie.ads.bid_for`.
        """
        return self._ask("bid", {"advertiser": advertiser, **asked})

    def plan_budget(
        self, advertiser: str | None = None, budget: float | None = None, **details: Any
    ) -> BudgetPlan:
        """Find the bid that uses a budget, and what it buys.

        Parameters
        ----------
        advertiser, budget, **details
            As in :func:`coterie.ads.plan_budget`.
        """
        return self._ask("budget", {"advertiser": advertiser, "budget": budget, **details})

    def rank_targets(
        self, advertiser: str | None = None, bid: float | None = None, **details: Any
    ) -> TargetRanking:
        """Rank the values of dimensions.

        Parameters
        ----------
        advertiser, bid, **details
            As in :func:`coterie.ads.rank_targets`.
        """
        return self._ask("targets", {"advertiser": advertiser, "bid": bid, **details})

    def split_budget(
        self, budget: float | None = None, advertisers: Sequence[str] | None = None, **details: Any
    ) -> BudgetSplit:
        """Divide a budget between advertisers.

        Parameters
        ----------
        budget, advertisers, **details
            As in :func:`coterie.ads.split_budget`.
        """
        return self._ask("portfolio", {"budget": budget, "advertisers": advertisers, **details})

    def model(self) -> Model:
        """Return the description of the model: version, currency, days, warnings."""
        return self._ask("model")

    def segments(self) -> Segments:
        """Return all segments with their curves."""
        return self._ask("segments")

    def advertiser(self, advertiser: str) -> Advertiser:
        """Return what is known of one advertiser: segment, shares, rates, neighbours, curves.

        Parameters
        ----------
        advertiser : str
        """
        # dots, too: a segment "." or ".." would be resolved
        segment = quote(_checked(str, str(advertiser)), safe="").replace(".", "%2E")
        return self._ask("advertiser", id=segment)

    def advertisers(
        self, search: str = "", *, segment: int | None = None, sort: str = "", page_size: int = 100
    ) -> Iterator[AdvertiserItem]:
        """Yield the advertisers of the model; each page is fetched when it is needed.

        Parameters
        ----------
        search : str
            Part of the id, any case. Ids that begin with it come first, then by spend.
        segment : int, optional
            Only those of the segment with this index.
        sort : str
            "id", "segment", "confidence", "observations", "bid" or "spend", with a minus sign for
            the largest first. By default by the id that fits best, then by spend.
        page_size : int
            1 to 100.
        """
        query = {"search": search, "segment": segment, "sort": sort, "page_size": page_size}
        page = pages = 1
        while page <= pages:
            found = self._ask("advertisers", {**query, "page": page})
            yield from found.items
            page, pages = page + 1, found.pages

    def curves(self, segment: int | None = None) -> pa.Table:
        """Return the curves of all advertisers, or of one segment, as an Arrow table.

        Columns: advertiser, segment, bid, win_rate, win_rate_low, win_rate_high, cost,
        marginal_cost, own_win_rate, segment_win_rate. The metadata of the schema has the version of
        the model and the currency.

        Parameters
        ----------
        segment : int, optional
            Only the advertisers of the segment with this index.
        """
        return self._ask("curves", {"segment": segment}, read=_table)

    def is_ready(self) -> bool:
        """Return whether the service can be reached and is not stopping; asks only once."""
        try:
            self._ask("ready", retries=0)
        except ServiceError as error:
            if error.status is None or error.status in _PASSING:
                return False
            raise
        return True

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        return str(self._ask("metrics", read=bytearray.decode))

    def _ask(
        self,
        name: str,
        asked: Mapping[str, Any] | None = None,
        *,
        batch: _Batch | None = None,
        read: Callable[[bytearray], Any] | None = None,
        retries: int | None = None,
        **path: str,
    ) -> Any:
        """Ask until there is an answer that ``read`` can read, or no hope of one.

        ``asked`` are the members of the question or of the query of an operation. No request
        changes anything in a service, so each can be repeated.
        """
        if self._http.is_closed:
            raise ServiceError("this client is closed; make another one")
        operation = OPERATIONS[name]
        read = read or partial(msgspec.json.decode, type=operation.answers[0])
        url = self.base_url + operation.path.format(**path)
        sent: dict[str, Any] = {"method": operation.method, "url": url}
        if operation.question is None:
            params = _checked(operation.query or NoQuery, asked or {})
            sent["params"] = msgspec.to_builtins(params)
        else:
            if batch is None:
                part = msgspec.json.encode(_checked(operation.question, asked))
                batch = _Batch(many=False, parts=[part])
            sent |= {"content": batch.body, "headers": {"Content-Type": JSON}}
        end = monotonic() + self._settings.deadline
        retries = self._settings.retries if retries is None else retries
        for number in itertools.count():
            seconds = max(min(self._settings.timeout, end - monotonic()), 1e-3)
            try:
                with self._http.stream(**sent, timeout=seconds) as response:
                    body = _body(response, url, end)
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as caught:
                error, wait = self._failure(caught, seconds)
            else:
                if response.status_code == 200:
                    try:
                        return read(body)
                    except (ValueError, OSError, NotImplementedError, RecursionError) as odd:
                        raise ServiceError(
                            f"{response.url} answered in a form that this client does not know; "
                            "does that service run the same version of coterie?",
                            status=200,
                            request_id=_one_line(response.headers.get("x-request-id", "")) or None,
                        ) from odd
                error, wait = _refusal(self.base_url, response, body, batch or _Batch(many=False))
            # a random part, so that clients which failed together do not come back together
            pause = min(_FIRST_PAUSE * 2.0 ** min(number, 60), _LONGEST_PAUSE)
            pause = (wait or 0.0) + pause * (0.5 + 0.5 * random())
            if wait is None or number >= retries or monotonic() + pause >= end:
                if number:
                    error.args = (f"{error} (asked {number + 1} times)",)
                raise error
            time.sleep(pause)
        raise AssertionError

    def _failure(self, error: Exception, seconds: float) -> tuple[CoterieError, float | None]:
        """Return what to raise for want of an answer; and 0, or None if it is no use to go on."""
        if isinstance(error, httpx.TimeoutException):
            return ServiceError(f"{self.base_url} did not answer within {seconds:.3g} s"), 0.0
        reason = f"{self.base_url} cannot be asked ({_one_line(error) or type(error).__name__})"
        if isinstance(error, httpx.TransportError | httpx.DecodingError) and not isinstance(
            error, httpx.UnsupportedProtocol
        ):
            return ServiceError(f"{reason}; is coterie ads serve running there?"), 0.0
        return InvalidParameterError(reason), None


@dataclass
class _Batch:
    """The questions of one request; ``first`` is the number of the first among all.

    ``many`` is False for a single question, which is not sent as a list.
    """

    first: int = 0
    many: bool = True
    questions: list[Question] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)  # the questions as JSON

    @property
    def body(self) -> bytes:
        return b"[" + b",".join(self.parts) + b"]" if self.many else self.parts[0]

    def read(self, body: bytearray) -> list[list[Forecast]]:
        """Return the forecasts in an answer, a list for each question."""
        decode = msgspec.json.decode
        answers = decode(body, type=Answers).answers if self.many else [decode(body, type=Answer)]
        if [len(one.forecasts) for one in answers] != [one.n_bids for one in self.questions]:
            raise ValueError("there is not one forecast for each bid")
        return [answer.each() for answer in answers]

    def placed(self, place: str) -> str:
        """Return a place in the request as a place among all questions."""
        found = re.match(r"\[(\d{1,9})\]", place) if self.many else None
        return f"questions[{self.first + int(found[1])}]{place[found.end() :]}" if found else place


def _batches_of(questions: Iterable[Asked], *, many: bool = True) -> Iterator[_Batch]:
    """Yield all questions in order, as many to a request as the limits of a service allow.

    Questions are taken from the iterable only when they are needed.
    """
    batch, used = _Batch(many=many), [0] * len(_MOST)
    for number, given in enumerate(questions):
        question = _checked(Question, given, f"questions[{number}]" if many else "")
        part = msgspec.json.encode(question)
        # what it takes of each limit in _MOST
        n_bids, text = question.n_bids, question.text or ""
        work = n_bids * question.days
        work += _LIMITS.text_work if text or question.where else 0
        needs = [1, n_bids, bool(text), len(text), work, len(part) + 1, part.count(b",") + 1]
        used = [one + more for one, more in zip(used, needs, strict=True)]
        if batch.parts and any(one > most for one, most in zip(used, _MOST, strict=True)):
            yield batch
            batch, used = _Batch(number, many), needs
        batch.questions.append(question)
        batch.parts.append(part)
    if batch.parts:
        yield batch


def _checked(kind: type[T], given: Any, place: str = "") -> T:
    """Return what the caller gave as a type of the schema; name the place of a fault.

    None is "not given". Arrays and numbers of NumPy are taken, and ids that are numbers.
    """

    def plain_value(value: Any) -> Any:
        if hasattr(value, "tolist"):
            return value.tolist()
        raise TypeError(f"a {type(value).__name__} cannot be sent")

    if isinstance(given, Mapping):
        given = {name: value for name, value in given.items() if value is not None}
        if isinstance(given.get("advertiser"), Integral):
            given["advertiser"] = str(given["advertiser"])
    try:
        plain = msgspec.to_builtins(given, enc_hook=plain_value)
        found = msgspec.convert(plain, kind)
        msgspec.json.encode(found)
        return found
    except UnicodeEncodeError:
        at, words = "", "half of a surrogate pair cannot be sent"
    except msgspec.ValidationError as error:
        fault = fault_of(error, kind, plain)
        at, words = fault.at, fault.what
    except TypeError as error:
        at, words = "", str(error)
    where = f"{place}.{at}".strip(".")
    raise InvalidParameterError(_one_line(f"{where}: {words}" if where else words))


def _one_line(text: object) -> str:
    """Return a text on one line of limited length, without terminal control characters."""
    return " ".join(visible(str(text)).split())[:_MOST_SHOWN]


def _body(response: httpx.Response, url: str, end: float) -> bytearray:
    """Return the body; refuse one without end, or one that is not complete at the deadline."""
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if len(body) > _MOST_BYTES:
            raise ServiceError(f"{url} sends more than {_MOST_BYTES >> 20} MiB")
        if monotonic() >= end:
            raise ServiceError(f"{url} did not finish by the deadline")
    return body


def _refusal(
    base_url: str, response: httpx.Response, body: bytearray, batch: _Batch
) -> tuple[CoterieError, float | None]:
    """Return what an answer other than 200 means, in the words of the service if it has some.

    The second is the number of seconds to wait; None if it is no use to ask again.
    """
    status = response.status_code
    try:
        problem = msgspec.json.decode(body, type=ProblemDocument)
        words = _one_line(problem.detail or problem.title)
    except (ValueError, RecursionError):
        problem = ProblemDocument("", "", status, "")
        words = "that is not an answer of a coterie service; is base_url right?"
    if status == 422 or problem.type.endswith("/unknown-advertiser"):
        faults = [
            _one_line(f"{batch.placed(fault.at)}: {fault.what}").removeprefix(": ")
            for fault in problem.errors or []
        ]
        return InvalidParameterError("; ".join(faults) or words), None
    if 300 <= status < 400:
        location = _one_line(response.headers.get("location", ""))
        words = f"it points to {location!r}, where the token must not go; correct base_url"
    elif status == 401:
        words += "; give token=, or set COTERIE_TOKEN"
    number = _one_line(problem.request_id)
    named = f" (request {number})" if number else ""
    message = f"{base_url} answered {status}: {words}{named}"
    error = ServiceError(message, status=status, request_id=number or None)
    return error, _wait(response.headers) if status in _PASSING else None


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
