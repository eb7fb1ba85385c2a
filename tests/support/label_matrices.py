"""Random label matrices, and brute force over all pairs of points."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

Array = np.ndarray[Any, Any]


@st.composite
def label_matrices(
    draw: st.DrawFn, max_points: int = 12, max_partitions: int = 5, missing: bool = True
) -> Array:
    """(n, V) labels 0..3, −1 missing; every row and every column has a label."""
    n, V = draw(st.integers(1, max_points)), draw(st.integers(1, max_partitions))
    P = draw(arrays(np.int64, (n, V), elements=st.integers(-1 if missing else 0, 3)))
    P[:, 0] = np.maximum(P[:, 0], 0)
    P[0] = np.maximum(P[0], 0)
    return P


def weights_for(P: Array) -> st.SearchStrategy[Array]:
    """Weights of the partitions in the columns of P, all positive."""
    return arrays(np.float64, P.shape[1], elements=st.floats(0.125, 8))


def pair_votes(P: Array) -> tuple[Array, Array]:
    """Return for every partition and pair (V, n, n) if they are together, and both labelled."""
    columns = P.T
    both = (columns[:, :, None] >= 0) & (columns[:, None, :] >= 0)
    return both & (columns[:, :, None] == columns[:, None, :]), both


def assert_same_tuples(a, b):
    """Check that tuples are equal in every field, including the order."""
    for field in ("codes", "offsets", "weights", "inverse", "partition_order", "recode"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)
        assert getattr(a, field).dtype == getattr(b, field).dtype, field
