"""Tests of clusters against factors, compared with scipy, brute force and simulations."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.cluster import AgglomerativeClustering

from coterie import factor_tests
from coterie.errors import CoterieWarning, InvalidLabelsError, InvalidParameterError


def only(tests):
    """Return the only row of a result."""
    (row,) = tests.rows
    return row


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_large_tables_equal_scipy(seed):
    """Statistic and p-value are those of scipy, and V and ε² follow from them."""
    rng = np.random.default_rng(seed)
    labels, sex = rng.integers(0, 3, 300), rng.choice(["f", "m"], 300)
    age = np.round(rng.normal(40 + labels, 10))
    one, two = factor_tests(labels, {"sex": sex, "age": age}).rows
    chi2, p, *_ = stats.contingency.chi2_contingency(
        stats.contingency.crosstab(labels, sex).count, correction=False
    )
    assert (one.test, two.test) == ("chi-squared", "Kruskal-Wallis")
    assert (one.statistic, one.p_value) == pytest.approx((chi2, p))
    association = stats.contingency.association(stats.contingency.crosstab(labels, sex).count)
    assert one.effect_size == pytest.approx(association)
    H, p = stats.kruskal(*(age[labels == b] for b in range(3)))
    assert (two.statistic, two.p_value) == pytest.approx((H, p))
    assert two.effect_size == pytest.approx(H / 299)


def test_small_two_by_two_tables_are_tested_exactly():
    """A small table of two clusters and two values has the p-value of Fisher's test."""
    labels, value = [0, 0, 0, 1, 1, 1, 1], list("aaabbba")
    row = only(factor_tests(labels, {"x": value}))
    assert row.test == "Fisher exact"
    assert row.p_value == pytest.approx(stats.fisher_exact([[3, 0], [1, 3]]).pvalue)


@pytest.mark.parametrize(
    ("sizes", "test"),
    [
        ([40, 40, 40, 40, 8], "chi-squared"),  # 8 of 10 cells expect 5 or more
        ([40, 40, 8], "chi-squared, permuted"),  # 4 of 6
        ([80] * 9 + [2], "chi-squared"),  # each cell of the last cluster expects 1
        ([81] * 9 + [1], "chi-squared, permuted"),
    ],
)
def test_cochrans_rule_decides_on_permutations(sizes, test):
    """The distribution is used if 80% of the cells expect at least 5 and all at least 1."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    value = np.array(["a", "b"])[np.arange(len(labels)) % 2]
    assert only(factor_tests(labels, {"x": value}, n_permutations=9)).test == test


@pytest.mark.parametrize(
    ("value", "test"),
    [
        (np.array(list("aababc")), "chi-squared, permuted"),
        (np.array([1, 2, 4, 4, 3, 9.0]), "Kruskal-Wallis, permuted"),
    ],
)
def test_few_points_have_the_exact_p_value(value, test):
    """Random permutations give the share of all of them with as large a statistic."""
    labels = np.array([0, 0, 1, 1, 2, 2])

    def statistic(order):
        x = value[list(order)]
        if x.dtype == float:
            return stats.kruskal(*(x[labels == b] for b in range(3))).statistic
        table = stats.contingency.crosstab(labels, x).count
        return stats.chi2_contingency(table, correction=False).statistic

    found = statistic(range(6))
    exact = np.mean([statistic(order) >= found - 1e-9 for order in permutations(range(6))])
    row = only(factor_tests(labels, {"x": value}, random_state=0))
    assert row.test == test and row.p_value == pytest.approx(exact, abs=0.02)


def test_the_smallest_p_value_counts_the_data_themselves():
    """No permutation is as extreme, so the share is that of the data alone: 1/(B + 1)."""
    labels = np.repeat([0, 1, 2], 4)
    for value in (labels.astype(str), labels + np.linspace(0, 0.5, 12)):
        row = only(factor_tests(labels, {"x": value}, n_permutations=9, random_state=0))
        assert row.test.endswith("permuted") and row.p_value == 1 / 10


def test_factors_without_association_are_rarely_significant():
    """The p-values of random factors are uniform, so that 5% are below 0.05."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [100, 60, 40])
    factors = {f"n{i}": rng.normal(size=200) for i in range(100)}
    factors |= {f"c{i}": rng.choice(["a", "b", "c"], 200) for i in range(100)}
    tests = factor_tests(labels, factors).to_frame()
    assert 0.02 < (tests.p_value < 0.05).mean() < 0.09
    assert (tests.p_adjusted > 0.05).all()
    assert np.allclose(tests.p_adjusted, stats.false_discovery_control(tests.p_value))


def test_missing_values_and_labels_are_left_out():
    """Points without a label or a value do not change the test of the others."""
    labels = np.repeat([0, 1], 30)
    kind, size = np.tile(["a", "b", "b"], 20).astype(object), np.arange(60.0)
    whole = factor_tests(labels, {"kind": kind, "size": size})
    more = factor_tests(
        [*labels, 0, 1, -1, -1],
        {"kind": [*kind, None, "", "a", "b"], "size": [*size, np.nan, np.nan, 5, 6]},
    )
    assert more == whole


def test_any_table_and_any_estimator_give_the_same_tests():
    """Tables of pandas, polars and arrow are read like dicts; an estimator gives its labels."""
    columns = {"sex": ["m", "f", "f"] * 8, "age": list(range(24))}
    est = AgglomerativeClustering(2).fit(np.arange(24)[:, None])
    expected = factor_tests(est.labels_, columns)
    assert factor_tests(est, columns) == expected
    for as_table in (pd.DataFrame, pl.DataFrame, pa.table):
        assert factor_tests(est.labels_, as_table(columns)) == expected


def test_dates_are_numbers_and_codes_as_texts_are_categories():
    """Dates are ranked; categories, truth values and texts are counted."""
    labels = np.repeat([0, 1], 20)
    frame = pd.DataFrame(
        {
            "day": pd.date_range("2024-01-01", periods=40),
            "site": pd.Categorical([*"ab"] * 20),
            "treated": [True, False] * 20,
        }
    )
    tests = [row.test for row in factor_tests(labels, frame).rows]
    assert tests == ["Kruskal-Wallis", "chi-squared", "chi-squared"]


def test_numbers_that_look_like_codes_are_named():
    """The user learns that 0 and 1 are ranked, and can have them counted; [] accepts the ranks."""
    labels = np.repeat([0, 1], 20)
    codes, age = np.tile([0, 1, 1, 1], 10), np.arange(40)
    factors = {"sex": codes, "age": age, "score": codes + 0.5}
    with pytest.warns(CoterieWarning, match=r"few different values: sex; .* in categories"):
        ranked = factor_tests(labels, factors)
    assert factor_tests(labels, factors, categories=[]) == ranked
    assert {row.test for row in ranked.rows} == {"Kruskal-Wallis"}
    counted = factor_tests(labels, factors, categories=["sex"])
    as_texts = factor_tests(labels, factors | {"sex": codes.astype(str)}, categories=[])
    assert counted == as_texts and counted.rows[0].test == "chi-squared"
    frame = pd.DataFrame({"sex": pd.Categorical(codes)})
    assert factor_tests(labels, frame).rows[0].statistic == counted.rows[0].statistic


@pytest.mark.parametrize(
    ("labels", "factors", "options", "error", "message"),
    [
        ([0, 1], {"x": [1, 2, 3]}, {}, InvalidParameterError, r"'x' has shape \(3,\) for 2 labels"),
        ([0, 1], np.eye(2), {}, InvalidParameterError, "without names of columns"),
        ([[0], [1]], {"x": [1, 2]}, {}, InvalidLabelsError, "not a table"),
        ([-1, -1], {"x": [1, 2]}, {}, InvalidLabelsError, "no point has a label"),
        ([0, 1], {"x": [1, 2]}, {"n_permutations": 0}, InvalidParameterError, "n_permutations=0"),
        # a name that is no factor would change nothing
        *(
            ([0, 1], {"sex": [0, 1]}, {"categories": names}, InvalidParameterError, message)
            for names, message in [(["sexe"], "'sexe', but the factors are 'sex'"), ("sex", "list")]
        ),
    ],
)
def test_unusable_input_is_refused(labels, factors, options, error, message):
    with pytest.raises(error, match=message):
        factor_tests(labels, factors, **options)


def test_factors_that_do_not_vary_have_no_test():
    """A constant factor, or a single cluster, has no p-value and is not adjusted for."""
    tests = factor_tests([0, 0, 0, 1, 1, 1], {"one": ["a"] * 6, "two": [3.0] * 6, "x": [*range(6)]})
    none, also_none, x = tests.rows
    assert (none.test, also_none.test) == ("none", "none")
    assert np.isnan([none.p_value, also_none.p_adjusted]).all()
    assert x.p_value == x.p_adjusted
    assert "–" in str(tests)
    assert only(factor_tests([0, 0], {"x": [1, 2]})).test == "none"
