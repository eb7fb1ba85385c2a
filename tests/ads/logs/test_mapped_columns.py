"""What names and values do not decide is refused, with the option that decides it."""

from __future__ import annotations

import ibis
import pyarrow as pa
import pytest

from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.log_mapping import LogMapping
from coterie.ads.logs.mapped_columns import map_columns, numbers_in_sample
from coterie.errors import CoterieWarning, InvalidParameterError, TableError

ROWS = {
    "advertiser": ["a", "b"],
    "time": ["2026-03-02T10:00:00Z"] * 2,
    "bid_usd": [2.5, 1.2],
    "won": [1, 0],
    "clearing_price_usd": [1.75, None],
}


def given(**columns):
    """The rows with other columns; None leaves a column out."""
    rows = {name: values for name, values in {**ROWS, **columns}.items() if values is not None}
    return ibis.memtable(pa.table(rows))


def test_usual_names_and_units_need_no_mapping():
    """The canonical table has the micros."""
    table = open_logs(given()).table
    assert table.order_by("bid_micros").to_pyarrow().to_pydict()["bid_micros"] == [1200000, 2500000]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"won": None}, "no column has the role won: .*--won-when-priced"),
        ({"time": None}, "no column has the role time: .*--column day=NAME"),
        ({"bid": [1.0, 2.0]}, r"bid may be column bid_usd or bid: say --column bid=bid_usd or"),
        ({"bidfloor": [1.0, 2.0]}, r"the unit of floor \(column bidfloor\) is unknown"),
        (
            {"floor_usd": [0.1, 0.1], "bidfloor_usd": [0.1, 0.1]},
            "--column floor= for none of them",
        ),
        (
            {"bid_usd": None, "bid": [2.53, 2.53]},
            r"median bid is 2\.53: .*currency if this is 2\.5",
        ),
        ({"time": ["01/02/2026"] * 2}, "--date-format day-first"),
    ],
)
def test_what_is_not_decided_is_refused(columns, message):
    """The message has the options and all columns."""
    with pytest.raises(TableError, match=message) as refused:
        open_logs(given(**columns))
    assert "The columns are advertiser" in str(refused.value)


def test_a_mapping_of_notices_names_their_options():
    """A mapping file that was written for a log with notices does not hold their files."""
    mapping = LogMapping(columns={"price": "win.paid"})
    with pytest.raises(TableError, match=r"win\.paid for the role price; .* --wins and --losses"):
        open_logs(given(), mapping=mapping)


def test_numbers_with_a_comma_are_recognised():
    """The message has the option, and the median that the option gives."""
    table = given(bid_usd=None, bid=["2,53", "2,53"])
    message = r"have a comma, as in 2,53: say --decimal-comma; .*median bid is 2\.53"
    with pytest.raises(TableError, match=message):
        open_logs(table)


def test_a_doubtful_name_is_used_with_a_warning():
    """The warning has the option that confirms it; with the option there is none."""
    table = given(clearing_price_usd=None, price_usd=[1.75, None])
    with pytest.warns(CoterieWarning, match="price_usd is read as the price.*--column price=price"):
        open_logs(table)
    open_logs(table, columns={"price": "price_usd"})


def test_a_unit_against_the_name_is_used_with_a_warning():
    """The user decides."""
    with pytest.warns(CoterieWarning, match="read in cents, though its name says currency"):
        logs = open_logs(given(), amounts={"bid": "cents"})
    assert max(logs.table.bid_micros.to_pyarrow().to_pylist()) == 25_000


def test_a_name_with_a_currency_may_be_for_one_impression():
    """The unit of all amounts says so; a bid of 2.5 for one impression is 2,500 CPM."""
    logs = open_logs(given(), amounts="currency/impression")
    assert max(logs.table.bid_micros.to_pyarrow().to_pylist()) == 2_500_000_000
    assert max(logs.table.price_micros.to_pyarrow().drop_null().to_pylist()) == 1_750_000_000


def test_a_name_against_the_unit_of_all_amounts_decides_with_a_warning():
    """The unit of the role confirms the name without a warning."""
    table = given(floor_micros=[500_000, 500_000])
    with pytest.warns(
        CoterieWarning, match="floor_micros is read in micros, as its name.*floor=mi"
    ):
        open_logs(table, amounts="currency/impression")
    told = {"all": "currency", "floor": "micros"}
    logs = open_logs(table, amounts=told)
    assert set(logs.table.floor_micros.to_pyarrow().to_pylist()) == {500_000}


def test_the_day_is_enough_if_times_are_not_decided():
    """Two columns of times do not matter beside a day."""
    table = given(timestamp=["x"] * 2, day=["2026-03-02"] * 2)
    assert "time" not in map_columns(table, LogMapping()).roles


def test_a_mapping_is_for_bids_only():
    """Ready-made histograms have fixed columns."""
    cells = {"advertiser_id": ["a"], "day": ["2026-03-02"], "bin_micros": [1], "bids": [1]}
    table = ibis.memtable(pa.table({**cells, "wins": [1], "cost_micros": [1]}))
    with pytest.raises(InvalidParameterError, match="read as histograms"):
        open_logs(table, mapping=LogMapping(time_zone="Europe/Berlin"))


def test_a_price_that_is_unreadable_is_no_loss():
    """With won_when_priced, a missing price or 0 is a loss, and another text has no outcome."""
    table = given(won=None, clearing_price_usd=["1.75", "?"], bid_usd=["2.5", "1.2"])
    logs = open_logs(table, mapping=LogMapping(won_when_priced=True))
    assert logs.table.order_by("bid_micros").won.to_pyarrow().to_pylist() == [None, True]
    for price in (None, "0", " ", "null"):
        table = given(won=None, clearing_price_usd=["1.75", price])
        logs = open_logs(table, mapping=LogMapping(won_when_priced=True))
        assert logs.table.order_by("bid_micros").won.to_pyarrow().to_pylist() == [False, True]


def test_numbers_in_a_sample_are_those_above_zero():
    """Texts that are no numbers are left out."""
    assert numbers_in_sample(["1.5", "x", 0, -1, 2]) == [1.5, 2.0]


def test_a_currency_is_told_where_no_column_has_it(tmp_path):
    """It is that of the log; beside a column with a currency it is refused."""
    rows = "account_id,day,bid_usd,won,price_paid_usd,cur\nash,2026-03-02,2.5,1,1.5,USD\n"
    (tmp_path / "with.csv").write_text(rows)
    (tmp_path / "without.csv").write_text(rows.replace(",cur", "").replace(",USD", ""))
    told = LogMapping(currency="EUR")
    assert open_logs(tmp_path / "without.csv", mapping=told).currency == "EUR"
    with pytest.raises(TableError, match="leave out --currency"):
        open_logs(tmp_path / "with.csv", mapping=told)
    none_of_them = LogMapping({"currency": ""}, currency="EUR")
    assert open_logs(tmp_path / "with.csv", mapping=none_of_them).currency == "EUR"
    with pytest.raises(InvalidParameterError, match="three letters"):
        LogMapping(currency="euros")


def test_hours_are_those_of_the_day_zone():
    """Ten o'clock UTC is eleven in Berlin in winter."""
    told = LogMapping(day_zone="Europe/Berlin")
    for mapping, hour in ((LogMapping(), "10"), (told, "11")):
        logs = open_logs(given(), mapping=mapping, dimensions=["hour"])
        assert set(logs.table.dimension_hour.to_pyarrow().to_pylist()) == {hour}
