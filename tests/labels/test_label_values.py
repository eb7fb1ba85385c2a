"""Labels are whole numbers from 0, or texts."""

from fractions import Fraction

import numpy as np
import pytest

from coterie.errors import InvalidLabelsError
from coterie.labels.label_values import integers_or_texts, kind_of, whole_numbers


@pytest.mark.parametrize(
    ("labels", "kind", "values"),
    [
        ([3, np.int8(4)], "i", [3, 4]),
        ([2**64 - 1, 0], "u", [2**64 - 1, 0]),
        ([3, 4.0, Fraction(5)], "i", [3, 4, 5]),
        ([True, np.False_], "i", [1, 0]),
        (["a", b"b", np.str_("c")], "U", ["a", "b", "c"]),
        ([], "i", []),
    ],
)
def test_labels_become_integers_or_texts(labels, kind, values):
    """Integers stay exact up to 64 bits."""
    found = integers_or_texts(labels, "a", int)
    assert (found.dtype.kind, found.tolist()) == (kind, values)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([2**64, 1], "18446744073709551616 is too large.*at most 64 bits"),
        ([2**63, -1], "is too large"),
        ([1, 2**53 + 1, 0.0], "too large to be exact as a float"),
        ([1, -2], "label -2 at row 1, partition 'a' is negative"),
        ([1j], "labels of type complex"),
        (["a", "\ud800"], "cannot be read.*surrogates"),
    ],
)
def test_other_labels_are_refused(labels, message):
    """The message names the label or its type."""
    with pytest.raises(InvalidLabelsError, match=message):
        integers_or_texts(labels, "a", int)


def test_shares_look_like_a_soft_partition():
    """Rows of fractions that add up to one get a hint."""
    with pytest.raises(InvalidLabelsError, match="soft partitions are a list"):
        whole_numbers(np.array([[0.5, 0.5]]), ["a", "b"])


def test_numbers_of_numpy_are_numbers():
    """So are fractions; half of an hour is none."""
    assert kind_of(np.float32(2)) == kind_of(Fraction(1, 2)) == "number"
    assert kind_of(np.timedelta64(1, "h")) == "timedelta64"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_measurements_near_the_largest_float_are_refused(dtype):
    """Their sums would overflow."""
    row = [0.5, *[np.finfo(dtype).max] * 3]
    with pytest.raises(InvalidLabelsError, match="not measurements"):
        whole_numbers(np.array([row], dtype), list("abcd"))
