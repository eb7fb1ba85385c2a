"""Simulated auctions follow their distributions; their files appear only when complete."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.logs.simulation import simulated_logs
from coterie.ads.logs.simulation.simulated_logs import auction_batches, draw_day, simulate_logs
from coterie.ads.logs.simulation.simulated_traits import (
    COMMON_FLOORS,
    SUPPLY_BY_WEEKDAY,
    MarketSettings,
    draw_traits,
    in_micros,
    theme_names,
)
from coterie.errors import InvalidParameterError
from true_win_rates import true_win_rate

SMALL = MarketSettings(advertisers=40, segments=4, days=3, newcomers=0.1)


@pytest.fixture(scope="module")
def week():
    """A market with its days drawn: settings, traits, and the rows of each day."""
    chosen = MarketSettings(advertisers=250, bids_per_day=30, newcomers=0.1, seed=3)
    traits = draw_traits(chosen)
    return chosen, traits, [_all_rows(chosen, traits, day) for day in range(chosen.days)]


@pytest.fixture(scope="module")
def small_logs(tmp_path_factory):
    """The written files of a small market."""
    return simulate_logs(SMALL, tmp_path_factory.mktemp("simulated") / "market")


def test_common_floors_change_the_minimum_to_win_and_nothing_else():
    """It is the larger of what it was and the floor; each has its share of the auctions."""
    plain = MarketSettings(advertisers=60, segments=2, floors=False, bids_per_day=100, days=1)
    floored = dataclasses.replace(plain, common_floors=0.4)
    traits = draw_traits(floored)
    before, after = _all_rows(plain, draw_traits(plain), 0), _all_rows(floored, traits, 0)
    assert (after["minimum"] == np.maximum(before["minimum"], after["floor"])).all()
    for name in ("advertiser", "ts", "bid"):
        assert (after[name] == before[name]).all()
    expected = traits.common_floors[after["advertiser"]]
    seen = after["floor"][:, None] == in_micros(COMMON_FLOORS)
    error = np.sqrt((expected * (1 - expected)).sum(axis=0))
    assert (np.abs((seen - expected).sum(axis=0)) < 4 * error).all()
    assert expected.sum(axis=1) == pytest.approx(0.4)


def test_wins_follow_the_closed_form_of_the_day(week):
    """Given the day's price levels, wins by advertiser are binomial with the true rates."""
    chosen, traits, days = week
    for day, rows in enumerate(days):
        level = draw_day(chosen, traits, day).market_level
        # the weekday is in the level already, and the factor of a Monday is 1
        known = dataclasses.replace(traits, market_level=level)
        rate = true_win_rate(known, rows["advertiser"], rows["bid"], 0, drift=0.0)
        surplus = np.bincount(rows["advertiser"], rows["won"] - rate, 250)
        variance = np.bincount(rows["advertiser"], rate * (1 - rate), 250)
        assert abs(surplus.sum()) <= 4 * np.sqrt(variance.sum())
        z_squared = surplus[variance > 1] ** 2 / variance[variance > 1]
        assert abs(z_squared.mean() - 1) <= 4 * np.sqrt(3 / len(z_squared))
        assert (rows["won"] == (rows["bid"] >= rows["minimum"])).all()
        assert (rows["minimum"] >= in_micros(traits.floor)[rows["advertiser"]]).all()


def test_wins_follow_the_closed_form_over_days(week):
    """By weekday and quarter of bids, wins are the sum of true rates within 4 errors."""
    _, traits, days = week
    for weekday, rows in enumerate(days):
        surplus = rows["won"] - true_win_rate(traits, rows["advertiser"], rows["bid"], weekday)
        height = np.digitize(rows["bid"], np.quantile(rows["bid"], [0.25, 0.5, 0.75]))
        for quarter in range(4):
            # all bids of an advertiser share the day's drift, so it counts as one draw
            chosen = height == quarter
            by_advertiser = np.bincount(rows["advertiser"][chosen], surplus[chosen])
            assert abs(by_advertiser.sum()) <= 4 * np.sqrt((by_advertiser**2).sum())


def test_volumes_follow_volume_and_weekday(week):
    """Rows are volumes × weekday factor within 4 errors; newcomers bid only on the last day."""
    _, traits, days = week
    for weekday, rows in enumerate(days):
        bids = weekday == 6 or ~traits.newcomer
        mean = traits.volume * SUPPLY_BY_WEEKDAY[weekday] * bids
        assert abs(len(rows["won"]) - mean.sum()) <= 4 * np.sqrt((mean + mean**2 / 50).sum())
        assert traits.newcomer[rows["advertiser"]].any() == (weekday == 6)


def test_bids_move_on_the_last_day_only(week):
    """The mean log bid is the bid level, and the moved level on the last day."""
    _, traits, days = week
    for day, rows in enumerate(days):
        who = rows["advertiser"]
        centre = traits.bid_level + (traits.moved if day == 6 else 0)
        z = (np.log(rows["bid"] / 1e6) - centre[who]) / traits.bid_spread[who]
        by_advertiser = np.bincount(who, z, 250) / np.sqrt(np.maximum(np.bincount(who), 1))
        assert np.abs(by_advertiser).max() <= 5
        assert abs(z.std() - 1) <= 4 / np.sqrt(2 * len(z))


def test_clicks_and_conversions_are_binomial(week):
    """Only won impressions are clicked and only clicks convert, at the advertiser's rates."""
    _, traits, days = week
    won, click, conversion, who = (
        np.concatenate([rows[name] for rows in days])
        for name in ("won", "click", "conversion", "advertiser")
    )
    assert not (click & ~won).any()
    assert not (conversion & ~click).any()
    for hits, rate in (
        (click[won], traits.click_rate[who[won]]),
        (conversion[click], traits.conversion_rate[who[click]]),
    ):
        assert abs(hits.sum() - rate.sum()) <= 4 * np.sqrt((rate * (1 - rate)).sum())


def test_rows_are_expected_in_number():
    """Over many markets the number of rows is expected_rows within 4 errors."""
    rows = []
    for seed in range(40):
        market = dataclasses.replace(SMALL, seed=seed)
        traits = draw_traits(market)
        rows.append(sum(draw_day(market, traits, day).counts.sum() for day in range(3)))
    assert abs(np.mean(rows) - SMALL.expected_rows) <= 4 * np.std(rows) / np.sqrt(40)


def test_price_rise_is_on_the_last_four_days(week):
    """Earlier days are the same bit by bit; on the last four bids stay and win less."""
    chosen, traits, days = week
    raised = dataclasses.replace(chosen, price_rise=0.26)
    for day, rows in enumerate(days):
        risen = _all_rows(raised, traits, day)
        for name in ("advertiser", "ts", "bid") if day >= 3 else rows:
            assert np.array_equal(risen[name], rows[name])
        assert (risen["minimum"] >= rows["minimum"]).all()
        assert (risen["won"].mean() < 0.9 * rows["won"].mean()) == (day >= 3)


@pytest.mark.parametrize("effect", [0, 1])
def test_weekday_effect_of_0_makes_weekdays_equal(effect):
    """Without the effect a Sunday is drawn as a Monday; with it, it has fewer, cheaper auctions."""
    chosen, traits = dataclasses.replace(SMALL, weekday_effect=effect), draw_traits(SMALL)
    monday = draw_day(chosen, traits, 0)
    sunday = draw_day(dataclasses.replace(chosen, start="2026-03-08"), traits, 0)
    for name in ("counts", "market_level"):
        assert np.array_equal(getattr(monday, name), getattr(sunday, name)) == (effect == 0)
        assert effect == 0 or getattr(sunday, name).sum() < getattr(monday, name).sum()


@settings(deadline=None, max_examples=15)
@given(rows=st.integers(1, 4000), block=st.integers(1, 3000), seed=st.integers(0, 5))
def test_batches_cut_the_same_rows(rows, block, seed):
    """Batches of any length hold the same rows in the same order and split no advertiser."""
    market = dataclasses.replace(SMALL, seed=seed)
    traits = draw_traits(market)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated_logs, "_BLOCK_ROWS", block)
        whole = _all_rows(market, traits, 1)
        batches = list(auction_batches(market, traits, 1, rows))
    for name, column in whole.items():
        assert np.array_equal(np.concatenate([batch[name] for batch in batches]), column)
    counts = draw_day(market, traits, 1).counts
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        last = batch["advertiser"][-1]
        assert len(batch["won"]) < rows + counts[last]
        assert following is None or len(batch["won"]) >= rows
        assert following is None or following["advertiser"][0] > last


@pytest.mark.parametrize("auction", ["second", "first"])
def test_charged_prices_change_nothing_else(auction):
    """They are the markup and the noise above the minimum, at most the bid; bids in first price."""
    plain = MarketSettings(advertisers=60, days=1, auction=auction, seed=5)
    charged = dataclasses.replace(plain, markup=0.1, price_noise=0.3)
    found = []
    for one in (plain, charged):
        batches = auction_batches(one, draw_traits(one), 0)
        found.append({k: np.concatenate(v) for k, v in _joined(batches).items()})
    before, after = found
    for name in set(before) - {"price"}:
        np.testing.assert_array_equal(before[name], after[name])
    if auction == "first":
        np.testing.assert_array_equal(before["price"], after["price"])
        return
    won = after["won"]
    bid, minimum, price = (after[name][won] for name in ("bid", "minimum", "price"))
    assert (price <= bid).all() and (price > 0).all() and not after["price"][~won].any()
    # far below the bid hardly any price is cut
    low = minimum < 0.3 * bid
    logs = np.log(price[low] / minimum[low])
    assert logs.mean() == pytest.approx(np.log(1.1), abs=4 * 0.3 / np.sqrt(low.sum()))
    assert logs.std() == pytest.approx(0.3, rel=0.2)


def _joined(batches):
    columns = {}
    for batch in batches:
        for name, values in batch.items():
            columns.setdefault(name, []).append(values)
    return columns


def test_days_and_blocks_have_separate_streams(monkeypatch):
    """Days, and blocks of a day, do not repeat each other's draws."""
    monkeypatch.setattr(simulated_logs, "_BLOCK_ROWS", 100)
    traits = draw_traits(SMALL)
    times = [_all_rows(SMALL, traits, day)["ts"] % (86_400 * 10**6) for day in range(3)]
    every = np.concatenate(times)
    # equal times are rare by chance; a repeated stream would give many
    assert len(np.unique(every)) >= len(every) - 3


@pytest.mark.parametrize(("day", "rows"), [(-1, 10), (3, 10), (0, 0)])
def test_batches_refuse_what_is_not_there(day, rows):
    """A day outside the market or an empty batch is refused by name."""
    with pytest.raises(InvalidParameterError, match=r"day=|rows="):
        next(auction_batches(SMALL, draw_traits(SMALL), day, rows))


@pytest.mark.parametrize(
    ("auction", "floors", "minimum_logged"),
    [
        ("first", True, True),
        ("first", False, False),
        ("second", False, True),
        ("second", True, False),
    ],
)
def test_logs_obey_their_schema(tmp_path, auction, floors, minimum_logged):
    """Types, optional columns, and what winners pay are as the log's schema says."""
    market = dataclasses.replace(
        SMALL, auction=auction, floors=floors, minimum_logged=minimum_logged
    )
    logs = simulate_logs(market, tmp_path / "market")
    word, micros = pa.dictionary(pa.int32(), pa.string()), pa.int64()
    types = {
        "advertiser_id": word,
        "ts": pa.timestamp("us", tz="UTC"),
        "bid_micros": micros,
        "won": pa.bool_(),
        "price_micros": micros,
        "auction_type": pa.int8(),
        **({"floor_micros": micros} if floors else {}),
        **({"min_to_win_micros": micros} if minimum_logged else {}),
        "currency": word,
        "click": pa.bool_(),
        "conversion": pa.bool_(),
    }
    for day, file in enumerate(logs.bids):
        table = pq.read_table(file)
        assert table.schema.equals(pa.schema(types))
        assert sum(column.null_count for column in table.drop(["price_micros"]).columns) == 0
        _check_prices(table, auction)
        dates = table["ts"].to_numpy().astype("datetime64[D]")
        assert (dates == np.datetime64("2026-03-02") + np.timedelta64(day, "D")).all()
        assert set(table["currency"].to_pylist()) == {"USD"}


def test_files_hold_the_drawn_rows(small_logs):
    """Files have the drawn rows with the advertisers' ids, and the result counts them."""
    logs, traits = small_logs, draw_traits(SMALL)
    tables = [pq.read_table(file) for file in logs.bids]
    for day, table in enumerate(tables):
        rows = _all_rows(SMALL, traits, day)
        ids = [f"adv-{index:05d}" for index in rows["advertiser"]]
        assert table["advertiser_id"].to_pylist() == ids
        assert np.array_equal(table["bid_micros"], rows["bid"])
        assert np.array_equal(table["ts"].cast(pa.int64()), rows["ts"])
        assert np.array_equal(table["price_micros"].fill_null(0), rows["price"])
        assert np.array_equal(table["floor_micros"], in_micros(traits.floor)[rows["advertiser"]])
        assert np.array_equal(table["click"], rows["click"])
        assert np.array_equal(table["conversion"], rows["conversion"])
    assert logs.rows == sum(map(len, tables))
    assert logs.wins == sum(table["won"].to_numpy().sum() for table in tables)
    assert (logs.days, logs.folder.name) == (3, "market")


def test_truth_is_in_a_separate_file(small_logs):
    """Only the file of the truth has segments, and it has the settings of the market."""
    logs, traits = small_logs, draw_traits(SMALL)
    texts, truth = pq.read_table(logs.advertisers), pq.read_table(logs.truth)
    assert texts.column_names == ["advertiser_id", "description"]
    assert texts["description"].to_pylist() == list(traits.text)
    assert truth["advertiser_id"].equals(texts["advertiser_id"])
    for name in ("segment", "outlier", "newcomer", "text_is", "volume", "moved", "floor"):
        assert truth[name].to_pylist() == getattr(traits, name).tolist()
    assert truth["theme"].to_pylist() == [theme_names(4)[segment] for segment in traits.segment]
    assert np.array_equal(truth["market_level_2"], traits.market_level[:, 1])
    kept = json.loads(truth.schema.metadata[b"settings"])
    assert MarketSettings(**kept) == SMALL
    secret = set(truth.column_names) - {"advertiser_id"}
    assert not secret & {*pq.read_schema(logs.bids[0]).names, *texts.column_names}


def test_same_settings_same_files(tmp_path, small_logs):
    """Equal settings give equal bytes; another seed gives another market."""
    first, again = small_logs, simulate_logs(SMALL, tmp_path / "again")
    other = simulate_logs(dataclasses.replace(SMALL, seed=1), tmp_path / "other")
    for name in ("bids", "advertisers", "truth"):
        assert _contents(getattr(first, name)) == _contents(getattr(again, name))
        assert _contents(getattr(first, name)) != _contents(getattr(other, name))


def test_day_without_bids_has_an_empty_file(tmp_path):
    """If all advertisers are newcomers, the files before the last day are empty."""
    logs = simulate_logs(dataclasses.replace(SMALL, newcomers=1), tmp_path / "market")
    lengths = [pq.read_metadata(file).num_rows for file in logs.bids]
    assert lengths == [0, 0, logs.rows]
    assert pq.read_schema(logs.bids[0]).equals(pq.read_schema(logs.bids[2]))


def test_row_groups_are_batches(tmp_path, monkeypatch):
    """Each batch is written as a row group, and progress counts its rows."""
    whole = simulated_logs.auction_batches
    monkeypatch.setattr(
        simulated_logs,
        "auction_batches",
        lambda market, traits, day: whole(market, traits, day, 700),
    )
    seen = []
    logs = simulate_logs(SMALL, tmp_path / "market", progress=lambda *state: seen.append(state))
    written = [
        pq.read_metadata(file).row_group(group).num_rows
        for file in logs.bids
        for group in range(pq.read_metadata(file).num_row_groups)
    ]
    assert len(written) > 3
    assert [done for done, _ in seen] == np.cumsum(written).tolist()
    assert {in_all for _, in_all in seen} == {logs.rows}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_interrupt_leaves_nothing(tmp_path, error):
    """Until the end there is only a hidden folder, which an interrupt or an error removes."""
    seen = []

    def interrupted(done, in_all):
        seen.append([path.name for path in tmp_path.iterdir()])
        raise error

    with pytest.raises(error):
        simulate_logs(SMALL, tmp_path / "market", progress=interrupted)
    ((hidden,),) = seen
    assert hidden.startswith(".market-") and hidden.endswith(".unfinished")
    assert not list(tmp_path.iterdir())


def _all_rows(market, traits, day):
    batches = list(auction_batches(market, traits, day))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _check_prices(table, auction):
    """Check that lost bids have no price, and that prices fit the auction, floor and minimum."""
    won = table["won"].to_numpy()
    price = table["price_micros"]
    assert np.array_equal(price.is_valid().to_numpy(), won)
    price, bid = price.fill_null(0).to_numpy()[won], table["bid_micros"].to_numpy()[won]
    assert set(table["auction_type"].to_pylist()) == {{"first": 1, "second": 2}[auction]}
    if auction == "first":
        assert (price == bid).all()
    else:
        assert (price <= bid).all()
        assert (price < bid).any()
    if "floor_micros" in table.column_names:
        assert (price >= table["floor_micros"].to_numpy()[won]).all()
    if "min_to_win_micros" in table.column_names:
        minimum = table["min_to_win_micros"].to_numpy()
        assert np.array_equal(table["bid_micros"].to_numpy() >= minimum, won)
        assert auction == "first" or (price == minimum[won]).all()


def _contents(paths):
    return [path.read_bytes() for path in (paths if isinstance(paths, tuple) else (paths,))]
