"""Model export: the figures of single questions to the last digit, in whole files or none."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import NotFittedError

import fitted_models
from coterie.ads import AdForecaster, export_model
from coterie.ads.decisions import model_export
from coterie.ads.decisions.model_export import (
    advertiser_table,
    curve_table,
    forecast_table,
    segment_table,
)
from coterie.ads.forecasts.forecast_figures import FIELDS
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.errors import InvalidParameterError, OutputError
from fitted_models import small_model
from markets import ODD_WITH_SEGMENTS, ODD_WITHOUT_SEGMENTS, odd_model

MODELS = ["small_model", "first_price_model", "minimum_model", "textless_model"]
CURVE = {
    "bid": "bid",
    "win_rate": "win",
    "win_rate_low": "low",
    "win_rate_high": "high",
    "cost": "cost",
    "marginal_cost": "marginal",
    "own_win_rate": "own",
    "segment_win_rate": "segment",
}


def whole(table, together=7):
    """Return all rows of a table, made some at a time."""
    parts = [np.arange(i, min(i + together, table.n)) for i in range(0, table.n, together)]
    return pa.Table.from_batches([table.batch(part) for part in parts], schema=table.schema)


def numbers(column):
    """Return a column as floats, NaN where it is null."""
    return column.to_numpy(zero_copy_only=False).astype(float)


@pytest.mark.parametrize("name", MODELS)
def test_curves_are_those_of_the_model(name):
    """Each advertiser has the curve of model.curve, bit for bit."""
    model = getattr(fitted_models, name)()
    found = whole(curve_table(model))
    assert found.num_rows == len(model.advertisers_) * len(model.edges_)
    for row, advertiser in enumerate(model.advertisers_.tolist()):
        part = found.slice(row * len(model.edges_), len(model.edges_))
        assert set(part["advertiser"].to_pylist()) == {advertiser}
        expected = model.curve(advertiser)
        for column, field in CURVE.items():
            np.testing.assert_array_equal(numbers(part[column]), getattr(expected, field), column)


def test_marginal_costs_add_up_to_the_spend():
    """The costs of all further impressions are the cost of all impressions."""
    model = small_model()
    found = whole(curve_table(model)).slice(0, len(model.edges_))
    win, cost, marginal = (numbers(found[name]) for name in ("win_rate", "cost", "marginal_cost"))
    bought = np.diff(win, prepend=0.0)
    assert found["marginal_cost"].null_count == (bought <= 0).sum()
    np.testing.assert_allclose(np.nansum(bought * marginal), win[-1] * cost[-1])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "asked",
    [
        {"factors": (0.5, 1.0, 3.0), "days": (1, 7)},
        {"bids": (0.5, 2.5, 1e4), "days": (3, 1), "day": "2026-04-01", "level": 0.5},
    ],
    ids=["factors", "bids"],
)
def test_forecasts_are_those_of_the_model(name, asked):
    """Each row is a forecast of model.forecast, bit for bit."""
    model = getattr(fitted_models, name)()
    table = forecast_table(model, **asked)
    rows = whole(table).to_pylist()
    assert len(rows) == table.n * table.width == len(model.advertisers_) * 2 * 3
    steps = np.array(asked.get("bids") or asked["factors"])
    at = iter(rows)
    for row, advertiser in enumerate(model.advertisers_.tolist()):
        bids = steps if "bids" in asked else model.bid_[row] / 1e6 * steps
        for days in asked["days"]:
            how = {"day": asked.get("day"), "level": asked.get("level", 0.9), "days": days}
            for one in model.forecast(advertiser, bids, **how):
                found, expected = next(at), asdict(one)
                assert (found["advertiser"], found["days"]) == (advertiser, days)
                after_log = str(model.days_[-1] + np.timedelta64(1, "D")) if days > 1 else None
                assert str(found["first_day"]) == str(asked.get("day") or after_log)
                for field in ("bid", "supply", "level", *FIELDS):
                    stem, _, end = field.rpartition("_")
                    if end in {"low", "high"}:
                        ends = expected[f"{stem}_interval"]
                        assert found[field] == (ends and ends[end == "high"]), field
                    else:
                        assert found[field] == expected[field], field


@pytest.mark.parametrize("steps", ["bids", "factors"])
def test_what_is_asked_twice_is_there_once(steps):
    """Bids, factors and numbers of days that are repeated add no rows."""
    model = small_model()
    twice = forecast_table(model, days=(7, 1, 7), **{steps: (2.0, 1.0, 2.0)})
    once = forecast_table(model, days=(7, 1), **{steps: (2.0, 1.0)})
    assert whole(twice).equals(whole(once))


def test_bids_above_the_log_are_marked():
    """A bid above every bid in the log is said to be so; the highest one is not above."""
    model = small_model()
    found = whole(forecast_table(model, bids=(1.0, model.edges_[-1] / 1e6, 1e6)))
    assert found["above_log"].to_pylist() == [False, False, True] * len(model.advertisers_)
    assert found["bid_factor"].null_count == found.num_rows


def test_advertisers_are_those_of_the_model():
    """Each advertiser has a row with its segment, its numbers and its rates."""
    model = small_model()
    found = whole(advertiser_table(model)).to_pylist()
    tables = tables_of(model)
    for row, one in enumerate(found):
        assert one["advertiser"] == str(model.advertisers_[row])
        assert one["segment"] == model.segments_[model.labels_[row]].name
        assert one["mean_bid"] == model.bid_[row] / 1e6
        assert one["supply"] == tables.supply(row)
        assert one["click_rate"] == model.click_rate_[row]
        assert one["outlier"] == (row in model.outliers_)


def test_segments_are_those_of_the_model():
    """Each segment has a row."""
    model = small_model()
    found = whole(segment_table(model)).to_pylist()
    assert [one["segment"] for one in found] == [one.name for one in model.segments_]
    assert [one["words"] for one in found] == [list(one.words) for one in model.segments_]
    assert sum(one["advertisers"] for one in found) == (model.labels_ >= 0).sum()


def test_every_field_says_what_it_is():
    """The metadata of a field has its meaning and its unit, that of the schema the currency."""
    model = small_model()
    for table in (curve_table(model), forecast_table(model), advertiser_table(model)):
        assert table.schema.metadata[b"currency"] == b"USD"
        for field in table.schema:
            assert field.metadata[b"description"].endswith(b".")
            if pa.types.is_floating(field.type):
                assert field.metadata[b"unit"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ODD_WITH_SEGMENTS, *ODD_WITHOUT_SEGMENTS])
def test_odd_models_have_tables(name):
    """Logs that lack something have tables with nulls."""
    model = odd_model(name)
    for make in (curve_table, forecast_table, advertiser_table, segment_table):
        table = make(model)
        assert whole(table).num_rows == table.n * table.width


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"bids": [0.0]}, "bids must be numbers above 0"),
        ({"factors": [-1.0]}, "bids must be numbers above 0"),
        ({"days": []}, "at least one number of days"),
        ({"days": [0]}, "whole number from 1"),
        ({"day": "soon"}, "must be a date"),
        ({"level": 0.7}, "must be one of"),
    ],
)
def test_other_questions_are_refused(asked, message):
    """What cannot be forecast is refused before anything is made."""
    with pytest.raises(InvalidParameterError, match=message):
        forecast_table(small_model(), **asked)


# ----------------------------------------------------------------------- files


def test_a_folder_has_all_tables(tmp_path):
    """Each table is a file with the rows that are reported."""
    found = export_model(small_model(), tmp_path / "export", model_version="0123")
    assert sorted(path.name for path in (tmp_path / "export").iterdir()) == [
        "advertisers.parquet",
        "curves.parquet",
        "forecasts.parquet",
        "segments.parquet",
    ]
    for one in found:
        assert one.rows == pq.ParquetFile(one.path).metadata.num_rows
        assert pq.read_schema(one.path).metadata[b"model_version"] == b"0123"


def test_row_groups_do_not_change_the_table(tmp_path, monkeypatch):
    """Rows are written some at a time, and are those of the whole table."""
    monkeypatch.setattr(model_export, "_ROWS_TOGETHER", 1_000)
    model, file = small_model(), tmp_path / "curves.parquet"
    reported = []
    export_model(
        model, file, tables=["curves"], progress=lambda done, total: reported.append((done, total))
    )
    table = curve_table(model)
    written = pq.ParquetFile(file)
    assert written.num_row_groups == len(reported) > 5
    assert reported[-1] == (table.n * table.width,) * 2
    assert written.read().to_pylist() == table.batch(np.arange(table.n)).to_pylist()
    assert written.schema_arrow.field("bid").metadata[b"unit"]


@pytest.mark.parametrize("name", ["export", "curves.parquet"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_export_leaves_nothing(tmp_path, monkeypatch, name, failure):
    """Neither a part of a file nor a folder is left, and no temporary one."""

    def fail(*_):
        raise failure

    monkeypatch.setattr(model_export, "_ROWS_TOGETHER", 1_000)
    tables = ["curves"] if name.endswith("parquet") else ["segments", "curves"]
    with pytest.raises((KeyboardInterrupt, OutputError)):
        export_model(small_model(), tmp_path / name, tables=tables, progress=fail)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_not_touched(tmp_path):
    """An export does not mix with other files."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="not empty"):
        export_model(small_model(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    """There is nothing to write before a fit."""
    with pytest.raises(NotFittedError):
        export_model(AdForecaster(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "tables", "message"),
    [
        ("all.parquet", ["curves", "segments"], "is one file, but there are 2 tables"),
        ("curves.csv", ["curves"], "tables are written as Parquet; give a folder without .csv"),
        ("out", ["curve"], "must be some of advertisers, segments, curves, forecasts"),
        ("out", [], "must be some of"),
        ("out", ["curves", "curves"], "each once"),
    ],
)
def test_other_tables_are_refused(tmp_path, name, tables, message):
    """Unknown tables, none, several in one file, and files of other kinds are errors."""
    with pytest.raises(InvalidParameterError, match=message):
        export_model(small_model(), tmp_path / name, tables=tables)
    assert list(tmp_path.iterdir()) == []
