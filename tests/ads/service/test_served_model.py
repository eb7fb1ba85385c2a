"""A served model answers at once, always the same, from any thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date

import numpy as np
import pytest
from fitted_models import small_model
from service_calls import served

from coterie import save_model
from coterie.ads.service.served_model import ServedModel, file_version, ready
from coterie.errors import ModelFileError


def test_is_made_of_a_file(tmp_path):
    """A model file becomes a model with its name, its version and the time in UTC."""
    path = tmp_path / "market.coterie"
    save_model(small_model(), path)
    made = ready(path, file_version(path))
    assert made.name == "market.coterie"
    assert made.version == file_version(path)
    assert made.loaded_at.utcoffset().total_seconds() == 0
    assert made.advertisers == len(small_model().advertisers_)
    found = made.tables.one(3, 2.5, 100.0)
    assert found == small_model_figures(3)


def small_model_figures(row):
    """The figures of the model that was fitted, not loaded."""
    return served().tables.one(row, 2.5, 100.0)


def test_versions_tell_contents_apart(tmp_path):
    """The same content has the same version wherever it lies; another has another."""
    one, same, other = (tmp_path / name for name in ("a", "b", "c"))
    one.write_bytes(b"model")
    same.write_bytes(b"model")
    other.write_bytes(b"Model")
    assert file_version(one) == file_version(same) != file_version(other)


def test_what_is_no_model_is_refused(tmp_path):
    """A file of another kind is refused with the words of the loader."""
    path = tmp_path / "market.coterie"
    path.write_text("not a model")
    with pytest.raises(ModelFileError, match="not a model file"):
        ready(path, "0")


def test_heads_are_kept_and_stay_the_same():
    """Segment, grounds and supply of an advertiser are those of the model, and kept."""
    made = served()
    for row in range(made.advertisers):
        head = made.placer.segment(row), made.tables.why(row), made.tables.supply(row)
        assert made.head(row) == head
        assert made.head(row) is made.head(row)


def test_days_have_the_supply_of_their_weekday():
    """A day's factor times the level is the supply that the model expects."""
    made = served()
    for day in (date(2026, 3, 2), date(2026, 3, 8), date(1999, 12, 31)):
        factor, told = made.weekday(day)
        assert made.head(0)[2] * factor == made.tables.supply(0, day)
        assert str(day) in told
    assert made.weekday(None) == (1.0, "; supply of an average day")


def test_places_are_kept_within_bounds():
    """A text asked about again has the same place; so many texts are kept, and no more."""
    made = ServedModel(small_model(), "0", "market.coterie")
    first = made.placed("tour 0")
    assert made.placed("tour 0") is first
    for number in range(400):
        made.placed(f"tour {number}")
    assert len(made._recent._places) == 256
    again = made.placed("tour 0")
    assert again is not first
    np.testing.assert_array_equal(again.weights, first.weights)


def test_threads_get_the_same_answers():
    """Places and heads are right whoever asks at the same time."""
    made = ServedModel(small_model(), "0", "market.coterie")
    texts = [f"passport {i % 7}" for i in range(60)]
    with ThreadPoolExecutor(4) as pool:
        places = list(pool.map(made.placed, texts))
        heads = list(pool.map(made.head, [i % 5 for i in range(60)]))
    for text, place in zip(texts, places, strict=True):
        np.testing.assert_array_equal(place.shares, made.placer.placed(None, text).shares)
    assert heads == [made.head(i % 5) for i in range(60)]
