"""Model files: fitted estimators without pickle, so that loading a file runs no code from it.

A model is a tree of objects of registered classes, arrays and JSON values. Its file is a zip
archive, usually named ``*.coterie``, with uncompressed members:

=====================  =====================================================================
``model.json``         format, versions, and the tree; each object of JSON in it has one key,
                       which begins with $ and says what the value is
``arrays/0.npy`` …     the arrays that the tree refers to
=====================  =====================================================================

The checksums of the archive detect damage, not forgery. A forged file can only hold other numbers
and texts in the classes of :data:`STORABLE_TYPES`: no constructor and no other code runs. Sizes are
bounded before anything is read: those of the directory, the tree, and each array.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import inspect
import io
import json
import math
import os
import stat
import types
import typing
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import coterie
from coterie.arrays import AnyArray
from coterie.errors import CoterieWarning, ModelFileError
from coterie.runtime.atomic_files import atomic_file

#: The types that a model file may hold: the name in files, and the module and name of the class.
STORABLE_TYPES = {
    f"sklearn.{name}" if module.startswith("sklearn.") else name: f"{module}:{name}"
    for module, names in {
        "coterie.consensus.robust": "RobustConsensus",
        "coterie.consensus": "L2Consensus OneHotKMeans KMeansConsensus CSPA HGPA MCLA HBGF "
        "NMFConsensus WeightedConsensus KLConsensus CorrelationConsensus "
        "EvidenceAccumulation LocallyWeightedConsensus PropagatedConsensus",
        "coterie.estimators.clusterer": "ConsensusClusterer",
        "coterie.consensus.results": "KindTrust",
        "coterie.estimators.view_clusterer": "MultiViewClusterer",
        "coterie.multiview": "SpectralView ConcatenatedSpectral MultiViewKMeans "
        "MultiViewAffinityPropagation LowRankConsensus",
        "coterie.ensembles.scalings": "Scaling DistanceEmbedding",
        "coterie.ensembles.generate": "Ensemble",
        "coterie.ensembles.members": "CentroidMember SpectralMember MixtureMember "
        "NearestRowMember LinkageMember EstimatorMember",
        "coterie.labels.encode": "LabelMatrix",
        "coterie.labels.soft": "Memberships",
        "coterie.labels.tuples": "LabelTuples",
        "coterie.counts.cluster_tables": "ClusterTables",
        "coterie.consensus.choice_of_k": "KChoice",
        "coterie.consensus.camps": "Dissent",
        "coterie.ads.fitting.forecaster": "AdForecaster",
        "coterie.ads.forecasts.fitted_market": "Choice",
        "coterie.ads.forecasts.calibration": "Calibration",
        "coterie.ads.curves.day_levels": "DayLevels",
        "coterie.ads.histograms.stored_days": "StoredDays",
        "coterie.ads.histograms.target_counts": "StoredTargets",
        "coterie.ads.segments.segment_profiles": "SegmentProfile ViewAgreement",
        "coterie.ads.curves.supply": "Supply",
        "coterie.ads.targets.target_effects": "TargetEffects",
        "coterie.ads.segments.text_view": "TextView",
        "sklearn.cluster": "KMeans MiniBatchKMeans",
        "sklearn.preprocessing": "MinMaxScaler StandardScaler",
    }.items()
    for name in names.split()
}

_FORMAT, _FORMAT_VERSION, _TREE = "coterie-model", 4, "model.json"
#: Of the file, of its tree, of the directory of members, and how many members there are.
_MOST_BYTES, _MOST_JSON_BYTES = 1 << 34, 1 << 26
_MOST_DIRECTORY_BYTES, _MOST_MEMBERS = 1 << 24, 100_000
#: Of a JSON tree: values and names in all, and lists or objects within each other.
_MOST_NODES, _MOST_DEPTH = 2_000_000, 200
_MOST_HEADER_BYTES = 4_096
#: Every integer of so many bits is within the range of a float.
_MOST_BITS = 1023
#: How often values made of arrays may use the bytes of all arrays together.
_MOST_COPIES = 8
_ARRAY_KINDS = "biufcUSmM"
_SCALARS = {
    np.dtype(kind).name: np.dtype(kind).type
    for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
} | {"str": np.str_}
_SPARSE = {"csr_array": sp.csr_array, "csr_matrix": sp.csr_matrix}


def save_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, completely or not at all. Equal states give equal bytes.

    Parameters
    ----------
    estimator : estimator
        Fitted, of a type in :data:`~coterie.models.STORABLE_TYPES`.
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
    # imported here, because it is slow and not needed to load a model
    import sklearn
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    name = type(estimator).__name__
    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise ModelFileError(f"this {name} is not fitted; fit it first") from error
    except TypeError as error:
        what = "; save its attribute `estimator`" if hasattr(estimator, "estimator") else ""
        raise ModelFileError(f"only a fitted estimator can be saved, not a {name}{what}") from error
    writer = StateWriter()
    try:
        content = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "coterie": coterie.__version__,
            "sklearn": sklearn.__version__,
            "model": writer.encode(estimator, "estimator"),
        }
        tree = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
        _refuse_large_parts(len(tree), 1 + len(writer.arrays))
        _refuse_large_tree(tree)
    except ModelFileError:
        raise
    except RecursionError as error:
        raise ModelFileError(f"this {name} holds itself, or is nested too deep to store") from error
    except ValueError as error:
        raise ModelFileError(f"this {name} cannot be stored: {error}") from error
    with atomic_file(path) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
        # a ZipInfo has no time stamp
        archive.writestr(zipfile.ZipInfo(_TREE), tree)
        for number, array in enumerate(writer.arrays):
            stored = io.BytesIO()
            np.lib.format.write_array(stored, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"arrays/{number}.npy"), stored.getbuffer())


def load_model(path: str | os.PathLike[str], *, classes: Mapping[str, type] | None = None) -> Any:
    """Read a fitted estimator from a file of :func:`save_model`.

    Parameters
    ----------
    path : path-like
    classes : mapping of str to type, optional
        Classes to create for some of the listed names instead of those listed.

    Returns
    -------
    estimator
        With the attributes it was saved with.

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
    with _archive_at(path) as archive:
        names = [f"arrays/{number}.npy" for number in range(len(archive.namelist()) - 1)]
        if sorted(archive.namelist()) != sorted([_TREE, *names]):
            raise ValueError("it has other members than save_model writes")
        text = archive.read(_TREE)
        _refuse_large_tree(text)
        content: dict[str, Any] = json.loads(text)
        if content["format"] != _FORMAT:
            raise ModelFileError(f"its format is {_brief(content['format'])!r}, not {_FORMAT!r}")
        version = content["format_version"]
        if version != _FORMAT_VERSION:
            advice = "update coterie" if version > _FORMAT_VERSION else "fit the model again"
            raise ModelFileError(
                f"it is of format version {_brief(version)}, written by coterie "
                f"{_brief(content['coterie'])}, and this version of coterie reads "
                f"{_FORMAT_VERSION}; {advice}"
            )
        reader = StateReader([_array_in(archive, name) for name in names], classes)
        estimator = reader.decode(content["model"])
    if any(name.startswith("sklearn.") for name in reader.types):
        import sklearn

        if content["sklearn"] != sklearn.__version__:
            warnings.warn(
                f"{path} holds estimators of scikit-learn {_brief(content['sklearn'])}, and this "
                f"is {sklearn.__version__}; if they do not work, fit the model again",
                CoterieWarning,
                stacklevel=2,
            )
    return estimator


def content_checksum(path: str | os.PathLike[str], *, verified: bool = False) -> str:
    """Return a checksum that identifies the content of a model file.

    Only the checksums of the members are read; with ``verified`` all is compared with them.
    """
    with _archive_at(Path(path)) as archive:
        if verified and (damaged := archive.testzip()) is not None:
            raise ValueError(f"the checksum of {_brief(damaged)} does not match")
        members = [(one.filename, one.file_size, one.CRC) for one in archive.infolist()]
        return hashlib.sha256(repr(members).encode()).hexdigest()


def opened_model(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file that may hold a model; refuse a pipe, a device, or one larger than any model."""

    def open_nonblocking(name: str, flags: int) -> int:  # not to wait for the writer of a pipe
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    with contextlib.ExitStack() as unless_good:
        file = unless_good.enter_context(_BoundedReader(io.FileIO(path, opener=open_nonblocking)))
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError("it is not a file but a pipe, a device or the like")
        if status.st_size > _MOST_BYTES:
            raise ModelFileError(
                f"it has {status.st_size:,} bytes, and a model file at most {_MOST_BYTES:,}"
            )
        unless_good.pop_all()
    return file


# ---- The archive


class _BoundedReader(io.BufferedReader):
    """An open file of which no large part is read at once, as zipfile reads a directory."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_DIRECTORY_BYTES:
            raise ValueError(f"its directory of members has {size:,} bytes")
        return super().read(size)


@contextlib.contextmanager
def _archive_at(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a model file; every failure inside the block is a ModelFileError that names it."""
    try:
        with opened_model(path) as file:
            if file.read(4) != b"PK\x03\x04":
                raise ModelFileError("it is not a model file; create one with save_model")
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                    raise ValueError("it has compressed members, and save_model writes none")
                # they could need more memory than the file is large
                if sum(member.file_size for member in members) > os.fstat(file.fileno()).st_size:
                    raise ValueError("its members claim to be larger than the file")
                sizes = {member.filename: member.file_size for member in members}
                if _TREE not in sizes:
                    raise ModelFileError(
                        "it is a zip archive, but not a model file; create one with save_model"
                    )
                _refuse_large_parts(sizes[_TREE], len(members))
                yield archive
    except ModelFileError as error:
        raise ModelFileError(f"cannot load {path}: {error}") from error
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no file {path}; check the name and the folder") from error
    except IsADirectoryError as error:
        raise ModelFileError(f"{path} is a folder; give a model file") from error
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # zipfile, json and numpy raise many kinds of exceptions
        raise ModelFileError(
            f"cannot load {path}: it is damaged, cut short or was changed ({error}); save or fetch "
            "it again"
        ) from error


def _refuse_large_parts(tree_bytes: int, n_members: int) -> None:
    for n, most, what in (
        (tree_bytes, _MOST_JSON_BYTES, "bytes of lists and texts"),
        (n_members, _MOST_MEMBERS, "members"),
    ):
        if n > most:
            raise ValueError(f"it has {n:,} {what}; at most {most:,} are allowed")


def _refuse_large_tree(text: bytes, most_depth: int = _MOST_DEPTH) -> None:
    """Refuse JSON text with too many values, or with values nested too deep, without parsing it."""
    # without escaped characters, every quotation mark begins or ends a string
    plain = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    marks = plain[np.cumsum(plain == ord('"'), dtype=np.uint8) % 2 == 0]
    opens, closes = np.isin(marks, list(b"[{")), np.isin(marks, list(b"]}"))
    nodes = int(opens.sum() + np.count_nonzero(marks == ord(",")) + 1)
    if nodes > _MOST_NODES and most_depth > 1:
        raise ValueError(f"its tree has {nodes:,} values; at most {_MOST_NODES:,} are allowed")
    steps = opens.astype(np.int8) - closes.astype(np.int8)
    depth = int(np.cumsum(steps[steps != 0], dtype=np.int32).max(initial=0))
    if depth > most_depth:
        raise ValueError(f"its lists are {depth:,} deep; at most {most_depth:,} are allowed")


def _array_in(archive: zipfile.ZipFile, name: str) -> AnyArray:
    """Return the array of a member; refuse one that is not as large as its header says."""
    with archive.open(name) as member:
        start = io.BytesIO(member.read(_MOST_HEADER_BYTES))
    if np.lib.format.read_magic(start) != (1, 0):
        raise ValueError("an array is of a form that save_model does not write")
    shape, _, dtype = np.lib.format.read_array_header_1_0(start)
    if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} is not written by save_model")
    if math.prod(shape) * dtype.itemsize != archive.getinfo(name).file_size - start.tell():
        raise ValueError("an array is not as large as it claims to be")
    with archive.open(name) as member:  # its last byte is read, which compares the checksum
        return np.lib.format.read_array(member, allow_pickle=False)


def _brief(text: object) -> str:
    """Return the beginning of a text from the file, for a message."""
    return str(text)[:80]


# ---- The tree


class StateWriter:
    """Encoder of values as a JSON tree; arrays are collected separately, each of them once."""

    def __init__(self) -> None:
        self.arrays: list[AnyArray] = []  # ``{"$array": 3}`` refers to the one at index 3
        self._numbers: dict[int, int] = {}

    def encode(self, value: Any, place: str) -> Any:
        """Return the tree of a value; ``place`` names the value in error messages."""
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            if value.bit_length() > _MOST_BITS:
                raise ModelFileError(f"{place} is an integer too large to store")
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is list:
            return [self.encode(item, f"{place}[{index}]") for index, item in enumerate(value)]
        if kind is tuple:
            return {"$tuple": self.encode(list(value), place)}
        if kind is dict:
            pairs = [
                [self.encode(key, f"a key of {place}"), self.encode(item, f"{place}[{key!r}]")]
                for key, item in value.items()
            ]
            return {"$dict": pairs}
        if isinstance(value, np.generic):
            name = "str" if isinstance(value, np.str_) else value.dtype.name
            if name in _SCALARS:
                return {"$scalar": [name, self.encode(value.item(), place)]}
        if kind in (np.ndarray, np.memmap):
            if value.dtype.kind in _ARRAY_KINDS:
                return self._array(value)
            if value.dtype.kind == "O" and all(type(item) is str for item in value.flat):
                return self._plain(value)
        is_matrix = kind in _SPARSE.values() and value.ndim == 2
        if is_matrix and value.dtype.kind in _ARRAY_KINDS:
            parts = [self._array(part) for part in (value.data, value.indices, value.indptr)]
            return {"$csr": [kind.__name__, [int(size) for size in value.shape], parts]}
        if hasattr(value, "get_level_values"):  # an index of pandas
            names = [None if name is None else str(name) for name in value.names]
            levels = [np.asarray(value.get_level_values(i)) for i in range(value.nlevels)]
            coded = [self._plain(x) if x.dtype.kind == "O" else self._array(x) for x in levels]
            return {"$index": [names, coded]}
        return self._object(value, place)

    def _array(self, value: AnyArray) -> Any:
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)
        return {"$array": self._numbers[id(value)]}

    def _plain(self, values: AnyArray) -> Any:
        """Encode texts and other plain values as an array of bytes: the tree must stay small."""

        def other(value: Any) -> Any:
            return value.item() if isinstance(value, np.generic) else str(value)

        text = json.dumps(values.ravel().tolist(), default=other, separators=(",", ":"))
        array = np.frombuffer(text.encode(), dtype=np.uint8)
        return {"$plain": [list(values.shape), self._array(array)]}

    def _object(self, value: Any, place: str) -> Any:
        kind = type(value)
        # compare the names first: importing every module would be slow
        named = [n for n, home in STORABLE_TYPES.items() if home.endswith(f":{kind.__name__}")]
        name = next((name for name in named if _class_of(name) is kind), None)
        if name is None:
            what = kind.__name__
            if isinstance(value, np.random.RandomState | np.random.Generator):
                raise ModelFileError(
                    f"{place} holds a {what}, which cannot be stored; use an int as the seed and "
                    "fit again"
                )
            what += f" of {value.dtype} values" if isinstance(value, np.ndarray) else ""
            raise ModelFileError(
                f"{place} holds a {what}; only None, numbers, text, lists, tuples, dicts, arrays "
                "of numbers or text, CSR matrices, pandas indexes and the types in "
                "coterie.models.STORABLE_TYPES can be stored"
            )
        if is_record(kind):
            state = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        else:
            # scikit-learn keeps requests of metadata in a fitted estimator; they are for pipelines
            state = {
                key: item
                for key, item in vars(value).items()
                if is_attribute(kind, key) and key != "_metadata_request"
            }
        encoded = {key: self.encode(item, f"{place}.{key}") for key, item in state.items()}
        return {"$object": {"type": name, "state": encoded}}


class StateReader:
    """Decoder of the trees of :class:`StateWriter`; creates the types of STORABLE_TYPES only.

    An invalid tree raises ModelFileError, KeyError, TypeError, ValueError or a similar exception.
    """

    def __init__(self, arrays: list[AnyArray], classes: Mapping[str, type] | None = None) -> None:
        self.arrays = arrays
        self.types: set[str] = set()  # the names of the types read so far
        self._classes = classes or {}
        self._free_bytes = _MOST_COPIES * sum(array.nbytes for array in arrays)

    def decode(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            if type(tree) is int and tree.bit_length() > _MOST_BITS:
                raise ModelFileError(f"it holds an integer of {tree.bit_length():,} bits")
            return tree
        ((tag, body),) = tree.items()
        match tag:
            case "$float":
                return float(body)
            case "$tuple":
                return tuple(self.decode(body))
            case "$dict":
                return {self.decode(key): self.decode(item) for key, item in body}
            case "$scalar":
                return _SCALARS[body[0]](self.decode(body[1]))
            case "$array":
                return self.arrays[body]
            case "$csr":
                name, shape, parts = body
                matrix = _SPARSE[name](tuple(map(self._copied, parts)), shape=tuple(shape))
                matrix.check_format(full_check=True)
                return matrix
            case "$plain":
                shape, coded = body
                text = self._copied(coded).tobytes()
                _refuse_large_tree(text, most_depth=1)
                values = json.loads(text)
                array = np.empty(len(values), dtype=object)
                array[:] = values
                return array.reshape(shape)
            case "$index":
                return self._index(*body)
            case "$object":
                return self._object(body["type"], body["state"])
        raise ValueError(f"{_brief(tag)} is not a tag that save_model writes")

    def _index(self, names: list[Any], trees: list[Any]) -> Any:
        """Return a pandas index, or without pandas the names of the rows as a list or array."""
        levels = [self._copied(tree) for tree in trees]
        try:
            import pandas as pd
        except ImportError:
            return levels[0] if len(levels) == 1 else list(zip(*levels, strict=True))
        if len(levels) == 1:
            return pd.Index(levels[0], name=names[0])
        return pd.MultiIndex.from_arrays(levels, names=names)

    def _copied(self, tree: Any) -> Any:
        """Decode an array from which another value is made, which takes memory each time."""
        value = self.decode(tree)
        self._free_bytes -= value.nbytes
        if self._free_bytes < 0:
            raise ModelFileError("it refers to its arrays more often than save_model does")
        return value

    def _object(self, name: str, state: Mapping[str, Any]) -> Any:
        if name not in STORABLE_TYPES:
            raise ModelFileError(
                f"it holds a {_brief(name)}, which this version of coterie does not know"
            )
        kind: Any = self._classes.get(name) or _class_of(name)
        self.types.add(name)
        value = kind.__new__(kind)
        if not is_record(kind):
            known = [key for key in state if is_attribute(kind, key)]
            value.__dict__.update({key: self.decode(state[key]) for key in known})
            return value
        for field in dataclasses.fields(kind):
            if field.name not in state:
                raise ModelFileError(f"it holds a {name} of another version of coterie")
            item = self.decode(state[field.name])
            if not _fits(item, _annotations(kind).get(field.name, Any)):
                raise ModelFileError(f"it holds a {name} whose {field.name} is not {field.type}")
            object.__setattr__(value, field.name, item)  # the class may be frozen
        return value


def _class_of(name: str) -> Any:
    module, _, attribute = STORABLE_TYPES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def is_record(kind: type) -> bool:
    """Return whether the fields of a class are its whole state; estimators have attributes too."""
    return dataclasses.is_dataclass(kind) and not hasattr(kind, "get_params")


def is_attribute(kind: Any, name: str) -> bool:
    """Return whether a name is for data: a parameter, or no method or constant of the class."""
    is_field = name in getattr(kind, "__dataclass_fields__", ())
    is_free = inspect.getattr_static(kind, name, None) is None
    return (is_field or is_free) and not name.startswith("__")


@functools.cache
def _annotations(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except NameError:  # a name that only type checkers import
        return {}


def _fits(value: Any, annotation: Any) -> bool:
    """Return whether a value is of an annotated type; containers are not looked into."""
    kind, parts = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind in (types.UnionType, typing.Union):
        return any(_fits(value, part) for part in parts)
    if kind is typing.Literal:
        return value in parts
    if kind is np.ndarray and parts and isinstance(value, np.ndarray):
        scalar = typing.get_args(parts[1])[0]
        scalar = typing.get_origin(scalar) or scalar  # np.floating is one of any width
        concrete = np.sctypeDict.values() if scalar is not Any else ()
        kinds = {np.dtype(one).kind for one in concrete if issubclass(one, scalar)}
        return not kinds or value.dtype.kind in kinds
    if kind in (int, float):
        wanted = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        return isinstance(value, wanted) and not isinstance(value, bool)
    if kind in (bool, str, list, tuple, dict, types.NoneType, np.ndarray):
        return isinstance(value, kind)
    return True
