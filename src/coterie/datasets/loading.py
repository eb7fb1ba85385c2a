"""Datasets by name: features and classes, found on this machine or downloaded.

``iris`` and ``wine`` are part of scikit-learn; ``glass``, ``ionosphere`` and ``zoo`` are part of
this package. Any other file is ``<folder>/<dataset>/<file>``, in the folder ``COTERIE_DATA`` or in
the cache. If it is in neither and has an address, it is downloaded, read and checked, and then
stored in the cache.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload
from urllib.request import urlopen

import numpy as np
from scipy import sparse
from scipy.io import loadmat

from coterie.arrays import AnyArray, Ints
from coterie.datasets.catalogue import DATASETS, SHA256, DatasetInfo, Edition
from coterie.errors import DatasetUnavailableError, InvalidParameterError, OutputError
from coterie.runtime.atomic_files import atomic_file

_TIMEOUT_SECONDS = 60

_REUTERS_CLASSES = 10
_REUTERS_TERMS = 1_000
_REUTERS_BOILERPLATE = frozenset({"said", "reuter", "reuters", "amp", "blah"})
_MFEAT_CLASSES = 10

Contents = tuple[list[Any], Ints]


class RawDataset(NamedTuple):
    """Contents of dataset files: a table (n, d) for each view, and the class names (n,)."""

    views: list[Any]
    labels: AnyArray


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
    """Read the first complete edition in a folder, or download the first with an address."""
    for folder in data_folders():
        for edition in info.editions:
            paths = [folder / info.name / name for name in edition.files]
            if all(path.is_file() for path in paths):
                places = list(map(str, paths))
                return _read(info, edition, paths, places, "; remove it, or replace it")
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


def _download(info: DatasetInfo) -> Contents:
    edition = next((edition for edition in info.editions if edition.urls), None)
    if edition is None:
        raise DatasetUnavailableError("it cannot be downloaded automatically")
    # Files are stored only after all of them were read, so the cache has no incomplete dataset.
    with tempfile.TemporaryDirectory(prefix="coterie-") as name:
        paths = [Path(name) / file for file in edition.files]
        for path, url in zip(paths, edition.urls, strict=True):
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
            path.write_bytes(content)
        contents = _read(info, edition, paths, edition.urls)
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


def _read(
    info: DatasetInfo, edition: Edition, paths: list[Path], places: list[str], remedy: str = ""
) -> Contents:
    """Read and check files, which are called by the ``places`` they come from."""
    for path, place in zip(paths, places, strict=True):
        expected = SHA256.get(path.name)
        try:
            computed = expected and hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise DatasetUnavailableError(f"cannot read {path}: {error.strerror}") from error
        if computed != expected:
            raise DatasetUnavailableError(
                f"{place} is damaged or has changed: its SHA-256 is {computed}, not {expected}"
                f"{remedy}"
            )
    try:
        return _checked(info, READERS[edition.format](paths))
    except Exception as error:  # a damaged file can raise any error in its parser
        raise DatasetUnavailableError(
            f"{' + '.join(places)} does not hold the dataset "
            f"({type(error).__name__}: {error}){remedy}"
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


# ---- Readers, one for each format


def reuters_documents(archive: Path) -> list[tuple[str, str]]:
    """Return topic and text of each document of Reuters-21578 with one topic and a body."""
    with tarfile.open(archive) as members:
        names = sorted(name for name in members.getnames() if name.endswith(".sgm"))
        parts = [members.extractfile(name) for name in names]
        # Some files are not valid UTF-8; latin-1 can decode every byte.
        sgml = "".join(part.read().decode("latin-1") for part in parts if part is not None)
    documents = []
    for document in re.findall(r"<REUTERS\b.*?</REUTERS>", sgml, flags=re.DOTALL):
        topics = re.findall(r"<D>(.*?)</D>", _between(document, "TOPICS"))
        body = _between(document, "BODY")
        if len(topics) == 1 and body:
            documents.append((topics[0], f"{_between(document, 'TITLE')} {body}"))
    return documents


def _read_table(paths: Sequence[Path], n_header_lines: int = 1) -> RawDataset:
    """Read a CSV file with the class in the last column; blank lines are ignored."""
    with paths[0].open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.reader(lines) if row][n_header_lines:]
    features = np.array([row[:-1] for row in rows], dtype=np.float64)
    return RawDataset([features], np.array([row[-1].strip() for row in rows]))


def _read_views(paths: Sequence[Path]) -> RawDataset:
    """Read a NumPy archive: ``views`` names the arrays in order, ``y`` has the classes."""
    with np.load(paths[0]) as archive:
        views = [archive[name].astype(np.float64) for name in archive["views"]]
        return RawDataset(views, _archived_labels(archive))


def _read_sparse(paths: Sequence[Path]) -> RawDataset:
    """Read a NumPy archive of one sparse matrix and the classes ``y``."""
    features = sparse.csr_array(sparse.load_npz(paths[0])).astype(np.float64)
    with np.load(paths[0]) as archive:
        return RawDataset([features], _archived_labels(archive))


def _read_matlab_views(paths: Sequence[Path]) -> RawDataset:
    """Read a MATLAB file: a cell ``X`` of (n, d) or (d, n) matrices, classes ``Y``."""
    contents = loadmat(paths[0], variable_names=["X", "Y"])
    labels = contents["Y"].ravel().astype(np.int64)
    views = [cell.toarray() if sparse.issparse(cell) else cell for cell in contents["X"].ravel()]
    views = [view if len(view) == len(labels) else view.T for view in views]
    return RawDataset([np.ascontiguousarray(view, dtype=np.float64) for view in views], labels)


def _read_matlab_sparse(paths: Sequence[Path]) -> RawDataset:
    """Read a MATLAB file: features ``fea`` (n, d), classes ``gnd``."""
    contents = loadmat(paths[0], variable_names=["fea", "gnd"])
    features = sparse.csr_array(contents["fea"]).astype(np.float64)
    return RawDataset([features], contents["gnd"].ravel().astype(np.int64))


def _read_mfeat(paths: Sequence[Path]) -> RawDataset:
    """Read UCI's Multiple Features: one text table for each view, rows sorted by digit."""
    views = [np.loadtxt(path, ndmin=2) for path in paths]
    return RawDataset(views, np.repeat(np.arange(_MFEAT_CLASSES), len(views[0]) // _MFEAT_CLASSES))


def _read_reuters(paths: Sequence[Path]) -> RawDataset:
    """Read UCI's archive of Reuters-21578: term counts of documents in the ten largest topics.

    Documents have exactly one topic and a body. A term is a run of three or more letters in title
    or body, in lower case, that is neither an English stop word nor Reuters boilerplate. The
    columns are the 1,000 terms of highest document frequency, sorted.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    topics, texts = zip(*reuters_documents(paths[0]), strict=True)
    largest = {topic for topic, _ in Counter(topics).most_common(_REUTERS_CLASSES)}
    chosen = [i for i, topic in enumerate(topics) if topic in largest]
    vectorizer = CountVectorizer(
        token_pattern=r"[a-z]{3,}", stop_words=sorted(ENGLISH_STOP_WORDS | _REUTERS_BOILERPLATE)
    )
    counts = vectorizer.fit_transform([texts[i] for i in chosen])
    # Columns are in alphabetical order; the stable sort keeps this order for equal frequencies.
    frequent = np.argsort(-counts.getnnz(axis=0), kind="stable")[:_REUTERS_TERMS]
    features = sparse.csr_array(counts[:, np.sort(frequent)]).astype(np.float64)
    return RawDataset([features], np.array([topics[i] for i in chosen]))


READERS: Mapping[str, Callable[[Sequence[Path]], RawDataset]] = {
    "table": _read_table,
    "headless table": partial(_read_table, n_header_lines=0),  # files of UCI
    "views": _read_views,
    "sparse": _read_sparse,
    "MATLAB views": _read_matlab_views,
    "MATLAB sparse": _read_matlab_sparse,
    "mfeat": _read_mfeat,
    "reuters": _read_reuters,
}


def _archived_labels(archive: Mapping[str, AnyArray]) -> AnyArray:
    labels = archive["y"].astype(np.int64)
    return archive["class_names"][labels] if "class_names" in archive else labels


def _between(document: str, tag: str) -> str:
    match = re.search(rf"<{tag}>(.*?)</{tag}>", document, flags=re.DOTALL)
    return match.group(1) if match else ""
