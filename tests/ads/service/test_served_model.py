"""A served model answers immediately, always the same, from any thread; ids find advertisers."""

from __future__ import annotations

import asyncio
import copy
import gc
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import save_model
from coterie.ads.protocol import AdvertiserQuery
from coterie.ads.service import served_model
from coterie.ads.service.served_model import (
    AdvertiserSearch,
    ServedModel,
    file_version,
    load_served,
)
from coterie.errors import ModelFileError
from fitted_models import small_model
from running_service import wait_until
from service_calls import served

letters = st.text(
    st.sampled_from("aAbB-ßſΣσς\n\0/é\ud800") | st.characters(codec="utf-8"), max_size=6
)
markets = st.lists(
    st.tuples(letters, st.sampled_from([0.0, 1.0, 2.5]), st.integers(-1, 2)), max_size=12
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A model file that nobody may change."""
    file = tmp_path_factory.mktemp("model") / "market.coterie"
    save_model(small_model(), file)
    return file


def fresh():
    """Return a served model that nobody has asked."""
    return ServedModel(small_model(), "0", "market.coterie")


def test_is_made_of_a_file(path):
    """A model file becomes a model with its name, its version and the time in UTC."""
    made = load_served(path, file_version(path))
    assert made.name == "market.coterie"
    assert made.version.version == file_version(path)
    assert len(file_version(path)) == 12
    assert made.loaded_at.utcoffset().total_seconds() == 0
    asked = (3, 2.5, 100.0, made.average_day.table, True)
    assert made.tables.one(*asked) == served().tables.one(*asked)


@pytest.mark.parametrize("days", [1, 7, 366])
@pytest.mark.parametrize("day", [None, date(2026, 3, 2), date(1, 1, 1), date(9999, 12, 31)])
def test_periods_have_the_supply_of_their_days(day, days):
    """The supply is what the model expects of the days, and the days are named."""
    made = served()
    period = made.period(day, days)
    assert made.tables.supply(0, period.table) == made.tables.supply(0, made.tables.days(day, days))
    assert period.expected.startswith("; supply and prices of ")
    assert period.given.startswith("; prices of ")
    assert day is None or str(day) in period.expected


def test_periods_are_kept_within_bounds(monkeypatch):
    """Days asked for again are those of before; so many are kept, and no more."""
    monkeypatch.setattr(served_model, "_MOST_PERIODS", 3)
    made = fresh()
    first = made.period(date(2026, 3, 9), 1)
    assert made.period(date(2026, 3, 9), 1) is first
    for number in (2, 3, 4):
        made.period(None, number)
    assert [made.has_period(None, number) for number in (2, 3, 4)] == [True] * 3
    assert not made.has_period(date(2026, 3, 9), 1)
    assert made.period(None, 1) is made.average_day
    assert made.period(date(2026, 3, 9), 1).expected == first.expected


def test_placements_are_kept_within_bounds():
    """A text asked for again has the same placement; so many are kept, and no more."""
    made = fresh()
    [first] = made.places(["tour 0"])
    assert made.places(["tour 0"])[0] is first
    made.places([f"tour {number}" for number in range(300)])
    assert len(made._places._kept) == 256
    [again] = made.places(["tour 0"])
    assert again is not first
    np.testing.assert_array_equal(again.weights, first.weights)


def test_details_may_come_later():
    """Whoever asks for details before they are made waits for them."""
    made = fresh()
    assert asyncio.run(made.with_details()) is made
    assert made.advertiser(3) == served().advertiser(3)
    assert made.page(AdvertiserQuery("a")) == served().page(AdvertiserQuery("a"))
    assert msgspec.to_builtins(made.segments())["segments"] == served().book.segments()


def test_threads_get_the_same_answers():
    """Placements and periods are right whoever asks at the same time."""
    made, texts = fresh(), [f"passport {number % 7}" for number in range(60)]
    with ThreadPoolExecutor(4) as pool:
        places = list(pool.map(lambda text: made.places([text])[0], texts))
        periods = list(pool.map(lambda days: made.period(None, days).expected, [2, 3] * 30))
    for text, place in zip(texts, places, strict=True):
        np.testing.assert_array_equal(place.shares, made.placer.placed(None, text).shares)
    assert periods == [made.period(None, days).expected for days in [2, 3] * 30]


def test_loading_needs_no_scikit_learn(path):
    """A service starts without importing what only fitting needs."""
    code = (
        "import sys; from pathlib import Path;"
        "from coterie.ads.service.served_model import load_served;"
        "[place] = load_served(Path(sys.argv[1]), '0').places(['passport tour']);"
        "assert abs(place.shares.sum() - 1) < 1e-9;"
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_versions_are_checksums(tmp_path, path):
    """Files that differ have versions that differ; damage is found on demand."""
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"no model" if name < "c" else b"no Model")
    a, b, c = (file_version(tmp_path / name) for name in ("a", "b", "c"))
    assert a == b != c
    changed = copy.copy(small_model())
    changed.currency_ = "XTS"
    other = tmp_path / "other.coterie"
    save_model(changed, other)
    assert file_version(path) == file_version(path, verified=True) != file_version(other)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    other.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        file_version(other, verified=True)


def test_odd_file_name_can_be_sent(tmp_path):
    """A file may have any name; what is told of it is JSON."""
    path = tmp_path / "m\udcff\n.coterie"
    save_model(small_model(), path)
    assert load_served(path, file_version(path), whole=False).name == "m\\udcff\\n.coterie"


def test_replaced_model_leaves_memory_without_the_collector(path):
    """Nothing refers back to it, also after periods and texts were asked about."""
    made = load_served(path, "0")
    made.period(None, 7)
    made.places(["hotel by the beach"])
    parts = [weakref.ref(part) for part in (made, made.model, made.tables)]
    gc.disable()
    try:
        del made
        # the thread that asked for decisions may still be on its way out
        wait_until(lambda: [part() for part in parts] == [None] * 3, "the end of the model")
    finally:
        gc.enable()


def searched(market):
    """Return a search over ids, spends and segments."""
    return AdvertiserSearch(*([one[i] for one in market] for i in range(3)))


def folded(text):
    """Return a text as ids are compared; what UTF-8 cannot encode is a question mark."""
    return text.casefold().encode("utf-8", "replace").decode()


def slowly_found(market, text, segment):
    """Return the rows found by looking at each id, in the defined order."""
    needle = folded(text)

    def order(row):
        name = folded(market[row][0])
        kind = 0 if not needle else (name != needle) + (not name.startswith(needle))
        return kind, -market[row][1], row

    rows = [
        row
        for row, (name, _, label) in enumerate(market)
        if needle in folded(name) and segment in {None, label}
    ]
    return sorted(rows, key=order)


@given(markets, letters, st.none() | st.integers(0, 2))
@settings(max_examples=120)
def test_finds_what_looking_at_every_id_finds(market, text, segment):
    """Ids equal to the text, then those that begin with it, then others; by spend in each group."""
    rows, total = searched(market).page(text, segment=segment, page_size=100)
    assert rows.tolist() == slowly_found(market, text, segment)
    assert total == len(rows)


@given(markets, letters, st.sampled_from(["id", "spend", "size"]), st.booleans())
def test_sorts_by_a_column(market, text, name, is_falling):
    """Rows come in the order of the column, and equal ones in the usual order."""
    size = [len(one[0]) for one in market]
    ids, spend, _ = zip(*market, strict=True) if market else ((), (), ())
    columns = {"id": [folded(one).encode() for one in ids], "spend": spend, "size": size}
    search = AdvertiserSearch(*([one[i] for one in market] for i in range(3)), {"size": size})
    rows, _ = search.page(text, sort=f"-{name}" if is_falling else name, page_size=100)
    usual = slowly_found(market, text, None)
    # sorted() keeps equal rows in order also in reverse
    assert rows.tolist() == sorted(usual, key=columns[name].__getitem__, reverse=is_falling)


@given(markets, letters, st.integers(1, 5))
def test_pages_follow_one_another(market, text, size):
    """All pages together are all that was found, in order, and a page beyond is empty."""
    search = searched(market)
    whole, total = search.page(text, page_size=100)
    pages = -(-total // size)
    parts = [search.page(text, page=page + 1, page_size=size)[0] for page in range(pages)]
    assert [row for part in parts for row in part.tolist()] == whole.tolist()
    for page in (pages + 1, 10**9):
        rows, found = search.page(text, page=page, page_size=size)
        assert (len(rows), found) == (0, total)


def test_a_hundred_thousand_ids_are_told_apart():
    """Ids that differ in their last character alone are found one by one."""
    ids = [f"adv-{i:05d}" for i in range(100_000)]
    search = AdvertiserSearch(ids, np.zeros(len(ids)), np.zeros(len(ids), dtype=int))
    assert search.page("ADV-04711")[0].tolist() == [4711]
    assert search.page("adv")[1] == len(ids)
    assert search.page("adv-99", page_size=3)[0].tolist() == [99_000, 99_001, 99_002]
