"""The display of the points in two dimensions, coloured by cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.utils.validation import check_is_fitted

from coterie.arrays import AnyArray, Floats, Ints
from coterie.ensembles.input_checks import check_features, check_whole, names_of_columns
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.colours_and_axes import (
    NO_LABEL,
    Display,
    cluster_colours,
    without_frame,
)
from coterie.runtime.sampling import stratified_sample

# a legend with more clusters would be longer than the picture
_MOST_NAMED = 12
# width and height of the name of a cluster, as shares of those of the plot
_NAME_SIZE = np.array([0.05, 0.045])
# opacity of a point of confidence 0
_PALEST = 0.15


@dataclass(eq=False, repr=False)
class PointsDisplay(Display):
    """Scatter plot of the points, coloured by cluster; the less certain, the paler and smaller.

    Attributes
    ----------
    coordinates : (s, 2)
    labels : (s,) int
        Clusters of the points; −1 is a point without a label, drawn in grey.
    points : (s,) int
        Rows of the points in X.
    axis_names : (str, str)
    confidence : (s,) in [0, 1], optional
        Opacity and size of the points.
    ax_, figure_ : the axes and the figure
    scatters_ : dict of int to the drawn points of each cluster
    """

    coordinates: Floats
    labels: Ints
    points: Ints
    axis_names: tuple[str, str]
    confidence: Floats | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        max_points: int = 5_000,
        random_state: Any = None,
        ax: Any = None,
        **plot_settings: Any,
    ) -> Self:
        """Draw the points that a clusterer was fitted on.

        Parameters
        ----------
        estimator : fitted clusterer with ``labels_``
            A clusterer or consensus function of this package, or one of scikit-learn. With
            ``confidence_``, the confidence is shown, too.
        X : (n, p) array, data frame or sparse matrix
            Features of the points; any of its views for a clusterer of several views. Two columns
            are drawn as they are. More columns are projected to their first two principal
            components, without scaling; a sparse matrix to its first two singular vectors. The
            names of the axes have the share of the variance. A single column is drawn against the
            row number.
        max_points : int
            With more points a sample is shown: a share of each cluster, at least one point.
        random_state : int or None
            Seed of the sample and of the projection.
        ax, plot_settings : as in :meth:`plot`

        Examples
        --------
        >>> from sklearn.cluster import KMeans
        >>> from coterie import PointsDisplay
        >>> X = np.array([[0.0, 0.0, 1.0], [0.1, 0.0, 1.0], [5.0, 5.0, 1.0]])
        >>> est = KMeans(2, random_state=0).fit(X)
        >>> PointsDisplay.from_estimator(est, X).axis_names[0]
        'principal component 1 (100% of the variance)'
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "labels_"):
            raise InvalidParameterError(
                f"{type(estimator).__name__} has no labels_; give a fitted clusterer"
            )
        # some clusterers have further negative labels, for infinite or missing features
        labels = np.maximum(estimator.labels_, -1).astype(np.int64)
        coordinates, names = plane(X, len(labels), random_state)
        points = sample_points(labels, max_points, random_state)
        confidence = getattr(estimator, "confidence_", None)
        shown = None if confidence is None else np.asarray(confidence)[points]
        display = cls(coordinates[points], labels[points], points, names, shown)
        return display.plot(ax, **plot_settings)

    def plot(self, ax: Any = None, *, size: float | None = None) -> Self:
        """Draw the points.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure is made.
        size : float, optional
            Area of a point of confidence 1, in square points; by default points are smaller if
            there are many.
        """
        ax = self._axes(ax, (7.0, 5.0))
        from matplotlib.colors import to_rgba_array
        from matplotlib.lines import Line2D
        from matplotlib.patheffects import withStroke

        area = float(np.clip(20_000 / len(self.labels), 8, 45)) if size is None else size
        certainty = np.ones(len(self.labels)) if self.confidence is None else self.confidence
        # points without a label are last in the legend, and below the others in the picture
        names = np.unique(self.labels)
        colours = (*cluster_colours(int(names.max(initial=-1)) + 1), NO_LABEL)
        self.scatters_, handles = {}, []
        for name in np.roll(names, -int(names[0] < 0)).tolist():
            own = self.labels == name
            share = certainty[own] if name >= 0 else np.ones(own.sum())
            self.scatters_[name] = ax.scatter(
                *self.coordinates[own].T,
                s=area * (0.4 + 0.6 * share),
                c=to_rgba_array([colours[name]] * len(share), _PALEST + (1 - _PALEST) * share),
                lw=0,
                zorder=2 if name >= 0 else 1,
            )
            # of many clusters only the points without a label are in the legend
            if name < 0 or len(names) <= _MOST_NAMED:
                text = "no label" if name < 0 else f"cluster {name}"
                handles.append(Line2D([], [], ls="", marker="o", color=colours[name], label=text))
        # the name of each cluster is at one of its points, away from other names
        placed = np.empty((0, 2))
        unit = _NAME_SIZE * np.ptp(self.coordinates, axis=0) + np.finfo(float).tiny
        for name in names[names >= 0].tolist():
            points = self.coordinates[self.labels == name]
            place = points[_free_place(points / unit, placed / unit)]
            placed = np.vstack([placed, place])
            outline = [withStroke(linewidth=3, foreground="white")]
            style = {"ha": "center", "va": "center", "weight": "bold", "zorder": 3}
            ax.text(*place, str(name), path_effects=outline, **style)
        more = "" if self.confidence is None else " (pale: uncertain)"
        ax.set_title(f"{len(self.labels):,} points by cluster{more}", loc="left")
        ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        without_frame(ax)
        if handles:
            legend = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "handletextpad": 0.2}
            ax.legend(handles=handles, frameon=False, **legend)
        return self


def sample_points(labels: AnyArray, max_points: int, random_state: Any) -> Ints:
    """Return all points, or a share of each cluster and at least one point of it, sorted."""
    check_whole("max_points", max_points)
    codes = np.unique(labels, return_inverse=True)[1]
    return np.sort(stratified_sample(codes, max_points, np.random.default_rng(random_state)))


def numbered_features(p: int) -> list[str]:
    return [f"feature {column}" for column in range(p)]


def plane(X: Any, n_points: int, random_state: Any) -> tuple[Floats, tuple[str, str]]:
    """Return the coordinates (n, 2) of the points, and the names of both axes."""
    given = names_of_columns(X)
    if isinstance(X, Mapping) or (isinstance(X, list | tuple) and np.ndim(next(iter(X), 0)) > 1):
        raise InvalidParameterError("X has several views; give the features of one of them")
    X = check_features(X, "X").astype(np.float64, copy=False)
    n, p = X.shape
    if n != n_points:
        raise InvalidParameterError(
            f"X has {n} rows, but the estimator has labels of {n_points} points; give the points "
            "that it was fitted on"
        )
    names = given or numbered_features(p)
    if p <= 2:
        values = X.toarray() if issparse(X) else X
        if p == 1:
            return np.column_stack([values[:, 0], np.arange(n)]), (names[0], "row")
        return values, (names[0], names[1])
    if issparse(X):
        model, kind = TruncatedSVD(2, random_state=random_state), "singular vector"
    else:
        model, kind = PCA(2, random_state=random_state), "principal component"
    coordinates = model.fit_transform(X)
    first, second = (
        f"{kind} {i + 1} ({share:.0%} of the variance)"
        for i, share in enumerate(model.explained_variance_ratio_)
    )
    return coordinates, (first, second)


def _free_place(points: Floats, placed: Floats) -> int:
    """Return the most central point with no name closer than 1; the farthest one if there is none.

    A point of the cluster is inside it, even if its shape is not convex.
    """
    from_centre = np.abs(points - np.median(points, axis=0)).sum(axis=1)
    gaps = np.abs(points[:, None] - placed).max(axis=-1).min(axis=1, initial=1.0)
    return int(np.lexsort((from_centre, -gaps))[0])
