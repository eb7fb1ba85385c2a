"""Public advertising data: where files are searched, and errors if they are missing."""

from __future__ import annotations

import gzip

import pytest

from coterie.ads.histograms.public_data import (
    IPINYOU,
    PUBLISHER,
    SNAP,
    PublicData,
    files_of,
    read_columns,
    refuse_missing,
)
from coterie.errors import DatasetUnavailableError, TableError

TOY = PublicData("toy", ("a.csv", "b.csv"), "a shop for toys")


def put(folder, *names):
    """Empty files of the toy dataset."""
    home = folder / "toy"
    home.mkdir(parents=True, exist_ok=True)
    for name in names:
        (home / name).write_text("")
    return folder


def test_all_files_must_be_in_one_folder(tmp_path, monkeypatch):
    """The folder of COTERIE_DATA comes first, if it has all files of the dataset."""
    monkeypatch.setenv("COTERIE_DATA", str(put(tmp_path / "mine", "a.csv")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = put(tmp_path / "cache" / "coterie", "a.csv", "b.csv")
    assert files_of(TOY) == [cache / "toy" / "a.csv", cache / "toy" / "b.csv"]
    assert files_of(TOY, names=["a.csv"]) == [tmp_path / "mine" / "toy" / "a.csv"]


def test_a_folder_given_is_the_only_one_searched(tmp_path, monkeypatch):
    """A given folder replaces those of the environment."""
    monkeypatch.setenv("COTERIE_DATA", str(put(tmp_path / "mine", "a.csv", "b.csv")))
    with pytest.raises(DatasetUnavailableError, match="a shop for toys") as caught:
        files_of(TOY, tmp_path / "other")
    assert str(tmp_path / "other") in str(caught.value)
    assert str(tmp_path / "mine") not in str(caught.value)


def test_all_missing_datasets_are_named(tmp_path):
    """One error has a line for each missing dataset."""
    with pytest.raises(DatasetUnavailableError) as caught:
        refuse_missing([IPINYOU, PUBLISHER, SNAP], tmp_path)
    lines = str(caught.value).splitlines()
    assert [line.split("'")[1] for line in lines] == [IPINYOU.name, PUBLISHER.name, SNAP.name]
    put(tmp_path, *TOY.files)
    refuse_missing([TOY], tmp_path)


def test_columns_are_read_from_plain_and_gzipped_files(tmp_path):
    """Given columns are read in their types; commas and line breaks in quotes are text."""
    text = 'id,word,n\n007,"a, b",1\n8,"c\nd",2\n'
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("t.csv", "t.csv.gz"):
        found = read_columns(tmp_path / name, {"id": "string", "word": "string"})
        assert {k: v.tolist() for k, v in found.items()} == {
            "id": ["007", "8"],
            "word": ["a, b", "c\nd"],
        }
    assert read_columns(tmp_path / "t.csv")["n"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "types", "message"),
    [
        ("a\n1\nx\n", {"a": "int64"}, "t.csv cannot be read"),
        ("a\n1\n", {"b": "int64"}, "t.csv cannot be read"),
        ("a,b\n1,2\n,3\n", {"a": "int64"}, "column 'a': a value is missing"),
        ("a,b\n1\n", None, "t.csv cannot be read"),
    ],
)
def test_unreadable_files_are_refused(tmp_path, text, types, message):
    """A wrong type, a missing column, a missing value or a short row is an error."""
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TableError, match=message):
        read_columns(tmp_path / "t.csv", types)


def test_an_incomplete_file_is_refused(tmp_path):
    """Half of a gzipped file cannot be read."""
    whole = gzip.compress(b"a\n" + b"123\n" * 5000)
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableError, match="cannot be read"):
        read_columns(tmp_path / "t.csv.gz")
