"""Columns have a role by options and names; what these do not decide is refused with a query."""

from __future__ import annotations

import ibis
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.column_recognition import (
    CANONICAL,
    columns_by_role,
    numbers_in_sample,
)
from coterie.errors import InvalidParameterError, TableError


def chosen(columns, **given) -> dict[str, str]:
    """The column of each role, or its candidates."""
    decided, candidates = columns_by_role(columns, given)
    return decided | {role: " or ".join(names) for role, names in candidates.items()}


@given(st.permutations(list(CANONICAL.values())), st.sampled_from(["bid", "Bid Price", "clicked"]))
def test_canonical_names_come_before_all_others(columns, other):
    """Another usual name and the order of columns change nothing."""
    assert chosen([other, *columns]) == CANONICAL


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("Advertiser ID", "advertiser"),
        ("advertiserId", "advertiser"),
        ("Bid Price (USD)", "bid"),
        ("bid_cpm_micros", "bid"),
        ("EVENT_TIME", "time"),
        ("TimeUsec2", "time"),
        ("imp.0.bidfloor", "floor"),
        ("clearingPriceMicros", "price"),
    ],
)
def test_case_marks_and_units_do_not_matter(name, role):
    """A usual name is recognised however it is written."""
    assert chosen([name]) == {role: name}


def test_two_usual_names_are_not_decided():
    """Both are candidates, until the user chooses one."""
    assert chosen(["bid", "bid_price"]) == {"bid": "bid or bid_price"}
    assert chosen(["bid", "bid_price"], bid="bid_price") == {"bid": "bid_price"}


def test_a_doubtful_name_is_not_decided():
    """``price`` may be the price next to a bid, the bid next to a clearing price, else both."""
    for columns, roles in (
        (["bid", "price"], {"price"}),
        (["price", "clearing_price"], {"bid"}),
        (["price"], {"bid", "price"}),
    ):
        decided, candidates = columns_by_role(columns, {})
        assert candidates == {role: ["price"] for role in roles}
        assert "price" not in decided.values()
    assert columns_by_role(["price"], {"price": "price"}) == ({"price": "price"}, {})


def test_an_empty_column_leaves_a_role_out():
    """The user may refuse a recognised column."""
    assert chosen(["bid", "floor"], floor="") == {"bid": "bid"}


def test_a_column_that_the_user_gave_has_no_other_role():
    """It is not recognised a second time."""
    assert chosen(["won", "click"], won="click") == {"won": "click"}


ROWS = {
    "advertiser": ["a", "b"],
    "time": ["2026-03-02T10:00:00Z"] * 2,
    "bid_usd": [2.5, 1.2],
    "won": [True, False],
    "clearing_price_usd": [1.75, None],
}


def given(**columns) -> ibis.Table:
    """The rows with other columns; None leaves a column out."""
    rows = {name: values for name, values in {**ROWS, **columns}.items() if values is not None}
    return ibis.memtable(pa.table(rows))


def micros(table: ibis.Table, name: str = "bid_micros", **options) -> list:
    """The known amounts of a log, sorted."""
    found = open_logs(table, **options).table[name].to_pyarrow()
    return sorted(found.drop_null().to_pylist())


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        ("micros", 2_500_000),
        ("cents", 250),
        ("currency", 2.5),
        ("micros/impression", 2500),
        ("cents/impression", 0.25),
        ("currency/impression", 0.0025),
    ],
)
def test_every_unit_gives_the_same_micros(unit, written):
    """2.50 for a thousand impressions, written in each unit."""
    assert micros(given(bid_usd=[written] * 2), amounts=unit) == [2_500_000] * 2


def test_names_with_micros_are_in_micros():
    """The unit is that of the other amounts, unless it says for how many impressions micros are."""
    table = given(floor_micros=[500_000] * 2)
    assert micros(table, "floor_micros", amounts="currency/impression") == [500_000] * 2
    assert micros(table, "floor_micros", amounts="micros/impression") == [500_000_000] * 2
    assert micros(given(**{"Bid (micros)": [5, 6]}, bid_usd=None), amounts="currency") == [5, 6]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"won": None}, "no column has the role won: say --column won=NAME"),
        ({"time": None}, "no column has the role time: say --column time=NAME"),
        ({"bid": [1.0, 2.0]}, "the bid may be column bid_usd or bid: say --column bid=bid_usd or"),
        (
            {"clearing_price_usd": None, "price": [1.75, None]},
            "the price may be column price: say --column price=price",
        ),
        ({"bidfloor": [1.0, 2.0]}, r"bid_usd.* and floor \(column bidfloor\) is unknown"),
        ({"floor": [0.1] * 2, "bidfloor": [0.1] * 2}, "--column floor= for none of them"),
        ({"bid_usd": [2.53] * 2}, r"median bid is 2\.53: .*currency if this is 2\.53 CPM"),
        ({"bid_usd": ["2,53"] * 2}, r"median bid is 2\.53: .*have a comma, as in 2,53"),
        ({"time": ["01/02/2026"] * 2}, "times in column time, such as 01/02/2026, are read by SQL"),
        ({"won": None, "win": ["J", "N"]}, "column win does not say yes or no, but J"),
        ({"won": ["J", "N"]}, "column won does not say yes or no, but J"),
    ],
)
def test_what_is_not_decided_is_refused(columns, message):
    """The message has the options and all columns, the note a query of the log."""
    with pytest.raises(TableError, match=message) as refused:
        open_logs(given(**columns))
    assert "The columns are advertiser" in str(refused.value)
    (query,) = refused.value.__notes__
    assert query.startswith("SELECT\n") and query.endswith("FROM log")


@pytest.mark.parametrize(
    "columns",
    [
        {"bid_usd": ["2,5", "1,2"], "clearing_price_usd": ["1,75", None]},
        {"time": ["13/03/2026 10:00 PM", "12/03/2026 09:00 AM"]},
        {"time": ["20260313100000", "20260312100000"]},
        {"won": None},
        {"clearing_price_usd": None, "price": [1.75, None]},
        {"won": None, "outcome": ["'paid' */ --", "no;"]},
        {"bid_usd": None, 'b"id */': [2.5, 1.2]},
    ],
)
def test_the_query_settles_what_values_say(columns, tmp_path):
    """It runs as it is; a column without a usual name is filled in."""
    pa.csv.write_csv(given(**columns).to_pyarrow(), tmp_path / "log.csv")
    named = {"bid": 'b"id */'} if 'b"id */' in columns else {}
    with pytest.raises(TableError) as refused:
        open_logs(tmp_path / "log.csv", columns=named)
    logs = open_logs(tmp_path / "log.csv", sql=refused.value.__notes__[0])
    rows = logs.table.order_by("bid_micros").to_pyarrow().to_pylist()
    assert [row["bid_micros"] for row in rows] == [1_200_000, 2_500_000]
    assert [row["won"] for row in rows] == [False, True]
    assert rows[1]["price_micros"] == 1_750_000
    assert all(row["day"].month == 3 for row in rows)


def test_the_query_converts_a_column_whose_first_values_are_missing(tmp_path):
    """Its type says that it is text."""
    (tmp_path / "log.csv").write_text(
        "advertiser,day,bid,won,clearing_price\na,2026-03-02,2.5,no,\n"
    )
    with pytest.raises(TableError) as refused:
        open_logs(tmp_path / "log.csv")
    logs = open_logs(tmp_path / "log.csv", sql=refused.value.__notes__[0])
    (row,) = logs.table.to_pyarrow().to_pylist()
    assert (row["bid_micros"], row["price_micros"]) == (2_500_000, None)


def test_a_query_shows_what_it_cannot_know(tmp_path):
    """A role without a column is null, and the second of two columns is a remark."""
    (tmp_path / "log.csv").write_text("when,bid,bid_price\n3rd of May,1,2\n")
    with pytest.raises(TableError) as refused:
        open_logs(tmp_path / "log.csv", columns={"time": "when"})
    lines = refused.value.__notes__[0].splitlines()
    assert lines[1:4] == [
        "    NULL AS advertiser_id /* which column has the role advertiser? */,",
        "    strptime(\"when\", '%d.%m.%Y') AS ts /* the form of 3rd of May */,",
        '    CAST("bid" AS DOUBLE) * 1000000 AS bid_micros /* if a median of 1 is of the currency; '
        "10000 for cents, 1 for micros, 1000 times as much if amounts are for one impression; or "
        '"bid_price" */,',
    ]


def test_a_time_or_a_day_is_enough():
    """Two columns of times do not matter next to a day."""
    table = given(timestamp=["x"] * 2, day=["2026-03-02"] * 2)
    assert "ts" not in open_logs(table, amounts="currency").reading.names


def test_options_are_for_bids_only():
    """Ready-made histograms have fixed columns."""
    cells = {"advertiser_id": ["a"], "day": ["2026-03-02"], "bin_micros": [1], "bids": [1]}
    table = ibis.memtable(pa.table({**cells, "wins": [1], "cost_micros": [1]}))
    with pytest.raises(InvalidParameterError, match="read as histograms"):
        open_logs(table, time_zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"amounts": "dollars"}, "amounts='dollars': the units are micros, cents"),
        ({"currency": "euros"}, "currency='euros': .* three letters"),
        ({"time_zone": "Berlin"}, "time_zone='Berlin': .*Europe/Berlin"),
        ({"columns": {"bids": "a"}}, "'bids' is no role .* advertiser, time"),
        ({"columns": {"bid": "a", "bid_micros": "b"}}, "bid is given twice"),
        ({"columns": {"bid": "a", "price": "a"}}, "a is given for bid and price"),
    ],
)
def test_wrong_options_are_refused(options, message):
    """The message says what can be given."""
    with pytest.raises(InvalidParameterError, match=message):
        open_logs(given(), **options)


def test_a_time_may_be_the_day_too():
    """It is the only column with two roles."""
    both = {"time": "time", "day": "time"}
    assert micros(given(), columns=both, amounts="currency") == [1_200_000, 2_500_000]


def test_numbers_in_a_sample_are_those_above_zero():
    """Texts that are no numbers are left out."""
    assert numbers_in_sample(["1.5", "x", 0, -1, 2]) == [1.5, 2.0]


@pytest.mark.parametrize("names", ["account_id,day,bid,won,price_paid", None])
def test_a_currency_is_given_where_no_column_has_it(tmp_path, names):
    """It is that of the log; next to a column with a currency it is refused."""
    names = names or "advertiser_id,day,bid_micros,won,price_micros"
    rows = f"{names},currency\nash,2026-03-02,2.5,1,1.5,USD\n"
    (tmp_path / "with.csv").write_text(rows)
    (tmp_path / "without.csv").write_text(rows.replace(",currency", "").replace(",USD", ""))
    how = {"currency": "EUR", "amounts": "" if "micros" in names else "currency"}
    assert open_logs(tmp_path / "without.csv", **how).currency == "EUR"
    with pytest.raises(TableError, match="say --column currency=, or no --currency"):
        open_logs(tmp_path / "with.csv", **how)
    assert open_logs(tmp_path / "with.csv", columns={"currency": ""}, **how).currency == "EUR"
