"""Texts and prices of political ads: what is read, explained and predicted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from benchmarks.ads_snap import (
    SnapAdvertisers,
    explained_share,
    leave_one_out_strength,
    read_snap,
    run_snap,
    shrunken_means,
)
from coterie.errors import InvalidParameterError, TableError

labelled = st.lists(st.tuples(st.integers(0, 3), st.floats(-5, 5)), min_size=3, max_size=20)
HEADER = "ad_id,currency,spend,impressions,organization,candidate_ballot,advertiser,interests\n"


def planted(n=60, shift=1.0, seed=0):
    """Advertisers of two kinds of text; those of one cost e^shift times those of the other."""
    rng = np.random.default_rng(seed)
    words = (["beach", "hotel", "sea", "sun"], ["engine", "cars", "dealer", "road"])
    texts = [" ".join(rng.choice(words[a % 2], 6)) + f" name{a}" for a in range(n)]
    ecpm = np.exp(1 + shift * (np.arange(n) % 2) + 0.2 * rng.normal(size=n))
    impressions = np.full(n, 1e5)
    return SnapAdvertisers(
        [f"a{a}" for a in range(n)], texts, ecpm * impressions / 1000, impressions, {}
    )


def test_ads_are_put_together_by_advertiser(tmp_path):
    """Dollars only, enough spent only; every name and interest once, fields in order."""
    rows = (
        'x1,USD,30,1000,Firm,Ann,Ann for all,"Cats,Dogs"\n'
        'x2,USD,10,3000,Firm,,Ann for all,"Dogs, Birds"\n'
        "x3,EUR,99,1000,Firm,,Euro party,\n"
        "x4,USD,9,1000,Shop,,Small shop,\n"
        "x5,USD,50,0,Shop,,Unseen shop,\n"
    )
    path = tmp_path / "ads.csv"
    path.write_text(HEADER + rows)
    data = read_snap(path)
    assert data.names == ["Ann for all"]
    assert data.texts == ["Firm Ann Ann for all Cats Dogs Birds"]
    assert data.log_ecpm == pytest.approx(np.log(1000 * 40 / 4000))
    assert data.notes == {
        "ads": 5,
        "ads_in_dollars": 4,
        "advertisers_in_dollars": 2,
        "advertisers_spending_too_little": 1,
        "least_spend": 10,
        "advertisers": 1,
    }


def test_a_file_without_dollars_is_refused(tmp_path):
    """There is nothing to compare."""
    (tmp_path / "ads.csv").write_text(HEADER + "x3,EUR,99,1000,Firm,,Euro party,\n")
    with pytest.raises(TableError, match="no ad paid in dollars"):
        read_snap(tmp_path / "ads.csv")


@settings(deadline=None, max_examples=50)
@given(labelled)
def test_explained_share_is_that_of_a_regression_on_segments(some):
    """η² is the R² of scikit-learn's regression on indicators of the segments."""
    labels, values = (np.array(column) for column in zip(*some, strict=True))
    indicators = np.eye(4)[labels]
    found = explained_share(labels, values[:, None])[0]
    if np.ptp(values) < 1e-6:
        return
    oracle = LinearRegression().fit(indicators, values).score(indicators, values)
    assert found == pytest.approx(oracle, abs=1e-6)


def test_equal_values_explain_nothing():
    """Without variance there is no share of it."""
    assert explained_share([0, 1], [[2.0], [2.0]]).tolist() == [0.0]


@settings(deadline=None, max_examples=50)
@given(labelled, st.floats(0.1, 50))
def test_shrunken_means_lie_between_segment_and_all(some, strength):
    """The mean of the members and of so many advertisers like all."""
    labels, values = (np.array(column) for column in zip(*some, strict=True))
    found = shrunken_means(labels, values, strength)
    assert found[-1] == pytest.approx(values.mean())
    for s in np.unique(labels):
        inside = values[labels == s]
        oracle = (inside.sum() + strength * values.mean()) / (len(inside) + strength)
        assert found[s] == pytest.approx(oracle)
    assert shrunken_means(labels, values, np.inf) == pytest.approx(np.full(len(found), found[-1]))


@settings(deadline=None, max_examples=50)
@given(labelled)
def test_the_strength_is_that_of_the_least_error_left_out(some):
    """Leaving members out one at a time, by brute force, finds no better strength."""
    labels, values = (np.array(column) for column in zip(*some, strict=True))
    tried = [0.5, 2.0, 10.0, np.inf]

    def brute_force(strength):
        total = 0.0
        for i in range(len(values)):
            rest = np.arange(len(values)) != i
            mean = values[rest].mean()
            mates = values[rest & (labels == labels[i])]
            told = (
                mean
                if np.isinf(strength)
                else (mates.sum() + strength * mean) / (len(mates) + strength)
            )
            total += (values[i] - told) ** 2
        return total

    chosen = leave_one_out_strength(labels, values, tried)
    assert brute_force(chosen) == pytest.approx(min(map(brute_force, tried)), abs=1e-9)


def test_texts_that_matter_are_found():
    """Planted prices are explained beyond chance and told for advertisers never seen."""
    steps = []
    found = run_snap(
        planted(),
        numbers=(2, 4),
        permutations=100,
        repeats=2,
        after_repeat=lambda: steps.append(1),
    )
    assert len(steps) == 2
    two = found["explained"][0]
    assert two["eta_squared"] > 0.8
    assert two["p"] == pytest.approx(1 / 101)
    assert two["by_chance"] == pytest.approx(1 / 59, abs=0.02)
    assert two["by_chance"] <= two["by_chance_95"]
    predicted = found["predicted"]
    assert list(predicted) == ["global", "K = 2", "K = 4", "ridge"]
    assert predicted["K = 2"]["rmse_log"] < 0.5 * predicted["global"]["rmse_log"]
    gain = predicted["K = 2"]["rmse_less_global"]
    assert gain["mean"] < -5 * gain["se"] < 0
    assert predicted["K = 2"]["wape"] < predicted["global"]["wape"]
    dear = found["segments"][0]
    assert set(dear["words"]) & {"engine", "cars", "dealer", "road"}
    medians = [segment["quartiles"][1] for segment in found["segments"]]
    assert medians == sorted(medians, reverse=True)
    assert sum(segment["advertisers"] for segment in found["segments"]) == 60


def test_texts_that_do_not_matter_explain_nothing():
    """Without a planted difference p-values are anywhere, and held-out errors do not fall."""
    runs = [
        run_snap(planted(40, 0.0, seed), numbers=(2,), permutations=100, folds=4, repeats=1)
        for seed in range(5)
    ]
    p = [found["explained"][0]["p"] for found in runs]
    assert np.mean(p) > 0.15
    gains = [found["predicted"]["K = 2"]["rmse_less_global"]["mean"] for found in runs]
    assert np.mean(gains) > -0.01


def test_repeats_do_not_feign_certainty():
    """Three repeats hold out the same advertisers: the standard error stays about what it was."""
    data = planted(40)
    found = run_snap(data, numbers=(2,), permutations=10, repeats=1)["predicted"]
    before, after = found["global"], found["K = 2"]
    assert after["rmse_less_global"]["mean"] == pytest.approx(
        after["rmse_log"] - before["rmse_log"]
    )
    again = run_snap(data, numbers=(2,), permutations=10, repeats=3)["predicted"]["K = 2"]
    assert again["rmse_less_global"]["se"] == pytest.approx(
        after["rmse_less_global"]["se"], rel=0.3
    )


@pytest.mark.parametrize("settings_", [{"folds": 1}, {"folds": 99}, {"repeats": 0}])
def test_folds_that_cannot_be_are_refused(settings_):
    """Folds from 2 to the number of advertisers, at least one repeat."""
    with pytest.raises(InvalidParameterError, match="folds may be 2 to the number"):
        run_snap(planted(20), **settings_)
