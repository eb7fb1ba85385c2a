"""Plans of ensembles: which kind of clustering each run is, and what varies between the runs.

A :class:`Kind` says what the runs of a name have in common, a :class:`Plan` draws what varies, and
a :class:`Run` holds the settings of one run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.arrays import AnyArray, Bools, Floats
from coterie.ensembles.input_checks import check_whole
from coterie.ensembles.landmark_spectral import LandmarkGraph
from coterie.ensembles.members import MOST_LLOYD
from coterie.ensembles.scalings import Scaling
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import short_repr

#: A run of these kinds is fitted to a random sample of at most this many rows.
MOST_FITTED = {
    "kmeans": 200_000,
    "spectral": 10_000,
    "mixture": 4_000,
    "diagonal mixture": 4_000,
    "ward": 2_000,
}


@dataclass(frozen=True)
class Kind:
    """One kind of run."""

    name: str  # the first word of the names of its partitions
    method: str = "kmeans"  # ``kind`` of its runs
    sizes: str = "given"  # how K_v is drawn: "given", "diverse", "coarse" or "fine"
    subsample: float | None = None  # the share of the rows that a run uses; None is all
    subspace: float | None = None  # the share of the columns
    scalings: bool = False  # whether its runs use three scalings in turn
    clusterer: Any = None  # of scikit-learn, if the method is "clusterer"


#: The kinds of runs by name.
KINDS = {
    kind.name: kind
    for kind in (
        Kind("spectral", method="spectral", sizes="fine"),
        Kind("mixture", method="mixture", sizes="coarse"),
        Kind("diagonal mixture", method="diagonal mixture", sizes="coarse"),
        Kind("ward", method="ward", sizes="diverse", subspace=0.7),
        Kind("kmeans"),
        Kind("diverse", sizes="diverse"),
        Kind("subspaces", subspace=0.5),
        Kind("subsample", subsample=0.8),
        Kind("scalings", scalings=True),
    )
}
#: The kinds of the default ensemble, in turn.
MIXED = ("spectral", "mixture", "diagonal mixture", "mixture")
#: Names of ensembles.
ENSEMBLES = ("mixed", *KINDS)

_MOST_DIVERSE = 50
_MOST_FINE = 60
_ROWS_PER_COMPONENT = 30


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Settings of one run."""

    kind: str  # a key of ``MOST_FITTED``, or "clusterer"
    n_clusters: int | None  # K_v; None leaves it to the clusterer
    scaling: Scaling
    drawn: Bools | None  # (n,) rows that may be fitted; None is all
    seed: int
    clusterer: Any = None
    axes: Floats | None = None  # principal axes for mixtures; None leaves them to the run
    graph: LandmarkGraph | None = None  # landmarks for spectral runs, in the same way

    __repr__ = short_repr


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The checked settings of an ensemble.

    ``sizes`` are the numbers of clusters to draw from; None is unknown. ``subsample`` and
    ``subspace`` replace the shares of all kinds. ``row_odds`` (n,) and ``column_odds`` (p,) say how
    often rows and columns are drawn, relative to each other; None is equally often.
    """

    n_rows: int
    n_features: int
    sizes: tuple[int | None, ...]
    kinds: tuple[Kind, ...]
    subsample: float | None = None
    subspace: float | None = None
    row_odds: Floats | None = field(default=None, repr=False)
    column_odds: Floats | None = field(default=None, repr=False)
    axes: Floats | None = field(default=None, repr=False)
    graph: LandmarkGraph | None = field(default=None, repr=False)

    def runs(
        self, scalings: Sequence[Scaling], seeds: Iterable[np.random.SeedSequence]
    ) -> Iterator[Run]:
        """Yield the runs one by one, so that only one mask of drawn rows is in memory.

        ``scalings`` are the scaling of runs without a clusterer of the user, and two more for
        kinds that vary it.
        """
        times_drawn = np.zeros(self.n_rows, dtype=np.int32)
        drawn = None
        for turn, seed in enumerate(seeds):
            random = np.random.default_rng(seed)
            cycle, index = divmod(turn, len(self.kinds))
            kind = self.kinds[index]
            size = self._draw_size(kind, random)
            # Clusterers of the user get the features unchanged.
            scaling = Scaling()
            if kind.method != "clusterer":
                scaling = scalings[cycle % len(scalings) if kind.scalings else 0]
            subspace = kind.subspace if self.subspace is None else self.subspace
            if subspace is not None:
                scaling = scaling.restricted_to(self._draw_columns(subspace, random))
            # with ``subsample``, every kind in turn clusters the same sample
            if self.subsample is None or index == 0:
                drawn = self._draw_rows(kind, times_drawn, random)
            yield Run(
                kind=kind.method,
                n_clusters=size,
                scaling=scaling,
                drawn=drawn,
                seed=int(random.integers(2**31 - 1)),
                clusterer=kind.clusterer,
                axes=self.axes if subspace is None else None,
                graph=self.graph if subspace is None else None,
            )

    @property
    def most_clusters(self) -> int:
        """Return the largest number of clusters that a run of the kinds with many can draw."""
        return max(_MOST_FINE, *(size or 1 for size in self.sizes))

    def shortcuts(self) -> tuple[str, ...]:
        """Say in words which runs are not fitted to all rows, or not in the usual way."""
        texts = []
        for kind in dict.fromkeys(self.kinds):
            share = self._share(kind)
            drawn = self.n_rows if share is None else self._n_drawn(share)
            fitted = min(MOST_FITTED.get(kind.method, drawn), drawn)
            batches = kind.method == "kmeans" and fitted > MOST_LLOYD
            shares_graph = kind.method == "spectral" and self.graph is not None
            if fitted == drawn and not (batches or shares_graph):
                continue
            text = f"{kind.name} runs are fitted to {fitted:,} of {self.n_rows:,} rows"
            if batches:
                text += " by mini-batch k-means"
            if shares_graph and self.graph is not None:
                text += f" and share {self.graph.landmarks.shape[0]:,} landmarks"
            texts.append(text)
        return tuple(texts)

    def names(self, n_partitions: int) -> tuple[str, ...]:
        """Return the names of the partitions: the kind, and a number within the kind."""
        counts = dict.fromkeys((kind.name for kind in self.kinds), 0)
        names = []
        for turn in range(n_partitions):
            name = self.kinds[turn % len(self.kinds)].name
            names.append(f"{name} {counts[name]}")
            counts[name] += 1
        return tuple(names)

    def check_draws(self, n_partitions: int) -> None:
        """Refuse samples that leave out rows or share none, and odds of what is not drawn."""
        shares = [self._share(kind) for kind in self.kinds]
        columns = [kind.subspace if self.subspace is None else self.subspace for kind in self.kinds]
        for name, odds, used in (
            ("subsample", self.row_odds, shares),
            ("subspace", self.column_odds, columns),
        ):
            if odds is not None and all(share is None for share in used):
                raise InvalidParameterError(
                    f"{name}_weight is given, but the runs draw no {name}; set {name}, such as "
                    f"{name}=0.8"
                )
        if n_partitions == 1 or any(share is None for share in shares):
            return
        n_samples = n_partitions
        if self.subsample is not None:  # one sample for all kinds
            n_samples = -(-n_partitions // len(self.kinds))
        n_drawn = n_samples * max(self._n_drawn(share) for share in shares if share is not None)
        if n_drawn < self.n_rows + (n_samples > 1):
            raise InvalidParameterError(
                f"{n_samples} samples with subsample={shares[0]} draw {n_drawn} of the "
                f"{self.n_rows} rows, but every row must be drawn, and samples must overlap; "
                "raise subsample or n_partitions"
            )
        if self.row_odds is not None:
            expected = n_drawn * self.row_odds.min() / self.row_odds.sum()
            if expected < 1:
                row = int(np.argmin(self.row_odds))
                raise InvalidParameterError(
                    f"subsample_weight[{row}] is so small that {n_samples} samples draw the row "
                    f"{expected:.2g} times on average; raise it, subsample or n_partitions"
                )

    def _draw_size(self, kind: Kind, random: np.random.Generator) -> int | None:
        """Draw K_v; None leaves it to a clusterer."""
        given = self.sizes[int(random.choice(len(self.sizes)))]
        if kind.method == "clusterer" or (kind.sizes == "given" and given is not None):
            return given
        root = math.isqrt(self.n_rows)
        # coarse runs would hide clusters if K is large, and tell nothing about K
        K = max(2, min(root, _MOST_DIVERSE) // 4) if given is None else given
        low, most = K, max(K, min(root, _MOST_DIVERSE))
        if kind.sizes == "fine":
            most = max(K, min(_MOST_FINE, math.isqrt(9 * self.n_rows // 4)))
            low = max(K, min(most // 3, most - 1))
        size = int(random.integers(low, most, endpoint=True))
        if kind.sizes == "coarse":
            size = min(size, max(K, self.n_rows // _ROWS_PER_COMPONENT))
        return min(size, self.n_rows)

    def _share(self, kind: Kind) -> float | None:
        return kind.subsample if self.subsample is None else self.subsample

    def _n_drawn(self, share: float) -> int:
        least = max(size or 1 for size in self.sizes)
        return min(max(round(share * self.n_rows), least), self.n_rows)

    def _draw_rows(
        self, kind: Kind, times_drawn: AnyArray, random: np.random.Generator
    ) -> Bools | None:
        """Draw the rows that were drawn least often, and count them; None is all rows."""
        share = self._share(kind)
        if share is None:
            return None
        count = self._n_drawn(share)
        # Random numbers in [0, 1) break ties between equal counts.
        turn = times_drawn + random.random(self.n_rows)
        if self.row_odds is not None:
            turn /= self.row_odds
        order = np.argpartition(turn, count - 1)
        drawn = np.zeros(self.n_rows, dtype=np.bool_)
        drawn[order[:count]] = True
        times_drawn += drawn
        return drawn

    def _draw_columns(self, share: float, random: np.random.Generator) -> AnyArray:
        """Draw different columns, in rising order."""
        count = max(1, round(share * self.n_features))
        if self.column_odds is None:
            return np.sort(random.permutation(self.n_features)[:count])
        count = min(count, int(np.count_nonzero(self.column_odds)))
        odds = self.column_odds / self.column_odds.sum()
        return np.sort(random.choice(self.n_features, count, replace=False, p=odds))


def check_ensemble(ensemble: Any) -> tuple[Kind, ...]:
    """Return the kinds of runs of an ``ensemble``: a name, a clusterer, or several of them.

    >>> [kind.name for kind in check_ensemble(["kmeans", "ward"])]
    ['kmeans', 'ward']
    """
    several = isinstance(ensemble, Iterable) and not isinstance(ensemble, str)
    entries = list(ensemble) if several and not hasattr(ensemble, "fit") else [ensemble]
    kinds: list[Kind] = []
    for entry in entries:
        if isinstance(entry, str) and entry == "mixed":
            kinds += [KINDS[name] for name in MIXED]
        elif isinstance(entry, str) and entry in KINDS:
            kinds.append(KINDS[entry])
        elif (
            hasattr(entry, "get_params")
            and hasattr(entry, "fit_predict")
            and not isinstance(entry, type)
        ):
            name = type(entry).__name__
            kinds.append(Kind(name, method="clusterer", clusterer=entry))
        else:
            raise InvalidParameterError(
                f"ensemble: {entry!r} is neither a name ({', '.join(ENSEMBLES)}) nor an instance "
                "of a scikit-learn clusterer, such as sklearn.cluster.KMeans()"
            )
    if not kinds:
        raise InvalidParameterError("ensemble is empty; give at least one name or clusterer")
    return tuple(kinds)


def check_sizes(n_clusters: Any, n_rows: int) -> tuple[int | None, ...]:
    """Return the numbers of clusters to draw from; None is unknown.

    >>> check_sizes([2, 3], 10), check_sizes(None, 10)
    ((2, 3), (None,))
    """
    if n_clusters is None:
        return (None,)
    sizes = np.atleast_1d(np.asarray(n_clusters, dtype=object)).tolist()
    if not sizes:
        raise InvalidParameterError("n_clusters is empty; give at least one number of clusters")
    for size in sizes:
        if check_whole("n_clusters", size) > n_rows:
            raise InvalidParameterError(
                f"n_clusters={size} is more than the {n_rows} rows of X; give {n_rows} or fewer"
            )
    return tuple(int(size) for size in sizes)
