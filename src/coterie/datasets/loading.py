"""Datasets by name: features and classes, found on this machine or downloaded.

``iris`` and ``wine`` are part of scikit-learn; ``glass``, ``ionosphere`` and ``zoo`` are part of
this package. The path of any other file is ``<folder>/<dataset>/<file>``. The folder is the one in
the environment variable ``COTERIE_DATA``, or else the cache (``$XDG_CACHE_HOME/coterie``, by
default ``~/.cache/coterie``). If the file is in neither and has an address, it is downloaded, read
and checked, and then stored in the cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from typing import Any, Literal, overload
from urllib.request import urlopen

import numpy as np
from scipy import sparse

from coterie.arrays import Ints
from coterie.datasets.catalogue import DATASETS, SHA256, DatasetInfo, Edition
from coterie.datasets.readers import READERS, RawDataset
from coterie.errors import DatasetUnavailableError, InvalidParameterError, OutputError
from coterie.runtime.atomic_files import atomic_file

_TIMEOUT_SECONDS = 60

Contents = tuple[list[Any], Ints]


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
) -> tuple[Any, Ints]: ...
@overload
def load_dataset(
    name: str, *, subset: str = ..., return_info: Literal[True]
) -> tuple[Any, Ints, DatasetInfo]: ...
def load_dataset(
    name: str, *, subset: str = "all", return_info: bool = False
) -> tuple[Any, Ints] | tuple[Any, Ints, DatasetInfo]:
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
def load_views(name: str, *, return_info: Literal[False] = ...) -> tuple[list[Any], Ints]: ...
@overload
def load_views(name: str, *, return_info: Literal[True]) -> tuple[list[Any], Ints, DatasetInfo]: ...
def load_views(
    name: str, *, return_info: bool = False
) -> tuple[list[Any], Ints] | tuple[list[Any], Ints, DatasetInfo]:
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


def cache_folder() -> Path:
    """Return the folder for downloads; it may not exist yet."""
    # The XDG standard requires that a relative path is ignored.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "coterie"


def data_folders() -> list[Path]:
    """Return the folders to search, in order: ``COTERIE_DATA`` if it is set, then the cache."""
    given = os.environ.get("COTERIE_DATA")
    if not given:
        return [cache_folder()]
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise DatasetUnavailableError(
            f"the environment variable COTERIE_DATA names {folder}, which is not a folder; "
            "correct it or unset it"
        )
    return [folder, cache_folder()]


def _load(name: str, subset: str) -> tuple[list[Any], Ints, DatasetInfo]:
    info = dataset_info(name)
    subsets = {"all": info.n_samples, **info.subsets}
    if subset not in subsets:
        raise InvalidParameterError(
            f"dataset {name!r} has no subset {subset!r}; choose one of {', '.join(subsets)}"
        )
    if not info.editions:
        from sklearn import datasets

        X, classes = getattr(datasets, f"load_{info.name}")(return_X_y=True)
        views, y = _checked(info, RawDataset([X], classes))
    elif info.bundled:
        edition = info.editions[0]
        folder = resources.files("coterie.datasets") / "data"
        with resources.as_file(folder / edition.files[0]) as path:
            views, y = _checked(info, READERS[edition.format]([path]))
    else:
        views, y = _find_or_download(info)
    if subset == "all":
        return views, y, info
    # A fixed stratified sample: shares of the classes are rounded down, and classes with the
    # largest remainders get one row more.
    size = subsets[subset]
    share = np.bincount(y) * size / len(y)
    quota = np.floor(share).astype(np.int64)
    quota[np.argsort(quota - share, kind="stable")[: size - quota.sum()]] += 1
    rng = np.random.default_rng(0)
    drawn = [rng.choice(np.flatnonzero(y == c), q, replace=False) for c, q in enumerate(quota)]
    rows = np.sort(np.concatenate(drawn))
    part = replace(info, class_sizes=dict(zip(info.class_names, quota.tolist(), strict=True)))
    return [view[rows] for view in views], y[rows], part


def _find_or_download(info: DatasetInfo) -> Contents:
    """Read the first complete edition in a folder, or download the first with an address.

    A DatasetUnavailableError names a damaged file, or says how to get a missing one.
    """
    for folder in data_folders():
        for edition in info.editions:
            paths = [folder / info.name / name for name in edition.files]
            if all(path.is_file() for path in paths):
                for path in paths:
                    _check_sum(path)
                remedy = "; remove it, or replace it by the right file"
                return _read(info, edition, paths, " + ".join(map(str, paths)), remedy)
    try:
        return _download(info)
    except DatasetUnavailableError as error:
        files = " or ".join(
            " + ".join(f"{info.name}/{name}" for name in edition.files) for edition in info.editions
        )
        urls = " + ".join(url for edition in info.editions for url in edition.urls)
        ways = [f"connect to the network and call again, to download {urls}"] if urls else []
        ways += [
            f"get it yourself ({info.how_to_get}) and put {files} into {cache_folder()}",
            f"set the environment variable COTERIE_DATA to a folder that has {files}",
        ]
        listed = ";\n".join(f"{number}. {way}" for number, way in enumerate(ways, 1))
        raise DatasetUnavailableError(
            f"the dataset {info.name!r} is not on this machine, and {error}. Ways to get it:\n"
            f"{listed}."
        ) from error


def _check_sum(path: Path) -> None:
    expected = SHA256.get(path.name)
    if expected is None:
        return
    try:
        with path.open("rb") as stream:
            computed = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DatasetUnavailableError(f"cannot read {path}: {error.strerror}") from error
    if computed != expected:
        raise DatasetUnavailableError(
            f"{path} is damaged or a different file: its SHA-256 is {computed}, not {expected}; "
            "remove it, or replace it by the right file"
        )


def _download(info: DatasetInfo) -> Contents:
    edition = next((edition for edition in info.editions if edition.urls), None)
    if edition is None:
        raise DatasetUnavailableError("it cannot be downloaded automatically")
    # Files are stored only after all of them were read, so the cache has no incomplete dataset.
    with tempfile.TemporaryDirectory(prefix="coterie-") as name:
        paths = [Path(name) / file for file in edition.files]
        for path, url in zip(paths, edition.urls, strict=True):
            path.write_bytes(_fetch(url, SHA256.get(path.name)))
        contents = _read(info, edition, paths, " + ".join(edition.urls))
        folder = cache_folder() / info.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"cannot create the cache folder {folder}: {error.strerror}; set XDG_CACHE_HOME "
                "to a writable folder"
            ) from error
        for path in paths:
            with atomic_file(folder / path.name) as temporary:
                shutil.copyfile(path, temporary)
    return contents


def _fetch(url: str, sha256: str | None) -> bytes:
    """Download a file, and check its length and checksum."""
    try:
        with urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            content: bytes = response.read()
            announced = response.headers.get("Content-Length")
    except (OSError, HTTPException) as error:
        raise DatasetUnavailableError(
            f"{url} could not be downloaded ({type(error).__name__}: {error})"
        ) from error
    if announced is not None and len(content) != int(announced):
        raise DatasetUnavailableError(
            f"the download of {url} is incomplete: {len(content)} of {announced} bytes"
        )
    computed = hashlib.sha256(content).hexdigest()
    if sha256 not in (None, computed):
        raise DatasetUnavailableError(f"{url} has changed: its SHA-256 is {computed}, not {sha256}")
    return content


def _read(
    info: DatasetInfo, edition: Edition, paths: Sequence[Path], origin: str, remedy: str = ""
) -> Contents:
    try:
        return _checked(info, READERS[edition.format](paths))
    except Exception as error:  # a damaged file can raise any error in its parser
        raise DatasetUnavailableError(
            f"{origin} does not hold the dataset ({type(error).__name__}: {error}){remedy}"
        ) from error


def _checked(info: DatasetInfo, raw: RawDataset) -> Contents:
    """Return views and classes 0..C−1; raise an error if they differ from the catalogue."""
    shapes = [view.shape for view in raw.views]
    expected = [(info.n_samples, size) for size in info.view_sizes.values()]
    if shapes != expected:
        raise ValueError(f"the shape of its views is {shapes}, not {expected}")
    values = [view.data if sparse.issparse(view) else view for view in raw.views]
    if not all(np.isfinite(numbers).all() for numbers in values):
        raise ValueError("it has features that are not finite numbers")
    if raw.labels.dtype.kind in "iu":
        y = np.unique(raw.labels, return_inverse=True)[1].astype(np.int64)
    else:
        codes = {name: code for code, name in enumerate(info.class_names)}
        if unknown := sorted(set(raw.labels.tolist()) - set(codes)):
            raise ValueError(
                f"it has the class {unknown[0]!r}, which is not one of {info.class_names}"
            )
        y = np.array([codes[label] for label in raw.labels.tolist()], dtype=np.int64)
    sizes = np.bincount(y, minlength=len(info.class_names)).tolist()
    if sizes != list(info.class_sizes.values()):
        raise ValueError(f"its classes have {sizes} points, not {dict(info.class_sizes)}")
    return raw.views, y
