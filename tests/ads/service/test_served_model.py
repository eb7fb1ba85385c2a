"""A served model answers always the same, ids find advertisers, and a file replaces the model."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import json
import logging
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from coterie import save_model
from coterie.ads.forecasts.profiles import Profiles
from coterie.ads.protocol import AdvertiserQuery, ModelVersion
from coterie.ads.service import served_model
from coterie.ads.service.monitoring import Metrics
from coterie.ads.service.served_model import (
    AdvertiserSearch,
    ModelHolder,
    ServedModel,
    file_version,
    load_served,
)
from coterie.errors import CoterieError, ModelFileError
from fitted_models import first_price_model, small_model, textless_model
from running_service import PATIENCE, wait_until
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
    made = load_served(path, file_version(path), whole=True)
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
    assert len(made._periods) <= 3 and made.has_period(None, 4)
    assert not made.has_period(date(2026, 3, 9), 1)
    assert made.average_day.table is made.period(None, 1).table
    assert made.period(date(2026, 3, 9), 1).expected == first.expected


def test_details_may_come_later():
    """Whoever asks for details before they are made waits for them."""
    made = fresh()
    assert asyncio.run(made.with_details()) is made
    assert made.advertiser(3) == served().advertiser(3)
    assert made.page(AdvertiserQuery("a")) == served().page(AdvertiserQuery("a"))
    assert msgspec.json.decode(made.segments()[0])["segments"] == served().book.segments()


def test_threads_get_the_same_answers():
    """Placements and periods are right whoever asks at the same time."""
    made, texts = fresh(), [f"passport {number % 7}" for number in range(60)]
    with ThreadPoolExecutor(4) as pool:
        places = list(pool.map(made.place, texts))
        periods = list(pool.map(lambda days: made.period(None, days).expected, [2, 3] * 30))
    for text, place in zip(texts, places, strict=True):
        np.testing.assert_array_equal(place.shares, made.placer.placed(None, text).shares)
    assert periods == [made.period(None, days).expected for days in [2, 3] * 30]


def test_loading_needs_no_scikit_learn(path):
    """A service starts without importing what only fitting needs."""
    code = (
        "import sys; from pathlib import Path;"
        "from coterie.ads.service.served_model import load_served;"
        "place = load_served(Path(sys.argv[1]), '0', whole=True).place('passport tour');"
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
    made = load_served(path, "0", whole=True)
    made.period(None, 7)
    made.place("hotel by the beach")
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


@dataclass
class FakeModel:
    """As much of a served model as the holder needs."""

    text: str
    version: ModelVersion
    name: str = "market.coterie"
    names: tuple[str, ...] = ("a", "b", "c")
    loaded_at: datetime = datetime(2026, 3, 2, tzinfo=UTC)


def read(path, version, *, whole):
    """Return a model from a text; some texts are none."""
    text = Path(path).read_text()
    if text.startswith("bad"):
        raise ModelFileError(f"cannot load {path}: {text}")
    if text == "defect":
        raise ZeroDivisionError
    return FakeModel(text, ModelVersion(version))


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file that holds a model, as far as ``read`` can tell."""
    monkeypatch.setattr(served_model, "load_served", read)
    path = tmp_path / "market.coterie"
    path.write_text("one")
    return path


@pytest.fixture
def holder(file):
    """A holder of that model."""
    return ModelHolder(file, Metrics())


@pytest.fixture
def real(tmp_path):
    """A holder of a real model."""
    path = tmp_path / "market.coterie"
    save_model(small_model(), path)
    return ModelHolder(path, Metrics())


def counted(holder):
    """Return the number of files taken, and of those refused."""
    text = holder._metrics.text().decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if "{outcome=" in line)
    return [
        int(float(lines[f'coterie_model_reloads_total{{outcome="{outcome}"}}']))
        for outcome in ("taken", "refused")
    ]


def damage(path, kind):
    """Make a model file one that cannot be served."""
    content = path.read_bytes()
    if kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "changed":
        path.write_bytes(content[:5000] + b"\0" * 10 + content[5010:])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "foreign":
        save_model(KMeans(2, n_init=1, random_state=0).fit(np.arange(8.0)[:, None]), path)
    elif kind == "unsound":
        other = copy.copy(small_model())
        other.shares_ = other.shares_ * np.nan
        save_model(other, path)
    else:
        path.unlink()
    if kind == "pipe":  # nobody may ever write to it
        os.mkfifo(path)


class TestRealModels:
    def test_replaced_file_is_served(self, real):
        """After a reload the model is that of the file; a request keeps the one it began with."""
        before = real.current
        save_model(textless_model(), real.path)
        assert real.reload()
        assert real.current.version != before.version
        assert real.current.model.text_view_ is None
        assert before.model.text_view_ is not None

    def test_old_model_is_freed(self, real):
        """Nothing keeps a model, nor its tables, that was replaced and that no request holds."""
        real.current.book.advertiser(0)
        real.current.place("tour")
        old = [weakref.ref(one) for one in (real.current.model, real.current.tables)]
        save_model(first_price_model(), real.path)
        assert real.reload()
        # threads that earlier tests started may still be busy with a model
        wait_until(lambda: gc.collect() >= 0 and [one() for one in old] == [None, None])

    @pytest.mark.parametrize(
        "kind", ["cut", "changed", "empty", "foreign", "unsound", "gone", "pipe"]
    )
    def test_bad_file_is_refused(self, real, kind):
        """The old model stays, and the reason is told without folders; no service starts so."""
        old = real.current
        damage(real.path, kind)
        assert not real.reload()
        assert real.current is old
        reason = real.last_refusal.reason
        assert "market.coterie" in reason or "sound" in reason or "KMeans" in reason
        assert str(real.path.parent) not in reason
        assert counted(real) == [0, 1]
        with pytest.raises(CoterieError):
            ModelHolder(real.path, Metrics())

    def test_model_that_cannot_answer_is_refused(self, real, monkeypatch):
        """A model gives some answers before it replaces another."""
        save_model(textless_model(), real.path)
        monkeypatch.setattr(Profiles, "summary", lambda _: {"rows": object()})
        assert not real.reload()
        assert "cannot answer (TypeError)" in real.last_refusal.reason


class TestReload:
    @pytest.mark.parametrize(("text", "taken"), [("two", 1), ("one", 0)])
    def test_refusal_ends_with_a_good_file(self, holder, file, text, taken):
        """A refusal is forgotten when a good file comes, also when the old one comes back."""
        before = holder.current
        file.write_text("bad luck")
        assert not holder.reload()
        assert holder.last_refusal.reason == "cannot load market.coterie: bad luck"
        assert datetime.fromisoformat(holder.last_refusal.at).tzinfo is not None
        file.write_text(text)
        assert holder.reload()
        assert holder.last_refusal is None
        assert (holder.current is before, holder.current.text) == (not taken, text)
        assert counted(holder) == [taken, 1]

    def test_defect_does_not_end_the_service(self, holder, file, caplog):
        """An unforeseen error refuses the file, and is logged."""
        file.write_text("defect")
        with caplog.at_level(logging.ERROR, "coterie"):
            assert not holder.reload()
        assert holder.last_refusal.reason == "market.coterie cannot be loaded (ZeroDivisionError)"
        assert "failed because of a defect" in caplog.text
        assert holder.current.text == "one"

    def test_file_that_changes_while_it_is_read_is_left_for_later(self, file, monkeypatch):
        """Nothing is taken or refused of a file that is still being written."""

        def changing(path, version, *, whole):
            model = read(path, version, whole=whole)
            if model.text == "two":
                path.write_text("three")
            return model

        monkeypatch.setattr(served_model, "load_served", changing)
        holder = ModelHolder(file, Metrics())
        file.write_text("two")
        assert not holder.reload()
        assert (holder.current.text, holder.last_refusal) == ("one", None)
        assert holder.reload()
        assert holder.current.text == "three"

    def test_one_reload_at_a_time(self, file, monkeypatch):
        """Threads that ask at the same time load the file once."""
        loads = []

        def noted(path, version, *, whole):
            loads.append(whole)
            return read(path, version, whole=whole)

        monkeypatch.setattr(served_model, "load_served", noted)
        holder = ModelHolder(file, Metrics())
        file.write_text("two")
        threads = [threading.Thread(target=holder.reload) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        # the first answers before its details are made
        assert loads == [False, True]
        assert holder.current.text == "two"

    @pytest.mark.parametrize("odd", ["\udcff", "\x1b[31m\n\u2028", "x" * 100_000, "\0"])
    def test_reason_is_a_short_line(self, holder, file, odd, monkeypatch):
        """Whatever a file makes an error say, the reason can be printed and sent."""

        def refuse(path, version, *, whole):
            raise ModelFileError(f"cannot load {path}: {odd}")

        monkeypatch.setattr(served_model, "load_served", refuse)
        file.write_text("two")
        assert not holder.reload()
        reason = holder.last_refusal.reason
        assert reason.startswith("cannot load market.coterie: ")
        assert len(reason) <= 300 and reason.isprintable()
        assert json.loads(json.dumps(reason)) == reason

    def test_memory_of_a_refused_model_is_given_back(self, holder, file, monkeypatch):
        """What was loaded of a file that is then refused is freed before memory is returned."""
        given_back, loaded = [], []

        def refuse(path, version, *, whole):
            model = FakeModel("large", version)
            loaded.append(weakref.ref(model))
            raise ModelFileError(f"cannot load {path}: {model.name}")

        monkeypatch.setattr(
            served_model, "_give_back_memory", lambda: given_back.append(loaded[-1]())
        )
        monkeypatch.setattr(served_model, "load_served", refuse)
        file.write_text("two")
        gc.collect()
        gc.disable()
        try:
            assert not holder.reload()
        finally:
            gc.enable()
        assert given_back == [None]

    def test_metrics_know_the_current_model(self, holder):
        """The size of the model and when it was loaded are reported."""
        text = holder._metrics.text().decode()
        assert "coterie_model_advertisers 3.0" in text
        assert "coterie_model_loaded_timestamp_seconds 1.7724096e+09" in text


@contextlib.asynccontextmanager
async def watched(holder):
    """Watch the file while inside."""
    watch = asyncio.create_task(holder.watch(0.005))
    try:
        yield
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch


async def until(condition):
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)


class TestWatch:
    # contents differ in length: a file system may not tell times apart that are a millisecond apart

    def test_changed_files_are_taken_or_refused_once(self, holder, file):
        """A new file is taken, a bad one refused once, and its successor taken again."""

        async def scenario():
            async with watched(holder):
                file.write_text("the second")
                await until(lambda: holder.current.text == "the second")
                file.write_text("bad")
                await until(lambda: holder.last_refusal is not None)
                file.unlink()
                await until(lambda: "No such file" in holder.last_refusal.reason)
                refusals = counted(holder)[1]
                identity = served_model._identity
                with mock.patch.object(served_model, "_identity", wraps=identity) as looked:
                    await until(lambda: looked.call_count > 10)
                assert counted(holder)[1] == refusals
                file.write_text("the third one")
                await until(lambda: holder.current.text == "the third one")
                assert holder.last_refusal is None

        asyncio.run(scenario())

    def test_renamed_file_is_taken(self, holder, file):
        """A file of the same size and time that is renamed to the place is another file."""
        other = file.with_suffix(".new")
        other.write_text("two")
        told = file.stat()
        os.utime(other, ns=(told.st_atime_ns, told.st_mtime_ns))

        async def scenario():
            async with watched(holder):
                other.replace(file)
                await until(lambda: holder.current.text == "two")

        asyncio.run(scenario())
