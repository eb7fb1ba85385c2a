"""Questions checked against the schema and packed into requests that a service accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from numbers import Integral
from typing import Any, TypeAlias, TypedDict, TypeVar

import msgspec
from numpy.typing import NDArray

from coterie.ads.forecasts.forecast_figures import Forecast
from coterie.ads.protocol import Answer, Answers, BidRange, Limits, Question, fault_of
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import visible

__all__ = ["Asked", "Batch", "Bids", "Details", "batches_of", "checked", "one_line"]

T = TypeVar("T")
#: A question, or its members by name.
Asked: TypeAlias = Question | Mapping[str, Any]
#: Several bids: a mapping of ``from``, ``to`` and ``step`` is a range.
Bids: TypeAlias = Sequence[float] | NDArray[Any] | Mapping[str, float] | BidRange
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
)


class Details(TypedDict, total=False):
    """Members of a question besides the advertiser and the bid."""

    supply: float | None
    day: str | date | None
    days: int
    text: str | None
    level: float
    where: Mapping[str, str] | None


@dataclass
class Batch:
    """The questions of one request; ``first`` is the number of the first among all.

    ``many`` is False for a single question, which is not sent as a list.
    """

    first: int = 0
    many: bool = True
    questions: list[Question] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)  # the questions as JSON

    @property
    def body(self) -> bytes:
        """The body of the request."""
        return b"[" + b",".join(self.parts) + b"]" if self.many else self.parts[0]

    def read(self, body: bytearray) -> list[list[Forecast]]:
        """Return the forecasts in an answer, a list for each question."""
        decode = msgspec.json.decode
        answers = decode(body, type=Answers).answers if self.many else [decode(body, type=Answer)]
        if [len(one.forecasts) for one in answers] != [one.n_bids for one in self.questions]:
            raise ValueError("there is not one forecast for each bid")
        return [answer.each() for answer in answers]

    def placed(self, place: str) -> str:
        """Return a place in the request as a place among all questions.

        >>> Batch(first=1000).placed("[1].bid")
        'questions[1001].bid'
        """
        found = re.match(r"\[(\d{1,9})\]", place) if self.many else None
        return f"questions[{self.first + int(found[1])}]{place[found.end() :]}" if found else place


def batches_of(questions: Iterable[Asked], *, many: bool = True) -> Iterator[Batch]:
    """Yield all questions in order, as many to a request as the limits of a service allow.

    Questions are taken from the iterable only when they are needed.

    >>> [batch] = batches_of([{"advertiser": "a", "bid": 2}, {"text": "b", "bid": [1, 2]}])
    >>> batch.body
    b'[{"bid":2.0,"advertiser":"a"},{"bid":[1.0,2.0],"text":"b"}]'
    """
    batch, used = Batch(many=many), [0] * len(_MOST)
    for number, given in enumerate(questions):
        question = checked(Question, given, f"questions[{number}]" if many else "")
        part = msgspec.json.encode(question)
        needs = _needs(question, part)
        used = [one + more for one, more in zip(used, needs, strict=True)]
        if batch.parts and any(one > most for one, most in zip(used, _MOST, strict=True)):
            yield batch
            batch, used = Batch(number, many), needs
        batch.questions.append(question)
        batch.parts.append(part)
    if batch.parts:
        yield batch


def checked(kind: type[T], given: Any, place: str = "") -> T:
    """Return what the caller gave as a type of the protocol; name the place of a fault.

    None is "not given". Arrays and numbers of NumPy are taken, and ids that are numbers.
    """
    if isinstance(given, Mapping):
        given = {name: value for name, value in given.items() if value is not None}
        if isinstance(given.get("advertiser"), Integral):
            given["advertiser"] = str(given["advertiser"])
    try:
        plain = msgspec.to_builtins(given, enc_hook=_plain)
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
    raise InvalidParameterError(one_line(f"{where}: {words}" if where else words))


def one_line(text: object) -> str:
    r"""Return a text on one line of limited length, without terminal control characters.

    >>> one_line("a\nb\x1b[2J")
    'a b␛[2J'
    """
    return " ".join(visible(str(text)).split())[:_MOST_SHOWN]


def _needs(question: Question, part: bytes) -> list[int]:
    """Return what a question takes of each limit in ``_MOST``."""
    n_bids, text = question.n_bids, question.text or ""
    work = n_bids * question.days + (_LIMITS.text_work if text else 0)
    return [1, n_bids, bool(text), len(text), work, len(part) + 1]


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be sent")
