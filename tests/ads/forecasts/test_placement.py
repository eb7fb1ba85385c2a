"""Who is asked about, and on what grounds."""

from __future__ import annotations

from copy import copy
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.forecasts.forecast_tables import rate_and_sd
from coterie.ads.forecasts.placement import Placer
from coterie.errors import InvalidParameterError
from fitted_models import HOSTILE_IDS, small_model, textless_model

TEXT = "beach hotel"


@pytest.fixture(scope="module")
def placer():
    """Of the small model."""
    return Placer(small_model())


def test_everyone_in_the_log_is_found(placer):
    """By its id, of any characters; with its own shares, and alone."""
    model = small_model()
    for row, name in enumerate(model.advertisers_):
        place = placer.placed(str(name), "a text changes nothing")
        assert (place.name, place.row, place.curve) == (str(name), row, "pooled")
        np.testing.assert_array_equal(place.shares, model.shares_[row])
        assert np.flatnonzero(place.weights).tolist() == [row] and place.weights[row] == 1
        assert place.segment == model.segments_[model.labels_[row]].name
        assert place.why == placer.why(row)
    assert {placer.placed(name).name for name in HOSTILE_IDS} == set(HOSTILE_IDS)


@settings(max_examples=40)
@given(name=st.text(max_size=40))
def test_any_other_name_is_nobodys(placer, name):
    """No name is taken for another one."""
    model = small_model()
    placed = placer.placed(name)
    if name in model.advertisers_.tolist():
        assert model.advertisers_[placed.row] == name
    else:
        assert placed.row is None and placed.curve == "global"
        assert placed.shares[-1] == 1 and placed.segment == ""


@pytest.mark.parametrize(
    "name", ["a" * 100_000, "adv-00010\x00", "adv-00010 ", "\x00", "\U0010ffff"]
)
def test_names_that_come_close_are_nobodys(placer, name):
    """Longer than any in the log, or with a sign more."""
    assert placer.placed("adv-00010").row is not None
    assert placer.placed(name).row is None


def test_a_text_places_a_new_advertiser_beside_its_like(placer):
    """Beside at most fifteen, by their cosines; its shares are the mean of theirs."""
    model = small_model()
    place = placer.placed("new", TEXT)
    assert place.curve == "text" and place.row is None
    beside = np.flatnonzero(place.weights)
    assert 0 < len(beside) <= 15 and place.weights.sum() == pytest.approx(1)
    cosine = model.vectors_ @ model.text_view_.transform([TEXT])[0]
    others = np.delete(np.where(model.observations_ > 0, cosine, 0.0), beside)
    assert others.max() <= (cosine[beside].min() if len(beside) == 15 else 0.1)
    np.testing.assert_allclose(place.weights[beside] * cosine[beside].sum(), cosine[beside])
    np.testing.assert_allclose(place.shares, place.weights @ model.shares_)
    least, most = cosine[beside].min(), cosine[beside].max()
    assert (
        f"beside {len(beside)} advertisers with similar ones (likeness {least:.2f} to {most:.2f})"
    ) in place.why


def test_advertisers_without_bids_are_nobodys_like(placer):
    """However similar their texts: nothing is known of their curves."""
    model = copy(small_model())
    nearest = placer.placed(None, TEXT).weights.argmax()
    model.observations_ = np.where(np.arange(60) == nearest, 0.0, model.observations_)
    found = Placer(model).placed(None, TEXT)
    assert found.weights[nearest] == 0 and found.curve == "text"


def test_texts_are_placed_together_as_alone(placer):
    """Each text gets the place that it gets alone, to the last bit, however many there are."""
    texts = [TEXT, "", "xyzzy", *(f"hotel {word}" for word in TEXT.split()), TEXT] * 9
    for text, place in zip(texts, placer.placed_by_texts(texts), strict=True):
        alone = placer.placed(None, text)
        assert (place.why, place.curve, place.segment) == (alone.why, alone.curve, alone.segment)
        np.testing.assert_array_equal(place.weights, alone.weights)
        np.testing.assert_array_equal(place.shares, alone.shares)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("adv-0033", "'adv-0033' is not in the log (similar: 'adv-00033')"),
        ("ADV 33", "'ADV 33' is not in the log (similar: 'adv-00033')"),
        ("acme", "'acme' is not in the log (similar: 'acme-1', 'acme-2')"),
        # a beginning of very many, and what is like none
        ("adv-00", "'adv-00' is not in the log"),
        ("adv-777", "'adv-777' is not in the log"),
        ("", "a new advertiser is not in the log"),
    ],
)
def test_an_unknown_id_suggests_those_with_the_same_number_or_a_few_that_begin_with_it(asked, said):
    """Never all that are equally near."""
    names = np.array(["acme-1", "acme-2", *(f"adv-{i:05d}" for i in range(100))])
    known = {name: getattr(small_model(), name) for name in vars(small_model())}
    placer = Placer(SimpleNamespace(**known | {"advertisers_": names}))
    assert placer.unknown(asked) == said
    grounds = placer.placed(asked).why
    assert grounds.startswith(f"{said}," if asked else "no advertiser was named,")
    assert placer.needs_supply(asked).startswith(f"{said}; check the id")


@pytest.mark.parametrize("name", ["x" * 1000, "\U0010ffff" * 1000])
def test_long_names_are_cut_in_grounds(placer, name):
    """The grounds have at most eighty characters of a name."""
    place = placer.placed(name, TEXT)
    assert place.name == name
    assert place.why.startswith(f"{name[:79] + '…'!r} is not in the log")


def test_of_equal_texts_the_first_are_taken():
    """As a stable sort would have it."""
    model = small_model()
    placer = Placer(model)
    expected = model.vectors_ @ model.text_view_.transform([TEXT])[0]
    order = np.argsort(-expected, kind="stable")[:15]
    kept = order[expected[order] > 0.1]
    assert np.flatnonzero(placer.placed(None, TEXT).weights).tolist() == sorted(kept.tolist())


def test_without_a_telling_text_everyone_counts_by_bids(placer):
    """And the grounds say what is missing."""
    model = small_model()
    for text, told in ((None, "no text was given"), ("xyzzy", "resembles no other")):
        place = placer.placed("new", text)
        np.testing.assert_allclose(place.weights, model.observations_ / model.observations_.sum())
        assert told in place.why
    assert "nor are there any texts" in Placer(textless_model()).placed("new", TEXT).why
    average = placer.average_placement()
    assert average.curve == "global" and average.name == ""


def test_somebody_or_something_must_be_named(placer):
    """An empty name or text is one."""
    with pytest.raises(InvalidParameterError, match="name an advertiser"):
        placer.placed(None, None)
    assert placer.placed("", None).curve == placer.placed(None, "").curve == "global"


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1e6)), min_size=1))
def test_the_doubt_of_a_rate_has_two_parts(drawn):
    """What is not known of each, and how far they differ: by the law of total variance."""
    weights, rates, worth = np.array(drawn).T
    weights = weights / weights.sum()
    mean, sd = rate_and_sd(weights, rates, worth)
    assert mean == pytest.approx(weights @ rates)
    within = weights @ (rates * (1 - rates) / (worth + 1))
    between = weights @ rates**2 - mean**2
    assert sd**2 == pytest.approx(within + between, abs=1e-9)
    assert rate_and_sd(weights, None, None) == (None, 0.0)
