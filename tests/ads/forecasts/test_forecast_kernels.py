"""The compiled loops against the formulas they compile, on evidence of every kind."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.landscapes import Evidence
from coterie.ads.curves.pooling import mixed_rates, rising_rates
from coterie.ads.forecasts.forecast_kernels import (
    figures_of_one,
    figures_of_placed,
    figures_of_rows,
)
from coterie.ads.forecasts.pooled_curves import Rates, forecast_at, pool
from fitted_models import in_columns

MICROS = 1_000_000
FORMS = [("hazard", "price"), ("hazard", "bid"), ("rate", "bid")]
STRENGTHS = [0.0, 1e-3, 2.0, 50.0, 1e6, 3e7, np.inf]


class Drawn:
    """Some advertisers and segments at random, as evidence and as what the loops take."""

    def __init__(self, kind, strength, seed, a=4, k=3, g=9):
        rng = np.random.default_rng(seed)
        self.form, pays = kind
        self.strength, self.noise = strength, 0.07
        edges = np.cumsum(rng.integers(1, MICROS, g))
        told = rng.integers(0, 6, (a, g)) * (rng.random((a, g)) < 0.5) * 1.0
        told[0] = 0.0  # nothing is known of the first
        hazard = self.form == "hazard"
        self.trials = np.cumsum(told[:, ::-1], axis=1)[:, ::-1] if hazard else told
        self.successes = np.floor(told * rng.random((a, g)) * 1.2).clip(0, told)
        price = edges * 1.0 if pays == "bid" else edges * rng.uniform(0.6, 1, g)
        self.evidence = Evidence(
            self.form, pays, edges, self.successes, self.trials, price, told.sum(axis=1)
        )
        shares = rng.dirichlet(np.full(k + 1, 0.4), a)
        shares[rng.random(shares.shape) < 0.2] = 1e-30
        self.shares = shares / shares.sum(axis=1, keepdims=True)
        # some certain hazards: nobody is at risk after them
        self.rates = np.where(rng.random((k + 1, g)) < 0.1, 1.0, rng.random((k + 1, g)) * 0.5)
        self.events = np.column_stack([rng.random((a, 2)) * 0.1, np.full((a, 2), np.nan)])
        self.arguments = self._laid_out(told, edges, price, pays)

    def _laid_out(self, told, edges, price, pays):
        rates = self.rates if self.form == "hazard" else rising_rates(self.rates)
        before = np.cumprod(np.hstack([np.ones((len(rates), 1)), 1 - rates]), axis=1)[:, :-1]
        before = np.ascontiguousarray(before)
        counts = []
        for part in (sp.csr_array(self.successes), sp.csr_array(told)):
            counts += [part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data]
        market = (edges * 1.0, price, rates, before, before * rates)
        rules = (self.strength, self.noise, self.form == "hazard", pays == "price", pays == "bid")
        return market, tuple(counts), self.shares, self.events, rules

    def expected(self, row, bid, supply):
        """By the book."""
        prior = mixed_rates(self.shares[[row]], self.rates, self.form)[0]
        curve = pool(self.evidence.rows([row]), prior, self.strength)
        rates = Rates(*self.events[row, :2])
        return in_columns(forecast_at(bid, supply, curve, rates, self.noise))

    def bids(self):
        """Below the first edge, on every edge, between edges, above the last."""
        edges = self.evidence.edges / MICROS
        middles = (edges[1:] + edges[:-1]) / 2
        return np.array([1e-9, edges[0] / 3, *edges, *middles, edges[-1] * 1.5, 1e9])


@settings(max_examples=40)
@given(st.sampled_from(FORMS), st.sampled_from(STRENGTHS), st.integers(0, 10_000))
def test_figures_are_those_of_the_formulas(kind, strength, seed):
    """Every row and every kind of bid, of hazards and of rates, pooled little, much and wholly."""
    drawn = Drawn(kind, strength, seed)
    bids, supply = drawn.bids(), 1e4
    for row in range(len(drawn.shares)):
        rows, supplies = np.full(len(bids), row), np.full(len(bids), supply)
        found = figures_of_rows(rows, bids, supplies, *drawn.arguments)
        expected = [drawn.expected(row, bid, supply) for bid in bids]
        # a variance is the difference of two squares: what is left of the last bit is 1e-8
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-7 * supply)
        plain = [0, 1, 2, 5]  # no doubt in these
        np.testing.assert_allclose(
            found[:, plain], np.array(expected)[:, plain], rtol=1e-9, atol=1e-12 * supply
        )


@settings(max_examples=30)
@given(
    st.sampled_from(FORMS),
    st.sampled_from(STRENGTHS),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=12),
)
def test_an_answer_does_not_depend_on_what_else_is_asked(kind, strength, asked):
    """To the last bit: alone, among others, and with the curve of the question before."""
    drawn = Drawn(kind, strength, 7)
    bids = drawn.bids()
    rows = np.array([row for row, _ in asked])
    wanted = np.array([bids[i % len(bids)] for _, i in asked])
    together = figures_of_rows(rows, wanted, np.full(len(rows), 77.0), *drawn.arguments)
    for row, bid, found in zip(rows.tolist(), wanted.tolist(), together, strict=True):
        alone = figures_of_one(row, bid, 77.0, *drawn.arguments)
        np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("strength", STRENGTHS)
def test_somebody_without_evidence_is_forecast_as_one_who_is_not_there(kind, strength):
    """The first advertiser has no trial: its figures are those of its shares alone."""
    drawn = Drawn(kind, strength, 3)
    market, counts, shares, events, rules = drawn.arguments
    bids = drawn.bids()
    known = figures_of_rows(
        np.zeros(len(bids), dtype=np.int64), bids, np.full(len(bids), 9.0), *drawn.arguments
    )
    new = figures_of_placed(
        bids, np.full(len(bids), 9.0), market, counts, shares[0], events[0], rules
    )
    np.testing.assert_array_equal(known, new)


def test_nothing_asked_gives_nothing():
    """No rows, no figures."""
    drawn = Drawn(FORMS[0], 2.0, 0)
    none = np.zeros(0)
    found = figures_of_rows(none.astype(np.int64), none, none, *drawn.arguments)
    assert found.shape == (0, 12)
