"""Every value of the settings of segments is checked."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.segments.settings import SegmentSettings
from coterie.consensus import L2Consensus
from coterie.errors import InvalidParameterError

BAD = {
    "n_segments": [0, -3, 2.5, "many", True, (), [], [3, 0], [3, 4.5], None, [True], "12"],
    "alphas": [(), 0.05, [0.0], [1.0], [-0.1, 0.5], [float("nan")], ["0.05"], None],
    "strengths": [(), 2.0, [0.0], [-1.0], [float("inf")], [float("nan")], ["2"], None],
    "max_observations": [0, 0.5, -1, float("nan"), float("inf"), "all", True],
    "tolerance": [-0.1, 1.5, float("nan"), "none", None],
    "n_neighbors": [0, -1, 2.5, "all", True],
    "wins_over": ["all", "", None, ["wins"]],
    "consensus": ["robust", L2Consensus, object(), 3],
    "origins": [-1, 1.5, "two", None, True],
    "max_representatives": [0, 1, 2.5, None, "all", True],
    "random_state": [-1, 0.5, None, "now", 2**31, np.random.default_rng(0)],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_values_are_refused_by_name(name):
    """The message begins with the setting and its value."""
    for value in BAD[name]:
        with pytest.raises(InvalidParameterError) as caught:
            SegmentSettings(**{name: value})
        assert str(caught.value).startswith(f"{name}={value!r}: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_segments", 1),
        ("n_segments", np.int64(5)),
        ("n_segments", [7, 3, 7]),
        ("n_segments", np.array([4, 2])),
        ("alphas", np.array([0.1, 0.2])),
        ("strengths", [1, 2.5]),
        ("max_observations", None),
        ("max_observations", 1),
        ("tolerance", 1),
        ("wins_over", "bids"),
        ("consensus", L2Consensus()),
        ("origins", 0),
        ("random_state", np.int32(7)),
    ],
)
def test_good_values_are_kept(name, value):
    """Any type of number and of list is accepted."""
    assert getattr(SegmentSettings(**{name: value}), name) is value


def test_numbers_of_segments_are_sorted_and_distinct():
    """A single number is a list of one."""
    assert SegmentSettings(n_segments=5).numbers_of_segments == [5]
    assert SegmentSettings(n_segments=(7, 3, 7)).numbers_of_segments == [3, 7]
    assert SegmentSettings(n_segments=np.array([4, 2])).numbers_of_segments == [2, 4]


def test_no_more_segments_than_one_in_two_advertisers():
    """There is at least one segment, and equal numbers count once."""
    chosen = SegmentSettings(n_segments=(3, 8, 12))
    assert chosen.possible_numbers(100) == [3, 8, 12]
    assert chosen.possible_numbers(20) == [3, 8, 10]
    assert chosen.possible_numbers(7) == [3]
    assert chosen.possible_numbers(1) == chosen.possible_numbers(0) == [1]
