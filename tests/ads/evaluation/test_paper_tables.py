"""The paper's tables: its printed figures beside what was measured."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from coterie.ads.evaluation.paper_tables import FEATURE_TYPES, error_table, paper_tables
from coterie.ads.segments.segment_profiles import compare_views
from coterie.ads.segments.views import View

OF_THE_PAPER = ("text", "win", "cost", "l2", "robust")
NOT_POOLED = ("lognormal", "boosting", "dictionary")
NAMES = [
    name
    for source in FEATURE_TYPES
    for name in ((source,) if source in NOT_POOLED else (source, f"{source}+pooled"))
]
LEVELS = {0.01: 30, 0.02: 25, 0.05: 20, 0.1: 10}


def evaluation_of(*names):
    """An evaluation in which MAPE and WAPE follow from the name and the target."""

    def measures(name, target):
        assert name in names
        n = names.index(name) + 1 + (target == "spend") / 2
        return SimpleNamespace(mape=n / 100, wape=n / 1000, mape_advertisers=1234)

    views = {
        name: View(name, np.array([[0], [1]]), [{"k": 2}], LEVELS, dict.fromkeys(LEVELS, 3))
        for name in ("win", "cost")
    }
    forecasts = dict.fromkeys(names)
    return SimpleNamespace(
        forecasts=forecasts, measures=measures, training=SimpleNamespace(views=views)
    )


@pytest.fixture(scope="module")
def agreement():
    """Agreement of three views of six advertisers."""
    labels = {"text": [0, 1, 0, 1, 0, 1], "win": [0, 0, 1, 1, 2, 2], "cost": [0, 0, 1, 1, 1, 2]}
    views = {
        name: View(name, np.array(column)[:, None], [{"k": 3}]) for name, column in labels.items()
    }
    return compare_views(views, np.array([0, 0, 1, 1, 2, 2]), None)


@pytest.fixture(scope="module")
def tables(agreement):
    """Of all sources."""
    return paper_tables(evaluation_of(*NAMES), agreement)


def test_the_four_tables_of_the_paper(tables):
    """Each has a title, a note on the private log, and rows as wide as its columns."""
    assert [table["title"].split(":")[0] for table in tables] == [
        f"Table {number} of the paper" for number in (4, 5, 6, 7)
    ]
    for table in tables:
        assert "private log" in table["note"] and table["rows"]
        assert len(set(table["columns"])) == len(table["columns"])
        assert all(len(row) == len(table["columns"]) for row in table["rows"])


def test_the_papers_table_lists_levels_by_view(agreement):
    """It has similar pairs and leader clusters at each level; other views have no rows."""
    partition, settings = np.array([[0], [1]]), [{"k": 2}]
    evaluation = evaluation_of(*NAMES)
    evaluation.training.views = {
        "text": View("text", partition, settings),
        "win": View("win", partition, settings, {0.01: 9, 0.1: 4}, {0.01: 2, 0.1: 3}),
    }
    rows = [row[1:4] for row in paper_tables(evaluation, agreement)[0]["rows"]]
    assert rows == [[0.01, 9, 2], [0.1, 4, 3]]


def test_clusters_at_each_level_of_the_test(tables):
    """The printed counts are beside ours; a level that the paper lacks has none."""
    found = {(row[0], row[1]): row[2:] for row in tables[0]["rows"]}
    printed = {
        "win": {0.01: 65, 0.05: 47, 0.1: 32},
        "cost": {0.01: 73, 0.05: 51, 0.1: 40},
    }
    assert tables[0]["columns"][-1] == "paper"
    assert found == {
        (FEATURE_TYPES[view], p): [similar, 3, counts.get(p)]
        for view, counts in printed.items()
        for p, similar in LEVELS.items()
    }


def test_agreement_of_every_pair_of_views(tables, agreement):
    """TPN and FPN are those of the views, and the printed ones sum to 1."""
    columns = tables[1]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in tables[1]["rows"]]
    for row, pair in zip(rows, agreement.pairs, strict=True):
        shown = (row["view"], row["compared with"], row["TPN"], row["FPN"], row["adjusted Rand"])
        assert shown == tuple(pair[name] for name in ("a", "b", "tpn", "fpn", "ari"))
        if (row["view"], row["compared with"]) == ("win", "cost"):
            assert (row["TPN, paper"], row["FPN, paper"]) == (0.7421, 0.2579)
            assert row["TPN, paper"] + row["FPN, paper"] == pytest.approx(1)
        else:
            assert row["TPN, paper"] is row["FPN, paper"] is None
    assert sum(row["TPN, paper"] is not None for row in rows) == 1


@pytest.mark.parametrize(
    ("place", "target", "printed"),
    [
        (2, "impressions", (0.3098, 0.1810, 0.2031, 0.1787, 0.1596)),
        (3, "spend", (0.2578, 0.1234, 0.1356, 0.1278, 0.0964)),
    ],
)
def test_errors_by_feature_type(tables, place, target, printed):
    """Every source has its errors; those of the paper come first, with the printed MAPE."""
    found, table = evaluation_of(*NAMES), tables[place]
    of_paper = dict(zip(OF_THE_PAPER, printed, strict=True))
    assert list(FEATURE_TYPES)[: len(OF_THE_PAPER)] == list(OF_THE_PAPER)
    assert [row[0] for row in table["rows"]] == list(FEATURE_TYPES.values())
    for source, row in zip(FEATURE_TYPES, table["rows"], strict=True):
        errors = dict(zip(table["columns"], row, strict=True))
        alone = found.measures(source, target)
        assert (errors["MAPE"], errors["WAPE"]) == (alone.mape, alone.wape)
        assert errors["MAPE, paper"] == of_paper.get(source)
        assert ("not in the paper" in row[0]) == (source not in of_paper)
        if source in NOT_POOLED:
            assert errors["MAPE, pooled"] is errors["WAPE, pooled"] is None
        else:
            pooled = found.measures(f"{source}+pooled", target)
            assert (errors["MAPE, pooled"], errors["WAPE, pooled"]) == (pooled.mape, pooled.wape)
    assert f"over the 1,234 advertisers with {target} above 0" in table["note"]


def test_tables_of_some_sources_alone():
    """Those that were not evaluated have no row; sources that are not listed are ignored."""
    table = error_table(evaluation_of("win", "win+pooled", "true", "dictionary"), "spend", "7")
    assert [row[0] for row in table["rows"]] == [
        FEATURE_TYPES["win"],
        FEATURE_TYPES["dictionary"],
    ]
