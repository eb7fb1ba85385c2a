"""AdForecaster: segments, curves and forecasts at any bid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import coterie
from bid_tables import HOSTILE
from coterie.ads.curves.landscapes import curve_at, evidence_of
from coterie.ads.curves.pooling import overall_rate, segment_rates
from coterie.ads.curves.supply import supply_of
from coterie.ads.forecasts.backtest import Choice
from coterie.ads.forecasts.forecaster import AdForecaster, load_forecaster
from coterie.ads.segments.settings import SegmentSettings
from coterie.consensus import L2Consensus
from coterie.errors import InvalidParameterError, ModelFileError
from coterie.inspection.scores import adjusted_rand_index
from markets import (
    EASY,
    MICROS,
    ODD_WITH_SEGMENTS,
    ODD_WITHOUT_SEGMENTS,
    QUICK,
    fitted,
    log_of,
    market,
    odd_model,
    some_of,
    sound,
)

BIDS = [0.05, 0.7, 1.5, 3.0, 20.0]
CHOICE = Choice("robust", (("k", 3),), 5.0, 0.1, 0.05, 1)


class Backwards(L2Consensus):
    """The averaged consensus with the largest cluster last."""

    def fit(self, P):
        """Number the clusters from the other end."""
        super().fit(P)
        self.labels_ = self.labels_.max() - self.labels_
        return self


def forecaster(**changed):
    """Unfitted, with the quick settings."""
    return AdForecaster(**{**vars(QUICK), **changed})


def test_the_planted_segments_are_found():
    """On an easy market nearly all of them."""
    model, made = fitted(), market(EASY)
    assert adjusted_rand_index(model.labels_, made.segments) > 0.9
    # one day of errors may prefer one segment more; it is nearly empty then
    assert np.sort(np.bincount(model.labels_))[-3:].min() >= 29
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1)
    np.testing.assert_allclose(model.confidence_, model.shares_[:, :-1].max(axis=1))
    assert model.agreement_.names == ["text", "win", "cost", "market"]
    assert model.agreement_.weights.sum() == pytest.approx(1)


def test_the_largest_segment_comes_first():
    """With its shares and rates, whatever the order in which segments were found."""
    made = market(EASY)
    members = [np.flatnonzero(made.segments == s)[:n] for s, n in enumerate((6, 25, 12))]
    rows = np.sort(np.concatenate(members))
    model = forecaster(consensus=Backwards(random_state=0))
    model.fit(some_of(made.histograms, rows), made.descriptions, choice=CHOICE)
    sizes = np.bincount(model.labels_)
    assert (np.diff(sizes) <= 0).all() and sizes[0] > sizes[-1]
    assert np.bincount(made.segments[rows][model.labels_ == 0]).argmax() == 1
    evidence = model.evidence()
    expected = segment_rates(evidence, model.shares_[:, :-1], QUICK.max_observations)
    np.testing.assert_allclose(model.rates_[:-1], expected, rtol=1e-6)
    np.testing.assert_allclose(model.rates_[-1], overall_rate(evidence)[0])


@settings(max_examples=30)
@given(st.integers(0, 89), st.floats(0.01, 30), st.floats(0, 1e9), st.floats(1.01, 100))
def test_forecasts_are_linear_in_supply_and_rise_with_the_bid(row, bid, supply, factor):
    """For any advertiser and bid."""
    model = fitted()
    name = str(model.advertisers_[row])
    one, more = (model.forecast(name, bid, supply=s) for s in (supply, factor * supply))
    assert more.impressions == pytest.approx(factor * one.impressions)
    assert more.spend == pytest.approx(factor * one.spend)
    assert more.clicks == pytest.approx(factor * one.clicks)
    assert (more.win_rate, more.cost) == (one.win_rate, one.cost)
    assert sound(model.forecast(name, [bid, factor * bid], supply=supply))


def test_clicks_and_conversions_follow_impressions():
    """By rates between the advertiser's own and its segment's; none where the log has none."""
    model, made = fitted(), market(EASY)
    one = model.forecast("adv-00003", 2.0, supply=1e6)
    assert one.clicks == pytest.approx(one.impressions * model.click_rate_[3])
    assert one.conversions == pytest.approx(one.impressions * model.conversion_rate_[3])
    assert one.clicks_interval[0] <= one.clicks <= one.clicks_interval[1]
    clicks = made.histograms.dense().clicks.sum() / made.histograms.dense().wins.sum()
    assert model.click_rate_.min() > 0.1 * clicks and model.click_rate_.max() < 10 * clicks
    rows = {**made.rows, "click": 0, "conversion": 0}
    names = [f"adv-{i:05d}" for i in range(90)]
    without = log_of(**rows, edges=made.histograms.edges, names=names)
    silent = forecaster().fit(without, choice=CHOICE).forecast("adv-00003", 2.0)
    assert silent.clicks is silent.clicks_interval is silent.conversions is None


def test_more_bids_of_ones_own_make_narrower_intervals():
    """The same log four times over, relative to the mean."""
    made = market(EASY)
    log = some_of(made.histograms, advertisers=range(40))

    def times_four(cells):
        kept = ("advertiser", "day", "bin")
        return type(cells)(**{n: p if n in kept else p * 4 for n, p in vars(cells).items()})

    more = replace(log, bids=times_four(log.bids), prices=times_four(log.prices))
    choice = replace(CHOICE, noise=0.0, strength=2.0)
    few, many = (forecaster().fit(h, made.descriptions, choice=choice) for h in (log, more))
    for name in few.advertisers_[:10]:
        widths = []
        for model in (few, many):
            curve = model.curve(str(name))
            at = int(np.searchsorted(curve.win, 0.3))
            widths.append(curve.spread[at] / curve.win[at])
        assert widths[1] < widths[0]


def test_the_supply_is_that_of_the_day():
    """By default of an average one; of a date, that of its weekday."""
    model, made = fitted(), market(EASY)
    supply = supply_of(made.histograms)
    name = str(model.advertisers_[5])
    usual = model.forecast(name, 1.0)
    assert usual.supply == pytest.approx(supply.level[5])
    assert usual.why.endswith("; supply of an average day")
    tuesday = model.forecast(name, 1.0, day="2026-03-10")
    assert tuesday.supply == pytest.approx(supply.level[5] * supply.weekday[1])
    assert tuesday.why.endswith("; supply of 2026-03-10")
    given = model.forecast(name, 1.0, supply=77)
    assert given.supply == 77 and "supply" not in given.why


def test_grounds_are_told():
    """Own bids, segment and share; and that a bid is above all that were seen."""
    model = fitted()
    one = model.forecast("adv-00000", 2.0, supply=1)
    n, share = model.observations_[0], model.confidence_[0]
    assert one.segment == model.segments_[model.labels_[0]].name
    for fact in (f"{n:,.0f} bids", repr(one.segment), f"share {share:.0%}"):
        assert fact in one.why
    highest = model.edges_[-1] / MICROS
    above, at = model.forecast("adv-00000", [2 * highest, highest], supply=1)
    assert above.why.startswith(at.why) and f"{highest:g}" in above.why.removeprefix(at.why)
    assert above.impressions == at.impressions and above.spend == at.spend


def test_new_advertisers_are_placed_by_their_texts():
    """Beside those with similar ones, whose segment they get."""
    model, made = fitted(), market(EASY)
    known = next(name for name in model.advertisers_ if str(name) in made.descriptions)
    text = made.descriptions[str(known)]
    segment = model.labels_[model.advertisers_.tolist().index(str(known))]
    one = model.forecast("nobody", 2.0, supply=1000, text=text)
    assert (one.curve, one.advertiser) == ("text", "nobody")
    assert one.segment == model.segments_[segment].name
    assert one.why.startswith("'nobody' is not in the log: placed by its text, beside ")
    of_segment = curve_at(model.curve(text=text).segment[None], model.edges_, [2 * MICROS])[0, 0]
    assert one.win_rate == pytest.approx(of_segment)
    unnamed = model.forecast(bid=2.0, supply=1000, text=text)
    assert unnamed.advertiser == "" and unnamed.why.startswith("no advertiser was named: placed")
    assert unnamed.impressions == one.impressions


@pytest.mark.parametrize("text", [None, "  ", "xyzzy 🦄"])
def test_new_advertisers_without_a_telling_text_get_the_curve_of_all(text):
    """And are told so."""
    model = fitted()
    one = model.forecast("nobody", 2.0, supply=1000, text=text)
    assert (one.curve, one.segment) == ("global", "")
    assert "'nobody'" in one.why and "all advertisers" in one.why
    overall = curve_at(model.curve("nobody").win[None], model.edges_, [2 * MICROS])[0, 0]
    assert one.win_rate == pytest.approx(overall)
    assert sound(model.forecast("nobody", BIDS, supply=1000, text=text))


@pytest.mark.parametrize("day", ["", "soon", "NaT", "today", "2026-02-30", "2026-03", "09.03.2026"])
def test_bad_days_are_refused(day):
    """Whatever numpy would make of them."""
    with pytest.raises(InvalidParameterError, match="it must be a date as in 2026-03-09"):
        fitted().forecast("adv-00000", 1.0, day=day)


def test_one_bid_gives_one_forecast_and_a_list_gives_a_list():
    """In the order of the bids."""
    model = fitted()
    several = model.forecast("adv-00000", [3.0, 1.0])
    assert [one.bid for one in several] == [3.0, 1.0]
    assert several[1] == model.forecast("adv-00000", 1.0)
    assert model.forecast("adv-00000", np.array([1.0])) == [several[1]]


def test_saved_models_forecast_the_same(tmp_path):
    """Bit for bit, of known and of new advertisers; and their profiles are the same."""
    model = fitted()
    coterie.save_model(model, tmp_path / "model.coterie")
    loaded = coterie.load_model(tmp_path / "model.coterie")
    for name in model.advertisers_[::13]:
        assert loaded.forecast(str(name), BIDS) == model.forecast(str(name), BIDS)
    new = {"supply": 1000, "text": "flights and hotels at the beach"}
    assert loaded.forecast("new", BIDS, **new) == model.forecast("new", BIDS, **new)
    assert loaded.segments_ == model.segments_ and loaded.choice_ == model.choice_
    assert loaded.get_params() == model.get_params()
    assert loaded.agreement_.sentence == model.agreement_.sentence


def test_only_forecasters_are_loaded_to_forecast(tmp_path):
    """A file of another model is refused by what it holds, and one that is not there by name."""
    file = tmp_path / "model.coterie"
    coterie.save_model(fitted(), file)
    assert load_forecaster(str(file)).forecast("adv-00000", 2.0) == fitted().forecast(
        "adv-00000", 2.0
    )
    coterie.save_model(L2Consensus(2, random_state=0).fit([[0, 0], [0, 1], [1, 1]]), file)
    with pytest.raises(ModelFileError, match="holds a L2Consensus, which does not forecast"):
        load_forecaster(file)
    with pytest.raises(ModelFileError, match="No such file"):
        load_forecaster(tmp_path / "none.coterie")


@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
def test_older_models_of_first_price_logs_are_forecast_by_rising_rates():
    """Rates that fall somewhere, as such files may hold them, make sound forecasts."""
    made = market(replace(EASY, advertisers=30, days=2, auction="first"))
    model = AdForecaster(**vars(QUICK)).fit(made.histograms)
    model.rates_ = np.random.default_rng(0).random(model.rates_.shape)
    for name in [*model.advertisers_[:5], "new"]:
        found = model.forecast(str(name), BIDS, supply=1000)
        assert sound(found)
        win = curve_at(model.curve(str(name)).win[None], model.edges_, np.array(BIDS) * MICROS)
        np.testing.assert_allclose([one.win_rate for one in found], win[0], rtol=1e-9)


def test_evidence_is_kept_without_loss():
    """From sparse parts, as it was read from the log; of all or of some."""
    for kind in ({}, {"auction": "first"}):
        made = market(replace(EASY, advertisers=30, days=2, **kind))
        model = forecaster().fit(made.histograms, made.descriptions, choice=CHOICE)
        expected = evidence_of(made.histograms)
        for found, truth in ((model.evidence(), expected), (model.evidence(4), expected.rows([4]))):
            for name in ("successes", "trials", "price", "observations", "edges"):
                np.testing.assert_array_equal(getattr(found, name), getattr(truth, name))
            assert (found.form, found.pays) == (truth.form, truth.pays)


# with next to no advertisers the views may fall into camps, which the consensus warns of
@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.parametrize("name", [*ODD_WITH_SEGMENTS, *ODD_WITHOUT_SEGMENTS])
def test_odd_markets_are_forecast_and_say_what_they_rest_on(name):
    """Finite and sound, of a known advertiser and of a new one."""
    model = odd_model(name)
    found = model.forecast("adv-00000", BIDS)
    assert sound(found)
    n = f"{model.observations_[0]:,.0f}"
    own = f"{n} bid{'' if n == '1' else 's'} of its own, completed by "
    if name in ODD_WITH_SEGMENTS:
        assert found[0].why.startswith(f"{own}the segment {found[0].segment!r} (share")
        assert found[0].segment == model.segments_[model.labels_[0]].name
    else:
        assert found[0].why.startswith(f"{own}all advertisers")
        assert found[0].segment == "" and not model.segments_
        assert (model.labels_ == -1).all() and model.shares_.shape[1] == 1
    assert all(one.curve == "pooled" for one in found)
    assert sound(model.forecast("new", BIDS, supply=100, text="beach hotel"))
    if name in {"no wins", "no wins but texts", "one lost bid"}:
        assert not any(one.impressions for one in found)
    if name in {"one advertiser", "one won bid"}:
        # pooled with itself alone: its own curve
        np.testing.assert_allclose(model.curve("adv-00000").win, model.curve("adv-00000").own)


@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(1, 9), st.integers(1, 9)),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from(
        [
            ("second", "paid"),
            ("second", "minimum"),
            ("second", "none"),
            ("first", "none"),
            ("first", "minimum"),
        ]
    ),
    st.lists(st.sampled_from(["beach hotel", "car dealer", "🦊", ""]), min_size=6, max_size=6),
)
def test_any_small_log_is_forecast(auctions, kind, texts):
    """Whatever was bid, won and said."""
    who, day, bid, minimum = np.array(auctions).T
    bid, minimum = bid * MICROS, minimum * MICROS
    auction, revealed = kind
    log = log_of(
        advertiser=who,
        day=day,
        bid=bid,
        won=bid >= minimum,
        price=bid if auction == "first" else minimum,
        minimum=minimum,
        edges=np.array([2, 5, 9]) * MICROS,
        auction=auction,
        revealed=revealed,
    )
    model = forecaster(n_segments=2).fit(log, {f"a{i:03d}": text for i, text in enumerate(texts)})
    for name in log.advertisers:
        assert sound(model.forecast(str(name), [0.5, 2, 3.5, 9, 12]))
    assert sound(model.forecast("new", [0.5, 2, 3.5, 9, 12], supply=9, text="hotel"))


def test_hostile_names_and_texts():
    """Names that are code, texts that are not words: kept, found again and forecast."""
    names = sorted({*HOSTILE, "a" * 900, "ноль", "\u202eright to left"})
    rng = np.random.default_rng(0)
    n = 60 * len(names)
    bid = rng.integers(1, 5 * MICROS, n)
    log = log_of(
        advertiser=rng.permutation(np.arange(n) % len(names)),
        day=np.arange(n) % 3,
        bid=bid,
        won=rng.random(n) < 0.5,
        price=bid // 2,
        edges=np.arange(1, 11) * MICROS // 2,
        names=names,
    )
    texts = [
        "🦊🦊 foxes",
        "<b>bold</b>",
        "'; DROP TABLE x; --",
        "\x00\x01",
        "日本語のテキスト",
        "🏖️",
    ]
    descriptions = {name: texts[i % len(texts)] for i, name in enumerate(names)}
    model = forecaster(n_segments=2).fit(log, descriptions)
    assert model.advertisers_.tolist() == names
    for name in names:
        found = model.forecast(name, BIDS)
        assert found[0].advertiser == name and found[0].curve == "pooled" and sound(found)
    assert sound(model.forecast("<i>new</i>", BIDS, supply=10, text="🦊"))


def test_numbers_as_names_are_found():
    """Where the log has numbers for advertisers, they are text in the model."""
    log = log_of(bid=[5, 6], won=True, price=3, advertiser=[0, 1], edges=[10], names=["7", "8"])
    model = forecaster().fit(log)
    assert model.forecast(7, 1.0) == model.forecast("7", 1.0)


def test_choices_are_made_here_unless_given():
    """A choice of an evaluation is taken as it is."""
    made = market(EASY)
    given = forecaster(n_segments=(3, 4)).fit(made.histograms, choice=CHOICE)
    assert given.choice_ is CHOICE
    with_four = replace(CHOICE, settings=(("k", 4),))
    four = forecaster(n_segments=(3, 4)).fit(made.histograms, choice=with_four)
    assert len(four.segments_) <= 4
    assert fitted().choice_.source == "robust" and fitted().choice_.days == 1


def test_embeddings_take_the_place_of_texts():
    """Any vectors of one row an advertiser; words still name the segments."""
    made = market(EASY)
    vectors = np.eye(3)[made.segments] * 7.0
    model = forecaster().fit(made.histograms, made.descriptions, embeddings=vectors, choice=CHOICE)
    assert adjusted_rand_index(model.labels_, made.segments) > 0.95
    assert model.text_view_ is None and model.segments_[0].words
    with pytest.raises(InvalidParameterError, match="90 rows"):
        forecaster().fit(made.histograms, embeddings=vectors[:5])


def test_scikit_learn_conventions():
    """Parameters as given, clones unfitted, settings checked at fit and not before."""
    model = forecaster(n_segments=5)
    assert clone(model).get_params() == model.get_params()
    assert model.get_params().keys() == vars(SegmentSettings()).keys()
    with pytest.raises(NotFittedError):
        model.forecast("a", 1.0)
    with pytest.raises(NotFittedError):
        model.curve("a")
    bad = AdForecaster(alphas=(2.0,))
    with pytest.raises(InvalidParameterError, match="alphas"):
        bad.fit(market(EASY).histograms)


def test_the_same_log_gives_the_same_model():
    """Whoever fits it again."""
    made = market(EASY)
    again = forecaster().fit(made.histograms, made.descriptions)
    np.testing.assert_array_equal(again.shares_, fitted().shares_)
    assert again.choice_ == fitted().choice_


def test_a_weekday_that_was_never_seen_is_told():
    """Its supply is that of an average day, and the answer says so."""
    made = market(replace(EASY, advertisers=30, days=2))  # a Monday and a Tuesday
    model = AdForecaster(**vars(QUICK)).fit(made.histograms)
    name = str(model.advertisers_[0])
    assert "not in the log" not in model.forecast(name, 2.0, day="2026-03-09").why
    assert "is a weekday that is not in the log" in model.forecast(name, 2.0, day="2026-03-08").why


def test_a_log_of_one_day_tells_that_intervals_leave_out_what_varies():
    """There is nothing to tell day-to-day noise by."""
    made = market(replace(EASY, advertisers=30, days=1))
    model = AdForecaster(**vars(QUICK)).fit(made.histograms)
    assert "intervals leave it out" in model.forecast(str(model.advertisers_[0]), 2.0).why


def test_click_intervals_know_how_little_is_known_of_a_rate():
    """Few impressions, a wide interval: far wider than the chance of that many clicks."""
    made = market(replace(EASY, advertisers=60, days=3))
    model = AdForecaster(**vars(QUICK)).fit(made.histograms)
    thin = str(model.advertisers_[np.argmin(model.observations_)])
    found = model.forecast(thin, 5.0, supply=1e7)
    low, high = found.clicks_interval
    assert high - low > 4 * 1.645 * np.sqrt(found.clicks)


def test_a_supply_and_a_day_are_not_both_given():
    """A day only sets the supply: of the two one would be ignored."""
    with pytest.raises(InvalidParameterError, match="give supply or day, not both"):
        fitted().forecast("adv-00000", 1.0, supply=5, day="2026-03-09")
