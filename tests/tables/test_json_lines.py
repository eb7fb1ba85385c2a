"""JSON lines are tables of an engine, their values text columns with dotted names."""

from __future__ import annotations

import gzip
import json

import pytest

from coterie.errors import TableError
from coterie.tables.engines import connect, fetch
from coterie.tables.json_lines import dotted_keys, is_json, json_in_duckdb


def read(path, *lines) -> list[dict]:
    """The rows of a file of these lines, in their order."""
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    connection = connect()
    connection.settings["preserve_insertion_order"] = "true"  # the engine's default is any order
    return fetch(json_in_duckdb([str(path)], connection)).to_pylist()


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson.gz", "a[1].json"])
def test_values_are_texts_with_dotted_names(tmp_path, name):
    """Nested objects and the first elements of lists are columns."""
    value = {"id": 7, "imp": [{"bid.id": "x", "ok": True}], "user": {"geo": {"c": None}}}
    found = read(tmp_path / name, value, {"imp": None})
    assert found == [
        {"id": "7", "imp.0.bid.id": "x", "imp.0.ok": "true", "user.geo.c": None},
        dict.fromkeys(["id", "imp.0.bid.id", "imp.0.ok", "user.geo.c"]),
    ]


def test_a_list_of_several_is_its_text(tmp_path):
    """No element is chosen in silence."""
    found = read(tmp_path / "a.jsonl", {"imp": [{"p": 1}]}, {"imp": [{"p": 1}, {"p": 2}]})
    assert [row["imp.0.p"] for row in found] == ["1", '[{"p":1},{"p":2}]']


def test_a_named_column_is_looked_for_in_all_lines(tmp_path):
    """A key of a late line is a column if it is named; a key of no line is none."""
    path = tmp_path / "a.jsonl"
    late = {"a": 2, "imp": [{"p": 5}], "b": "x"}
    path.write_text("\n".join(['{"a": 1}'] * 1500 + [json.dumps(late)]))
    table = json_in_duckdb([str(path)], connect(), ["a", "imp.0.p", "absent"])
    assert table.columns == ("a", "imp.0.p")
    found = fetch(table.filter(table["imp.0.p"].notnull())).to_pylist()
    assert found == [{"a": "2", "imp.0.p": "5"}]


def test_columns_are_those_of_the_first_lines_on_any_number_of_threads(tmp_path):
    """Other threads of the engine begin in the middle of a long file."""
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(['{"a": 1}'] * 200_000 + ['{"a": 2, "b": "x"}'] * 200_000))
    connection = connect()
    order = connection.settings["preserve_insertion_order"]
    for _ in range(10):
        assert json_in_duckdb([str(path)], connection).columns == ("a",)
    assert connection.settings["preserve_insertion_order"] == order


def test_a_line_nested_too_deep_has_no_columns(tmp_path):
    """Its values are texts of columns that other lines have; a file of such lines is refused."""
    deep = "[" * 200_000 + "]" * 200_000
    deeper = '{"a":' * 990 + "1" + "}" * 990
    assert read(tmp_path / "a.jsonl", {"id": "1"}, f'{{"id": {deep}}}') == [
        {"id": "1"},
        {"id": deep},
    ]
    (tmp_path / "b.jsonl").write_text(f"{deeper}\n{{{deep}}}\n")
    with pytest.raises(TableError, match=r"b\.jsonl: there is no JSON object"):
        json_in_duckdb([str(tmp_path / "b.jsonl")], connect())


def test_a_line_that_is_not_json_is_a_row_of_nulls(tmp_path):
    """It is not dropped."""
    assert read(tmp_path / "a.jsonl", {"a": 1}, "broken") == [{"a": "1"}, {"a": None}]


@pytest.mark.parametrize("text", ["[]", "1\n2", ""])
def test_a_file_without_an_object_is_refused(tmp_path, text):
    """The message says how to convert it."""
    with pytest.raises(TableError, match="one object per line"):
        read(tmp_path / "a.json", text)


def test_keys_that_differ_in_case_only_are_refused(tmp_path):
    """Engines would not tell the columns apart."""
    with pytest.raises(TableError, match=r"a\.json: the keys imp\.a and imp\.A differ in case"):
        read(tmp_path / "a.json", {"imp": {"a": 1}}, {"imp": {"A": 1}})


def test_keys_of_the_first_element_only():
    """Empty lists and objects have none; keys that are empty or have quotes are left out."""
    value = {"a": [[1, 2], 3], "b": [], "c": {}, 'q"': 1, "": 2}
    assert list(dotted_keys(value)) == [("a", 0, 0)]
    assert is_json("X.JSONL.GZ")
    assert not is_json("x.json.csv")
