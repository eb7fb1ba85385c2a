"""Warnings that point at the line of the user, and filters for warnings that need no action."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from sklearn.exceptions import ConvergenceWarning

from coterie.errors import LabelWarning

__all__ = [
    "ignore_duplicate_points_warning",
    "ignore_label_warnings",
    "ignore_unfinished_tasks_warning",
    "warn_user",
]

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


def warn_user(message: str, category: type[Warning]) -> None:
    """Give a warning that points at the code that called this package."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


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
def ignore_label_warnings() -> Iterator[None]:
    """Ignore warnings about the shape of label matrices that this package made itself.

    There many partitions of few points are no sign of a transposed table, and equal ones are the
    best case.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        yield


@contextlib.contextmanager
def ignore_unfinished_tasks_warning() -> Iterator[None]:
    """Ignore the warning of joblib about unfinished tasks after an error or an interrupt."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\d+ tasks (have been|which were)")
        yield
