"""What Prometheus is told."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from coterie.ads.service.metrics import Metrics

ANSWERS = st.tuples(
    st.sampled_from(["/", "/v1/model"]),
    st.sampled_from(["GET", "POST"]),
    st.sampled_from([200, 404, 503]),
    st.floats(0, 20),
)


def _samples(metrics):
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


@given(st.lists(ANSWERS))
def test_answers_are_counted_as_they_are(answers):
    """Numbers by route, method and status, times by route and bin, are those of a plain count."""
    metrics = Metrics()
    for answer in answers:
        metrics.answered(*answer)
    found = _samples(metrics)
    for key in itertools.product(["/", "/v1/model"], ["GET", "POST"], [200, 404, 503]):
        route, method, status = key
        labels = [("method", method), ("route", route), ("status", str(status))]
        expected = sum(answer[:3] == key for answer in answers)
        assert found.get(("coterie_requests_total", *labels), 0) == expected
    for name, *labels in found:
        if name == "coterie_request_seconds_bucket":
            end, route = float(dict(labels)["le"]), dict(labels)["route"]
            within = sum(one[0] == route and one[3] <= end for one in answers)
            assert found[name, *labels] == within


def test_model_and_its_reloads_are_told():
    """When the model was loaded, its size, and what became of reloads can be watched."""
    metrics = Metrics()
    metrics.model_in_use(1.5e9, 90)
    metrics.reload_taken()
    metrics.reload_refused()
    metrics.reload_refused()
    metrics.count_forecasts(41)
    found = _samples(metrics)
    assert found["coterie_model_loaded_timestamp_seconds",] == 1.5e9
    assert found["coterie_model_advertisers",] == 90
    assert found["coterie_model_reloads_total", ("outcome", "taken")] == 1
    assert found["coterie_model_reloads_total", ("outcome", "refused")] == 2
    assert found["coterie_forecasts_total",] == 41


def test_two_services_count_apart():
    """Each service has counts of its own."""
    one, other = Metrics(), Metrics()
    one.count_forecasts(3)
    assert _samples(other)["coterie_forecasts_total",] == 0
