"""Base class of the multi-view clusterers: it reads, checks and scales views.

View v is a table X_v (n, p_v), dense or sparse; row i describes the same point in every view.
Views are given as a list or as a dict of named tables. A method implements
:meth:`MultiViewMethod._label_points`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_array, check_random_state

from coterie.arrays import Ints
from coterie.ensembles.input_checks import (
    check_finite,
    check_whole,
    names_of_columns,
    refuse_text,
)
from coterie.ensembles.scalings import Scaling, centring, standard_and_min_max
from coterie.errors import InvalidParameterError
from coterie.labels.encode import renumber_by_size
from coterie.runtime.messages import shows_stages


@dataclass(eq=False, repr=False)
class MultiViewMethod(ClusterMixin, BaseEstimator):
    """Base of the multi-view clusterers."""

    n_clusters: int | None = None
    _: KW_ONLY
    standardize: bool = False
    random_state: Any = None
    verbose: bool = False

    @shows_stages
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 (y is scikit-learn's convention)
        """Cluster n points described by several views.

        Parameters
        ----------
        X : list of arrays (n, p_v), or dict of named ones
            The views, dense or sparse; row i is the same point in every view.
        y : ignored
        """
        named = named_views(X)
        n = next(iter(named.values())).shape[0]
        K = check_whole("n_clusters", self.n_clusters)
        if K > n:
            raise InvalidParameterError(
                f"n_clusters={K} is more than the {n} points; give a smaller number"
            )
        rng = check_random_state(self.random_state)
        scalings = {
            name: view_scaling(view, bool(self.standardize), name) for name, view in named.items()
        }
        labels = self._label_points(scaled_views(named, scalings), K, rng)
        # set last, so that a fit that fails does not change an earlier fit
        self.view_names_, self._scalings = list(named), scalings
        self.labels_ = renumber_by_size(labels).astype(np.int32)
        self.n_clusters_ = int(self.labels_.max()) + 1
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a list or a dict of tables
        return tags

    @abstractmethod
    def _label_points(
        self, views: dict[str, Any], n_clusters: int, rng: np.random.RandomState
    ) -> Ints:
        """Return labels (n,) of the points from their scaled views."""


def scaled_views(named: Mapping[str, Any], scalings: Mapping[str, Scaling]) -> dict[str, Any]:
    """Return the views in double precision, shifted and scaled."""
    return {
        name: scalings[name].transform(X.astype(np.float64, copy=False))
        for name, X in named.items()
    }


def named_views(views: Any) -> dict[str, Any]:
    """Check views and return them by name, as float arrays or CSR matrices (n, p_v).

    The views of a list are named "view 0", "view 1", ….
    """
    if isinstance(views, Mapping):
        names = [str(name) for name in views]
        arrays = list(views.values())
    elif isinstance(views, list | tuple):
        names = [f"view {v}" for v in range(len(views))]
        arrays = list(views)
    else:
        raise InvalidParameterError(
            "views must be a list of arrays or a dict of named arrays, "
            f"got {type(views).__name__}; one view is [X]"
        )
    if not names:
        raise InvalidParameterError("there are no views; give at least one array")
    if len(set(names)) < len(names):
        double = min(name for name in names if names.count(name) > 1)
        raise InvalidParameterError(
            f"several views have the name {double!r} as text; rename all but one of them"
        )
    checked = {}
    for name, X in zip(names, arrays, strict=True):
        try:
            checked[name] = check_array(
                X, accept_sparse="csr", dtype=(np.float64, np.float32), ensure_all_finite=False
            )
        except (TypeError, ValueError) as error:
            refuse_text(X, f"{name}: ")
            raise InvalidParameterError(f"{name} cannot be used: {error}") from error
        check_finite(checked[name], name, names_of_columns(X))
    lengths = {name: X.shape[0] for name, X in checked.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidParameterError(
            "all views must have the same number of rows, but they have "
            + ", ".join(f"{name}: {n}" for name, n in lengths.items())
        )
    return checked


def view_scaling(X: Any, standardize: bool, name: str = "X") -> Scaling:
    """Return the shift and scale that give a view total variance 1, for any number of columns.

    Columns get mean 0 and variance 1/p, where p is the number of columns that vary; constant
    columns become 0. Without ``standardize``, columns are only shifted to mean 0, which changes no
    distance. Sparse views are not shifted, so that they stay sparse.
    """
    try:
        scaling = standard_and_min_max(X)[0] if standardize else centring(X)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{name} cannot be used: {error}") from error
    if scaling.scale is None:
        return scaling
    n_varying = int(np.isfinite(scaling.scale).sum())
    # a Python number keeps single precision
    return replace(scaling, scale=scaling.scale * float(np.sqrt(max(n_varying, 1))))


def check_same_views(
    named: Mapping[str, Any], fitted: Sequence[str], n_columns: Mapping[str, int]
) -> None:
    """Raise an error if new views have other names, order or columns than the fitted ones."""
    if list(named) != list(fitted):
        raise InvalidParameterError(
            f"the views are {list(named)}, but those of the fit were {list(fitted)}; give the "
            "same views in the same order"
        )
    for name, X in named.items():
        if X.shape[1] != n_columns[name]:
            raise InvalidParameterError(
                f"{name} has {X.shape[1]} columns, but {n_columns[name]} in the fit; give the "
                "same columns"
            )
