"""Model files: fitted estimators without pickle, so that loading a file runs no code from it.

A model file is a zip archive, usually named ``*.coterie``, with uncompressed members:

=====================  =====================================================================
``manifest.json``      format, versions, type, and the SHA-256 of every other member
``state.json``         the attributes, as a tree of :class:`~coterie.files.model_state.StateWriter`
``arrays/0.npy`` …     the arrays that the tree refers to
comment of the zip     the SHA-256 of the manifest
=====================  =====================================================================

The checksums detect damage, not forgery: they can be computed for any content. A forged file can
only hold other numbers and texts in the types of
:data:`~coterie.files.storable_types.STORABLE_TYPES`. Sizes are bounded before anything is read
(:mod:`~coterie.files.size_bounds`), in this order: directory, manifest, tree, headers of the
arrays, arrays.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coterie
from coterie.errors import CoterieWarning, ModelFileError
from coterie.files.model_state import OutlineReader, StateReader, StateWriter
from coterie.files.size_bounds import (
    MOST_BYTES,
    MOST_JSON_BYTES,
    MOST_MEMBERS,
    ArrayHeader,
    BoundedReader,
    read_header,
    refuse_large_tree,
)
from coterie.runtime.atomic_files import atomic_file

__all__ = ["content_checksum", "load_model", "opened_model", "save_model"]

_FORMAT = "coterie-model"
_FORMAT_VERSION = 2
_COMMENT = b"coterie-model sha256 "
_PART_BYTES = 1 << 20


def save_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, completely or not at all. Equal states give equal bytes.

    Parameters
    ----------
    estimator : estimator
        Fitted, of a type in :data:`~coterie.files.storable_types.STORABLE_TYPES`.
    path : path-like
        The file; ``*.coterie`` by convention.

    Raises
    ------
    ModelFileError
        If the estimator is not fitted, or holds a value that cannot be stored.
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.cluster import KMeans
    >>> file = Path(tempfile.mkdtemp()) / "model.coterie"
    >>> save_model(KMeans(2, n_init=1, random_state=0).fit([[0.0], [1.0], [9.0]]), file)
    >>> sorted(load_model(file).cluster_centers_.ravel().tolist())
    [0.5, 9.0]
    """
    _refuse_unfitted(estimator)
    name = type(estimator).__name__
    writer = StateWriter()
    try:
        tree = writer.encode(estimator, "estimator")
        state = json.dumps(tree, allow_nan=False, separators=(",", ":")).encode()
    except RecursionError as error:
        raise ModelFileError(f"this {name} holds itself, or is nested too deep to store") from error
    if len(state) > MOST_JSON_BYTES:
        raise ModelFileError(
            f"this {name} has {len(state):,} bytes of lists and texts, and a model file can hold "
            f"{MOST_JSON_BYTES:,}; keep them in arrays"
        )
    try:
        refuse_large_tree(state)
    except ValueError as error:
        raise ModelFileError(f"this {name} cannot be stored: {error}") from error
    if len(writer.arrays) + 2 > MOST_MEMBERS:
        raise ModelFileError(f"this {name} has {len(writer.arrays):,} arrays, which is too many")
    with atomic_file(path) as unfinished:
        _write_archive(unfinished, tree["$object"]["type"], state, writer.arrays)


def load_model(
    path: str | os.PathLike[str],
    *,
    classes: Mapping[str, type] | None = None,
    check_outline: Callable[[Any], None] | None = None,
) -> Any:
    """Read a fitted estimator from a file of :func:`save_model`.

    Parameters
    ----------
    path : path-like
    classes : mapping of str to type, optional
        See :class:`~coterie.files.model_state.StateReader`.
    check_outline : callable, optional
        Called before the arrays are read, with the estimator of
        :class:`~coterie.files.model_state.OutlineReader`; it raises a ModelFileError if the shapes
        of the arrays do not fit each other.

    Returns
    -------
    estimator
        With the attributes it was saved with, as far as its class knows them.

    Raises
    ------
    ModelFileError
        If the file is missing, not a model file, of another format version, damaged, or holds a
        type that is not listed.

    Warns
    -----
    CoterieWarning
        If it holds estimators of another version of scikit-learn.

    Examples
    --------
    >>> load_model("model.pkl")
    Traceback (most recent call last):
    ...
    coterie.errors.ModelFileError: there is no file model.pkl; check the name and the folder
    """
    path = Path(path)
    with _errors_of(path):
        with opened_model(path) as file, _archive_in(file) as archive:
            manifest, checksums = _read_manifest(archive)
            tree = _tree_in(_checked(archive, "state.json", checksums.pop("state.json")))
            if tree["$object"]["type"] != manifest["type"]:
                raise ModelFileError(_damaged("its state is that of another type"))
            headers = [_header_of(archive, name) for name in checksums]
            if check_outline is not None:
                outlines = [header.outline() for header in headers]
                check_outline(OutlineReader(outlines, classes).decode(tree))
            contents = (_checked(archive, name, checksums[name]) for name in checksums)
            arrays = [h.array(content) for h, content in zip(headers, contents, strict=True)]
        reader = StateReader(arrays, classes)
        estimator = reader.decode(tree)
    if any(name.startswith("sklearn.") for name in reader.types):
        import sklearn

        if manifest["sklearn"] != sklearn.__version__:
            warnings.warn(
                f"{path} holds estimators of scikit-learn {_brief(manifest['sklearn'])}, and this "
                f"is {sklearn.__version__}; if they do not work, fit the model again",
                CoterieWarning,
                stacklevel=2,
            )
    return estimator


def content_checksum(path: str | os.PathLike[str], *, verified: bool = False) -> str:
    """Return the SHA-256 of the manifest, which identifies the content of a model file.

    With ``verified`` the whole file is read and compared with its checksums; otherwise only its
    end is read. A missing, foreign or damaged file raises a ModelFileError.
    """
    path = Path(path)
    with _errors_of(path), opened_model(path) as file, _archive_in(file) as archive:
        if verified:
            for name, checksum in _read_manifest(archive)[1].items():
                _check_sum(name, _digest(archive, name), checksum)
        return _manifest_checksum(archive)


def opened_model(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file that may hold a model, without waiting for the writer of a pipe.

    A pipe, a device or a file larger than any model file raises a ModelFileError.
    """

    def open_nonblocking(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    file = BoundedReader(io.FileIO(os.fspath(path), opener=open_nonblocking))
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError("it is not a file but a pipe, a device or the like")
        if status.st_size > MOST_BYTES:
            raise ModelFileError(
                f"it has {status.st_size:,} bytes, and a model file at most {MOST_BYTES:,}"
            )
    except BaseException:
        file.close()
        raise
    return file


@contextlib.contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Turn every failure to read a file into a ModelFileError that names it."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"cannot load {path}: {error}") from error
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no file {path}; check the name and the folder") from error
    except IsADirectoryError as error:
        raise ModelFileError(f"{path} is a folder; give a model file") from error
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # zipfile, json and numpy raise many kinds of exceptions
        raise ModelFileError(f"cannot load {path}: {_damaged(error)}") from error


def _refuse_unfitted(estimator: Any) -> None:
    # imported here, because it is slow and not needed to load a model
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    name = type(estimator).__name__
    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise ModelFileError(f"this {name} is not fitted; fit it first") from error
    except TypeError as error:
        raise ModelFileError(f"only a fitted estimator can be saved, not a {name}") from error


def _write_archive(
    unfinished: Path, type_name: str, state: bytes, arrays: list[NDArray[Any]]
) -> None:
    import sklearn

    with zipfile.ZipFile(unfinished, "w") as archive:
        checksums = {"state.json": _store(archive, "state.json", state)}
        for number, array in enumerate(arrays):
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            name = f"arrays/{number}.npy"
            checksums[name] = _store(archive, name, content.getbuffer())
        manifest = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "coterie": coterie.__version__,
            "sklearn": sklearn.__version__,
            "type": type_name,
            "sha256": checksums,
        }
        checksum = _store(archive, "manifest.json", json.dumps(manifest, indent=1).encode())
        archive.comment = _COMMENT + checksum.encode()


def _store(archive: zipfile.ZipFile, name: str, content: bytes | memoryview) -> str:
    """Store a member without a time stamp, and return its checksum."""
    archive.writestr(zipfile.ZipInfo(name), content)
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def _archive_in(file: io.BufferedReader) -> Iterator[zipfile.ZipFile]:
    """Open the archive in a file; refuse other files, and members that could take much memory."""
    if file.read(4) != b"PK\x03\x04":
        raise ModelFileError("it is not a model file; create one with save_model")
    with zipfile.ZipFile(file) as archive:
        _refuse_inflation(archive.infolist(), os.fstat(file.fileno()).st_size)
        yield archive


def _refuse_inflation(members: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse compressed or overlapping members, which could need more memory than the file."""
    if len(members) > MOST_MEMBERS:
        raise ModelFileError(_damaged(f"it has {len(members):,} members"))
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ModelFileError(_damaged("it has compressed members, and save_model writes none"))
    if sum(member.file_size for member in members) > size:
        raise ModelFileError(_damaged("its members claim to be larger than the file"))
    for member in members:
        if member.filename.endswith(".json") and member.file_size > MOST_JSON_BYTES:
            raise ModelFileError(
                _damaged(f"{_brief(member.filename)} has {member.file_size:,} bytes")
            )


def _read_manifest(archive: zipfile.ZipFile) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the manifest, and the checksums of the other members, arrays in order."""
    manifest = _tree_in(_checked(archive, "manifest.json", _manifest_checksum(archive)))
    if manifest["format"] != _FORMAT:
        raise ModelFileError(f"its format is {_brief(manifest['format'])!r}, not {_FORMAT!r}")
    version = manifest["format_version"]
    if version != _FORMAT_VERSION:
        advice = "update coterie" if version > _FORMAT_VERSION else "fit the model again"
        raise ModelFileError(
            f"it is of format version {_brief(version)}, written by coterie "
            f"{_brief(manifest['coterie'])}, and this version of coterie reads "
            f"{_FORMAT_VERSION}; {advice}"
        )
    checksums = manifest["sha256"]
    _check_names(archive, checksums)
    names = ["state.json", *(f"arrays/{number}.npy" for number in range(len(checksums) - 1))]
    return manifest, {name: checksums[name] for name in names}


def _tree_in(text: bytearray) -> Any:
    refuse_large_tree(text)
    return json.loads(text)


def _header_of(archive: zipfile.ZipFile, name: str) -> ArrayHeader:
    with archive.open(name) as member:
        return read_header(member, archive.getinfo(name).file_size)


def _manifest_checksum(archive: zipfile.ZipFile) -> str:
    if "manifest.json" not in archive.namelist() or not archive.comment.startswith(_COMMENT):
        raise ModelFileError(
            "it is a zip archive, but not a model file; create one with save_model"
        )
    return archive.comment.removeprefix(_COMMENT).decode()


def _check_names(archive: zipfile.ZipFile, checksums: dict[str, str]) -> None:
    counts = Counter(archive.namelist())
    listed = {"manifest.json", *checksums}
    for name in sorted(listed - counts.keys()):
        raise ModelFileError(_damaged(f"the member {_brief(name)} is missing"))
    for name in sorted(counts.keys() - listed):
        raise ModelFileError(_damaged(f"the member {_brief(name)} does not belong to it"))
    for name in sorted(name for name, count in counts.items() if count > 1):
        raise ModelFileError(_damaged(f"there is more than one member {name}"))


def _parts(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    with archive.open(name) as member:
        while part := member.read(_PART_BYTES):
            yield part


def _checked(archive: zipfile.ZipFile, name: str, checksum: str) -> bytearray:
    """Return the content of a member; it is read in parts, so that memory is needed only once."""
    content = bytearray(archive.getinfo(name).file_size)
    end = 0
    for part in _parts(archive, name):
        content[end : end + len(part)] = part
        end += len(part)
    _check_sum(name, hashlib.sha256(content).hexdigest(), checksum)
    return content


def _digest(archive: zipfile.ZipFile, name: str) -> str:
    """Return the SHA-256 of a member without keeping its content."""
    digest = hashlib.sha256()
    for part in _parts(archive, name):
        digest.update(part)
    return digest.hexdigest()


def _check_sum(name: str, computed: str, expected: str) -> None:
    if computed != expected:
        raise ModelFileError(_damaged(f"the checksum of {name} does not match"))


def _brief(text: object) -> str:
    """Return the beginning of a text from the file, for a message."""
    return str(text)[:80]


def _damaged(damage: object) -> str:
    return f"it is damaged, cut short or was changed ({damage}); save or fetch it again"
