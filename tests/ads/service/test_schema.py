"""Requests made from the OpenAPI document, right and wrong ones: every answer is as described."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from coterie.ads.protocol import Limits
from coterie.ads.service.application import application
from coterie.ads.service.metrics import Metrics
from service_calls import served


class FittedOnDemand:
    """Holds a model that is fitted when it is first asked: the document does not need it."""

    last_refusal = None
    current = property(lambda _: served())


APP = application(FittedOnDemand(), limits=Limits(), metrics=Metrics())
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)


@SCHEMA.parametrize()
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_described(case):
    """No request makes the service fail, and status, type and body are those of the document."""
    # a schema cannot say that a range must rise, or that strangers need a supply
    case.call_and_validate(excluded_checks=[positive_data_acceptance])
