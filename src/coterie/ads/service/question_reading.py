"""Questions of a request: read strictly, checked against the limits, and what they cost."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from coterie.ads.forecasts.placement import quoted
from coterie.ads.protocol import Fault, Limits, Question
from coterie.ads.service.problems import MOST_FAULTS, Problem, invalid
from coterie.ads.service.served_model import ServedModel, printable
from coterie.errors import InvalidParameterError

__all__ = ["Batch", "make_batch", "read_question", "read_questions"]

T = TypeVar("T")

_DECODER = msgspec.json.Decoder(Question | list[Question])
_PARTS = msgspec.json.Decoder(list[msgspec.Raw])
_ONE = msgspec.json.Decoder(Question)
#: What msgspec raises for bytes that are not JSON; the last for text that is not UTF-8.
_NO_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


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

    def cost(self, limits: Limits) -> int:
        """Return the work: bids times days, and the placing of texts."""
        work = sum([n * one.days for n, one in zip(self.n_bids, self.questions, strict=True)])
        return work + limits.text_work * self.rows.count(None)

    def check(self, limits: Limits) -> Batch:
        """Refuse a batch that is too large, or that lacks the supply of unknown advertisers."""
        faults, n_bids = [], sum(self.n_bids)
        if n_bids > limits.bids:
            faults = [_whole(f"there are {n_bids:,} bids in all; the limit is {limits.bids:,}")]
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
                place = f"[{number}].where" if self.many else "where"
                faults.append(Fault(place, str(error)))
        return faults[:MOST_FAULTS]

    def _faults_of_unknown(self, limits: Limits) -> list[Fault]:
        unknown = [number for number, row in enumerate(self.rows) if row is None]
        texts = {self.questions[number].text or "" for number in unknown}
        size = sum(map(len, texts))
        faults = []
        if len(texts) > limits.texts:
            faults.append(_whole(f"there are {len(texts):,} texts; the limit is {limits.texts}"))
        if size > limits.all_text_chars:
            most = limits.all_text_chars
            faults.append(_whole(f"the texts have {size:,} characters; the limit is {most:,}"))
        for number in unknown:
            try:
                self.served.placer.refuse_whole_advertiser(self.questions[number].advertiser or "")
            except InvalidParameterError as error:
                place = f"[{number}].advertiser" if self.many else "advertiser"
                faults.append(Fault(place, str(error)))
                continue
            if self.questions[number].supply is UNSET:
                name = self.questions[number].advertiser or ""
                place = f"[{number}].supply" if self.many else "supply"
                faults.append(
                    Fault(
                        place,
                        f"{quoted(name) if name else 'a new advertiser'} is not in the log; check "
                        "the id, or give supply, its number of auctions",
                    )
                )
        return faults


def read_questions(body: bytes) -> Question | list[Question]:
    """Return the questions in a body: one question, or a list of at least one.

    Raises
    ------
    Problem
        If the body is not JSON, or a question is invalid.
    """
    asked = read_question(body, _DECODER)
    if asked == []:
        raise invalid("invalid-question", [_whole("the list has no question; ask at least one")])
    return asked


def read_question(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Return what a decoder finds in a body; a Problem if it is not JSON or not valid."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid("invalid-question", _faults_in(body, error)) from None
    except _NO_JSON as error:
        what = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise Problem("malformed-body", f"the body is not JSON: {what}") from None


def make_batch(served: ServedModel, asked: Question | list[Question], limits: Limits) -> Batch:
    """Return questions as a batch; a Problem if there are too many, or a supply is missing."""
    many = isinstance(asked, list)
    questions = asked if isinstance(asked, list) else [asked]
    if len(questions) > limits.questions:
        what = f"there are {len(questions):,} questions; the limit is {limits.questions:,}"
        raise invalid("invalid-question", [_whole(what)])
    return Batch(served, questions, many=many).check(limits)


def _faults_in(body: bytes, error: msgspec.ValidationError) -> list[Fault]:
    """Return the first fault of each invalid question, with its place."""
    if not body.lstrip().startswith(b"["):
        return [_fault(error, "")]
    faults: list[Fault] = []
    # what follows the first fault may not even be JSON
    with contextlib.suppress(*_NO_JSON):
        for number, part in enumerate(_PARTS.decode(body)):
            try:
                _ONE.decode(part)
            except msgspec.ValidationError as of_part:
                faults.append(_fault(of_part, f"[{number}]"))
                if len(faults) == MOST_FAULTS:
                    break
    return faults or [_fault(error, "")]


def _fault(error: msgspec.ValidationError, place: str) -> Fault:
    """Return a fault from a message such as "Expected `float` > 0.0 - at `$.bid[1]`"."""
    what, _, at = str(error).partition(" - at `$")
    inner = at.rstrip("`")
    return Fault((place + inner).lstrip("."), printable(what))  # it may quote the question


def _whole(what: str) -> Fault:
    return Fault("", what)
