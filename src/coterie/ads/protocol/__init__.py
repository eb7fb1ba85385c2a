"""Questions and answers of the forecast service: one schema for program, client and service.

The OpenAPI document is made from these types. Questions are strict: an unknown member or a value of
another type is refused. Answers are open: a reader ignores members that it does not know, so a
later version can add some. A further kind of question extends :class:`Subject`.
"""

from coterie.ads.protocol.answers import (
    Answer,
    Answers,
    Fault,
    Figures,
    Health,
    ModelVersion,
    ProblemDocument,
    answer_of,
)
from coterie.ads.protocol.decision_questions import (
    BudgetQuestion,
    GoalQuestion,
    PortfolioQuestion,
    TargetsQuestion,
)
from coterie.ads.protocol.faults import fault_of, printable
from coterie.ads.protocol.market import (
    Advertiser,
    AdvertiserItem,
    AdvertiserPage,
    Model,
    Refusal,
    Segment,
    Segments,
)
from coterie.ads.protocol.questions import (
    AdvertiserQuery,
    BidRange,
    CurveQuery,
    Limits,
    NoQuery,
    Question,
    Questions,
    Subject,
    given_members,
)

__all__ = [
    "Advertiser",
    "AdvertiserItem",
    "AdvertiserPage",
    "AdvertiserQuery",
    "Answer",
    "Answers",
    "BidRange",
    "BudgetQuestion",
    "CurveQuery",
    "Fault",
    "Figures",
    "GoalQuestion",
    "Health",
    "Limits",
    "Model",
    "ModelVersion",
    "NoQuery",
    "PortfolioQuestion",
    "ProblemDocument",
    "Question",
    "Questions",
    "Refusal",
    "Segment",
    "Segments",
    "Subject",
    "TargetsQuestion",
    "answer_of",
    "fault_of",
    "given_members",
    "printable",
]
