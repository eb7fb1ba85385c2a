"""Model export: whole files or nothing."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import NotFittedError

from coterie.ads import AdForecaster, export_model
from coterie.ads.decisions import model_export
from coterie.ads.decisions.bulk_tables import curve_table
from coterie.errors import InvalidParameterError, OutputError
from fitted_models import small_model


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
