"""Labels coded as small integers, by lookup and by sorting, from arrays and from columns."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from coterie.errors import InvalidLabelsError
from coterie.labels import coding
from coterie.labels.coding import code_array, code_columns


@pytest.mark.parametrize("cells", [1, 70, 10**6])
def test_lookup_and_sorting_agree(cells, monkeypatch):
    """Lookup (small integers) and sorting (large ones) give the same codes, in any chunks."""
    monkeypatch.setattr(coding, "_CHUNK_CELLS", cells)
    P = np.random.default_rng(0).integers(-1, 50, (500, 4))
    small, small_names = code_array(P, "abcd")
    large, large_names = code_array(np.where(P < 0, -1, P + 2**40), "abcd")
    assert_array_equal(small, large)
    for v in range(4):
        assert_array_equal(np.append(small_names[v], -1)[small[:, v]], P[:, v])
        assert_array_equal(small_names[v], large_names[v] - 2**40)


@pytest.mark.parametrize("rare", [0, 3])
def test_large_labels_outside_a_sample_are_found(rare, monkeypatch):
    """Codes are those of sorting all rows, also if the sampled rows lack some labels."""
    monkeypatch.setattr(coding, "_SAMPLED_ROWS", 10)
    y = np.random.default_rng(0).integers(3, size=1000) * 10**12
    y[1 : 1 + rare] = [7, 10**15, -1][:rare]
    codes, (names,) = code_array(y[:, None], ["a"])
    assert_array_equal(names, np.unique(y[y >= 0]))
    assert_array_equal(np.where(codes[:, 0] < 0, -1, names[codes[:, 0]]), y)


def test_many_labels_take_wider_codes():
    """Codes have two bytes if that is enough, otherwise four."""
    n = np.iinfo(np.int16).max
    assert code_array(np.arange(n)[:, None], ["a"])[0].dtype == np.int16
    wide, (names,) = code_array(np.arange(n + 1)[:, None], ["a"])
    assert wide.dtype == np.int32
    assert_array_equal(names[wide[:, 0]], np.arange(n + 1))
    assert code_array(np.array([[3], [-1]]), ["a"])[0].dtype == np.int16


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([[-1, 0], [0, -2]], r"label -2 at row 1, partition 'b' is negative"),
        ([[0.5, 0.5], [0.0, 1.0]], "label 0.5 at row 0, partition 'a' .* membership matrices"),
        ([[1.0, 0.5], [0.0, 1.0]], "label 0.5 at row 0, partition 'b' .* not measurements"),
        ([[1.0, -1.0], [0.5, 0.5]], "label 0.5 at row 1, partition 'a' .* not measurements"),
        ([[0.5], [0.5]], "label 0.5 at row 0, partition 'a' .* use ConsensusClusterer"),
        ([[0.0, np.inf]], "label inf at row 0, partition 'b' is not a whole number"),
        ([[0.0, 2.0**53]], "partition 'b' is too large to be exact as a float"),
    ],
)
def test_numbers_that_are_no_labels_are_refused(labels, words):
    """The message names the cell, and says what it may have been meant to be."""
    with pytest.raises(InvalidLabelsError, match=words):
        code_array(np.array(labels), "ab")
    assert code_array(np.array([[2.0**53 - 1, np.nan]]), "ab")[0].tolist() == [[0, -1]]


def test_columns_may_be_of_different_kinds():
    """Null and −1 are missing in every kind of column."""
    columns = [pa.array(["y", None, "x"]), np.array([7, -1, 7]), np.array([1.0, np.nan, 0.0])]
    codes, names = code_columns(columns, ["a", "b", "c"])
    assert codes.tolist() == [[0, 0, 1], [-1, -1, -1], [1, 0, 0]]
    assert [labels.tolist() for labels in names] == [["y", "x"], [7], [0, 1]]
