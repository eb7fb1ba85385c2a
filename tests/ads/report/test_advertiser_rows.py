"""A report shows all advertisers, or of very many those with the most bids."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.report import contents
from coterie.ads.report.advertiser_rows import shown_advertisers
from coterie.ads.report.contents import report_payload
from coterie.ads.report.rendering import render_report
from markets import fitted


def test_few_advertisers_are_all_shown():
    """In their order."""
    model = fitted()
    n = len(model.advertisers_)
    np.testing.assert_array_equal(shown_advertisers(model, n), np.arange(n))


def test_of_many_the_busiest_are_shown():
    """And the typical members of segments, to which the cards of segments point."""
    model = fitted()
    shown = shown_advertisers(model, 7)
    busiest = np.argsort(-model.observations_, kind="stable")[:7]
    assert set(busiest) <= set(shown) and (np.diff(shown) > 0).all()
    assert 7 < len(shown) <= 7 + 12 * len(model.segments_)


@pytest.mark.parametrize("most", [5, 40])
def test_a_report_of_some_advertisers(most, monkeypatch):
    """Rows, members and outliers are those of the whole report, numbered anew."""
    model = fitted()
    whole = report_payload(model, source="logs", engine="duckdb")
    monkeypatch.setattr(contents, "shown_advertisers", lambda model: shown_advertisers(model, most))
    part = report_payload(model, source="logs", engine="duckdb")
    by_id = {one.id: one for one in whole.advertisers}
    assert [by_id[one.id] for one in part.advertisers] == part.advertisers
    assert part.left_out == len(whole.advertisers) - len(part.advertisers) > 0
    for one, other in zip(part.segments, whole.segments, strict=True):
        members = [part.advertisers[i].id for i in one.members]
        assert members == [whole.advertisers[i].id for i in other.members]
        assert one.size == other.size
    shown = {one.id for one in part.advertisers}
    for name in ("outliers", "low_confidence"):
        ids = [part.advertisers[i].id for i in getattr(part, name)]
        every = [whole.advertisers[i].id for i in getattr(whole, name)]
        assert ids == [one for one in every if one in shown]
    page = render_report(part)
    assert f"leaves out {part.left_out} others" in page
    assert f"{len(whole.advertisers)} advertisers" in page
    # a search that finds nothing must not say that an advertiser does not exist
    assert f'"left_out":{part.left_out}' in page
    assert "among those shown" in page and "among those shown" not in render_report(whole)
