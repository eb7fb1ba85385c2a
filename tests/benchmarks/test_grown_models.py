"""Grown models are models: sound, of the size asked for, and like the one they came from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.grown_models import grown
from coterie.ads.forecasts.forecaster import AdForecaster
from coterie.errors import InvalidParameterError
from coterie.files.model_files import load_model, save_model
from served_markets import small_market


def attributes(model: AdForecaster) -> set[str]:
    """The names of what was fitted."""
    return {name for name in vars(model) if name.endswith("_")}


@pytest.fixture(scope="module")
def large() -> AdForecaster:
    """Six hundred advertisers from fifty."""
    return grown(small_market(), 600)


def test_every_attribute_is_of_the_size_asked_for(large):
    """What a fitted model holds of each advertiser, a grown one holds of as many as it has."""
    small = small_market()
    before, after = len(small.advertisers_), len(large.advertisers_)
    assert after == 600
    assert attributes(large) == attributes(small)
    for name in attributes(small) - {"outliers_", "doubtful_", "segments_", "days_", "edges_"}:
        shape = getattr(getattr(small, name), "shape", ())
        if shape and shape[0] == before:
            assert getattr(large, name).shape == (after, *shape[1:]), name
    assert large.agreement_.placed.shape == (after, len(small.agreement_.names))
    assert large.supply_.level.shape == (after,)


@given(extra=st.integers(0, 200), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_a_grown_model_is_consistent(extra, seed):
    """Ids are sorted, shares sum to 1, labels follow from them, sizes from labels, in order."""
    small = small_market()
    model = grown(small, len(small.advertisers_) + extra, seed)
    K = len(model.segments_)
    assert (np.sort(model.advertisers_) == model.advertisers_).all()
    assert len(set(model.advertisers_.tolist())) == len(model.advertisers_)
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1.0)
    assert (model.memberships_.labels == model.labels_).all()
    np.testing.assert_allclose(model.confidence_, model.shares_[:, :-1].max(axis=1))
    sizes = np.bincount(model.labels_, minlength=K)
    assert [profile.size for profile in model.segments_] == sizes.tolist()
    assert (np.diff(sizes) <= 0).all() and sizes[-1] > 0
    observed = [model.observations_[model.labels_ == s].sum() for s in range(K)]
    np.testing.assert_allclose([profile.observations for profile in model.segments_], observed)
    assert ((model.agreement_.placed >= -1) & (model.agreement_.placed < K)).all()


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_evidence_is_counts_that_could_be(seed):
    """Counts are whole, no advertiser wins more than it was told of, nor than it bid."""
    model = grown(small_market(), 120, seed)
    for counts in (model.successes_, model.trials_by_bin_):
        counts.check_format(full_check=True)
        assert counts.has_canonical_format
        assert (counts.data > 0).all() and (counts.data == counts.data.round()).all()
    assert ((model.trials_by_bin_ - model.successes_).toarray() >= 0).all()
    np.testing.assert_allclose(model.observations_, model.trials_by_bin_.sum(axis=1))
    assert (model.wins_ <= model.observations_ + 1e-9).all()
    for rate in (model.click_rate_, model.conversion_rate_):
        assert ((rate >= 0) & (rate <= 1)).all()
    lengths = np.linalg.norm(model.vectors_, axis=1)
    assert (np.isclose(lengths, 1.0) | (lengths == 0)).all()


def test_segments_keep_what_they_are(large):
    """A segment has the same name and the same rates, wherever it comes in the order of size."""
    small = small_market()
    rates = dict(zip([s.name for s in small.segments_], small.rates_, strict=False))
    for profile, rate in zip(large.segments_, large.rates_, strict=False):
        assert (rates[profile.name] == rate).all()


def test_a_service_would_take_it(large):
    """The checks of a model that is to be served find nothing wrong."""
    checks = pytest.importorskip("coterie.ads.service.models.model_checks")
    checks.check_model(large)


def test_it_is_saved_and_loaded(large, tmp_path):
    """A grown model goes into a file and comes back with the same forecasts."""
    save_model(large, tmp_path / "large.coterie")
    again = load_model(tmp_path / "large.coterie")
    for advertiser in large.advertisers_[::97]:
        assert again.forecast(advertiser, [0.5, 2.0]) == large.forecast(advertiser, [0.5, 2.0])


def test_seeds_give_other_answers_to_the_same_questions(large):
    """The same seed gives the same model; another one the same names, and other forecasts."""
    same, other = grown(small_market(), 600), grown(small_market(), 600, seed=1)
    assert (same.advertisers_ == other.advertisers_).all()
    name = large.advertisers_[5]
    assert same.forecast(name, 2.0) == large.forecast(name, 2.0)
    assert other.forecast(name, 2.0) != large.forecast(name, 2.0)


def test_the_original_is_left_alone():
    """Growing changes nothing of the model it starts from."""
    small = small_market()
    before = {name: id(value) for name, value in vars(small).items()}
    counts = small.trials_by_bin_.sum()
    grown(small, 200)
    assert before == {name: id(value) for name, value in vars(small).items()}
    assert small.trials_by_bin_.sum() == counts


def test_a_model_does_not_shrink():
    """Fewer advertisers than there are is refused, with the number there are."""
    with pytest.raises(InvalidParameterError, match="a model of 50 can only grow"):
        grown(small_market(), 49)
