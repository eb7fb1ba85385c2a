"""Decisions: answers about goals, budgets, targets and portfolios, in slices of work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET

from coterie.ads.decisions.budgets import plan_budget
from coterie.ads.decisions.decision_answers import (
    BudgetPlan,
    BudgetSplit,
    GoalBid,
    TargetRanking,
    of_version,
)
from coterie.ads.decisions.goals import bid_for
from coterie.ads.decisions.portfolios import split_in_steps
from coterie.ads.decisions.target_ranking import rank_targets
from coterie.ads.protocol import (
    BudgetQuestion,
    Fault,
    GoalQuestion,
    Limits,
    PortfolioQuestion,
    Subject,
    TargetsQuestion,
)
from coterie.ads.service.fair_queue import Slices, in_one_slice
from coterie.ads.service.problems import invalid
from coterie.ads.service.question_reading import read_question
from coterie.ads.service.served_model import ServedModel
from coterie.errors import InvalidParameterError

__all__ = ["DECISIONS", "Decision", "decide"]

_ENCODE = msgspec.json.Encoder().encode
#: So many bids times days of a decision take as long as one of a forecast with its JSON.
_ITEMS_PER_WORK = 40
#: Figures of single values of dimensions take so many times as long.
_WORK_OF_VALUES = 20
_MOST_SPLIT = Limits().questions


@dataclass(frozen=True)
class Decision:
    """A kind of question: its types, what it costs, and how it is answered."""

    question: Any
    answer: Any
    cost: Callable[[Any], int]  # an estimate, in bids times days of a forecast
    steps: Callable[[ServedModel, Any, int], Slices[Any]]

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.question)

    def read(self, body: bytes) -> Any:
        """Return the question in a body; a Problem if it is invalid."""
        return read_question(body, self._decoder)


def decide(
    decision: Decision, served: ServedModel, asked: Any, limits: Limits
) -> tuple[int, Slices[bytes]]:
    """Return what the answer to a question costs, and the slices that make its JSON."""
    cost = decision.cost(asked)
    if isinstance(asked, Subject):
        cost *= 1 if asked.where is UNSET else _WORK_OF_VALUES
        cost += 0 if asked.advertiser in served.tables.row_of else limits.text_work
    return cost, _encoded(decision, served, asked, cost)


def _encoded(decision: Decision, served: ServedModel, asked: Any, cost: int) -> Slices[bytes]:
    try:
        found = yield from decision.steps(served, asked, cost)
    except InvalidParameterError as error:
        raise invalid("invalid-question", [Fault("", str(error))]) from None
    return _ENCODE(of_version(found, served.version.version))


def _goal(served: ServedModel, asked: GoalQuestion, cost: int) -> Slices[GoalBid]:
    asking: dict[str, Any] = {**asked.goal(), **asked.details()}
    return in_one_slice(lambda: bid_for(served.model, **asking), cost)


def _budget(served: ServedModel, asked: BudgetQuestion, cost: int) -> Slices[BudgetPlan]:
    bid = asked.bid or None
    return in_one_slice(
        lambda: plan_budget(served.model, budget=asked.budget, bid=bid, **asked.details()), cost
    )


def _targets(served: ServedModel, asked: TargetsQuestion, cost: int) -> Slices[TargetRanking]:
    given = {"bid": asked.bid, "dimension": asked.dimension, "by": asked.by}
    asking: dict[str, Any] = {name: value for name, value in given.items() if value is not UNSET}
    return in_one_slice(lambda: rank_targets(served.model, **asking, **asked.details()), cost)


def _portfolio(served: ServedModel, asked: PortfolioQuestion, cost: int) -> Slices[BudgetSplit]:  # noqa: ARG001
    if asked.advertisers is UNSET and asked.segment is UNSET and len(served.names) > _MOST_SPLIT:
        raise InvalidParameterError(
            f"the model has {len(served.names):,} advertisers; name up to {_MOST_SPLIT:,} of them, "
            "or a segment"
        )
    steps = split_in_steps(served.model, **asked.details())
    while True:
        try:
            items = next(steps)
        except StopIteration as end:
            return end.value
        yield max(items // _ITEMS_PER_WORK, 1)


def _portfolio_cost(asked: PortfolioQuestion) -> int:
    number = len(asked.advertisers or ()) or 100
    return 10 * number * asked.days


#: By the path of their route.
DECISIONS = {
    "/v1/bids": Decision(GoalQuestion, GoalBid, lambda asked: 300 + 20 * asked.days, _goal),
    "/v1/budgets": Decision(
        BudgetQuestion, BudgetPlan, lambda asked: 1_000 + 150 * asked.days, _budget
    ),
    "/v1/targets": Decision(
        TargetsQuestion, TargetRanking, lambda asked: 2_000 + 50 * asked.days, _targets
    ),
    "/v1/portfolios": Decision(PortfolioQuestion, BudgetSplit, _portfolio_cost, _portfolio),
}
