"""A served model answers at once, always the same, from any thread."""

from __future__ import annotations

import asyncio
import copy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import save_model
from coterie.ads.service.models import served_model
from coterie.ads.service.models.served_model import ServedModel, file_version, printable, ready
from coterie.errors import ModelFileError
from fitted_models import small_model
from service_calls import served


def test_is_made_of_a_file(tmp_path):
    """A model file becomes a model with its name, its version and the time in UTC."""
    path = tmp_path / "market.coterie"
    save_model(small_model(), path)
    made = ready(path, file_version(path))
    assert made.name == "market.coterie"
    assert made.version == file_version(path)
    assert made.loaded_at.utcoffset().total_seconds() == 0
    assert made.advertisers == len(small_model().advertisers_)
    asked = (3, 2.5, 100.0, made.average_day.table, True)
    assert made.tables.one(*asked) == served().tables.one(*asked)


def opened(made, *asked):
    """How an answer begins, parsed; and the supply that goes with it."""
    opening, supply = made.opening(*asked)
    return orjson.loads(opening + b"}"), supply


def test_openings_are_those_of_the_model():
    """Name, segment, grounds and supply of an advertiser are those of the model, each time."""
    made = served()
    for row, name in enumerate(made.model.advertisers_.tolist()):
        begun, supply = opened(made, row)
        assert supply == begun["supply"] == made.tables.supply(row)
        assert begun["advertiser"] == name
        assert begun["segment"] == made.placer.segment(row)
        assert (begun["days"], begun["level"]) == (1, 0.9)
        assert begun["why"] == made.tables.why(row) + "; supply and prices of an average day"
        assert opened(made, row) == (begun, supply)
        given, supply = opened(made, row, 12.5)
        assert supply == 12.5
        why = made.tables.why(row) + "; prices of an average day"
        assert given == begun | {"supply": 12.5, "why": why}


@pytest.mark.parametrize("days", [1, 7, 366])
@pytest.mark.parametrize("day", [None, date(2026, 3, 2), date(1999, 12, 31), date(9999, 12, 31)])
def test_periods_have_the_supply_of_their_days(day, days):
    """The supply is what the model expects of the days, which are told, as is the level."""
    made = served()
    begun, supply = opened(made, 0, None, made.period(day, days), 0.5)
    assert supply == begun["supply"] == made.tables.supply(0, made.tables.days(day, days))
    assert begun["why"].startswith(f"{made.tables.why(0)}; supply and prices of ")
    assert (begun["days"], begun["level"]) == (days, 0.5)
    if day is not None:
        assert str(day) in begun["why"]


def test_periods_are_kept_within_bounds(monkeypatch):
    """Days asked about again are those of before; so many are kept, and no more."""
    monkeypatch.setattr(served_model, "_MOST_PERIODS", 3)
    made = ServedModel(small_model(), "0", "market.coterie")
    first = made.period(date(2026, 3, 9), 1)
    assert made.period(date(2026, 3, 9), 1) is first
    for number in (2, 3, 4):
        made.period(None, number)
    assert [made.has_period(None, number) for number in (2, 3, 4)] == [True] * 3
    assert not made.has_period(date(2026, 3, 9), 1)
    assert made.period(None, 1) is made.average_day
    assert made.period(date(2026, 3, 9), 1).expected == first.expected


def test_details_may_come_later():
    """Whoever asks for details before they are made waits for them, and others do not."""
    made = ServedModel(small_model(), "0", "market.coterie")
    assert asyncio.run(made.with_details()) is made
    assert made.book.advertiser(3) == served().book.advertiser(3)
    assert made.found("a") == served().found("a")


def test_loading_does_without_scikit_learn(tmp_path):
    """A service starts without importing what only fitting needs."""
    path = tmp_path / "market.coterie"
    save_model(small_model(), path)
    code = (
        "import sys; from pathlib import Path;"
        "from coterie.ads.service.models.served_model import ready;"
        "served = ready(Path(sys.argv[1]), '0');"
        "(place,) = served.placed(['passport tour']);"
        "assert abs(place.shares.sum() - 1) < 1e-9;"
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_versions_of_model_files_are_their_checksums(tmp_path):
    """Files that differ have versions that differ; damage is found where that is asked for."""
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"no model" if name < "c" else b"no Model")
    a, b, c = (file_version(tmp_path / name) for name in ("a", "b", "c"))
    assert a == b != c
    one, other = tmp_path / "one.coterie", tmp_path / "other.coterie"
    save_model(small_model(), one)
    changed = copy.copy(small_model())
    changed.currency_ = "XTS"
    save_model(changed, other)
    assert file_version(one) == file_version(one, verified=True) != file_version(other)
    content = bytearray(one.read_bytes())
    content[len(content) // 2] ^= 1
    one.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        file_version(one, verified=True)


def test_places_are_kept_within_bounds():
    """A text asked about again has the same place; so many texts are kept, and no more."""
    made = ServedModel(small_model(), "0", "market.coterie")
    [first] = made.placed(["tour 0"])
    assert made.placed(["tour 0"])[0] is first
    made.placed([f"tour {number}" for number in range(400)])
    assert len(made._recent._places) == 256
    [again] = made.placed(["tour 0"])
    assert again is not first
    np.testing.assert_array_equal(again.weights, first.weights)


def test_threads_get_the_same_answers():
    """Places and openings are right whoever asks at the same time."""
    made = ServedModel(small_model(), "0", "market.coterie")
    texts = [f"passport {i % 7}" for i in range(60)]
    with ThreadPoolExecutor(4) as pool:
        places = list(pool.map(lambda text: made.placed([text])[0], texts))
        openings = list(pool.map(made.opening, [i % 5 for i in range(60)]))
    for text, place in zip(texts, places, strict=True):
        np.testing.assert_array_equal(place.shares, made.placer.placed(None, text).shares)
    assert openings == [made.opening(i % 5) for i in range(60)]


def test_a_name_that_no_encoder_takes_is_told_all_the_same(tmp_path):
    """A file may be called anything; what is told of it can be written as JSON."""
    path = tmp_path / "m\udcff\n.coterie"
    save_model(small_model(), path)
    made = ready(path, file_version(path))
    assert orjson.loads(orjson.dumps(made.name)) == "m\\udcff\\n.coterie"


@given(st.text(st.characters(exclude_categories=()), max_size=400), st.integers(1, 350))
def test_any_text_is_a_short_line(text, most):
    """It has no more characters than asked for, all can be printed, and JSON can hold them."""
    told = printable(text, most)
    assert told == text or not text.isprintable() or len(text) > most
    assert len(told) <= most and told.isprintable()
    assert orjson.loads(orjson.dumps(told)) == told
