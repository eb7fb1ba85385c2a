"""Asking a forecast service over HTTP: pooled connections, patient retries, errors in words."""

from __future__ import annotations

import ipaddress
import json
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from coterie.errors import CoterieError, InvalidParameterError, MissingExtraError, ServiceError
from coterie.runtime.wording import visible

if TYPE_CHECKING:
    import httpx

__all__ = ["Patience", "ServiceConnection", "checked_address", "checked_token", "in_path"]

_PASSING = frozenset({408, 429, 502, 503, 504})
_MOST_BYTES = 256 * 1024 * 1024
_MOST_WORDS = 2_000


@dataclass(frozen=True)
class Patience:
    """How long to go on asking.

    >>> patience = Patience()
    >>> [patience.pause(attempt, chance=1.0) for attempt in range(4)]
    [0.1, 0.2, 0.4, 0.8]
    """

    timeout: float = 10.0  # seconds to wait for a connection, and for each next piece of an answer
    retries: int = 3  # attempts after the first
    deadline: float = 30.0  # seconds for all attempts and the pauses between them together
    first_pause: float = 0.1  # doubled each time up to the longest
    longest_pause: float = 5.0

    def __post_init__(self) -> None:
        for name in ("timeout", "deadline"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
                raise InvalidParameterError(f"{name}={value!r}: it must be seconds, above 0")
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise InvalidParameterError(
                f"retries={self.retries!r}: it must be a whole number, from 0 up"
            )

    def pause(self, attempt: int, chance: float) -> float:
        """Seconds to wait after an attempt, counted from 0.

        ``chance``, between 0 and 1, takes up to half of it away, so that many clients which
        failed together do not come back together.
        """
        full = min(self.first_pause * 2.0 ** min(attempt, 60), self.longest_pause)
        return full * (0.5 + 0.5 * chance)


class ServiceConnection:
    """A pool of connections to one service; may be used by many threads at once.

    Every request of the service only asks, and asking twice does no harm: so a request is
    repeated where the connection failed, and where the answer (408, 429, 502, 503, 504) says
    that another time may do. What is wrong with a question stays wrong, and is not repeated.

    Parameters are those of :class:`~coterie.ads.Client`; ``clock``, ``sleep`` and ``chance`` stand
    in place of the time and of random numbers.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        patience: Patience | None = None,
        allow_plain_http: bool = False,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.base_url, loopback = checked_address(base_url)
        self._patience = patience or Patience()
        self._clock, self._sleep, self._chance = clock, sleep, chance
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {checked_token(token)}"
            if self.base_url.startswith("http:") and not (loopback or allow_plain_http):
                raise InvalidParameterError(
                    f"base_url={self.base_url!r}: a token sent there over plain http can be read "
                    "on the way; use https, or, where the network is your own, allow_plain_http"
                )
        self._http = _http_client(headers, transport, loopback)

    def close(self) -> None:
        """Close all connections; nothing can be asked afterwards."""
        self._http.close()

    def answer(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        placed: Callable[[str], str] = str,
    ) -> Any:
        """Return what the service answers, read as JSON.

        The path has its query; ids in it went through :func:`in_path`. The body is JSON, and
        ``placed`` tells what to call the place of a fault in it.
        """
        found = self.answer_bytes(method, path, body, placed)
        try:
            return json.loads(found)
        except (ValueError, RecursionError) as error:
            raise ServiceError(
                f"{self.base_url} answered {path.partition('?')[0]} with something that is not "
                "JSON; is that a coterie service?"
            ) from error

    def answer_bytes(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        placed: Callable[[str], str] = str,
    ) -> bytes:
        """Return the body of what the service answers, asked again where that makes sense.

        Raises InvalidParameterError where the service finds fault with the question, else
        ServiceError.
        """
        if self._http.is_closed:
            raise ServiceError("this connection to the service is closed; make another client")
        end = self._clock() + self._patience.deadline
        attempt = 0
        while True:
            outcome = self._asked_once(method, path, body, end)
            if isinstance(outcome, _Answer):
                if outcome.status == 200:
                    return outcome.body
                outcome = _refused(self.base_url, outcome, placed)
            pause = outcome.wait + self._patience.pause(attempt, self._chance())
            last = attempt >= self._patience.retries or self._clock() + pause >= end
            if last or not outcome.passing:
                raise outcome.told(attempt + 1)
            self._sleep(pause)
            attempt += 1

    def _asked_once(
        self, method: str, path: str, body: bytes | None, end: float
    ) -> _Answer | _Failure:
        import httpx

        seconds = max(min(self._patience.timeout, end - self._clock()), 1e-3)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            with self._http.stream(
                method, self.base_url + path, content=body, headers=headers, timeout=seconds
            ) as response:
                return self._read_whole(response, end)
        except httpx.TimeoutException:
            return _Failure(
                ServiceError(f"{self.base_url} did not answer within {seconds:.3g} s"), passing=True
            )
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError) as error:
            raise InvalidParameterError(f"{self.base_url} cannot be asked: {error}") from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            why = _plain(str(error)) or type(error).__name__
            return _Failure(
                ServiceError(
                    f"{self.base_url} cannot be asked ({why}); is coterie ads serve running there?"
                ),
                passing=True,
            )

    def _read_whole(self, response: httpx.Response, end: float) -> _Answer | _Failure:
        """Return the body, unless it trickles beyond the deadline or never ends."""
        parts, size = [], 0
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > _MOST_BYTES:
                return _Failure(
                    ServiceError(
                        f"{self.base_url} answered with more than {_MOST_BYTES // 2**20} MiB; "
                        "is that a coterie service?"
                    )
                )
            if self._clock() >= end:
                return _Failure(
                    ServiceError(
                        f"{self.base_url} had not finished its answer after "
                        f"{self._patience.deadline:g} s"
                    )
                )
        return _Answer(response.status_code, response.headers, b"".join(parts))


def checked_address(base_url: str) -> tuple[str, bool]:
    """Return a service's address without a final slash, and whether it is on this machine.

    >>> checked_address("http://127.0.0.1:8400/"), checked_address("https://ads.example/forecasts")
    (('http://127.0.0.1:8400', True), ('https://ads.example/forecasts', False))
    """
    try:
        parts = urlsplit(str(base_url))
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, sound = SplitResult("", "", "", "", ""), False
    if "@" in parts.netloc:
        raise InvalidParameterError(
            "base_url: credentials do not stand in an address; give token=, or set COTERIE_TOKEN"
        )
    if not sound or re.search(r"[\s\x00-\x1f?#\\]", str(base_url)):
        raise InvalidParameterError(
            f"base_url={base_url!r}: it must be an address as in http://127.0.0.1:8400"
        )
    return str(base_url).rstrip("/"), _is_loopback(parts.hostname or "")


def checked_token(token: str) -> str:
    """Return a token that a header can carry; it is never repeated in a message."""
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
        raise InvalidParameterError(
            "token: it must be printable ASCII characters without blanks, as the service has it"
        )
    return token


def in_path(text: str) -> str:
    """Return an id as one segment of a path, whatever characters it has.

    Dots are encoded too: a segment of one or two of them alone would be taken for a direction.

    >>> in_path("a/b c?d#e%2F"), in_path("..")
    ('a%2Fb%20c%3Fd%23e%252F', '%2E%2E')
    """
    try:
        return quote(text, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise InvalidParameterError(
            f"{text!r} holds half of a character, and cannot be sent"
        ) from error


@dataclass(frozen=True)
class _Answer:
    """What came back, whatever it says."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class _Failure:
    """An attempt that came to nothing; passing where another may not; wait as it was told to."""

    error: CoterieError
    passing: bool = False
    wait: float = 0.0

    def told(self, attempts: int) -> CoterieError:
        """Return the error, saying how often it was tried where that was more than once."""
        if attempts > 1:
            self.error.args = (f"{self.error.args[0]} (asked {attempts} times)",)
        return self.error


def _refused(base_url: str, answer: _Answer, placed: Callable[[str], str]) -> _Failure:
    """Return what an answer other than 200 means, in the service's own words where it has some."""
    status, headers, problem = answer.status, answer.headers, _problem(answer.body)
    words = _plain(problem.get("detail") or problem.get("title") or "")
    if status == 422:
        return _Failure(
            InvalidParameterError(_faults(problem, placed) or words or "a faulty question")
        )
    if 300 <= status < 400:
        words = (
            f"it points to {_plain(headers.get('location', 'nowhere'))!r}; that is not followed, "
            "lest a token go astray: give the service's own address as base_url"
        )
    elif status == 401:
        words = f"{words or 'a token is needed'}; give token=, or set COTERIE_TOKEN"
    elif not problem:
        words = "not in the words of a coterie service; is base_url right?"
    number = _plain(problem.get("request_id") or "")
    named = f" (request {number})" if number else ""
    error = ServiceError(
        f"{base_url} answered {status}: {words}{named}",
        status=status,
        request_id=number or None,
    )
    return _Failure(error, status in _PASSING, _asked_to_wait(headers))


def _problem(body: bytes) -> dict[str, Any]:
    """Return the problem in the body of an answer; empty where it is something else."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    known = isinstance(problem, dict) and {"title", "status"} <= problem.keys()
    return problem if known else {}


def _faults(problem: Mapping[str, Any], placed: Callable[[str], str]) -> str:
    """Return the faults of a question, each after its place."""
    errors = problem.get("errors")
    if not isinstance(errors, list):
        return ""
    told = (
        f"{placed(_plain(one.get('at', '')))}: {_plain(one.get('what', ''))}".removeprefix(": ")
        for one in errors
        if isinstance(one, dict)
    )
    return "; ".join(told)


def _asked_to_wait(headers: Mapping[str, str]) -> float:
    """Seconds in Retry-After; a date there is counted from the answer's own."""
    told = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", told):
        return float(told)
    try:
        until, since = parsedate_to_datetime(told), parsedate_to_datetime(headers.get("date", ""))
        return max((until - since).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return 0.0


def _plain(text: object) -> str:
    """Words of a stranger on one line of bounded length, without anything a terminal obeys."""
    return " ".join(visible(str(text)).split())[:_MOST_WORDS]


def _http_client(
    headers: dict[str, str], transport: httpx.BaseTransport | None, loopback: bool
) -> httpx.Client:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError(
            "asking a service needs httpx: pip install 'coterie[client]'"
        ) from error
    from coterie import __version__

    if transport is None and loopback:
        # what is asked of this machine never goes through a proxy named in the environment
        transport = httpx.HTTPTransport()
    return httpx.Client(
        headers={"User-Agent": f"coterie/{__version__}", **headers},
        transport=transport,
        follow_redirects=False,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
