"""Simulated auctions obey their law, and their files appear whole or not at all."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.logs.simulation import simulated_logs, simulated_traits
from coterie.ads.logs.simulation.simulated_logs import auction_batches, draw_day, simulate_logs
from coterie.ads.logs.simulation.simulated_traits import (
    MarketSettings,
    draw_traits,
    in_micros,
    theme_names,
    true_win_rate,
)
from coterie.errors import InvalidParameterError, OutputError

SMALL = MarketSettings(advertisers=40, segments=4, days=3, newcomers=0.1)


@pytest.fixture(scope="module")
def week():
    """A market with its days drawn: settings, traits, and the rows of each day."""
    chosen = MarketSettings(advertisers=250, bids_per_day=60, newcomers=0.1, seed=3)
    traits = draw_traits(chosen)
    return chosen, traits, [_all_rows(chosen, traits, day) for day in range(chosen.days)]


def test_wins_follow_the_closed_form_of_the_day(week, monkeypatch):
    """Given the day's price levels, wins by advertiser are binomial with the true rates."""
    chosen, traits, days = week
    monkeypatch.setattr(simulated_traits, "PRICE_DRIFT", 0.0)
    for day, rows in enumerate(days):
        level = draw_day(chosen, traits, day).market_level
        known = dataclasses.replace(traits, market_level=level, price_by_weekday=np.ones(7))
        rate = true_win_rate(known, rows["advertiser"], rows["bid"], day)
        surplus = np.bincount(rows["advertiser"], rows["won"] - rate, 250)
        variance = np.bincount(rows["advertiser"], rate * (1 - rate), 250)
        assert abs(surplus.sum()) <= 4 * np.sqrt(variance.sum())
        z_squared = surplus[variance > 1] ** 2 / variance[variance > 1]
        assert abs(z_squared.mean() - 1) <= 4 * np.sqrt(3 / len(z_squared))


def test_wins_follow_the_closed_form_over_days(week):
    """By weekday and by height of the bid, wins are the true rates' sum within 4 errors."""
    _, traits, days = week
    for weekday, rows in enumerate(days):
        surplus = rows["won"] - true_win_rate(traits, rows["advertiser"], rows["bid"], weekday)
        height = np.digitize(rows["bid"], np.quantile(rows["bid"], [0.25, 0.5, 0.75]))
        for quarter in range(4):
            # all bids of an advertiser share the day's drift, so it counts as one draw
            chosen = height == quarter
            by_advertiser = np.bincount(rows["advertiser"][chosen], surplus[chosen])
            assert abs(by_advertiser.sum()) <= 4 * np.sqrt((by_advertiser**2).sum())


def test_win_is_a_bid_no_less_than_the_minimum(week):
    """A bid wins if it reaches the minimum to win, which is never below the floor."""
    _, traits, days = week
    for rows in days:
        assert (rows["won"] == (rows["bid"] >= rows["minimum"])).all()
        assert (rows["minimum"] >= in_micros(traits.floor)[rows["advertiser"]]).all()


def test_volumes_follow_volume_and_weekday(week):
    """A day's rows are the volumes' sum times the weekday's factor, within 4 errors."""
    _, traits, days = week
    for weekday, rows in enumerate(days):
        bids = weekday == 6 or ~traits.newcomer
        mean = traits.volume * traits.supply_by_weekday[weekday] * bids
        assert abs(len(rows["won"]) - mean.sum()) <= 4 * np.sqrt((mean + mean**2 / 50).sum())


def test_newcomers_bid_on_the_last_day_only(week):
    """Newcomers are in no day but the last."""
    _, traits, days = week
    for rows in days[:-1]:
        assert not traits.newcomer[rows["advertiser"]].any()
    assert traits.newcomer[days[-1]["advertiser"]].any()


def test_bids_move_on_the_last_day_only(week):
    """Log bids are about their centre before the last day, and about the moved one on it."""
    _, traits, days = week
    for day, rows in enumerate(days):
        who = rows["advertiser"]
        centre = traits.bid_level + (traits.moved if day == 6 else 0)
        z = (np.log(rows["bid"] / 1e6) - centre[who]) / traits.bid_spread[who]
        by_advertiser = np.bincount(who, z, 250) / np.sqrt(np.maximum(np.bincount(who), 1))
        assert np.abs(by_advertiser).max() <= 5
        assert abs(z.std() - 1) <= 4 / np.sqrt(2 * len(z))


def test_clicks_and_conversions_are_binomial(week):
    """Only winners are clicked, only clicks convert, each at the advertiser's rate."""
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
    for seed in range(60):
        market = dataclasses.replace(SMALL, seed=seed)
        traits = draw_traits(market)
        rows.append(sum(draw_day(market, traits, day).counts.sum() for day in range(3)))
    assert abs(np.mean(rows) - SMALL.expected_rows) <= 4 * np.std(rows) / np.sqrt(60)


@settings(deadline=None, max_examples=25)
@given(rows=st.integers(1, 4000), block=st.integers(1, 3000), seed=st.integers(0, 5))
def test_batches_cut_the_same_rows(rows, block, seed):
    """Whatever their length, batches hold the same rows in the same order, none split."""
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


def test_days_and_blocks_have_streams_of_their_own(monkeypatch):
    """No two days and no two blocks of a day repeat each other's draws."""
    monkeypatch.setattr(simulated_logs, "_BLOCK_ROWS", 100)
    traits = draw_traits(SMALL)
    times = [_all_rows(SMALL, traits, day)["ts"] % (86_400 * 10**6) for day in range(3)]
    every = np.concatenate(times)
    # a birthday among n of 8.64e10 microseconds is rare; a repeated block would be many
    assert len(np.unique(every)) >= len(every) - 3


@pytest.mark.parametrize(("day", "rows"), [(-1, 10), (3, 10), (0, 0)])
def test_batches_refuse_what_is_not_there(day, rows):
    """A day outside the market or an empty batch is refused by name."""
    with pytest.raises(InvalidParameterError, match=r"day=|rows="):
        next(auction_batches(SMALL, draw_traits(SMALL), day, rows))


@pytest.mark.parametrize("auction", ["first", "second"])
@pytest.mark.parametrize("floors", [True, False])
@pytest.mark.parametrize("minimum_logged", [True, False])
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
        assert (dates == np.datetime64("2026-03-02") + day).all()
        assert set(table["currency"].to_pylist()) == {"USD"}


def test_what_is_written_is_what_was_drawn(tmp_path):
    """The files hold the drawn rows under the advertisers' ids, and the counts are theirs."""
    logs = simulate_logs(SMALL, tmp_path / "market")
    traits = draw_traits(SMALL)
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
    assert (logs.days, logs.folder) == (3, tmp_path / "market")


def test_truth_lies_apart(tmp_path):
    """Only the truth's file tells segments; the texts' file has ids and texts alone."""
    logs = simulate_logs(SMALL, tmp_path / "market")
    traits = draw_traits(SMALL)
    texts, truth = pq.read_table(logs.advertisers), pq.read_table(logs.truth)
    assert texts.column_names == ["advertiser_id", "description"]
    assert texts["description"].to_pylist() == list(traits.text)
    assert truth["advertiser_id"].equals(texts["advertiser_id"])
    for name in ("segment", "outlier", "newcomer", "text_is", "volume", "moved", "floor"):
        assert truth[name].to_pylist() == getattr(traits, name).tolist()
    assert truth["theme"].to_pylist() == [theme_names(4)[segment] for segment in traits.segment]
    assert np.array_equal(truth["market_level_2"], traits.market_level[:, 1])
    secret = set(truth.column_names) - {"advertiser_id"}
    assert not secret & {*pq.read_schema(logs.bids[0]).names, *texts.column_names}


def test_truth_knows_its_settings(tmp_path):
    """The settings beside the truth rebuild the market."""
    logs = simulate_logs(SMALL, tmp_path / "market")
    kept = json.loads(pq.read_schema(logs.truth).metadata[b"settings"])
    assert MarketSettings(**kept) == SMALL


def test_same_settings_same_files(tmp_path):
    """A simulation repeats itself to the byte; another seed writes another market."""
    first, again = (simulate_logs(SMALL, tmp_path / name) for name in ("first", "again"))
    other = simulate_logs(dataclasses.replace(SMALL, seed=1), tmp_path / "other")
    for name in ("bids", "advertisers", "truth"):
        assert _contents(getattr(first, name)) == _contents(getattr(again, name))
        assert _contents(getattr(first, name)) != _contents(getattr(other, name))


def test_day_without_bids_has_an_empty_file(tmp_path):
    """Where all are newcomers, the days before the last have files of no rows."""
    logs = simulate_logs(dataclasses.replace(SMALL, newcomers=1), tmp_path / "market")
    lengths = [pq.read_metadata(file).num_rows for file in logs.bids]
    assert lengths == [0, 0, logs.rows]
    assert pq.read_schema(logs.bids[0]).equals(pq.read_schema(logs.bids[2]))


def test_row_groups_are_batches(tmp_path, monkeypatch):
    """Each batch is written as it comes, a row group, and progress counts its rows."""
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


@pytest.mark.parametrize("is_there", [True, False])
def test_full_disk_leaves_nothing(tmp_path, monkeypatch, is_there):
    """A disk that fills up in the middle is an OutputError, and no file stays behind."""
    target = tmp_path / "market"
    if is_there:
        target.mkdir()
    write, calls = pq.ParquetWriter.write_table, []

    def fills_up(*arguments, **options):
        calls.append(1)
        # the texts, the truth and the first day fit
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(*arguments, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fills_up)
    with pytest.raises(OutputError, match=r"cannot write .*market: No space left on device"):
        simulate_logs(SMALL, target)
    assert sorted(tmp_path.rglob("*")) == ([target] if is_there else [])


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_interrupt_leaves_nothing(tmp_path, error):
    """An interrupt, or an error of the caller's progress, passes through and leaves nothing."""

    def interrupted(done, in_all):
        raise error

    with pytest.raises(error):
        simulate_logs(SMALL, tmp_path / "market", progress=interrupted)
    assert not list(tmp_path.iterdir())


def test_unfinished_folder_is_hidden_beside(tmp_path):
    """Until the end there is one hidden folder beside the place, and nothing in the place."""
    seen = set()
    simulate_logs(
        SMALL,
        tmp_path / "market",
        progress=lambda *_: seen.update(path.name for path in tmp_path.iterdir()),
    )
    (hidden,) = seen
    assert hidden.startswith(".market-")
    assert hidden.endswith(".unfinished")
    assert [path.name for path in tmp_path.iterdir()] == ["market"]


def test_full_folder_is_refused_untouched(tmp_path):
    """A folder that holds anything is refused with what to do, and stays as it was."""
    (tmp_path / "mine.txt").write_text("dear")
    with pytest.raises(OutputError, match=r"not empty; name a new one, or empty it"):
        simulate_logs(SMALL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_places_that_cannot_be_written_are_refused(tmp_path, monkeypatch):
    """Files, missing or read-only parents and the current folder are refused before the work."""
    (tmp_path / "file").touch()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(simulated_logs, "draw_traits", _never)
    for place, message in {
        "file": "it is a file",
        "file/market": "is not a folder",
        "nowhere/market": "does not exist; make it",
        "here": "current one; name a new folder in it",
        "here/" + 300 * "x": "File name too long",
    }.items():
        with pytest.raises(OutputError, match=message):
            simulate_logs(SMALL, tmp_path / place)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputError, match="read-only"):
        simulate_logs(SMALL, tmp_path / "market")


def test_empty_folder_and_link_are_filled(tmp_path):
    """An empty folder is filled with its permissions kept, through a link to it too."""
    (tmp_path / "empty").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    logs = simulate_logs(SMALL, tmp_path / "link")
    assert logs.truth == tmp_path / "link" / "truth.parquet"
    assert (tmp_path / "empty" / "truth.parquet").is_file()
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o700


def test_new_folder_has_the_usual_permissions(tmp_path):
    """A new folder is as open as one made by hand."""
    (tmp_path / "by hand").mkdir()
    logs = simulate_logs(SMALL, tmp_path / "market")
    assert logs.folder.stat().st_mode == (tmp_path / "by hand").stat().st_mode


def _all_rows(market, traits, day):
    batches = list(auction_batches(market, traits, day))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _check_prices(table, auction):
    """Null if and only if lost; the bid at first price, from floor to bid at second price."""
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


def _never(*_):
    raise AssertionError("the work was begun")
