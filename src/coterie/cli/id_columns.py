"""Columns that name the rows: noticed, and used as the id if ``--id`` is not given."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from coterie.cli.outputs import RESULT_COLUMNS
from coterie.errors import LabelWarning

if TYPE_CHECKING:
    from coterie.tables.columns import Table

# A column of text with this many rows may be an id; numbers need more, because small tables often
# have a partition with a cluster for each row.
_FEWEST_TEXTS = 5
_MANY_ROWS = 1000
_ID_WORDS = {"id", "ids", "key", "name", "uuid", "guid", "no", "nr"}
# pandas writes the index of a table as a column with one of the last two names.
_ID_NAMES = {"index", "idx", "row", "email", "url", "unnamed: 0", ""}


def find_ids(
    table: Table,
    ids: Sequence[str],
    columns: Sequence[str] | None,
    use: Literal["labels", "features"],
) -> list[str]:
    """Return the id columns: the given ones, or the one column that names the rows.

    A column looks like an id if it has a different value in (nearly) every row. The only such
    column is the id if it is text or has the name of an id; otherwise it stays in use. A
    LabelWarning says which. ``columns`` are the columns to use, None for all but the ids; columns
    that the user lists are never taken as ids, but the only other one that looks like an id is.
    """
    if columns is not None and not ids and set(columns) <= set(table.columns):
        others = [name for name in table.columns if name not in (*columns, *RESULT_COLUMNS)]
        ids = [name for name in _counts_nearly_all(table, others) if _may_be_id(table, name, use)]
        ids = [name for name in ids if _is_text(table, name, use) or _is_named_like_id(name)]
        ids = ids if len(ids) == 1 else []
    used = [name for name in columns or table.columns if name not in ids]
    names = [*ids, *used]
    if len(set(names)) < len(names) or not set(names) <= set(table.columns):
        return list(ids)  # wrong names: the error comes later, without a note
    counts = _counts_nearly_all(table, used)
    candidates = [name for name in counts if _may_be_id(table, name, use)]
    if len(candidates) == 1 and not ids and columns is None and len(used) > 1:
        (name,) = candidates
        is_text = _is_text(table, name, use)
        if (is_text or _is_named_like_id(name)) and name not in RESULT_COLUMNS:
            other = f", or list it in --columns to use it as {_role(use)}"
            if is_text and use == "features":
                other = ""  # text cannot be a feature
            _note(
                f"column {name!r} {_values(counts[name], table)} and is used as the id; write "
                f"--id {_option(name)} to avoid this note{other}"
            )
            return [name]
    for name in candidates:
        _note(
            f"column {name!r} {_values(counts[name], table)} and is used as {_role(use)}; if it "
            f"names the rows, add --id {_option(name)}"
        )
    return list(ids)


def _counts_nearly_all(table: Table, names: Sequence[str]) -> dict[str, int]:
    """Count the values of columns of text or integers with a different one in nearly every row."""
    from coterie.labels.encode import fewest_values_of_ids

    n, counts = table.n_rows, dict.fromkeys(names, 0)
    for name in names:
        if n < 2 or not table.columns[name].kind.endswith(("CHAR", "INT", "INTEGER")):
            del counts[name]
    fewest = fewest_values_of_ids(n)
    # The other rows add at most one value each, so the first ones often decide.
    for n_first in [n // 8, n] if n >= _MANY_ROWS else [n]:
        cells = [table.columns[name].sql for name in counts]
        found = zip(counts, table.ask(cells, "count(DISTINCT {})", first=n_first), strict=True)
        counts = {name: count for name, (count,) in found if count + n - n_first >= fewest}
    return counts


def _may_be_id(table: Table, name: str, use: Literal["labels", "features"]) -> bool:
    """Return whether a column with different values is an id rather than labels or a feature."""
    from coterie.labels.encode import FEWEST_ROWS

    if _is_measurement(table, name):
        return False
    if _is_named_like_id(name):
        return True
    if _is_text(table, name, use):
        return table.n_rows >= _FEWEST_TEXTS
    if table.n_rows < FEWEST_ROWS:
        return False
    # features often have a different number in every row, but rarely without a gap
    return use == "labels" or _is_running_number(table, name)


def _is_running_number(table: Table, name: str) -> bool:
    """Return whether different whole numbers have no gap, in any order, as numbers of rows."""
    if not _holds_only(table, name, r"^-?[0-9]{1,18}$"):
        return False
    number = f"TRY_CAST({table.columns[name].sql} AS BIGINT)"
    ((least, most),) = table.ask([number], "min({})", "max({})")
    return bool(most - least == table.n_rows - 1)


def _is_measurement(table: Table, name: str) -> bool:
    """Return whether all values are numbers and some have a fraction or an exponent."""
    from coterie.tables.columns import NUMBER_PATTERN

    are_numbers = _holds_only(table, name, NUMBER_PATTERN)
    return are_numbers and not _holds_only(table, name, r"^[+-]?[0-9]+$")


def _is_text(table: Table, name: str, use: Literal["labels", "features"]) -> bool:
    """Return whether a column is text: labels such as 007 are, but features such as 007 are not."""
    from coterie.tables.columns import INTEGER_PATTERN, NUMBER_PATTERN

    pattern = INTEGER_PATTERN if use == "labels" else NUMBER_PATTERN
    return not _holds_only(table, name, pattern)


def _holds_only(table: Table, name: str, pattern: str) -> bool:
    """Return whether all values of a column that are not missing match a regular expression."""
    from coterie.tables.columns import MISSING_TEXTS

    return table.holds_only(name, f"{pattern}|^({'|'.join(MISSING_TEXTS)})$")


def _is_named_like_id(name: str) -> bool:
    """Return whether a name is that of an id, such as user_id, userId or Name."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    is_word = bool(_ID_WORDS & {word.lower() for word in words})
    return is_word or name.strip().lower() in _ID_NAMES


def _role(use: Literal["labels", "features"]) -> str:
    return "a feature" if use == "features" else "labels"


def _values(different: int, table: Table) -> str:
    if different == table.n_rows:
        return "has a different value in every row"
    return f"has {different:,} different values in {table.n_rows:,} rows"


def _option(name: str) -> str:
    """Return a name as the value of --id, quoted for the shell."""
    return shlex.quote(f'"{name}"' if "," in name or not name else name)


def _note(text: str) -> None:
    warnings.warn(text, LabelWarning, stacklevel=3)
