"""Mapping proposals: what the columns of a log seem to mean, for the user to confirm."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.amount_units import plausible_unit
from coterie.ads.logs.column_roles import CANONICAL
from coterie.ads.logs.log_mapping import ALL, LogMapping
from coterie.ads.logs.mapped_columns import (
    MappedColumns,
    map_columns,
    missing_roles,
    numbers_in_sample,
    sample_values,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["MappingProposal", "RoleProposal", "propose_mapping"]

_EXAMPLES = 3
_LONGEST_EXAMPLE = 32
_WHY = {
    "given": "given",
    "canonical": "its name",
    "name": "its name",
    "doubtful name": "its name, which is doubtful",
    "format": "the format",
}


@dataclass(frozen=True)
class RoleProposal:
    """The column proposed for a role."""

    role: str
    column: str
    why: str
    examples: tuple[str, ...]
    unit: str = ""  # of an amount; empty if unknown
    unit_why: str = ""


@dataclass(frozen=True)
class MappingProposal:
    """What the columns of a log seem to mean."""

    roles: tuple[RoleProposal, ...]
    mapping: LogMapping  # says all that is proposed
    problems: tuple[str, ...]  # what was not decided, before anything was proposed
    open_problems: tuple[str, ...]  # what the mapping leaves open
    unused: tuple[str, ...]  # columns without a role
    missing: tuple[str, ...]  # required roles without a column
    guesses: Mapping[str, str]  # why, by the entries of the mapping that are guesses

    def as_dict(self) -> dict[str, Any]:
        """Return the proposal as values that JSON can store."""
        return asdict(self) | {"options": self.mapping.options()}

    def as_toml(self) -> str:
        """Return the text of a mapping file; guesses and what is not decided are comments."""
        to_do = "".join(f"# To do: {' '.join(problem.split())}\n" for problem in self.problems)
        return to_do + self.mapping.as_toml(self.guesses)


def propose_mapping(raw: ir.Table, mapping: LogMapping) -> MappingProposal:
    """Propose a mapping of the columns of a raw table of bids.

    ``mapping`` is that of the user. A unit is proposed if the median bid is typical in one unit
    only; won follows from the price if the log has no such column and some prices are missing or 0.

    Examples
    --------
    >>> import ibis, pyarrow as pa
    >>> rows = {"Advertiser": ["a", "b"], "Time": ["31/12/2026", "1/12/2026"],
    ...         "Bid": [2.53, 1.20], "Won": ["Y", "N"], "Price paid": [1.7, None]}
    >>> found = propose_mapping(ibis.memtable(pa.table(rows)), LogMapping())
    >>> " ".join(found.mapping.options()[-4:]), found.open_problems
    ('--amounts currency --date-format day-first', ())
    """
    known = map_columns(raw, mapping)
    columns = [one.column for one in known.roles.values()]
    values = sample_values(raw, columns) if columns else {}
    amounts = _amounts(known, values, mapping)
    given = {
        role: one.column
        for role, one in known.roles.items()
        if one.why != "canonical" or one.column != CANONICAL[role]
    }
    proposed = replace(
        known.mapping,
        columns={**mapping.columns, **given},
        amounts=amounts,
        won_when_priced=mapping.won_when_priced or _is_won_by_price(known, values),
    )
    return MappingProposal(
        roles=tuple(_roles(known, values, amounts)),
        mapping=proposed,
        problems=known.problems,
        open_problems=map_columns(raw, proposed).problems if known.problems else (),
        unused=tuple(name for name in raw.columns if name not in columns),
        missing=tuple(missing_roles(known.roles, proposed)),
        guesses=_guesses(known, mapping, proposed),
    )


def _is_won_by_price(known: MappedColumns, values: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether there is no column for won, and some bids have a price but not all."""
    if "won" in known.roles or "price" not in known.roles:
        return False
    written = values[known.roles["price"].column]
    prices = numbers_in_sample(written, known.mapping.decimal_comma)
    return 0 < len(prices) < max(map(len, values.values()))


def _guesses(known: MappedColumns, given: LogMapping, proposed: LogMapping) -> dict[str, str]:
    """Return why, by the entries of a proposed mapping that neither names nor the user decide."""
    found = {
        f"columns.{role}": "the name is doubtful"
        for role, one in known.roles.items()
        if one.why == "doubtful name"
    }
    if proposed.won_when_priced and not given.won_when_priced:
        found["won_when_priced"] = "some bids have no price, or 0"
    if ALL in proposed.units and ALL not in given.units:
        found[f"amounts.{ALL}"] = "the median bid is usual in this unit"
    return found


def _amounts(
    known: MappedColumns, values: Mapping[str, Sequence[Any]], mapping: LogMapping
) -> dict[str, str]:
    """Return the units that are given or follow from the median bid."""
    unknown = [role for role, (unit, _) in known.units.items() if not unit]
    given = dict(mapping.units)
    if not unknown or "bid" not in unknown:
        return given
    bids = numbers_in_sample(values[known.roles["bid"].column], mapping.decimal_comma)
    if not bids:
        return given
    whole = 2 * sum(bid.is_integer() for bid in bids) > len(bids)
    unit = plausible_unit(statistics.median(bids), whole)
    return given | ({ALL: unit} if unit else {})


def _roles(
    known: MappedColumns, values: Mapping[str, Sequence[Any]], amounts: Mapping[str, str]
) -> list[RoleProposal]:
    found = []
    for role, one in known.roles.items():
        distinct = dict.fromkeys(str(value)[:_LONGEST_EXAMPLE] for value in values[one.column])
        unit, why = known.units.get(role, ("", ""))
        if role in known.units and not unit and ALL in amounts:
            unit, why = amounts[ALL], "the median bid, a guess"
        found.append(
            RoleProposal(
                role,
                one.column,
                _WHY[one.why],
                tuple(distinct)[:_EXAMPLES],
                unit,
                _WHY.get(why, why),
            )
        )
    return found
