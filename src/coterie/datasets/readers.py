"""Dataset files read: from each format that datasets come in to features and raw labels."""

from __future__ import annotations

import csv
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["READERS", "RawDataset", "reuters_documents"]

_REUTERS_CLASSES = 10
_REUTERS_TERMS = 1_000
_REUTERS_BOILERPLATE = frozenset({"said", "reuter", "reuters", "amp", "blah"})
_MFEAT_CLASSES = 10


class RawDataset(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    views : list of (n, d) arrays of float64, or sparse arrays
        Feature blocks, one if the set has a single view.
    labels : (n,) array of int or str
        Classes as the file names them.
    """

    views: list[Any]
    labels: NDArray[Any]


def read_table(paths: Sequence[Path]) -> RawDataset:
    """A CSV file with a header line and the class in the last column."""
    with paths[0].open(newline="", encoding="utf-8") as lines:
        _, *rows = csv.reader(lines)
    return _from_rows(rows)


def read_headless_table(paths: Sequence[Path]) -> RawDataset:
    """A CSV file without a header, the class in the last column, as UCI has them."""
    with paths[0].open(newline="", encoding="utf-8") as lines:
        return _from_rows([row for row in csv.reader(lines) if row])


def read_views(paths: Sequence[Path]) -> RawDataset:
    """A NumPy archive: ``views`` names the arrays in order, ``y`` has the classes."""
    with np.load(paths[0]) as archive:
        views = [archive[name].astype(np.float64) for name in archive["views"]]
        return RawDataset(views, _archived_labels(archive))


def read_sparse(paths: Sequence[Path]) -> RawDataset:
    """A NumPy archive that holds one sparse matrix, with the classes beside it as ``y``."""
    features = sparse.csr_array(sparse.load_npz(paths[0])).astype(np.float64)
    with np.load(paths[0]) as archive:
        return RawDataset([features], _archived_labels(archive))


def read_matlab_views(paths: Sequence[Path]) -> RawDataset:
    """A MATLAB file: a cell ``X`` of (n, d) or (d, n) matrices, classes ``Y``."""
    from scipy.io import loadmat

    contents = loadmat(paths[0], variable_names=["X", "Y"])
    labels = _whole(contents["Y"])
    views = []
    for cell in contents["X"].ravel():
        block = cell.toarray() if sparse.issparse(cell) else np.asarray(cell)
        upright = block if len(block) == len(labels) else block.T
        views.append(np.ascontiguousarray(upright, dtype=np.float64))
    return RawDataset(views, labels)


def read_matlab_sparse(paths: Sequence[Path]) -> RawDataset:
    """A MATLAB file: features ``fea`` (n, d), classes ``gnd``."""
    from scipy.io import loadmat

    contents = loadmat(paths[0], variable_names=["fea", "gnd"])
    features = sparse.csr_array(contents["fea"]).astype(np.float64)
    return RawDataset([features], _whole(contents["gnd"]))


def read_mfeat(paths: Sequence[Path]) -> RawDataset:
    """UCI's Multiple Features: one text table a view, rows in the order of the ten digits."""
    views = [np.loadtxt(path, ndmin=2) for path in paths]
    return RawDataset(views, np.repeat(np.arange(_MFEAT_CLASSES), len(views[0]) // _MFEAT_CLASSES))


def read_reuters(paths: Sequence[Path]) -> RawDataset:
    """Reuters-21578 as UCI packs it: counts of the commonest terms in ten largest topics.

    Kept are documents with exactly one topic and a body. A term is a run of three or more
    letters in title or body, in lower case, that is neither an English stop word nor Reuters
    boilerplate; the columns are the 1,000 terms of highest document frequency, sorted.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    topics, texts = zip(*reuters_documents(paths[0]), strict=True)
    largest = {topic for topic, _ in Counter(topics).most_common(_REUTERS_CLASSES)}
    kept = [i for i, topic in enumerate(topics) if topic in largest]
    vectorizer = CountVectorizer(
        token_pattern=r"[a-z]{3,}", stop_words=sorted(ENGLISH_STOP_WORDS | _REUTERS_BOILERPLATE)
    )
    counts = vectorizer.fit_transform([texts[i] for i in kept])
    # columns are in alphabetical order, and a stable sort keeps it among equals
    frequent = np.argsort(-counts.getnnz(axis=0), kind="stable")[:_REUTERS_TERMS]
    features = sparse.csr_array(counts[:, np.sort(frequent)]).astype(np.float64)
    return RawDataset([features], np.array([topics[i] for i in kept]))


def reuters_documents(archive: Path) -> list[tuple[str, str]]:
    """Topic and text of each document of Reuters-21578 that has one topic and a body."""
    with tarfile.open(archive) as members:
        names = sorted(name for name in members.getnames() if name.endswith(".sgm"))
        parts = [members.extractfile(name) for name in names]
        # not everything in there is UTF-8; latin-1 reads any byte
        sgml = "".join(part.read().decode("latin-1") for part in parts if part is not None)
    documents = []
    for document in re.findall(r"<REUTERS\b.*?</REUTERS>", sgml, flags=re.DOTALL):
        topics = re.findall(r"<D>(.*?)</D>", _between(document, "TOPICS"))
        body = _between(document, "BODY")
        if len(topics) == 1 and body:
            documents.append((topics[0], f"{_between(document, 'TITLE')} {body}"))
    return documents


READERS: Mapping[str, Callable[[Sequence[Path]], RawDataset]] = {
    "table": read_table,
    "headless table": read_headless_table,
    "views": read_views,
    "sparse": read_sparse,
    "MATLAB views": read_matlab_views,
    "MATLAB sparse": read_matlab_sparse,
    "mfeat": read_mfeat,
    "reuters": read_reuters,
}


def _from_rows(rows: list[list[str]]) -> RawDataset:
    features = np.array([row[:-1] for row in rows], dtype=np.float64)
    return RawDataset([features], np.array([row[-1].strip() for row in rows]))


def _archived_labels(archive: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    labels = archive["y"].astype(np.int64)
    return archive["class_names"][labels] if "class_names" in archive else labels


def _whole(labels: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(labels).ravel().astype(np.int64)


def _between(document: str, tag: str) -> str:
    found = re.search(rf"<{tag}>(.*?)</{tag}>", document, flags=re.DOTALL)
    return found.group(1) if found else ""
