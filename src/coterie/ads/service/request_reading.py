"""Reading of requests: query parameters, media types, bodies, and the questions in them."""

from __future__ import annotations

import asyncio
import contextlib
import re
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET
from starlette.requests import ClientDisconnect, Request

from coterie.ads.forecasts.placement import quoted
from coterie.ads.protocol import Fault, Limits, Question, fault_of
from coterie.ads.service.problems import MOST_FAULTS, Problem, invalid
from coterie.ads.service.served_model import ServedModel
from coterie.errors import InvalidParameterError

T = TypeVar("T")
Query = TypeVar("Query", bound=msgspec.Struct)

QUESTIONS: msgspec.json.Decoder[Question | list[Question]] = msgspec.json.Decoder(
    Question | list[Question]
)
#: Larger bodies are read by the queue's thread, not by the event loop.
SMALL_BODY = 2_048
#: Larger bodies are read by turns, so many of a client at a time; the server holds back the others.
_LARGE_BODY, _MOST_LARGE = 65_536, 4
#: What msgspec raises for bytes that are not JSON of a type; the last for text that is not UTF-8.
NO_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def read_query(request: Request, kind: type[Query]) -> Query:
    """Return the query parameters; refuse unknown, repeated and invalid ones."""
    if not request.scope["query_string"]:
        return kind()
    given = request.query_params.multi_items()
    members = dict(given)
    if len(members) < len(given):
        raise invalid("invalid-query", [Fault("", "a parameter is given twice")])
    try:
        return msgspec.convert(members, kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid("invalid-query", [fault_of(error, kind, members)]) from None


def check_media(request: Request, wanted: str) -> None:
    """Refuse a body whose Content-Type is not as wanted, in UTF-8."""
    given = request.scope["coterie.headers"].get(b"content-type", b"").decode("latin-1")
    if given == wanted:
        return
    kind, *settings = given.lower().split(";")
    plain = {one.replace(" ", "").replace('"', "") for one in settings}
    if kind.strip() != wanted or plain - {"", "charset=utf-8"}:
        raise Problem("unsupported-media-type", f"send the header Content-Type: {wanted}, in UTF-8")


def has_tag(request: Request, tag: str) -> bool:
    """Whether If-None-Match names a tag; a proxy may have marked it as weak."""
    given = request.headers.get("if-none-match", "")
    tags = [one.strip().removeprefix("W/") for one in given.split(",")]
    return tag in tags or tags == ["*"]


def accepts_gzip(request: Request) -> bool:
    """Whether the client accepts answers in gzip."""
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        coding, *settings = (one.strip() for one in part.split(";"))
        if coding in {"gzip", "*"}:
            # a weight of 0 forbids the coding
            return not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", one) for one in settings)
    return False


class BodyReader:
    """Reads bodies within limits of size and time, of each client few large ones at a time.

    All bodies that are being read are looked at together from time to time: a timer for each would
    take longer than most forecasts.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._seconds = limits, limits.body_seconds
        # those of clients that are sending large bodies
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._due: dict[asyncio.Task[object], float] = {}
        self._watched_by: asyncio.AbstractEventLoop | None = None

    async def whole(self, request: Request) -> bytes:
        """Return the body; refuse one that is too large or too slow."""
        told = request.scope["coterie.headers"].get(b"content-length", b"")
        size = int(told) if told.isdigit() else self._limits.body_bytes  # in chunks
        if size > self._limits.body_bytes:
            raise self.too_large()
        if size <= _LARGE_BODY:
            return await self._in_time(request)
        client = request.scope["coterie.client"]
        turn = self._turns.get(client)
        if turn is None:
            turn = self._turns[client] = asyncio.Semaphore(_MOST_LARGE)
        async with turn:
            return await self._in_time(request)

    async def _in_time(self, request: Request) -> bytes:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._due[task] = loop.time() + self._seconds
        if self._watched_by is not loop:
            self._watched_by = loop
            self._watch(loop)
        try:
            return await self._read(request)
        except asyncio.CancelledError:
            if task in self._due:
                raise
            task.uncancel()
            raise self.too_slow() from None
        finally:
            self._due.pop(task, None)

    def too_large(self) -> Problem:
        """Return the problem of a body that is too large."""
        most = f"there are more than {self._limits.body_bytes:,} bytes; send less at a time"
        return Problem("body-too-large", most)

    def too_slow(self) -> Problem:
        """Return the problem of a body that arrives too slowly."""
        return Problem("slow-body", f"the body did not arrive within {self._seconds:g} s")

    async def _read(self, request: Request) -> bytes:
        parts, size = [], 0
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._limits.body_bytes:
                raise self.too_large()
            if not message.get("more_body"):
                break
        body = b"".join(parts)
        if body.count(b",") > self._limits.commas:
            # these limit the members of lists and objects, and take almost no time to count
            most = f"there are more than {self._limits.commas:,} commas; send less at a time"
            raise Problem("body-too-large", most)
        return body

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up bodies that are too slow; look again soon if there are others."""
        for task in [task for task, due in self._due.items() if due <= loop.time()]:
            del self._due[task]
            task.cancel()
        if self._due:
            loop.call_later(min(1.0, self._seconds / 4), self._watch, loop)
        else:
            self._watched_by = None


def read_body(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Return what a decoder finds in a body; a Problem if it is not JSON or not valid.

    A decoder stops at the first fault, so that types limit the depth.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        given = UNSET
        if len(body) <= SMALL_BODY:
            # read again, to show what came; what follows the fault may not even be JSON
            with contextlib.suppress(*NO_JSON):
                given = msgspec.json.decode(body)
        fault = fault_of(error, decoder.type, given)
        raise invalid("invalid-question", [fault]) from None
    except NO_JSON as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise Problem("malformed-body", f"the body is not JSON: {reason}") from None


class Batch:
    """Questions of one request, and what they cost.

    ``rows`` has the row of each advertiser in the model, None if it is not there. ``many`` says
    whether the questions came as a list.
    """

    def __init__(self, served: ServedModel, questions: list[Question], *, many: bool) -> None:
        self.served = served
        self.questions = questions
        self.many = many
        row_of: Any = served.tables.row_of.get
        self.rows: list[int | None] = [row_of(question.advertiser) for question in questions]
        self.n_bids = [question.n_bids for question in questions]

    @cached_property
    def bids(self) -> list[list[float]]:
        """The bids of each question; many ranges take a while, so they are not made before."""
        return [question.bids() for question in self.questions]

    def works(self, limits: Limits) -> list[int]:
        """Return the work of each question: bids times days, the placing of a text, a target."""
        return [
            n * one.days + (limits.text_work if row is None or one.where is not UNSET else 0)
            for n, one, row in zip(self.n_bids, self.questions, self.rows, strict=True)
        ]

    def check(self, limits: Limits) -> Batch:
        """Refuse a batch that is too large, or that lacks the supply of unknown advertisers."""
        faults, n_bids = [], sum(self.n_bids)
        if n_bids > limits.bids:
            faults = [_too_many(n_bids, "bids in all", limits.bids)]
        if None in self.rows:
            faults += self._faults_of_unknown(limits)
        faults += self._faults_of_dimensions()
        if faults:
            raise invalid("invalid-question", faults)
        return self

    def _faults_of_dimensions(self) -> list[Fault]:
        """Return a fault for each question about values that the model does not have."""
        faults = []
        for number, question in enumerate(self.questions):
            if question.where is UNSET:
                continue
            try:
                self.served.model.chosen_values(question.where)
            except InvalidParameterError as error:
                faults.append(self._fault(number, "where", error))
        return faults[:MOST_FAULTS]

    def _faults_of_unknown(self, limits: Limits) -> list[Fault]:
        unknown = [number for number, row in enumerate(self.rows) if row is None]
        texts = {self.questions[number].text or "" for number in unknown}
        n_chars = sum(map(len, texts))
        faults = []
        if len(texts) > limits.texts:
            faults.append(_too_many(len(texts), "texts", limits.texts))
        if n_chars > limits.all_text_chars:
            faults.append(_too_many(n_chars, "characters in all texts", limits.all_text_chars))
        for number in unknown:
            name = self.questions[number].advertiser or ""
            try:
                self.served.placer.refuse_whole_advertiser(name)
            except InvalidParameterError as error:
                faults.append(self._fault(number, "advertiser", error))
                continue
            if self.questions[number].supply is UNSET:
                who = quoted(name) if name else "a new advertiser"
                advice = "check the id, or give supply, its number of auctions"
                faults.append(self._fault(number, "supply", f"{who} is not in the log; {advice}"))
        return faults

    def _fault(self, number: int, member: str, words: object) -> Fault:
        return Fault(f"[{number}].{member}" if self.many else member, str(words))


def make_batch(served: ServedModel, given: Question | list[Question], limits: Limits) -> Batch:
    """Return questions as a batch; a Problem if there are too many, or a supply is missing."""
    questions = given if isinstance(given, list) else [given]
    if not questions:
        raise invalid("invalid-question", [Fault("", "the list has no question; ask at least one")])
    if len(questions) > limits.questions:
        fault = _too_many(len(questions), "questions", limits.questions)
        raise invalid("invalid-question", [fault])
    return Batch(served, questions, many=questions is given).check(limits)


def _too_many(number: int, things: str, limit: int) -> Fault:
    return Fault("", f"there are {number:,} {things}; the limit is {limit:,}")
