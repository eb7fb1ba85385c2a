"""The program on growing tables: the tables, and trials that are scored, kept and limited."""

import numpy as np
import pytest

from benchmarks import scale
from benchmarks.scale import label_chunks
from coterie.inspection.scores import adjusted_rand_index, contingency


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make chunks of few rows, so that small tables have several."""
    monkeypatch.setattr(scale, "CHUNK_ROWS", 4096)


def all_rows(family, n, **settings):
    """Return all labels (n, V) and the truth (n,)."""
    chunks = list(label_chunks(family, n, **settings))
    P = np.vstack([np.column_stack(columns) for _, columns in chunks])
    return P, np.concatenate([y for y, _ in chunks])


@pytest.mark.parametrize(("family", "most"), [("fixed", 10), ("diverse", 40)])
def test_right_partitions_split_the_truth_and_wrong_ones_do_not(family, most):
    """Without noise a right label is in one cluster of y; wrong partitions are unrelated to y."""
    P, y = all_rows(family, 4000, noise=0.0)
    n_labels = [len(np.unique(column)) for column in P.T]
    assert 10 <= min(n_labels) <= max(n_labels) <= most
    for column in P.T[:24]:
        assert (np.diff(contingency(column, y).indptr) == 1).all()
    for column in P.T[24:]:
        assert abs(adjusted_rand_index(column, y)) < 0.02
        assert adjusted_rand_index(column, P[:, -1]) > 0.3


def test_rows_depend_on_neither_n_nor_later_chunks():
    """A smaller table is the beginning of a larger one; 18% of the labels differ by noise."""
    P, y = all_rows("fixed", 9000)
    head, head_y = all_rows("fixed", 5000)
    assert np.array_equal(head, P[:5000]) and np.array_equal(head_y, y[:5000])
    assert not np.array_equal(P[:4096], P[4096:8192])
    assert (P != all_rows("fixed", 9000, noise=0.0)[0]).mean() == pytest.approx(0.18, abs=0.005)


def test_growth_is_the_slope_of_the_logarithms():
    """Small tables and other families do not count; one table has no slope."""
    trials = [
        {"family": "fixed", "status": "done", "n_points": n, "seconds": n / 1e4, "peak_bytes": 7}
        for n in (10, 10**5, 10**6)
    ]
    growth = scale.growth_of(trials, "fixed")
    assert (growth["seconds"], growth["peak_bytes"]) == pytest.approx((1, 0))
    assert "seconds" not in scale.growth_of(trials[:2], "fixed")
    assert "seconds" not in scale.growth_of(trials, "diverse")
