"""A mapping says the same in code, in a file and as options."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.ads.logs.amount_units import UNITS
from coterie.ads.logs.column_roles import AMOUNTS, CANONICAL
from coterie.ads.logs.log_mapping import LogMapping, mapping_of, read_mapping
from coterie.errors import InvalidParameterError, TableError

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
#: Columns by role; each role has its own, even in two mappings.
COLUMNS = st.dictionaries(st.sampled_from(list(CANONICAL)), NAMES).map(
    lambda names: {role: f"{name} {role}" for role, name in names.items()}
)
MAPPINGS = st.builds(
    LogMapping,
    columns=COLUMNS,
    amounts=st.dictionaries(st.sampled_from(["all", *AMOUNTS]), st.sampled_from(UNITS)),
    time_zone=st.sampled_from(["", "Europe/Berlin"]),
    date_format=st.sampled_from(["", "day-first"]),
    decimal_comma=st.booleans(),
    won_when_priced=st.booleans(),
    format=st.sampled_from(["", "openrtb"]),
    join_on=st.sampled_from(["", "bid.id=id"]),
    unnoticed_lost=st.booleans(),
)


@given(MAPPINGS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mapping_file_is_read_as_it_was_written(tmp_path, mapping):
    """Any names are written and read."""
    (tmp_path / "mapping.toml").write_text(mapping.as_toml(), encoding="utf-8")
    assert read_mapping(tmp_path / "mapping.toml") == mapping


@given(MAPPINGS, MAPPINGS)
def test_what_is_said_later_comes_first(one, other):
    """An update keeps all that the later mapping does not say."""
    both = one.updated(other)
    assert both.updated(other) == both
    assert both.columns == {**one.columns, **other.columns}
    assert both.time_zone == (other.time_zone or one.time_zone)
    assert LogMapping().updated(one) == one


def test_canonical_names_are_roles():
    """A role may be given only once."""
    assert LogMapping({"bid_micros": "x"}) == LogMapping({"bid": "x"})
    with pytest.raises(InvalidParameterError, match="bid is given twice"):
        LogMapping({"bid_micros": "x", "bid": "y"})


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"amounts": "euros"}, "'euros' is no unit"),
        ({"amounts": {"won": "cents"}}, "won is not an amount"),
        ({"columns": {"bids": "x"}}, "'bids' is no role"),
        ({"columns": {"bid": "x", "price": "x"}}, "x is given for bid and price"),
        ({"columns": {"time": "x", "day": "x", "won": "x"}}, "x is given for time and day and won"),
        ({"format": "dv360"}, "format='dv360'"),
        ({"time_zone": "Mars"}, "no such time zone"),
    ],
)
def test_nonsense_is_refused(said, message):
    """The message says what is possible."""
    with pytest.raises(InvalidParameterError, match=message):
        LogMapping(**said)


def test_a_time_may_be_the_day_too_and_roles_may_be_left_out():
    """All other columns have one role."""
    columns = {"time": "x", "day": "x", "click": "", "floor": ""}
    assert LogMapping(columns).columns == columns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("columns = 3", "columns is unknown or of a wrong type"),
        ("zone = 'UTC'", "zone is unknown"),
        ("decimal_comma = 'yes'", "decimal_comma is unknown or of a wrong type"),
        ("[columns", "not TOML"),
        ("amounts = 'euros'", "'euros' is no unit"),
    ],
)
def test_a_wrong_mapping_file_is_refused_by_name(tmp_path, text, message):
    """The message has the file and the fault."""
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(TableError, match=rf"m\.toml: .*{message}"):
        mapping_of(tmp_path / "m.toml")
    with pytest.raises(TableError, match=r"absent\.toml: cannot be read"):
        mapping_of(tmp_path / "absent.toml")
