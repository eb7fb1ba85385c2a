"""Where dataset files lie: the user's folder, the cache, or a public address to fetch them from.

A file is looked for as ``<folder>/<dataset>/<file>``, first in the folder that the environment
variable ``COTERIE_DATA`` names, then in the cache (``$XDG_CACHE_HOME/coterie``, by default
``~/.cache/coterie``). What is not found is downloaded, where that can be done, and kept in the
cache once it has been read and found to be right.
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
    """A file of a dataset: its name, its SHA-256 where known, its address where it has one."""

    name: str
    sha256: str | None = None
    url: str | None = None


@dataclass(frozen=True)
class Edition:
    """One form in which a dataset is to be had: its files, and the format to read them in."""

    format: str
    files: tuple[DataFile, ...]

    @property
    def urls(self) -> list[str]:
        """The addresses of the files, none if not all of them have one."""
        urls = [file.url for file in self.files if file.url]
        return urls if len(urls) == len(self.files) else []

    def paths(self, folder: Path) -> list[Path]:
        """Where the files are when the edition lies in ``folder``."""
        return [folder / file.name for file in self.files]


def cache_folder() -> Path:
    """The folder downloads are kept in; it need not exist.

    >>> cache_folder().name
    'coterie'
    """
    # the standard says that a relative path here is to be ignored
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "coterie"


def data_folders() -> list[Path]:
    """The folders searched, in order: ``COTERIE_DATA`` if it is set, then the cache."""
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
    """Find a dataset, or fetch it, and read it.

    Parameters
    ----------
    dataset : str
        Name of the dataset, which is also the name of its folder.
    editions : sequence of Edition
        Forms it may have, best first. In each folder the first complete one is taken; if none
        is found, the first that can be downloaded is.
    read : callable
        ``read(format, paths)`` gives the contents, or raises an error where the files do not
        hold what they should.
    how_to_get : str
        Where a person gets the files; part of the message of a failure.

    Returns
    -------
    object
        What ``read`` gave.

    Raises
    ------
    DatasetUnavailableError
        If a file found is damaged, or none was found and none can be downloaded; the message
        then says how to get the dataset.
    """
    for folder in data_folders():
        for edition in editions:
            paths = edition.paths(folder / dataset)
            if all(path.is_file() for path in paths):
                for path, file in zip(paths, edition.files, strict=True):
                    _verify(path, file)
                return _read(
                    read,
                    edition.format,
                    paths,
                    origin=" + ".join(map(str, paths)),
                    remedy="; remove it, or put the right one there",
                )
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
    except Exception as error:  # a damaged file can break its parser in any way
        raise DatasetUnavailableError(
            f"{origin} does not hold the dataset ({type(error).__name__}: {error}){remedy}"
        ) from error


def _download(
    dataset: str, editions: Sequence[Edition], read: Callable[[str, list[Path]], Contents]
) -> Contents:
    """Fetch the first edition that has addresses; keep it only if it can be read."""
    edition = next((edition for edition in editions if edition.urls), None)
    if edition is None:
        raise DatasetUnavailableError("it cannot be downloaded automatically")
    with tempfile.TemporaryDirectory(prefix="coterie-") as name:
        paths = edition.paths(Path(name))
        for path, url, file in zip(paths, edition.urls, edition.files, strict=True):
            path.write_bytes(_fetch(url, file.sha256))
        origin = f"what came from {' + '.join(edition.urls)}"
        contents = _read(read, edition.format, paths, origin)
        _keep(paths, cache_folder() / dataset)
    return contents


def _fetch(url: str, sha256: str | None) -> bytes:
    """The bytes at an address, whole and with the right checksum."""
    try:
        with urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            content: bytes = response.read()
            announced = response.headers.get("Content-Length")
    except (OSError, HTTPException) as error:
        raise DatasetUnavailableError(
            f"{url} could not be fetched ({type(error).__name__}: {error})"
        ) from error
    if announced is not None and len(content) != int(announced):
        raise DatasetUnavailableError(
            f"{url} was cut short: {len(content)} of {announced} bytes came"
        )
    found = hashlib.sha256(content).hexdigest()
    if sha256 not in (None, found):
        raise DatasetUnavailableError(f"{url} has changed: its SHA-256 is {found}, not {sha256}")
    return content


def _keep(paths: Sequence[Path], home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot make the cache folder {home}: {error.strerror}; set XDG_CACHE_HOME to a "
            "folder that can be written"
        ) from error
    for path in paths:
        with atomic_file(home / path.name) as unfinished:
            shutil.copyfile(path, unfinished)


def _verify(path: Path, file: DataFile) -> None:
    """Refuse a file that was found but is not the one it is called."""
    if file.sha256 is None:
        return
    try:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DatasetUnavailableError(f"cannot read {path}: {error.strerror}") from error
    if found != file.sha256:
        raise DatasetUnavailableError(
            f"{path} is damaged or another file: its SHA-256 is {found}, not {file.sha256}; "
            "remove it or put the right one there"
        )


def _ways(dataset: str, editions: Sequence[Edition], how_to_get: str) -> str:
    """The ways to get a dataset, numbered, for the message of a failure."""
    layouts = [" + ".join(f"{dataset}/{file.name}" for file in e.files) for e in editions]
    files = " or ".join(layouts)
    urls = [url for edition in editions for url in edition.urls]
    ways = [f"connect to the network and call again: {' + '.join(urls)} is fetched"] if urls else []
    ways += [
        f"get it yourself ({how_to_get}) and put {files} into {cache_folder()}",
        f"set the environment variable COTERIE_DATA to a folder that has {files}",
    ]
    return "\n".join(f"{number}. {way};" for number, way in enumerate(ways, 1))[:-1] + "."
