"""Dataset files: find them in the user's folder or in the cache, or download them.

The path of a file is ``<folder>/<dataset>/<file>``. The folder is the one in the environment
variable ``COTERIE_DATA``, or else the cache (``$XDG_CACHE_HOME/coterie``, by default
``~/.cache/coterie``). If the file is in neither and has an address, it is downloaded, read and
checked, and then stored in the cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar
from urllib.request import urlopen

from coterie.errors import DatasetUnavailableError, OutputError
from coterie.runtime.atomic_files import atomic_file

__all__ = ["DataFile", "Edition", "cache_folder", "data_folders", "obtain"]

_TIMEOUT_SECONDS = 60

Contents = TypeVar("Contents")


@dataclass(frozen=True)
class DataFile:
    """A file of a dataset: name, SHA-256 if known, address if it can be downloaded."""

    name: str
    sha256: str | None = None
    url: str | None = None


@dataclass(frozen=True)
class Edition:
    """One form of a dataset: its files, and the format in which to read them."""

    format: str
    files: tuple[DataFile, ...]

    @property
    def urls(self) -> list[str]:
        """Addresses of the files; empty unless all files have one."""
        urls = [file.url for file in self.files if file.url]
        return urls if len(urls) == len(self.files) else []

    def paths(self, folder: Path) -> list[Path]:
        """Return the paths of the files in ``folder``."""
        return [folder / file.name for file in self.files]


def cache_folder() -> Path:
    """Return the folder for downloads; it may not exist yet.

    >>> cache_folder().name
    'coterie'
    """
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


def obtain(
    dataset: str,
    editions: Sequence[Edition],
    read: Callable[[str, list[Path]], Contents],
    how_to_get: str,
) -> Contents:
    """Find or download a dataset, and return ``read(format, paths)``.

    ``editions`` are in order of preference. The first complete edition in a folder is read. If
    there is none, the first edition with addresses is downloaded. ``read`` raises an error if the
    contents are wrong. A DatasetUnavailableError names a damaged file, or says how to get a
    missing one.
    """
    for folder in data_folders():
        for edition in editions:
            paths = edition.paths(folder / dataset)
            if all(path.is_file() for path in paths):
                for path, file in zip(paths, edition.files, strict=True):
                    _check_file(path, file)
                remedy = "; remove it, or replace it by the right file"
                return _read(read, edition.format, paths, " + ".join(map(str, paths)), remedy)
    try:
        return _download(dataset, editions, read)
    except DatasetUnavailableError as error:
        raise DatasetUnavailableError(
            f"the dataset {dataset!r} is not on this machine, and {error}. Ways to get it:\n"
            f"{_ways(dataset, editions, how_to_get)}"
        ) from error


def _read(
    read: Callable[[str, list[Path]], Contents],
    format_: str,
    paths: list[Path],
    origin: str,
    remedy: str = "",
) -> Contents:
    try:
        return read(format_, paths)
    except Exception as error:  # a damaged file can raise any error in its parser
        raise DatasetUnavailableError(
            f"{origin} does not hold the dataset ({type(error).__name__}: {error}){remedy}"
        ) from error


def _download(
    dataset: str, editions: Sequence[Edition], read: Callable[[str, list[Path]], Contents]
) -> Contents:
    """Download the first edition with addresses; store it in the cache if it can be read."""
    edition = next((edition for edition in editions if edition.urls), None)
    if edition is None:
        raise DatasetUnavailableError("it cannot be downloaded automatically")
    # Files are stored only after all of them were read, so the cache has no incomplete dataset.
    with tempfile.TemporaryDirectory(prefix="coterie-") as name:
        paths = edition.paths(Path(name))
        for path, url, file in zip(paths, edition.urls, edition.files, strict=True):
            path.write_bytes(_fetch(url, file.sha256))
        contents = _read(read, edition.format, paths, " + ".join(edition.urls))
        _store(paths, cache_folder() / dataset)
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


def _store(paths: Sequence[Path], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot create the cache folder {folder}: {error.strerror}; set XDG_CACHE_HOME to a "
            "writable folder"
        ) from error
    for path in paths:
        with atomic_file(folder / path.name) as temporary:
            shutil.copyfile(path, temporary)


def _check_file(path: Path, file: DataFile) -> None:
    """Refuse a file with a wrong checksum."""
    if file.sha256 is None:
        return
    try:
        with path.open("rb") as stream:
            computed = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DatasetUnavailableError(f"cannot read {path}: {error.strerror}") from error
    if computed != file.sha256:
        raise DatasetUnavailableError(
            f"{path} is damaged or a different file: its SHA-256 is {computed}, not {file.sha256}; "
            "remove it, or replace it by the right file"
        )


def _ways(dataset: str, editions: Sequence[Edition], how_to_get: str) -> str:
    """Return a numbered list of ways to get a dataset, as a part of an error message."""
    files = " or ".join(
        " + ".join(f"{dataset}/{file.name}" for file in edition.files) for edition in editions
    )
    urls = " + ".join(url for edition in editions for url in edition.urls)
    ways = [f"connect to the network and call again, to download {urls}"] if urls else []
    ways += [
        f"get it yourself ({how_to_get}) and put {files} into {cache_folder()}",
        f"set the environment variable COTERIE_DATA to a folder that has {files}",
    ]
    return "\n".join(f"{number}. {way};" for number, way in enumerate(ways, 1))[:-1] + "."
