"""Partitions of the same rows: many different clusterings of features, or planted ones."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from coterie.arrays import AnyArray
from coterie.ensembles.input_checks import (
    check_features,
    check_number,
    check_odds,
    check_row_weights,
    check_whole,
)
from coterie.ensembles.members import (
    LinkageMember,
    Member,
    label_rows,
    link_to_landmarks,
    principal_axes,
)
from coterie.ensembles.runs import (
    MOST_DRAWN,
    MOST_FITTED,
    Plan,
    check_ensemble,
    check_sizes,
    draw_rows,
    execute_runs,
    smallest_type,
)
from coterie.ensembles.scalings import centring, standard_and_min_max
from coterie.errors import InvalidParameterError, LabelWarning
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import ignore_duplicate_points_warning, warn_user
from coterie.runtime.wording import short_repr

_log = logging.getLogger(__name__)

#: Number of landmarks that the runs on large data share.
_SHARED_LANDMARKS = 1_000

RandomState = int | np.random.RandomState | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Fitted base clusterings that can label new rows.

    ``labels`` (n, V) are the partitions of the fitted rows, −1 where a run left the row out;
    ``members`` are the V fitted clusterings; ``n_features`` is the number of columns of new rows;
    ``names`` are those of the partitions, for example "spectral 0". ``shortcuts`` say in words what
    was done differently because there are many rows. Labels have the smallest integer type that
    holds them.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> ensemble = fit_ensemble(X, 2, n_partitions=3, ensemble="kmeans", random_state=0)
    >>> bool((ensemble.predict(X) == ensemble.labels).all())
    True
    """

    labels: AnyArray
    members: list[Member]
    n_features: int
    names: tuple[str, ...]
    shortcuts: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each partition."""
        return tuple(name.rpartition(" ")[0] for name in self.names)

    def of_kind(self, kind: str) -> Ensemble:
        """Return the partitions of one kind."""
        places = [v for v, other in enumerate(self.kinds) if other == kind]
        return replace(
            self,
            labels=self.labels[:, places],
            members=[self.members[v] for v in places],
            names=tuple(self.names[v] for v in places),
        )

    def cut(self, X: Any, n_clusters: int) -> Ensemble:
        """Return the same runs with linkage cut into K clusters; X (n, p) are the fitted rows."""
        members: list[Member] = []
        labels = self.labels.astype(np.int32)
        for v, one in enumerate(self.members):
            members.append(one.cut(n_clusters) if isinstance(one, LinkageMember) else one)
            if members[v] is not one:
                labels[:, v] = np.where(labels[:, v] < 0, -1, members[v].predict(X))
        return replace(self, members=members, labels=labels.astype(smallest_type(labels)))

    def sample(self, X: Any, rows: AnyArray) -> AnyArray | Callable[[int], AnyArray]:
        """Return the labels (s, V) of some of the fitted rows; of linkage, a function of K."""
        trees = [one for one in self.members if isinstance(one, LinkageMember)]
        if len(trees) < len(self.members):
            return self.labels[rows]
        missing = self.labels[rows] < 0
        nearest = [one.nearest(X[rows]) for one in trees]

        def labels(n_clusters: int) -> AnyArray:
            each = zip(trees, nearest, strict=True)
            columns = [one.cut(n_clusters).row_labels[places] for one, places in each]
            return np.where(missing, -1, np.column_stack(columns))

        return labels

    def predict(self, X_new: Any) -> AnyArray:
        """Return labels (m, V) of rows (m, p), dense or sparse, one column for each member.

        A row that was fitted gets its labels in ``labels``. If that label is −1, because the row
        was not drawn or was noise, it is labelled like a new row.
        """
        X = check_features(X_new, "X_new")
        if X.shape[1] != self.n_features:
            raise InvalidParameterError(
                f"X_new has {X.shape[1]} columns, the ensemble was fitted on {self.n_features}; "
                "give the same columns in the same order"
            )
        with on_one_thread(X.shape[0]):
            return label_rows(self.members, X, self.labels.dtype)


def make_partitions(
    X: Any,
    n_clusters: int | Sequence[int] | None = None,
    n_partitions: int = 32,
    *,
    ensemble: Any = "mixed",
    subsample: float | None = None,
    subspace: float | None = None,
    subsample_weight: Any = None,
    subspace_weight: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    random_state: RandomState = None,
) -> AnyArray:
    """Cluster the rows of ``X`` V times.

    Parameters
    ----------
    X : (n, p) array or sparse matrix
    n_clusters : int, sequence of int or None
        Number of clusters, K. If a sequence is given, each run draws one of its numbers. None:
        unknown.
    n_partitions : int
        Number of partitions, V.
    ensemble : str, scikit-learn clusterer, or sequence of these
        The kind of clustering, which :func:`~coterie.ensembles.generate.fit_ensemble` describes:
        ``"mixed"``, ``"auto"``, ``"spectral"``, ``"mixture"``, ``"diagonal mixture"``,
        ``"linkage"``, ``"ward"``, ``"diverse"``, ``"kmeans"``, ``"subspaces"``, ``"subsample"``,
        ``"scalings"``, or a clusterer. Several are used in turn. A clusterer is cloned for each
        run. Its ``random_state`` is set, and its ``n_clusters``, or ``n_components`` of a mixture,
        unless it differs from the default (in a pipeline, those of the last step). The label −1 is
        noise. A deterministic clusterer gives equal partitions unless ``subsample`` or ``subspace``
        varies its input.
    subsample, subspace : float in (0, 1], optional
        The shares of the rows and of the columns that each run uses. Every kind of ``ensemble``
        clusters the same samples of rows.
    subsample_weight : (n,) positive numbers, optional
        How often rows are drawn for samples, relative to each other: a row of weight 2 is drawn
        twice as often as a row of weight 1, but at most once for each run.
    subspace_weight : (p,) numbers, optional
        Odds of the columns when a run draws columns without replacement; 0 is never drawn.
    sample_weight : (n,) numbers, optional
        Weights of the rows. Kinds without weights draw rows in proportion to them. Rows of weight 0
        do not influence the runs and are labelled like new rows.
    n_jobs : int, optional
        Number of parallel runs, as in joblib. None uses :func:`joblib.parallel_config`, which can
        also send runs to other machines. Each run uses one thread, so that the labels depend
        neither on ``n_jobs`` nor on the backend.
    verbose : bool
        Show progress on the standard error stream.
    random_state : int, RandomState, Generator or None
        Seed of all runs. With the same seed, a larger V adds runs and does not change the others.

    Returns
    -------
    P : (n, V) array of the smallest integer type that holds the labels
        ``P[i, v]`` is the label of row i in partition v: 0, 1, … without gaps, or −1 if the run
        left the row out.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> P = make_partitions(X, 2, n_partitions=5, ensemble="kmeans", random_state=0)
    >>> P.shape, bool((P[0] == P[1]).all())
    ((4, 5), True)
    """
    return fit_ensemble(**locals()).labels


def fit_ensemble(
    X: Any,
    n_clusters: int | Sequence[int] | None = None,
    n_partitions: int = 32,
    *,
    ensemble: Any = "mixed",
    subsample: float | None = None,
    subspace: float | None = None,
    subsample_weight: Any = None,
    subspace_weight: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    random_state: RandomState = None,
) -> Ensemble:
    """Cluster the rows of ``X`` V times, and keep the fitted clusterings.

    Run v clusters ``(X[drawn, features] - shift) / scale`` into K_v clusters. ``ensemble`` says
    what kind of clustering it is, and what varies between the runs. With r = min(⌊√n⌋, 100), or
    more for few rows:

    ======================  ===================================================================
    ``"mixed"``             in turn: spectral, mixture, diagonal mixture, mixture
    ``"auto"``              in turn: spectral, mixture, diagonal mixture, diverse, linkage
    ``"spectral"``          normalised cut with 300 landmarks; K_v from s/3 to s = min(1.5√n, 100)
    ``"mixture"``           Gaussian mixture on 10 principal axes; K_v from r/4 to min(r, n/30)
    ``"diagonal mixture"``  the same with diagonal covariances
    ``"linkage"``           single linkage of even sizes on a random 80% of the rows; K_v = K
    ``"ward"``              Ward's linkage on a random 70% of the columns; K_v from r/4 to r
    ``"diverse"``           k-means; K_v from r/4 to r
    ``"kmeans"``            k-means with K_v = K; only the random start varies
    ``"subspaces"``         the same on a random half of the columns, at least one
    ``"subsample"``         the same on a random 80% of the rows, at least K; the others are −1
    ``"scalings"``          the same with columns unchanged, standardised and min–max in turn
    ======================  ===================================================================

    K_v is drawn uniformly, and is at least K. If K is more than half of the largest number, K_v is
    drawn up to 2K. If K is None, k-means and linkage runs also draw K_v from r/4 to r.

    Time is linear in n: k-means is fitted to at most 200,000 random rows (above 50,000 by
    mini-batches), spectral runs to 10,000, mixtures to 4,000, linkage to 3,000 and Ward's to 2,000.
    The other rows are labelled like new rows. Above 10,000 rows, spectral runs share their
    landmarks, 1,000 instead of 300. ``shortcuts`` of the result says what was done.

    Samples draw the rows that were drawn least often so far, at random among ties. So the numbers
    of draws of two rows differ by at most one, and two runs at 80% draw every row. ``"scalings"``
    maps constant columns to 0. A sparse ``X`` is not shifted: its columns are divided by their
    standard deviation, or by their largest absolute value.

    The parameters are those of :func:`make_partitions`.

    Returns
    -------
    Ensemble

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 5.0], [1.0, 5.0], [8.0, 5.0], [9.0, 5.0]])
    >>> ensemble = fit_ensemble(X, 2, n_partitions=6, ensemble="scalings", random_state=0)
    >>> ensemble.names[:2], ensemble.labels.shape
    (('scalings 0', 'scalings 1'), (4, 6))
    """
    # what was given
    X = check_features(X, "X")
    check_whole("n_partitions", n_partitions)
    weights = check_row_weights(sample_weight, X.shape[0])
    row_odds = check_odds("subsample_weight", subsample_weight, X.shape[0], "row", positive=True)
    if n_jobs == 0:
        raise InvalidParameterError("n_jobs=0: give 1 or more, or −1 for all cores")
    used = None if weights is None or weights.all() else weights > 0
    every_row = X
    if weights is not None and used is not None:
        X, weights = X[used], weights[used]
        row_odds = None if row_odds is None else row_odds[used]
    plan = Plan(
        n_rows=X.shape[0],
        n_features=X.shape[1],
        sizes=check_sizes(n_clusters, X.shape[0]),
        kinds=check_ensemble(ensemble, subsample, subspace),
        same_samples=subsample is not None,
        row_odds=row_odds,
        column_odds=check_odds("subspace_weight", subspace_weight, X.shape[1], "column"),
    )
    plan.check_draws(n_partitions)
    seeds = _spawn_seeds(random_state, n_partitions)

    # what runs share: scalings, and principal axes and landmarks of a sample of the rows
    scalings = []
    if any(kind.method != "clusterer" for kind in plan.kinds):
        scalings.append(centring(X))
        if any(kind.scalings for kind in plan.kinds):
            scalings += standard_and_min_max(X)
    axes = graph = None
    methods = {kind.method for kind in plan.kinds if kind.subspace is None}
    has_mixtures = bool(methods & {"mixture", "diagonal mixture"})
    shares_graph = "spectral" in methods and X.shape[0] > MOST_FITTED["spectral"]
    if has_mixtures or shares_graph:
        random = np.random.default_rng(seeds[0])
        rows = draw_rows(X.shape[0], MOST_FITTED["spectral"], weights, random)
        Z = scalings[0].transform(X if rows is None else X[rows])
        number = int(random.integers(2**31 - 1))
        most_clusters = max(MOST_DRAWN, *(2 * (size or 1) for size in plan.sizes))
        with on_one_thread(), ignore_duplicate_points_warning():
            if has_mixtures:
                axes = principal_axes(Z, number)
            if shares_graph:
                rng = np.random.RandomState(number)
                graph, _ = link_to_landmarks(Z, most_clusters, rng, _SHARED_LANDMARKS)
    shortcuts = plan.shortcuts(graph)
    for shortcut in shortcuts:
        _log.info("%s", shortcut)

    # the runs
    runs = plan.runs(scalings, seeds, axes, graph)
    labels, members = execute_runs(X, runs, n_partitions, weights, n_jobs, verbose)
    counts = Counter[str]()
    names = []
    for turn in range(n_partitions):
        kind = plan.kinds[turn % len(plan.kinds)].name
        names.append(f"{kind} {counts[kind]}")
        counts[kind] += 1
    empty = np.flatnonzero((labels < 0).all(axis=0))
    if empty.size:
        warn_user(
            f"partitions {', '.join(names[v] for v in empty)} label no row, because the clusterer "
            "classified every row as noise; change its parameters",
            LabelWarning,
        )
    fitted = Ensemble(labels, members, X.shape[1], tuple(names), shortcuts)
    if used is None:
        return fitted
    # rows of weight 0 are labelled like new rows
    of_all = np.empty((every_row.shape[0], n_partitions), dtype=labels.dtype)
    of_all[used], of_all[~used] = labels, fitted.predict(every_row[~used])
    return replace(fitted, labels=of_all)


def _spawn_seeds(random_state: RandomState, count: int) -> list[np.random.SeedSequence]:
    """Return one seed for each run; a generator of the user is advanced by four numbers."""
    if isinstance(random_state, np.random.Generator):
        entropy = random_state.integers(2**32, size=4)
    else:
        try:
            entropy = check_random_state(random_state).randint(2**32, size=4, dtype=np.int64)
        except ValueError as error:
            raise InvalidParameterError(
                f"random_state={random_state!r}: give an int from 0 to 2**32 − 1, a RandomState, "
                "a Generator or None"
            ) from error
    return np.random.SeedSequence([int(word) for word in entropy]).spawn(count)


def planted_partitions(
    sizes: Sequence[int],
    n_partitions: int,
    n_bad: int,
    noise: float,
    bad_clusters: int | None = None,
    correlated: bool = True,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Draw a random partition y of n = Σ sizes points and V partitions, good and wrong ones.

    A good partition is a noisy copy of y: with probability ``noise`` a label is redrawn uniformly
    from the K = len(sizes) labels. The last ``n_bad`` columns are wrong, that is, independent of y:

    * ``correlated=True``: noisy copies of one wrong partition, whose labels are drawn uniformly
      from ``bad_clusters`` labels. They agree with each other, but not with y.
    * ``correlated=False``: labels drawn uniformly from ``bad_clusters``, anew for each column.

    The labels of each column are renamed at random, and the points are in random order.

    Parameters
    ----------
    sizes : sequence of K positive ints
        Cluster sizes of the planted partition.
    n_partitions : int
        V, the number of good and wrong partitions together.
    n_bad : int
        Number of wrong partitions, 0 to V.
    noise : float
        Probability that a label is redrawn, 0 to 1. A redrawn label equals the old one with
        probability 1/K, so a share ``noise``·(1 − 1/K) of the labels changes.
    bad_clusters : int, optional
        Number of labels of the wrong partitions; K by default.
    correlated : bool
        Whether the wrong partitions agree with each other.
    random_state : int, RandomState or None
        Seed of all draws.

    Returns
    -------
    P : (n, V) array of int32
        The partitions, wrong ones last.
    y : (n,) array of int32
        The planted partition, labels 0..K−1; ``sizes[k]`` points have label k.

    Examples
    --------
    >>> from coterie.inspection.scores import adjusted_rand_index
    >>> P, y = planted_partitions([40, 20], 3, n_bad=1, noise=0.0, random_state=0)
    >>> P.shape, [round(adjusted_rand_index(y, column), 1) for column in P.T]
    ((60, 3), [1.0, 1.0, 0.0])
    """
    sizes = [check_whole(f"sizes[{k}]", size) for k, size in enumerate(sizes)]
    if not sizes:
        raise InvalidParameterError("sizes is empty; give the size of at least one cluster")
    check_whole("n_partitions", n_partitions)
    check_whole("n_bad", n_bad, 0, n_partitions)
    check_number("noise", noise, 0.0, or_equal=True, most=1.0)
    if bad_clusters is None:
        bad_clusters = len(sizes)
    check_whole("bad_clusters", bad_clusters)

    rng = check_random_state(random_state)
    y = rng.permutation(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    wrong = rng.randint(bad_clusters, size=len(y), dtype=np.int32)
    P = np.empty((len(y), n_partitions), dtype=np.int32)
    for v in range(n_partitions):
        if v < n_partitions - n_bad:
            column, n_labels, rate = y, len(sizes), noise
        else:
            # Redrawing every label makes the wrong partitions independent of each other.
            column, n_labels, rate = wrong, bad_clusters, noise if correlated else 1.0
        redrawn = rng.randint(n_labels, size=len(y), dtype=np.int32)
        labels = np.where(rng.random_sample(len(y)) < rate, redrawn, column)
        P[:, v] = rng.permutation(n_labels).astype(np.int32)[labels]
    return P, y
