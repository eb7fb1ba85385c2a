"""Another model takes the place of the one served, whole, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import logging
import os
import threading
import weakref
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import numpy as np
import orjson
import pytest
from sklearn.cluster import KMeans

from coterie import save_model
from coterie.ads.forecasts.profiles import ProfileBook
from coterie.ads.service.metrics import Metrics
from coterie.ads.service.models import model_holder
from coterie.ads.service.models.model_holder import ModelHolder
from coterie.errors import CoterieError, ModelFileError
from fitted_models import first_price_model, small_model, textless_model
from local_server import in_loop, until
from running_service import PATIENCE, wait_until

DAMAGES = ("cut", "changed", "empty", "other", "unsound", "gone", "pipe")


@dataclass
class FakeModel:
    """As much of a served model as the holder minds."""

    text: str
    version: str
    name: str = "market.coterie"
    advertisers: int = 3
    loaded_at: datetime = field(default_factory=lambda: datetime.now(UTC))


def read(path, version):
    """A model from a text; some texts are none."""
    text = Path(path).read_text()
    if text.startswith("bad"):
        raise ModelFileError(f"cannot load {path}: {text}")
    if text == "defect":
        raise ZeroDivisionError
    return FakeModel(text, version)


@pytest.fixture
def file(tmp_path):
    """A file that holds a model, as far as ``read`` can tell."""
    path = tmp_path / "market.coterie"
    path.write_text("one")
    return path


@pytest.fixture
def holder(file):
    """A holder of that model."""
    made = ModelHolder(file, metrics=Metrics(), load=read)
    made.load_first()
    return made


def counted(holder):
    """Reloads so far: taken, refused."""
    text = holder._metrics.text().decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if "{outcome=" in line)
    return [
        int(float(lines[f'coterie_model_reloads_total{{outcome="{outcome}"}}']))
        for outcome in ("taken", "refused")
    ]


@pytest.fixture
def real(tmp_path):
    """A holder of a real model."""
    path = tmp_path / "market.coterie"
    save_model(small_model(), path)
    made = ModelHolder(path, metrics=Metrics())
    made.load_first()
    return made


class TestRealModels:
    def test_a_replaced_file_is_served(self, real):
        """After a reload forecasts are those of the new model, and it has another version."""
        before = real.current
        save_model(textless_model(), real.path)
        assert real.reload()
        assert real.current.version != before.version and len(before.version) == 12
        assert real.current.model.text_view_ is None
        assert before.model.text_view_ is not None  # what a request holds stays as it was

    def test_the_old_model_is_freed(self, real):
        """Nothing keeps a model, nor its tables, that was replaced and that no request holds."""
        real.current.book.advertiser(0)
        real.current.placed(["tour"])
        old = [weakref.ref(one) for one in (real.current.model, real.current.tables)]
        save_model(first_price_model(), real.path)
        assert real.reload()
        gc.collect()
        assert [one() for one in old] == [None, None]

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_what_cannot_be_served_is_refused(self, real, damage):
        """The old model stays, the reason is told without folders; nothing begins with such."""
        old = real.current
        _damage(real.path, damage)
        assert not real.reload()
        assert real.current is old
        reason = real.last_refusal.reason
        assert "market.coterie" in reason or "sound" in reason
        assert str(real.path.parent) not in reason
        assert counted(real) == [0, 1]
        with pytest.raises(CoterieError):
            ModelHolder(real.path).load_first()

    def test_what_cannot_answer_is_refused(self, real, monkeypatch):
        """Before a model takes the place of another it gives some answers."""
        save_model(textless_model(), real.path)
        monkeypatch.setattr(ProfileBook, "summary", lambda _: {"rows": np.float64(1)})
        assert not real.reload()
        assert "TypeError" in real.last_refusal.reason


def _damage(path, kind):
    content = path.read_bytes()
    if kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "changed":
        path.write_bytes(content[:5000] + b"\0" * 10 + content[5010:])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "other":
        save_model(KMeans(2, n_init=1, random_state=0).fit(np.arange(8.0)[:, None]), path)
    elif kind == "unsound":
        other = copy.copy(small_model())
        other.shares_ = other.shares_ * np.nan
        save_model(other, path)
    else:
        path.unlink()
    if kind == "pipe":  # nobody may ever write to it: the service does not wait
        os.mkfifo(path)


class TestReload:
    def test_needs_a_first_model(self, file):
        """There is no model of now before one was loaded."""
        with pytest.raises(RuntimeError, match="load_first"):
            _ = ModelHolder(file, load=read).current

    def test_a_refusal_is_forgotten_once_a_model_is_taken(self, holder, file):
        """The refusal is that of the file of now."""
        file.write_text("bad luck")
        assert not holder.reload()
        assert holder.last_refusal.reason == "cannot load market.coterie: bad luck"
        file.write_text("two")
        assert holder.reload()
        assert holder.last_refusal is None
        assert holder.current.text == "two"
        assert counted(holder) == [1, 1]

    def test_a_refusal_is_forgotten_once_the_old_file_is_back(self, holder, file):
        """Putting the old file back puts things right, and loads nothing."""
        before = holder.current
        file.write_text("bad luck")
        assert not holder.reload()
        file.write_text("one")
        assert holder.reload()
        assert holder.last_refusal is None
        assert holder.current is before
        assert counted(holder) == [0, 1]

    def test_a_defect_does_not_end_the_service(self, holder, file, caplog):
        """An error that nobody foresaw refuses the file, and is told in the log."""
        file.write_text("defect")
        with caplog.at_level(logging.ERROR, "coterie"):
            assert not holder.reload()
        assert holder.last_refusal.reason == "market.coterie cannot be loaded (ZeroDivisionError)"
        assert "failed by a defect" in caplog.text
        assert holder.current.text == "one"

    def test_a_file_that_changes_while_it_is_read_is_left_for_later(self, file):
        """What was read of a changing file is of no version: nothing is taken or refused."""

        def changing(path, version):
            model = read(path, version)
            if model.text == "two":
                path.write_text("three")
            return model

        holder = ModelHolder(file, metrics=Metrics(), load=changing)
        holder.load_first()
        file.write_text("two")
        assert not holder.reload()
        assert (holder.current.text, holder.last_refusal) == ("one", None)
        assert holder.reload()
        assert holder.current.text == "three"

    def test_whoever_asks_meanwhile_shares_a_later_reload(self, file):
        """Ten who ask during a load cause one more load, which began after they asked."""
        loading, go_on = threading.Event(), threading.Event()
        loads = []

        def slow(path, version):
            loads.append(Path(path).read_text())
            if len(loads) == 2:
                loading.set()
                assert go_on.wait(PATIENCE)
            return read(path, version)

        holder = ModelHolder(file, load=slow)
        holder.load_first()
        file.write_text("two")
        outcomes = []
        threads = [threading.Thread(target=lambda: outcomes.append(holder.reload()))]
        threads[0].start()
        assert loading.wait(PATIENCE)
        threads += [
            threading.Thread(target=lambda: outcomes.append(holder.reload())) for _ in range(10)
        ]
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: holder._asked == 11)
        go_on.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert outcomes == [True] * 11
        assert len(loads) == 2  # the one more found the same content, and did not load it
        assert holder.current.text == "two"

    def test_metrics_know_the_model_of_now(self, holder):
        """The size of the model and when it was loaded are told."""
        text = holder._metrics.text().decode()
        assert "coterie_model_advertisers 3.0" in text
        assert "coterie_model_loaded_timestamp_seconds 1." in text


class TestWatch:
    # contents differ in length: a file system may not tell apart times a millisecond apart

    @in_loop
    async def test_files_are_taken_refused_and_tried_again_as_they_change(self, holder, file):
        """A new file is taken, a bad one refused once, and its successor taken again."""
        async with _watched(holder):
            file.write_text("the second")
            await until(lambda: holder.current.text == "the second")
            file.write_text("bad")
            await until(lambda: holder.last_refusal is not None)
            file.unlink()
            await until(lambda: "No such file" in holder.last_refusal.reason)
            refusals = counted(holder)[1]
            with mock.patch.object(model_holder, "_identity", wraps=model_holder._identity) as look:
                await until(lambda: look.call_count > 10)
            assert counted(holder)[1] == refusals
            file.write_text("the third one")
            await until(lambda: holder.current.text == "the third one")
            assert holder.last_refusal is None

    @in_loop
    async def test_a_file_put_in_place_by_renaming_is_taken(self, holder, file):
        """A file of the same size and time, renamed to the place, is another file."""
        told = file.stat()
        other = file.with_suffix(".new")
        other.write_text("two")
        os.utime(other, ns=(told.st_atime_ns, told.st_mtime_ns))
        async with _watched(holder):
            other.replace(file)
            await until(lambda: holder.current.text == "two")


@contextlib.asynccontextmanager
async def _watched(holder):
    watch = asyncio.create_task(holder.watch(0.005))
    try:
        yield
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch


class TestRefusals:
    @pytest.mark.parametrize("odd", ["\udcff", "\x1b[31m\n\u2028", "x" * 100_000, "\0"])
    def test_reasons_can_always_be_told(self, file, odd):
        """Whatever a file makes an error say, the reason is a short line that JSON can hold."""

        def refuse(path, version):
            if "two" in path.read_text():
                raise ModelFileError(f"cannot load {path}: {odd}")
            return FakeModel("one", version)

        holder = ModelHolder(file, load=refuse)
        holder.load_first()
        file.write_text("two")
        assert not holder.reload()
        reason = holder.last_refusal.reason
        assert reason.startswith("cannot load market.coterie: ")
        assert len(reason) <= 300 and reason.isprintable()
        assert orjson.loads(orjson.dumps(reason)) == reason

    def test_memory_is_given_back(self, holder, file, monkeypatch):
        """What was loaded of a file that is then refused is freed, and goes back to the system."""
        given_back, loaded = [], []

        def refuse(path, version):
            model = FakeModel("large", version)
            loaded.append(weakref.ref(model))
            raise ModelFileError(f"cannot load {path}: {model.name}")

        monkeypatch.setattr(
            model_holder, "_give_back_memory", lambda: given_back.append(loaded[-1]())
        )
        holder._load = refuse
        file.write_text("two")
        gc.collect()
        gc.disable()
        try:
            assert not holder.reload()
        finally:
            gc.enable()
        assert given_back == [None]

    @in_loop
    async def test_reloads_have_a_thread_of_their_own(self, holder, file):
        """However busy other threads are, a new file is taken up."""
        names = []

        def noted(path, version):
            names.append(threading.current_thread().name)
            return read(path, version)

        holder._load = noted
        async with _watched(holder):
            file.write_text("two, which is longer")
            await until(lambda: holder.current.text != "one")
        assert names and all(name.startswith("reloads") for name in names)
