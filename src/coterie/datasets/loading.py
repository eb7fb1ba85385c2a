"""Loading of datasets: features and classes by name.

``iris`` and ``wine`` are part of scikit-learn; ``glass``, ``ionosphere`` and ``zoo`` are part of
this package. :mod:`coterie.datasets.dataset_files` finds or downloads the others.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coterie.datasets.catalogue import DATASETS, DatasetInfo
from coterie.datasets.dataset_files import obtain
from coterie.datasets.readers import READERS, RawDataset
from coterie.errors import InvalidParameterError

__all__ = ["DatasetInfo", "dataset_info", "dataset_names", "load_dataset", "load_views"]


def dataset_names() -> list[str]:
    """Return the names that :func:`load_dataset` and :func:`load_views` accept.

    >>> dataset_names()[:5]
    ['iris', 'wine', 'glass', 'ionosphere', 'zoo']
    """
    return list(DATASETS)


def dataset_info(name: str) -> DatasetInfo:
    """Describe a dataset without loading it.

    >>> dataset_info("zoo").n_samples, dataset_info("zoo").class_names[:2]
    (101, ('mammal', 'bird'))
    """
    if name not in DATASETS:
        raise InvalidParameterError(
            f"there is no dataset {name!r}; choose one of {', '.join(DATASETS)}"
        )
    return DATASETS[name]


@overload
def load_dataset(
    name: str, *, subset: str = ..., return_info: Literal[False] = ...
) -> tuple[Any, NDArray[np.int64]]: ...
@overload
def load_dataset(
    name: str, *, subset: str = ..., return_info: Literal[True]
) -> tuple[Any, NDArray[np.int64], DatasetInfo]: ...
def load_dataset(
    name: str, *, subset: str = "all", return_info: bool = False
) -> tuple[Any, NDArray[np.int64]] | tuple[Any, NDArray[np.int64], DatasetInfo]:
    """Load features and classes of a dataset.

    Parameters
    ----------
    name : str
        One of :func:`dataset_names`.
    subset : str
        ``"all"``; for ``reuters`` also ``"2900"``, a fixed stratified sample of 2,900 documents.
    return_info : bool
        Whether to return a :class:`DatasetInfo` as well.

    Returns
    -------
    X : (n, d) array of float64, or sparse array for ``cstr`` and ``reuters``
        Features as published, not scaled. The views of a multi-view dataset are concatenated.
    y : (n,) array of int64
        Classes, 0..C−1.
    info : DatasetInfo
        With ``return_info=True``.

    Raises
    ------
    DatasetUnavailableError
        If the dataset is not on this machine and cannot be downloaded; the message says how to
        get it.

    Examples
    --------
    >>> X, y = load_dataset("wine")
    >>> X.shape, np.bincount(y).tolist()
    ((178, 13), [59, 71, 48])
    """
    views, y, info = _load(name, subset)
    X = views[0] if len(views) == 1 else np.hstack(views)
    return (X, y, info) if return_info else (X, y)


@overload
def load_views(
    name: str, *, return_info: Literal[False] = ...
) -> tuple[list[Any], NDArray[np.int64]]: ...
@overload
def load_views(
    name: str, *, return_info: Literal[True]
) -> tuple[list[Any], NDArray[np.int64], DatasetInfo]: ...
def load_views(
    name: str, *, return_info: bool = False
) -> tuple[list[Any], NDArray[np.int64]] | tuple[list[Any], NDArray[np.int64], DatasetInfo]:
    """Load the views and the classes of a dataset.

    Parameters
    ----------
    name, return_info
        As in :func:`load_dataset`; ``info.view_sizes`` has the names of the views.

    Returns
    -------
    views : list of (n, d_v) arrays of float64
        Features as published, not scaled; most datasets have one view.
    y, info
        As in :func:`load_dataset`.

    Examples
    --------
    >>> views, y = load_views("iris")
    >>> [X.shape for X in views]
    [(150, 4)]
    """
    views, y, info = _load(name, "all")
    return (views, y, info) if return_info else (views, y)


def _load(name: str, subset: str) -> tuple[list[Any], NDArray[np.int64], DatasetInfo]:
    info = dataset_info(name)
    subsets = {"all": info.n_samples, **info.subsets}
    if subset not in subsets:
        raise InvalidParameterError(
            f"dataset {name!r} has no subset {subset!r}; choose one of {', '.join(subsets)}"
        )
    views, y = _read_dataset(info)
    if subset == "all":
        return views, y, info
    rows = _stratified_rows(y, subsets[subset])
    sizes = np.bincount(y[rows], minlength=len(info.class_names)).tolist()
    part = replace(info, class_sizes=dict(zip(info.class_names, sizes, strict=True)))
    return [view[rows] for view in views], y[rows], part


def _read_dataset(info: DatasetInfo) -> tuple[list[Any], NDArray[np.int64]]:
    """Return views and coded classes, from scikit-learn, this package or the user's files."""

    def read(format_: str, paths: list[Path]) -> tuple[list[Any], NDArray[np.int64]]:
        return _checked(info, READERS[format_](paths))

    if not info.editions:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{info.name}")(return_X_y=True)
        return _checked(info, RawDataset([X], y))
    if info.bundled:
        edition = info.editions[0]
        folder = resources.files("coterie.datasets") / "data"
        with resources.as_file(folder / edition.files[0].name) as path:
            return read(edition.format, [path])
    return obtain(info.name, info.editions, read, info.how_to_get)


def _checked(info: DatasetInfo, raw: RawDataset) -> tuple[list[Any], NDArray[np.int64]]:
    """Return views and coded classes; raise an error if they differ from the catalogue."""
    shapes = [view.shape for view in raw.views]
    expected = [(info.n_samples, size) for size in info.view_sizes.values()]
    if shapes != expected:
        raise ValueError(f"the shape of its views is {shapes}, not {expected}")
    values = [view.data if sparse.issparse(view) else view for view in raw.views]
    if not all(np.isfinite(numbers).all() for numbers in values):
        raise ValueError("it has features that are not finite numbers")
    y = _coded(raw.labels, info.class_names)
    sizes = np.bincount(y, minlength=len(info.class_names)).tolist()
    if sizes != list(info.class_sizes.values()):
        raise ValueError(f"its classes have {sizes} points, not {dict(info.class_sizes)}")
    return raw.views, y


def _coded(labels: NDArray[Any], class_names: tuple[str, ...]) -> NDArray[np.int64]:
    """Return classes 0..C−1: texts by their index in ``class_names``, numbers by their rank."""
    if labels.dtype.kind in "iu":
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    if unknown := sorted(set(labels.tolist()) - set(class_names)):
        raise ValueError(f"it has the class {unknown[0]!r}, which is not one of {class_names}")
    return np.array([class_names.index(label) for label in labels.tolist()], dtype=np.int64)


def _stratified_rows(y: NDArray[np.int64], size: int) -> NDArray[np.intp]:
    """Return a fixed stratified sample of ``size`` rows, increasing.

    Shares of the classes are rounded down; classes with the largest remainders get one row more.
    """
    share = np.bincount(y) * size / len(y)
    quota = np.floor(share).astype(np.int64)
    quota[np.argsort(quota - share, kind="stable")[: size - quota.sum()]] += 1
    rng = np.random.default_rng(0)
    drawn = [rng.choice(np.flatnonzero(y == c), q, replace=False) for c, q in enumerate(quota)]
    return np.sort(np.concatenate(drawn))
