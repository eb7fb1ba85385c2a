"""Features in the report: statistics by definition, which are listed, where points are drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from consensus_pages import clustered_features, fitted
from coterie import EvidenceAccumulation
from coterie.errors import InvalidParameterError
from coterie.inspection.report import features as module
from coterie.inspection.report.features import feature_contrasts, named_features


def part_of(est, X, feature_names=None, row_names=range(1_000)):
    """Return the features part of the report."""
    return module.features_part(est, X, feature_names, row_names)


def brute_force(X, labels):
    """Return separation, differences and means by their definitions."""
    X, labels = X[labels >= 0], labels[labels >= 0]
    K, p = labels.max() + 1, X.shape[1]
    separation, difference, means = np.zeros(p), np.zeros((K, p)), np.zeros((K, p))
    for j in range(p):
        x = X[:, j]
        for b in range(K):
            means[b, j] = x[labels == b].mean()
            if len(set(x)) > 1 and (labels != b).any():
                difference[b, j] = (means[b, j] - x[labels != b].mean()) / x.std()
        if len(set(x)) > 1:
            fitted = means[labels, j]
            separation[j] = ((fitted - x.mean()) ** 2).sum() / ((x - x.mean()) ** 2).sum()
    return separation, difference, means


def compare(found, expected):
    """Compare with the definitions."""
    names = ("separation", "difference", "cluster_mean")
    for name, other in zip(names, expected, strict=True):
        np.testing.assert_allclose(getattr(found, name), other, rtol=1e-9, atol=1e-9)


@st.composite
def clustered(draw):
    """Return whole numbers (n, p) and labels that have every cluster; some points have none."""
    n, p = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    X = draw(hnp.arrays(np.float64, (n, p), elements=st.integers(-3, 3).map(float)))
    codes = draw(hnp.arrays(np.int64, n, elements=st.integers(-1, 3)))
    labels = np.unique(codes, return_inverse=True)[1] - (codes.min() < 0)
    return X, labels if (labels >= 0).any() else np.zeros(n, dtype=np.int64)


@given(clustered())
def test_statistics_are_those_of_their_definitions(case):
    """Constant columns, clusters of one point, one cluster and unlabelled points divide by no 0."""
    X, labels = case
    for given_X in (X, sp.csr_array(X), X.astype(np.float32)):
        found = feature_contrasts(given_X, labels)
        compare(found, brute_force(X, labels))
        assert (found.separation >= 0).all()
        assert (found.separation <= 1).all()


@pytest.mark.parametrize("scale", [1e-160, 1e-8, 1.0, 1e8, 1e149])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_separation_has_no_unit(scale, convert):
    """A feature may have any unit: neither small nor large values are lost."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 50)
    X = rng.normal(size=(50, 3)) + labels[:, None]
    expected = feature_contrasts(X, labels)
    found = feature_contrasts(convert(scale * X), labels)
    np.testing.assert_allclose(found.separation, expected.separation, rtol=1e-9)
    np.testing.assert_allclose(found.difference, expected.difference, rtol=1e-9)
    np.testing.assert_allclose(found.deviation, scale * expected.deviation, rtol=1e-9)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_rounding_hides_no_variance_and_makes_none(convert):
    """Time stamps vary around a large mean; many 0.1 do not vary; clusters of zeros have mean 0."""
    rng = np.random.default_rng(0)
    labels = np.arange(1000) % 3
    x = rng.normal(size=(1000, 1)) + labels[:, None]
    expected = feature_contrasts(x, labels).separation
    found = feature_contrasts(convert(x + 1e9), labels)
    np.testing.assert_allclose(found.separation, expected, rtol=1e-5)
    constant = feature_contrasts(convert(np.full((1000, 1), 0.1)), labels)
    assert constant.deviation.tolist() == [0.0]
    assert not constant.separation.any() and not constant.difference.any()
    X = np.where(labels[:, None] == 1, 0.0, rng.uniform(1, 20, (1000, 5)))
    assert not feature_contrasts(convert(X), labels).cluster_mean[1].any()


def test_blocks_of_columns_change_nothing(monkeypatch):
    """Features are read by blocks, of any width."""
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(30, 7)), rng.integers(0, 4, 30)
    expected = feature_contrasts(X, labels)
    monkeypatch.setattr(module, "_MOST_VALUES", 60)
    compare(
        feature_contrasts(X, labels),
        (expected.separation, expected.difference, expected.cluster_mean),
    )


def test_sparse_features_stay_sparse(monkeypatch):
    """No step makes the features dense."""
    X = sp.random_array((2_000, 300), density=0.01, format="csr", rng=np.random.default_rng(0))
    labels = np.arange(2_000) % 5
    expected = feature_contrasts(X.toarray(), labels)
    shapes = []
    dense = sp.csr_array.toarray
    monkeypatch.setattr(
        sp.csr_array, "toarray", lambda self, *_: shapes.append(self.shape) or dense(self)
    )
    found = feature_contrasts(X, labels)
    np.testing.assert_allclose(found.separation, expected.separation, atol=1e-12)
    assert X.shape not in shapes


@pytest.mark.parametrize("as_table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_tables_have_names(as_table):
    """The names of the columns of a table are those of the features."""
    X, names = named_features(as_table({"a": [1.0, 2.0], "b": [3, 4]}), None, 2)
    assert names == ["a", "b"]
    assert X.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_columns_of_views_are_named_by_view():
    """Columns of views follow each other, and stay sparse if one of them is."""
    first, second = pd.DataFrame({"x": [1.0, 2.0]}), np.array([[3.0, 4.0], [5.0, 6.0]])
    X, names = named_features({"left": first, "right": sp.csr_array(second)}, None, 2)
    assert names == ["left: x", "right: feature 0", "right: feature 1"]
    assert X.toarray().tolist() == [[1.0, 3.0, 4.0], [2.0, 5.0, 6.0]]
    X, names = named_features([second, second], None, 2)
    assert names[2:] == ["view 1: feature 0", "view 1: feature 1"]
    assert isinstance(X, np.ndarray)


@pytest.mark.parametrize(
    ("X", "names", "message"),
    [
        ([[1.0], [2.0]], None, "X has 2 rows, but the estimator has labels of 3 points"),
        ([[1.0], [2.0], [3.0]], ["a", "b"], "2 entries for 1 features"),
        ([[1.0], [2.0], [np.nan]], None, "X has NaN at row 2, column 0"),
        ([["x"], ["y"], ["z"]], None, "column 0 holds text"),
        ([[1.0], [2.0], [-1e300]], ["sum"], "feature 'sum' has values up to 1e.300; divide it"),
    ],
)
def test_features_that_do_not_fit_are_refused(X, names, message):
    with pytest.raises(InvalidParameterError, match=message):
        named_features(X, names, 3)


@pytest.fixture(scope="module")
def case():
    """Return features and the consensus of their partitions."""
    X, P, _ = clustered_features()
    return X, fitted(P)


def test_features_and_differences_are_listed_by_falling_size(case, monkeypatch):
    """Rows and cards have the numbers of all points; constant features are last, or left out."""
    X, est = case
    part = part_of(est, X, list("abcd"))
    expected = feature_contrasts(X, est.labels_)
    assert [row["name"] for row in part["rows"]][-1] == "d"
    shown = [row["separation"] for row in part["rows"]]
    assert shown == sorted(expected.separation.tolist(), reverse=True)
    assert (part["n_features"], part["n_constant"]) == (4, 1)
    for card in part["clusters"]:
        assert card["size"] == (est.labels_ == card["cluster"]).sum()
        assert {one["name"] for one in card["features"]} == set("abc")
        sizes = [abs(one["difference"]) for one in card["features"]]
        assert sizes == sorted(sizes, reverse=True)
        for one in card["features"]:
            j = "abcd".index(one["name"])
            assert one["difference"] == expected.difference[card["cluster"], j]
            assert one["cluster_mean"] == pytest.approx(X[est.labels_ == card["cluster"], j].mean())
            assert one["mean"] == pytest.approx(X[:, j].mean())
    # of many the first are listed, and all are counted
    monkeypatch.setattr(module, "_MOST_FEATURES", 2)
    monkeypatch.setattr(module, "_MOST_DIFFERENCES", 1)
    monkeypatch.setattr(module, "_MOST_CLUSTERS", 2)
    part = part_of(est, X, None)
    assert (len(part["rows"]), part["n_features"], len(part["clusters"])) == (2, 4, 2)
    assert [len(card["features"]) for card in part["clusters"]] == [1, 1]


def test_one_or_two_features_are_drawn_as_they_are(case):
    """Up to two varying features are the axes, without scaling."""
    X, est = case
    two = part_of(est, X[:, [0, 3, 1]], ["a", "constant", "b"])["map"]
    np.testing.assert_array_equal(two["coordinates"], X[:, :2])
    assert (two["axes"], two["is_scaled"]) == (("a", "b"), False)
    one = part_of(est, sp.csr_array(X[:, [0]]), ["a"])["map"]
    np.testing.assert_array_equal(one["coordinates"], np.column_stack([X[:, 0], np.arange(len(X))]))
    assert one["axes"] == ("a", "row")


def test_more_features_are_scaled_and_projected(case):
    """The projection has no unit: a feature in other units gives the same picture."""
    X, est = case
    first, second = (part_of(est, X * scale, None)["map"] for scale in (1.0, [1e3, 1, 1e-3, 1]))
    np.testing.assert_allclose(first["coordinates"], second["coordinates"], atol=1e-9)
    assert first["is_scaled"]
    assert first["axes"][0].startswith("principal component 1 (")
    sparse = part_of(est, sp.csr_array(X), None)["map"]
    assert sparse["axes"][0].startswith("singular vector 1 (")


def test_a_sample_is_drawn_and_named(case, monkeypatch):
    """Of many points a share of each cluster is drawn, with its own names and confidences."""
    X, est = case
    monkeypatch.setattr(module, "_MOST_SHOWN", 20)
    names = np.array([f"point {i}" for i in range(len(X))], dtype=object)
    drawn = part_of(est, X, None, names)["map"]
    rows = [int(name.removeprefix("point ")) for name in drawn["names"]]
    assert (len(rows), drawn["total"]) == (20, len(X))
    np.testing.assert_array_equal(drawn["cluster"], est.labels_[rows])
    np.testing.assert_array_equal(drawn["confidence"], est.confidence_[rows])
    assert set(drawn["cluster"]) == {0, 1, 2}


@pytest.mark.parametrize("X", [np.ones((4, 3)), sp.csr_array((4, 3))], ids=["dense", "sparse"])
def test_constant_features_have_no_map(X):
    """If no feature varies there is nothing to draw, and nothing differs; nor if K is 1."""
    est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1], [1, 1]])
    part = part_of(est, X, None)
    assert part["map"] is None and part["n_constant"] == 3
    assert [card["features"] for card in part["clusters"]] == [[], []]
    one = EvidenceAccumulation(1).fit([[0, 0], [0, 0], [1, 1]])
    part = part_of(one, np.arange(6.0).reshape(3, 2), None)
    assert part["clusters"] == [] and [row["separation"] for row in part["rows"]] == [0.0, 0.0]
