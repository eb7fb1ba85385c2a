"""Questions and answers of the forecast service: one schema for program, client and service.

Routes, the OpenAPI document and the client are made from :data:`OPERATIONS` and these types.
Questions are strict: an unknown member or a value of another type is refused. Answers are open: a
reader ignores members that it does not know, so a later version can add some. A further question
about an advertiser extends :class:`Subject`.
"""

from coterie.ads.protocol.answers import Advertiser as Advertiser
from coterie.ads.protocol.answers import AdvertiserItem as AdvertiserItem
from coterie.ads.protocol.answers import AdvertiserPage as AdvertiserPage
from coterie.ads.protocol.answers import Answer as Answer
from coterie.ads.protocol.answers import Answers as Answers
from coterie.ads.protocol.answers import Fault as Fault
from coterie.ads.protocol.answers import Figures as Figures
from coterie.ads.protocol.answers import Health as Health
from coterie.ads.protocol.answers import Model as Model
from coterie.ads.protocol.answers import ModelVersion as ModelVersion
from coterie.ads.protocol.answers import ProblemDocument as ProblemDocument
from coterie.ads.protocol.answers import Refusal as Refusal
from coterie.ads.protocol.answers import Segment as Segment
from coterie.ads.protocol.answers import Segments as Segments
from coterie.ads.protocol.answers import answer_of as answer_of
from coterie.ads.protocol.faults import fault_of as fault_of
from coterie.ads.protocol.faults import printable as printable
from coterie.ads.protocol.operations import CURVE_MEDIA as CURVE_MEDIA
from coterie.ads.protocol.operations import JSON as JSON
from coterie.ads.protocol.operations import OPERATIONS as OPERATIONS
from coterie.ads.protocol.operations import TAGS as TAGS
from coterie.ads.protocol.operations import Operation as Operation
from coterie.ads.protocol.questions import AdvertiserQuery as AdvertiserQuery
from coterie.ads.protocol.questions import BidRange as BidRange
from coterie.ads.protocol.questions import BudgetQuestion as BudgetQuestion
from coterie.ads.protocol.questions import CurveQuery as CurveQuery
from coterie.ads.protocol.questions import GoalQuestion as GoalQuestion
from coterie.ads.protocol.questions import Limits as Limits
from coterie.ads.protocol.questions import NoQuery as NoQuery
from coterie.ads.protocol.questions import PortfolioQuestion as PortfolioQuestion
from coterie.ads.protocol.questions import Question as Question
from coterie.ads.protocol.questions import Questions as Questions
from coterie.ads.protocol.questions import Subject as Subject
from coterie.ads.protocol.questions import TargetsQuestion as TargetsQuestion
from coterie.ads.protocol.questions import given_members as given_members
