"""Filters for two warnings of scikit-learn and joblib that need no action of the user."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from sklearn.exceptions import ConvergenceWarning

__all__ = ["ignore_duplicate_points_warning", "ignore_unfinished_tasks_warning"]


@contextlib.contextmanager
def ignore_duplicate_points_warning() -> Iterator[None]:
    """Ignore the warning of k-means that there are fewer distinct points than clusters.

    Callers drop the empty clusters, so the result is valid. Other warnings pass.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Number of distinct clusters", category=ConvergenceWarning
        )
        yield


@contextlib.contextmanager
def ignore_unfinished_tasks_warning() -> Iterator[None]:
    """Ignore the warning of joblib about unfinished tasks after an error or an interrupt."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\d+ tasks (have been|which were)")
        yield
