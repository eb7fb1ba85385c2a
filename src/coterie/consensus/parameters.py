"""Checks of the parameters that several consensus functions have."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import ConvergenceWarning

from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidParameterError, TooManyPointsError
from coterie.labels.tuples import LabelTuples
from coterie.runtime.messages import warn_user


def check_n_clusters(n_clusters: Any, tuples: LabelTuples) -> int:
    """Return K as an int between 1 and the number of distinct tuples.

    More clusters than points raise an error. More clusters than distinct tuples give a warning,
    as in scikit-learn's k-means, and K becomes the number of tuples.
    """
    K = check_whole("n_clusters", n_clusters)
    if K > tuples.n_points:
        raise InvalidParameterError(
            f"n_clusters={K} is more than the {tuples.n_points} points; give a smaller number"
        )
    if K > tuples.n_tuples:
        warn_user(
            f"the points have only {tuples.n_tuples} distinct combinations of labels, fewer than "
            f"n_clusters={K}: there will be at most {tuples.n_tuples} clusters",
            ConvergenceWarning,
        )
    return min(K, tuples.n_tuples)


def check_size(size: int, largest: Any, parameter: str, method: str) -> None:
    """Refuse more tuples or points than the limit of a method of quadratic cost.

    ``parameter``, "max_tuples" or "max_points", is the name of the limit ``largest``. It decides
    what ``size`` counts. ``method`` is the name of the method in the message.

    >>> check_size(100, 5000, "max_tuples", "CSPA")
    """
    check_whole(parameter, largest)
    if size > largest:
        counted = "distinct label tuples" if parameter == "max_tuples" else "points"
        raise TooManyPointsError(
            f"the cost of {method} is quadratic, and there are {size:,} {counted}, more than "
            f"{parameter}={largest:,}; use a linear method (RobustConsensus, L2Consensus, HBGF) or "
            f"a sample of the points, or raise {parameter}"
        )


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices.

    >>> check_choice("linkage", "average", ("average", "single"))
    """
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise InvalidParameterError(f"{name}={value!r}: give {', '.join(others)} or {last}")
