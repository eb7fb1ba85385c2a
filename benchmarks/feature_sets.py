"""Feature tables whose classes are known: three lists, each divided into two halves.

The second list was written down before any result on it was seen, the third (clustering-data-v1 by
M. Gagolewski) by others. In each list the sets are assigned in turn to the develop half, on which
defaults may be chosen, and to the report half.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.datasets import load_dataset, load_views

Loaded = tuple[NDArray[np.float64], NDArray[Any]]


class FeatureSet(NamedTuple):
    """A feature table with classes: ``load()`` gives X (n, p) and y (n,).

    Several references are the columns of y (n, r), whose label 0 is noise. ``dataset`` is the
    dataset that has to be in the data folder, if one has to; ``recorded`` are scores of others.
    """

    name: str
    load: Callable[[], Loaded]
    dataset: str | None = None
    recorded: dict[str, float] | None = None


def clustbench_sets(folder: Path) -> tuple[FeatureSet, ...]:
    """Return the sets of clustering-data-v1 in a folder, with the recorded scores of others."""
    table = folder / "recorded_ari.csv"
    if not table.exists():
        return ()
    with table.open(encoding="utf-8") as lines:
        rows = {row["set"].replace("/", "-"): row for row in csv.DictReader(lines)}
    names = {"genie": "Genie_0.3", "mixture": "gaussian_mixture", "kmeans": "kmeans"}
    names |= {"ward": "ward", "spectral": "spectral_rbf_5"}
    return tuple(
        FeatureSet(
            name,
            partial(_of_clustbench, folder / f"{name}.npz"),
            recorded={method: float(row[column]) for method, column in names.items()},
        )
        for name, row in sorted(rows.items())
        if (folder / f"{name}.npz").exists()
    )


def _of_clustbench(path: Path) -> Loaded:
    with np.load(path) as arrays:
        labels = [arrays[name] for name in sorted(arrays.files) if name.startswith("labels")]
        return arrays["X"].astype(np.float64), np.column_stack(labels)


def _standardised(X: Any) -> NDArray[np.float64]:
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit_transform(X)


def _of_sklearn(loader: str, standardise: bool = True) -> Loaded:
    from sklearn import datasets

    X, y = getattr(datasets, loader)(return_X_y=True)
    return (_standardised(X) if standardise else X), y


def _sampled(maker: str, *args: Any, **settings: Any) -> Loaded:
    from sklearn import datasets

    return getattr(datasets, maker)(*args, **settings)


def _table(name: str) -> Loaded:
    X, y = load_dataset(name)
    return _standardised(X), y


def _word_counts(name: str) -> Loaded:
    """Scale the rows of a document–term table to length 1."""
    from sklearn.preprocessing import normalize

    X, y = load_dataset(name)
    X = normalize(X)
    return (X.toarray() if hasattr(X, "toarray") else X), y


def _joined_views(name: str) -> Loaded:
    """Join standardised views; each has the same total variance."""
    views, y = load_views(name)
    return np.hstack([_standardised(view) / np.sqrt(view.shape[1]) for view in views]), y


def _one_view(name: str, place: int) -> Loaded:
    views, y = load_views(name)
    return _standardised(views[place]), y


def _stretched_blobs() -> Loaded:
    X, y = _sampled("make_blobs", 2000, random_state=170)
    return X @ [[0.6, -0.6], [-0.4, 0.8]], y


def _spirals() -> Loaded:
    rng = np.random.RandomState(0)
    t = np.sqrt(rng.rand(1000)) * 3 * np.pi
    y = np.repeat([0, 1], 500)
    side = np.where(y, -1, 1)
    return np.c_[side * t * np.cos(t), side * t * np.sin(t)] / 5 + rng.normal(0, 0.06, (1000, 2)), y


def _rings_around_blob() -> Loaded:
    rng = np.random.RandomState(0)
    angle, radius = rng.rand(900) * 2 * np.pi, np.repeat([3.0, 6.0], [300, 600])
    rings = np.c_[radius * np.cos(angle), radius * np.sin(angle)] + rng.normal(0, 0.25, (900, 2))
    return np.r_[rng.normal(0, 0.6, (300, 2)), rings], np.repeat([0, 1, 2], [300, 300, 600])


def _noise_columns() -> Loaded:
    X, y = _sampled("make_blobs", 900, centers=3, cluster_std=1.2, random_state=3)
    return _standardised(np.c_[X, np.random.RandomState(0).normal(0, X.std(), (900, 8))]), y


def _chain_links() -> Loaded:
    rng = np.random.RandomState(0)
    angle, y = rng.rand(1000) * 2 * np.pi, np.repeat([0, 1], 500)
    cos, sin, zero = np.cos(angle), np.sin(angle), np.zeros(1000)
    X = np.where(y[:, None], np.c_[1 + cos, zero, sin], np.c_[cos, sin, zero])
    return X + rng.normal(0, 0.1, (1000, 3)), y


def _lsun() -> Loaded:
    """Draw two rectangles and a blob (the set Lsun of Ultsch's suite, drawn again)."""
    rng = np.random.RandomState(0)
    tall = np.c_[rng.rand(400), rng.rand(400) * 4]
    wide = np.c_[1.6 + rng.rand(400) * 3, rng.rand(400)]
    blob = rng.normal((3.2, 3.0), 0.45, (200, 2))
    return np.r_[tall, wide, blob], np.repeat([0, 1, 2], [400, 400, 200])


def _heavy_tails() -> Loaded:
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(4), [400, 300, 200, 100])
    centres = rng.normal(0, 5, (4, 5))
    return centres[y] + rng.standard_t(2.5, (1000, 5)) * 0.9, y


def _listed(name: str, load: Callable[..., Loaded], dataset: str, *args: Any) -> FeatureSet:
    return FeatureSet(name, partial(load, dataset, *args), dataset)


_UNEQUAL = {"centers": [[0, 0], [5, 0], [0, 5]], "cluster_std": [1.5, 0.6, 0.4]}
_TEN = {"n_features": 20, "centers": 10, "cluster_std": 3.0, "center_box": (-4, 4)}

#: Sets at even places of a list are in the first half, the others in the second.
HALVES = ("develop", "report")
#: The sets by list.
LISTS = {
    "first": (
        FeatureSet("digits", partial(_of_sklearn, "load_digits", False)),
        FeatureSet("wine", partial(_of_sklearn, "load_wine")),
        FeatureSet("iris", partial(_of_sklearn, "load_iris")),
        FeatureSet("breast cancer", partial(_of_sklearn, "load_breast_cancer")),
        _listed("glass", _table, "glass"),
        _listed("ionosphere", _table, "ionosphere"),
        _listed("zoo", _table, "zoo"),
        _listed("soybean", _table, "soybean_small"),
        _listed("Mfeat", _joined_views, "uci_mfeat"),
        _listed("MSRC-v1", _joined_views, "msrc_v1"),
        FeatureSet("moons", partial(_sampled, "make_moons", 2000, noise=0.07, random_state=0)),
        FeatureSet(
            "circles",
            partial(_sampled, "make_circles", 2000, noise=0.05, factor=0.5, random_state=0),
        ),
        FeatureSet("stretched blobs", _stretched_blobs),
    ),
    "second": (
        FeatureSet(
            "unequal blobs",
            partial(_sampled, "make_blobs", [1500, 300, 100], **_UNEQUAL, random_state=0),
        ),
        FeatureSet(
            "varied blobs",
            partial(_sampled, "make_blobs", 1500, cluster_std=[1.0, 2.5, 0.5], random_state=170),
        ),
        FeatureSet(
            "ten blobs, 20-d", partial(_sampled, "make_blobs", 2000, **_TEN, random_state=0)
        ),
        FeatureSet("spirals", _spirals),
        FeatureSet("rings and blob", _rings_around_blob),
        _listed("Mfeat, Fourier", _one_view, "uci_mfeat", 1),
        _listed("Mfeat, pixels", _one_view, "uci_mfeat", 4),
        _listed("Mfeat, Karhunen", _one_view, "uci_mfeat", 2),
        _listed("Caltech101-7", _joined_views, "caltech101_7"),
        _listed("MSRC-v1, GIST", _one_view, "msrc_v1", 2),
        _listed("CSTR", _word_counts, "cstr"),
        FeatureSet("noise columns", _noise_columns),
        FeatureSet("chain links", _chain_links),
        FeatureSet("Lsun", _lsun),
        FeatureSet("heavy tails", _heavy_tails),
    ),
}
