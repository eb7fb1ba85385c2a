"""PostgreSQL's dialect: expressions that mean in PostgreSQL what they mean in DuckDB.

PostgreSQL has no cast that gives null for a bad text, rounds halves to even, orders text as a
dictionary does, and gives null for a group that a pattern does not find. Everything here is a plain
expression, so that nothing is created in the database.
"""

from __future__ import annotations

import functools
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["in_postgres"]

#: Blanks of a pattern in DuckDB; those of PostgreSQL depend on the language of the database.
_BLANKS = "[ \t\n\f\r]"
_ALL_ROWS = 1 << 62
_UNITS_A_SECOND = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}
_INTEGER = r"^[ ]*[+-]?[0-9]{1,18}[ ]*$"
_FLOAT = r"^[ ]*[+-]?([0-9]{1,50}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?(1?[0-9]{1,2}|2[0-4][0-9]))?[ ]*$"
_LEAP = "([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)"
#: Years from 1000 on: PostgreSQL has no year 0.
_DATE = (
    "^([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    f"|02-(0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK = r"[T ](24:00(:00)?|([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]*)?)?)"
_OFFSET = "( UTC|[ ]*(Z|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?))"
_TIME = f"{_DATE}({_CLOCK}{_OFFSET}?)?$"
_DAY = f"{_DATE}$"
_TRIED = (_INTEGER, _FLOAT, _DAY, _TIME)
_TIME_IN_ZONE = f"{_DATE}{_CLOCK} [A-Za-z_/]+$"


def in_postgres(expression: ir.Table) -> ir.Table:
    """Return a table of PostgreSQL that has the values of an expression in DuckDB.

    Columns of types that Arrow does not have, such as uuid, become text.
    """
    from ibis.expr import operations as ops

    rules = _rules()

    def rewritten(node: Any, changed: Mapping[str, Any] | None) -> Any:
        node = node.__recreate__(changed) if changed else node
        rule = rules.get(type(node))
        return node if rule is None else rule(node)

    def in_steps(node: Any, changed: Mapping[str, Any] | None) -> Any:
        node = node.__recreate__(changed) if changed else node
        return _in_steps(node) if isinstance(node, ops.Project) else node

    table = expression.op().replace(rewritten).replace(in_steps).to_expr()
    kinds = table.schema().items()
    texts = {name: table[name].cast("string") for name, kind in kinds if _is_foreign(kind)}
    return table.mutate(**texts) if texts else table


def _is_foreign(kind: Any) -> bool:
    return kind.is_uuid() or kind.is_inet() or (kind.is_decimal() and kind.precision is None)


def _in_steps(project: Any, first: int = 0) -> Any:
    """Let PostgreSQL compute what is slow, and used several times, once per row.

    It would copy an expression to every place where it is used, but for a limit in between. The
    kinds of slow expressions from ``first`` on are computed one step each, and a step uses those
    after it.
    """
    from ibis.expr import operations as ops

    kinds = (_casts, _times, _groups)[first:]
    values = project.values.values()
    slow = dict.fromkeys(node for find in kinds for value in values for node in find(value))
    if not slow:
        return project
    own = {name: ops.Field(project.parent, name) for name in project.parent.schema}
    columns = own | {f"coterie_step_{i}": node for i, node in enumerate(slow)}
    step = ops.Limit(_in_steps(ops.Project(project.parent, columns), first + 1), _ALL_ROWS, 0)
    known = {node: ops.Field(step, name) for name, node in columns.items()}
    named = project.values.items()
    used = {name: value.replace(known, filter=ops.Value) for name, value in named}
    return ops.Limit(ops.Project(step, used), _ALL_ROWS, 0)


def _casts(value: Any) -> Iterable[Any]:
    """Return the casts that :func:`_tried` made; others may fail where they are not needed."""
    from ibis.expr import operations as ops

    for cast in value.find(ops.Cast, filter=ops.Value):
        if isinstance(cast.arg, ops.IfElse) and cast.arg.dtype.is_string():
            guard = cast.arg.bool_expr
            first = guard.left if isinstance(guard, ops.Or) else guard
            if first in _calls(first, "textregexeq") and first.args[1].value in _TRIED:
                yield cast


def _times(value: Any) -> Iterable[Any]:
    """Return the texts that are read as times."""
    calls = _calls(value, "textregexeq")
    return (call.args[0] for call in calls if call.args[1].value == _TIME)


def _groups(value: Any) -> Iterable[Any]:
    return _calls(value, "regexp_match")


def _calls(value: Any, name: str) -> list[Any]:
    from ibis.expr import operations as ops

    calls = value.find(ops.ScalarUDF, filter=ops.Value)
    return [call for call in calls if call.__func_name__ == name]


@functools.cache
def _zones() -> str:
    """Return the names of time zones in one text: long lists make plans slow."""
    return f" {' '.join(sorted(zoneinfo.available_timezones()))} "


def _rules() -> dict[type, Callable[[Any], Any]]:
    from ibis.expr import operations as ops

    return {
        ops.Cast: _cast,
        ops.Field: _field,
        ops.Hash: _hash,
        ops.Literal: _literal,
        ops.Modulus: _remainder,
        ops.RegexExtract: _extracted,
        ops.RegexSearch: _searched,
        ops.Round: _rounded,
        ops.SortKey: _sort_key,
        ops.TimestampFromUNIX: _since_1970,
        ops.TryCast: _tried,
    }


@functools.cache
def _functions() -> SimpleNamespace:
    """Return functions of PostgreSQL, by their names."""
    from ibis import udf

    types = {
        "convert_to": (("string", "string"), "binary"),
        "hashtextextended": (("string", "int64"), "int64"),
        "regexp_match": (("string", "string"), "array<string>"),
        "textregexeq": (("string", "string"), "boolean"),
        "to_timestamp": (("float64",), "timestamp('UTC')"),
        "trunc": (("float64",), "float64"),
    }

    def of_one(value: Any) -> Any: ...

    def of_two(value: Any, other: Any) -> Any: ...

    return SimpleNamespace(
        **{
            name: udf.scalar.builtin(
                of_one if len(taken) == 1 else of_two, name=name, signature=(taken, given)
            )
            for name, (taken, given) in types.items()
        }
    )


def _literal(node: Any) -> Any:
    """Make a fraction a float: PostgreSQL reads it as a decimal, which is slow and exact."""
    from ibis.expr import operations as ops

    is_fraction = node.dtype.is_floating() and node.value is not None
    return ops.Cast(node, node.dtype) if is_fraction else node


def _cast(node: Any) -> Any:
    """Cast truth values to integers of 32 bits first, because there is no other cast of them."""
    from ibis.expr import datatypes
    from ibis.expr import operations as ops

    if node.arg.dtype.is_boolean() and node.to.is_integer():
        return ops.Cast(ops.Cast(node.arg, datatypes.int32), node.to)
    return node


def _field(node: Any) -> Any:
    """Make an enumeration, which Ibis takes for text, a text."""
    from ibis.expr import datatypes
    from ibis.expr import operations as ops

    is_text = isinstance(node.rel, ops.DatabaseTable) and node.dtype.is_string()
    return ops.Cast(node, datatypes.string) if is_text else node


def _hash(node: Any) -> Any:
    text = node.arg.to_expr().cast("string")
    return _functions().hashtextextended(text, 0).op()


def _sort_key(node: Any) -> Any:
    """Order text by its bytes."""
    if not node.arg.dtype.is_string():
        return node
    return node.copy(arg=_functions().convert_to(node.arg.to_expr(), "UTF8").op())


def _matches(text: Any, pattern: str) -> Any:
    return _functions().textregexeq(text, pattern)


def _searched(node: Any) -> Any:
    return _matches(node.arg.to_expr(), node.pattern.value.replace(r"\s", _BLANKS)).op()


def _extracted(node: Any) -> Any:
    import ibis

    text, pattern = node.arg.to_expr(), node.pattern.value.replace(r"\s", _BLANKS)
    groups = _functions().regexp_match(text, f"({pattern})")
    group = groups[node.index.value].fill_null("")
    return text.isnull().ifelse(ibis.null("string"), group).op()


def _rounded(node: Any) -> Any:
    """Round half away from zero."""
    if not (node.arg.dtype.is_floating() and node.dtype.is_integer()):
        return node
    number = node.arg.to_expr()
    below = _functions().trunc(number.abs())
    nearest = (number.abs() - below >= 0.5).ifelse(below + 1, below)
    return (number < 0).ifelse(-nearest, nearest).cast(node.dtype).op()


def _remainder(node: Any) -> Any:
    """Return the remainder of floats, which PostgreSQL takes of decimals of 15 digits."""
    if not node.dtype.is_floating():
        return node
    number, divisor = node.left.to_expr(), node.right.to_expr()
    return (number - divisor * _functions().trunc(number / divisor)).op()


def _since_1970(node: Any) -> Any:
    seconds = node.arg.to_expr().cast("float64") / _UNITS_A_SECOND[node.unit.short]
    return _functions().to_timestamp(seconds).op()


def _tried(node: Any) -> Any:
    """Cast a text if it has the form of the type, and give null otherwise."""
    import ibis
    from ibis.expr import operations as ops

    to = node.to
    if not node.arg.dtype.is_string():
        return ops.Cast(node.arg, to)
    text = node.arg.to_expr()
    if to.is_timestamp():
        zone = text.re_replace("^.* ", " ") + " "
        is_zone = _matches(text, _TIME_IN_ZONE) & ibis.literal(_zones()).contains(zone)
        is_good = _matches(text, _TIME) | is_zone
        # PostgreSQL rounds to microseconds, perhaps to the next day
        text = text.re_replace(r"(\.[0-9]{6})[0-9]+", r"\1")
    else:
        pattern = _INTEGER if to.is_integer() else _FLOAT if to.is_floating() else _DAY
        is_good = _matches(text, pattern)
    return ops.Cast(is_good.ifelse(text, ibis.null("string")).op(), to)
