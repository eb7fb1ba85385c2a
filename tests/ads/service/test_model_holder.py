"""The current model is replaced by another, whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import json
import logging
import os
import threading
import weakref
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie import save_model
from coterie.ads.forecasts.profiles import Profiles
from coterie.ads.protocol import ModelVersion
from coterie.ads.service import model_holder
from coterie.ads.service.model_holder import ModelHolder
from coterie.ads.service.monitoring import Metrics
from coterie.errors import CoterieError, ModelFileError
from fitted_models import first_price_model, small_model, textless_model
from running_service import PATIENCE, wait_until


@dataclass
class FakeModel:
    """As much of a served model as the holder needs."""

    text: str
    version: ModelVersion
    name: str = "market.coterie"
    names: tuple[str, ...] = ("a", "b", "c")
    loaded_at: datetime = datetime(2026, 3, 2, tzinfo=UTC)


def read(path, version, whole=True):
    """Return a model from a text; some texts are none."""
    text = Path(path).read_text()
    if text.startswith("bad"):
        raise ModelFileError(f"cannot load {path}: {text}")
    if text == "defect":
        raise ZeroDivisionError
    return FakeModel(text, ModelVersion(version))


@pytest.fixture
def file(tmp_path):
    """A file that holds a model, as far as ``read`` can tell."""
    path = tmp_path / "market.coterie"
    path.write_text("one")
    return path


@pytest.fixture
def holder(file):
    """A holder of that model."""
    made = ModelHolder(file, Metrics(), load=read)
    made.load_first()
    return made


@pytest.fixture
def real(tmp_path):
    """A holder of a real model."""
    path = tmp_path / "market.coterie"
    save_model(small_model(), path)
    made = ModelHolder(path, Metrics())
    made.load_first()
    return made


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
        real.current.places(["tour"])
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
            ModelHolder(real.path, Metrics()).load_first()

    def test_model_that_cannot_answer_is_refused(self, real, monkeypatch):
        """A model gives some answers before it replaces another."""
        save_model(textless_model(), real.path)
        monkeypatch.setattr(Profiles, "summary", lambda _: {"rows": object()})
        assert not real.reload()
        assert "cannot answer (TypeError)" in real.last_refusal.reason


class TestReload:
    def test_first_model_is_needed(self, file):
        """There is no current model before one was loaded."""
        with pytest.raises(RuntimeError, match="load_first"):
            _ = ModelHolder(file, Metrics(), load=read).current

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
        assert "failed by a defect" in caplog.text
        assert holder.current.text == "one"

    def test_file_that_changes_while_it_is_read_is_left_for_later(self, file):
        """Nothing is taken or refused of a file that is still being written."""

        def changing(path, version, whole=True):
            model = read(path, version)
            if model.text == "two":
                path.write_text("three")
            return model

        holder = ModelHolder(file, Metrics(), load=changing)
        holder.load_first()
        file.write_text("two")
        assert not holder.reload()
        assert (holder.current.text, holder.last_refusal) == ("one", None)
        assert holder.reload()
        assert holder.current.text == "three"

    def test_one_reload_at_a_time(self, file):
        """Threads that ask at the same time load the file once."""
        loads = []

        def noted(path, version, whole=True):
            loads.append(threading.current_thread())
            return read(path, version)

        holder = ModelHolder(file, Metrics(), load=noted)
        holder.load_first()
        file.write_text("two")
        threads = [threading.Thread(target=holder.reload) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(loads) == 2
        assert holder.current.text == "two"

    @pytest.mark.parametrize("odd", ["\udcff", "\x1b[31m\n\u2028", "x" * 100_000, "\0"])
    def test_reason_is_a_short_line(self, holder, file, odd):
        """Whatever a file makes an error say, the reason can be printed and sent."""

        def refuse(path, version):
            raise ModelFileError(f"cannot load {path}: {odd}")

        holder._load = refuse
        file.write_text("two")
        assert not holder.reload()
        reason = holder.last_refusal.reason
        assert reason.startswith("cannot load market.coterie: ")
        assert len(reason) <= 300 and reason.isprintable()
        assert json.loads(json.dumps(reason)) == reason

    def test_memory_of_a_refused_model_is_given_back(self, holder, file, monkeypatch):
        """What was loaded of a file that is then refused is freed before memory is returned."""
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
                identity = model_holder._identity
                with mock.patch.object(model_holder, "_identity", wraps=identity) as looked:
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
