"""Metrics for Prometheus, of one process and of several."""

from __future__ import annotations

import itertools
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from coterie.ads.service.metrics import Metrics
from coterie.ads.service.service_settings import METRICS_FOLDER_VARIABLE

ANSWERS = st.tuples(
    st.sampled_from(["/", "/v1/model"]),
    st.sampled_from(["GET", "POST"]),
    st.sampled_from([200, 404, 503]),
    st.floats(0, 20),
)


def samples(text):
    """Return each sample by its name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@given(st.lists(ANSWERS))
def test_answers_are_counted(answers):
    """Numbers by route, method and status, and times by route, are those of a plain count."""
    metrics = Metrics()
    for answer in answers:
        metrics.answered(*answer)
    found = samples(metrics.text())
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


def test_model_and_reloads_are_reported():
    """When the model was loaded, its size and what became of files; each service for itself."""
    metrics, other = Metrics(), Metrics()
    metrics.model_loaded.set(1.5e9)
    metrics.model_advertisers.set(90)
    metrics.reloads_taken.inc()
    metrics.reloads_refused.inc(2)
    metrics.forecasts.inc(41)
    metrics.queued_work.set(7)
    found = samples(metrics.text())
    assert found["coterie_model_loaded_timestamp_seconds",] == 1.5e9
    assert found["coterie_model_advertisers",] == 90
    assert found["coterie_model_reloads_total", ("outcome", "taken")] == 1
    assert found["coterie_model_reloads_total", ("outcome", "refused")] == 2
    assert found["coterie_queued_work",] == 7
    assert found["coterie_forecasts_total",] == 41
    assert samples(other.text())["coterie_forecasts_total",] == 0


def test_processes_are_summed(tmp_path, monkeypatch):
    """Counters of processes that have ended stay; the size of the model is not added up."""
    monkeypatch.setenv(METRICS_FOLDER_VARIABLE, str(tmp_path))
    code = (
        "from coterie.ads.service.metrics import Metrics; metrics = Metrics();"
        "metrics.forecasts.inc(20); metrics.model_advertisers.set(90);"
        "metrics.answered('/v1/model', 'GET', 200, 0.01); print(metrics.text().decode())"
    )
    for number in (1, 2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        found = samples(done.stdout)
        assert found["coterie_forecasts_total",] == 20 * number
        assert found["coterie_model_advertisers",] == 90
        assert found["coterie_request_seconds_count", ("route", "/v1/model")] == number
