"""The paper's tables, filled with what was measured."""

from __future__ import annotations

import pytest

from coterie.ads.forecasts.evaluation import evaluate
from coterie.ads.forecasts.paper_tables import FEATURE_TYPES, error_table, paper_tables
from coterie.ads.segments.sources import SOURCES
from markets import EASY, QUICK, evaluated, fitted, market


@pytest.fixture(scope="module")
def tables():
    """Of an easy market."""
    return paper_tables(evaluated(), fitted().agreement_)


def test_the_four_tables_of_the_paper(tables):
    """Each with a title, a note, and rows as wide as its columns."""
    assert [table["title"].split(":")[0] for table in tables] == [
        f"Table {number} of the paper" for number in (4, 5, 6, 7)
    ]
    for table in tables:
        assert table["note"] and table["rows"]
        assert all(len(row) == len(table["columns"]) for row in table["rows"])


def test_clusters_at_each_level_of_the_test(tables):
    """Of both views that have one, as the views of the training days have them."""
    views = evaluated().training.views
    assert tables[0]["rows"] == [
        [FEATURE_TYPES[name], 0.05, views[name].edges[0.05], views[name].leaders[0.05]]
        for name in ("win", "cost")
    ]


def test_agreement_of_every_pair_of_views(tables):
    """True and false positive rates, Rand and adjusted Rand, both ways."""
    pairs = fitted().agreement_.pairs
    assert tables[1]["rows"] == [
        [row[name] for name in ("a", "b", "tpn", "fpn", "rand", "ari")] for row in pairs
    ]
    views = ("text", "win", "cost", "market")
    both = {(row["a"], row["b"]) for row in pairs}
    assert both == {(a, b) for a in (*views, "segments") for b in views if a != b}


@pytest.mark.parametrize(("place", "target"), [(2, "impressions"), (3, "spend")])
def test_errors_by_feature_type(tables, place, target):
    """MAPE and WAPE, with and without pooling, of every source; the paper's own come first."""
    found = evaluated()
    table = tables[place]
    assert [row[0] for row in table["rows"]] == list(FEATURE_TYPES.values())
    assert set(FEATURE_TYPES) == set(SOURCES)
    for source, row in zip(FEATURE_TYPES, table["rows"], strict=True):
        alone, pooled = (found.measures(name, target) for name in (source, f"{source}+pooled"))
        assert row[1:] == [alone.mape, pooled.mape, alone.wape, pooled.wape]
    counted = found.measures("own", target).mape_advertisers
    assert f"over the {counted:,} advertisers with {target} above 0" in table["note"]


def test_tables_of_some_sources_alone():
    """Those that were not evaluated have no row."""
    found = evaluate(market(EASY).histograms, settings=QUICK, sources=("win",))
    table = error_table(found, "spend", "7")
    assert [row[0] for row in table["rows"]] == ["win-rate c.d.f."]
