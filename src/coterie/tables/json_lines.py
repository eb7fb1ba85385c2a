"""Files of JSON lines as tables of an engine: one object per line, its values text columns.

The names are dotted: the value of ``price`` in ``{"imp": [{"bid": {"price": 2.5}}]}`` is the column
``imp.0.bid.price``. Only the first element of a list has columns; where a list has several, the
column holds the text of the whole object, which is no number. A line that is not an object has
nulls only. Columns are those of the first lines, and those that are named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from coterie.errors import TableError
from coterie.tables.columns import sql_name, sql_text
from coterie.tables.engines import fetch
from coterie.tables.sources import path_for_duckdb, path_for_spark

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pyspark.sql import DataFrame, SparkSession

JSON_ENDINGS = tuple(
    kind + packed for kind in (".jsonl", ".ndjson", ".json") for packed in ("", ".gz", ".zst")
)
#: The first lines of each file, and the number of files, in which columns are looked for.
SAMPLED_LINES, SAMPLED_FILES = 1000, 20

#: Engines take seconds for thousands of columns, and minutes for a hundred thousand.
MOST_COLUMNS = 2_000

#: A path into an object: keys, and 0 for the first element of a list.
Keys = tuple[str | int, ...]


def is_json(name: str) -> bool:
    return name.lower().endswith(JSON_ENDINGS)


def refuse_wide(n: int, name: str) -> None:
    """Refuse a table with too many columns."""
    if n > MOST_COLUMNS:
        raise TableError(
            f"{name}: it has {n:,} columns, and at most {MOST_COLUMNS:,} are read; write those of "
            "the bids to another file"
        )


def dotted_keys(value: Any, keys: Keys = ()) -> Iterator[Keys]:
    """Yield the paths to all values of an object.

    >>> list(dotted_keys({"id": 1, "imp": [{"floor": 0.1}, {"floor": 0.2}], "user": {}}))
    [('id',), ('imp', 0, 'floor')]
    """
    if isinstance(value, dict):
        for key, part in value.items():
            if key and not set("\"'") & set(key):  # no engine has a path to other keys
                yield from dotted_keys(part, (*keys, key))
    elif isinstance(value, list):
        for part in value[:1]:
            yield from dotted_keys(part, (*keys, 0))
    elif keys:
        yield keys


def json_in_duckdb(paths: Sequence[str], connection: Any, named: Sequence[str] = ()) -> ir.Table:
    """Read files of JSON lines as a table of DuckDB with text columns.

    Columns that are ``named`` are looked for in all lines.
    """
    columns = _columns(_sampled_lines(paths, connection), paths[0])
    late = _named_columns(columns, named)
    columns |= late
    asked = [(keys, keys[:1], *_second_elements(keys)) for keys in columns.values()]
    text = {keys: f"texts[{i}]" for i, keys in enumerate(dict.fromkeys(chain(*asked)), 1)}
    cells = []
    for name, (keys, whole, *seconds) in zip(columns, asked, strict=True):
        several = [f"WHEN {text[second]} IS NOT NULL THEN {text[whole]}" for second in seconds]
        cell = f"CASE {' '.join(several)} ELSE {text[keys]} END" if several else text[keys]
        cells.append(f"{cell} AS {sql_name(name)}")
    # all texts by one call, because every call parses the line
    values = connection.sql(
        f"SELECT {', '.join(cells)} FROM (SELECT json_extract_string(json, "
        f"[{', '.join(sql_text(_path(keys)) for keys in text)}]) AS texts "
        f"FROM {_objects(paths)})",
        schema=dict.fromkeys(columns, "string"),
    )
    if not late:
        return values
    known = fetch(values.aggregate(**{name: values[name].count() for name in late}))
    return values.drop(*(name for name in late if not known[name][0].as_py()))


def _objects(paths: Sequence[str]) -> str:
    files = ", ".join(sql_text(path_for_duckdb(path)) for path in paths)
    return f"read_json_objects([{files}], format='newline_delimited', ignore_errors=true)"


def json_in_spark(
    paths: Sequence[str], session: SparkSession, named: Sequence[str] = ()
) -> DataFrame:
    """Read files of JSON lines as a Spark frame with text columns; see :func:`json_in_duckdb`."""
    from pyspark.sql import functions

    lines = session.read.text([path_for_spark(path) for path in paths])
    sample = [row.value for row in lines.limit(SAMPLED_LINES).collect()]
    columns = _columns(sample, paths[0])

    def text(keys: Keys) -> Any:
        value_text = functions.get_json_object("value", _spark_path(keys))
        for second in _second_elements(keys):
            several = functions.get_json_object("value", _spark_path(second)).isNotNull()
            value_text = functions.when(several, functions.col("value")).otherwise(value_text)
        return value_text

    late = _named_columns(columns, named)
    if late:
        (known,) = lines.select(*(functions.count(text(keys)) for keys in late.values())).collect()
        columns |= {name: late[name] for name, n in zip(late, known, strict=True) if n}
    return lines.select(*(text(keys).alias(name) for name, keys in columns.items()))


def _sampled_lines(paths: Sequence[str], connection: Any) -> list[str | None]:
    step = -(-len(paths) // SAMPLED_FILES)
    lines = []
    # otherwise the first lines of any thread would be taken
    before = connection.settings["preserve_insertion_order"]
    connection.settings["preserve_insertion_order"] = "true"
    try:
        for path in paths[::step]:
            sample = connection.con.sql(
                f"SELECT json::VARCHAR FROM {_objects([path])} LIMIT {SAMPLED_LINES}"
            )
            lines += [line for (line,) in sample.fetchall()]
    finally:
        connection.settings["preserve_insertion_order"] = before
    return lines


def _columns(lines: Sequence[str | None], path: str) -> dict[str, Keys]:
    """Return the paths of all values in some lines, by dotted name."""
    columns: dict[str, Keys] = {}
    for line in lines:
        try:
            value = json.loads(line or "null")
            found = list(dotted_keys(value)) if isinstance(value, dict) else []
        except (ValueError, RecursionError):  # nested too deep for columns
            continue
        columns |= {".".join(map(str, keys)): keys for keys in found}
    if not columns:
        raise TableError(
            f"{path}: there is no JSON object in the first lines; write one object per line, as "
            "jq -c '.[]' does"
        )
    refuse_wide(len(columns), path)
    # an object may be null in some lines
    inner = {keys[:i] for keys in columns.values() for i in range(1, len(keys))}
    columns = {name: keys for name, keys in columns.items() if keys not in inner}
    spelled: dict[str, str] = {}
    for name in columns:
        other = spelled.setdefault(name.lower(), name)
        if other != name:
            raise TableError(
                f"{path}: the keys {other} and {name} differ in case only; engines do not tell "
                "them apart: rename one"
            )
    return columns


def _named_columns(columns: Mapping[str, Keys], named: Sequence[str]) -> dict[str, Keys]:
    """Return the paths of the named columns that the first lines do not have.

    >>> _named_columns({"id": ("id",)}, ["id", "imp.0.price"])
    {'imp.0.price': ('imp', 0, 'price')}
    """
    return {
        name: tuple(0 if key == "0" else key for key in name.split("."))
        for name in named
        if name not in columns and not name.startswith("0") and not set("\"'") & set(name)
    }


def _path(keys: Keys) -> str:
    """Return a JSON path for DuckDB.

    >>> _path(("imp", 0, "a b"))
    '$."imp"[0]."a b"'
    """
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f'."{key}"' for key in keys)


def _spark_path(keys: Keys) -> str:
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f"['{key}']" for key in keys)


def _second_elements(keys: Keys) -> list[Keys]:
    """Return the paths of the second elements of all lists on a path."""
    return [(*keys[:i], 1) for i, key in enumerate(keys) if key == 0 and isinstance(key, int)]
