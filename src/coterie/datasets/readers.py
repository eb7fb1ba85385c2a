"""Readers of dataset files: one function for each file format."""

from __future__ import annotations

import csv
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from coterie.arrays import AnyArray

_REUTERS_CLASSES = 10
_REUTERS_TERMS = 1_000
_REUTERS_BOILERPLATE = frozenset({"said", "reuter", "reuters", "amp", "blah"})
_MFEAT_CLASSES = 10


class RawDataset(NamedTuple):
    """Contents of dataset files: a table (n, d) for each view, and the class names (n,)."""

    views: list[Any]
    labels: AnyArray


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
    from scipy.io import loadmat

    contents = loadmat(paths[0], variable_names=["X", "Y"])
    labels = contents["Y"].ravel().astype(np.int64)
    views = []
    for cell in contents["X"].ravel():
        view = cell.toarray() if sparse.issparse(cell) else np.asarray(cell)
        rows_are_points = len(view) == len(labels)
        views.append(np.ascontiguousarray(view if rows_are_points else view.T, dtype=np.float64))
    return RawDataset(views, labels)


def _read_matlab_sparse(paths: Sequence[Path]) -> RawDataset:
    """Read a MATLAB file: features ``fea`` (n, d), classes ``gnd``."""
    from scipy.io import loadmat

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
