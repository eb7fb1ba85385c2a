"""The state of an estimator as a JSON tree and a list of arrays, without pickle."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.errors import ModelFileError

__all__ = ["STORABLE_TYPES", "StateReader", "StateWriter"]

#: The types that a model file may hold: the stable name in files, and where the class is now.
#: Classes and modules may move and change names; the names on the left never change.
STORABLE_TYPES = {
    "RobustConsensus": "coterie.consensus.robust.estimator:RobustConsensus",
    "L2Consensus": "coterie.consensus:L2Consensus",
    "OneHotKMeans": "coterie.consensus:OneHotKMeans",
    "KMeansConsensus": "coterie.consensus:KMeansConsensus",
    "CSPA": "coterie.consensus:CSPA",
    "HGPA": "coterie.consensus:HGPA",
    "MCLA": "coterie.consensus:MCLA",
    "HBGF": "coterie.consensus:HBGF",
    "NMFConsensus": "coterie.consensus:NMFConsensus",
    "WeightedConsensus": "coterie.consensus:WeightedConsensus",
    "KLConsensus": "coterie.consensus:KLConsensus",
    "CorrelationConsensus": "coterie.consensus:CorrelationConsensus",
    "EvidenceAccumulation": "coterie.consensus:EvidenceAccumulation",
    "LocallyWeightedConsensus": "coterie.consensus:LocallyWeightedConsensus",
    "PropagatedConsensus": "coterie.consensus:PropagatedConsensus",
    "ConsensusClusterer": "coterie.estimators.clusterer:ConsensusClusterer",
    "MultiViewClusterer": "coterie.estimators.view_clusterer:MultiViewClusterer",
    "SpectralView": "coterie.multiview:SpectralView",
    "ConcatenatedSpectral": "coterie.multiview:ConcatenatedSpectral",
    "MultiViewKMeans": "coterie.multiview:MultiViewKMeans",
    "MultiViewAffinityPropagation": "coterie.multiview:MultiViewAffinityPropagation",
    "LowRankConsensus": "coterie.multiview:LowRankConsensus",
    "Scaling": "coterie.ensembles.scalings:Scaling",
    "Ensemble": "coterie.ensembles.making:Ensemble",
    "CentroidMember": "coterie.ensembles.centroids:CentroidMember",
    "SpectralMember": "coterie.ensembles.landmark_spectral:SpectralMember",
    "MixtureMember": "coterie.ensembles.gaussian_mixtures:MixtureMember",
    "NearestRowMember": "coterie.ensembles.nearest_rows:NearestRowMember",
    "EstimatorMember": "coterie.ensembles.given_clusterers:EstimatorMember",
    "LabelMatrix": "coterie.labels.label_matrix:LabelMatrix",
    "Memberships": "coterie.labels.soft_memberships:Memberships",
    "LabelTuples": "coterie.labels.tuples:LabelTuples",
    "ClusterTables": "coterie.counts.cluster_tables:ClusterTables",
    "KChoice": "coterie.consensus.robust.k_choice:KChoice",
    "Dissent": "coterie.consensus.robust.camps:Dissent",
    "AdForecaster": "coterie.ads.forecasts.forecaster:AdForecaster",
    "Choice": "coterie.ads.forecasts.fitted_market:Choice",
    "Calibration": "coterie.ads.forecasts.calibration:Calibration",
    "DayLevels": "coterie.ads.curves.day_levels:DayLevels",
    "StoredDays": "coterie.ads.histograms.stored_days:StoredDays",
    "SegmentProfile": "coterie.ads.segments.segment_profiles:SegmentProfile",
    "Supply": "coterie.ads.curves.supply:Supply",
    "TextView": "coterie.ads.segments.text_view:TextView",
    "ViewAgreement": "coterie.ads.segments.view_agreement:ViewAgreement",
    "sklearn.KMeans": "sklearn.cluster:KMeans",
    "sklearn.MiniBatchKMeans": "sklearn.cluster:MiniBatchKMeans",
    "sklearn.MinMaxScaler": "sklearn.preprocessing:MinMaxScaler",
    "sklearn.StandardScaler": "sklearn.preprocessing:StandardScaler",
}

_ARRAY_KINDS = "biufcUSmM"
# every integer of so many bits is within the range of a float
_MOST_BITS = 1023
_SCALARS = {
    np.dtype(kind).name: np.dtype(kind).type
    for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
} | {"str": np.str_}
_SPARSE = {"csr_array": sp.csr_array, "csr_matrix": sp.csr_matrix}
_STORABLE = (
    "None, numbers, text, lists, tuples, dicts, arrays of numbers or text, CSR matrices, pandas "
    "indexes and the types in coterie.files.model_state.STORABLE_TYPES"
)


class StateWriter:
    """Encoder of values as a JSON tree; arrays are collected separately, each of them once.

    A value that JSON lacks becomes an object with one key, which begins with ``$``.

    Attributes
    ----------
    arrays : list of ndarray
        The arrays found so far; ``{"$array": 3}`` refers to the one at index 3.

    Examples
    --------
    >>> writer = StateWriter()
    >>> writer.encode({"shape": (2, None), "bound": float("inf"), "w": np.ones(2)}, "state")
    {'shape': {'$tuple': [2, None]}, 'bound': {'$float': 'inf'}, 'w': {'$array': 0}}
    >>> StateReader(writer.arrays).decode({"$tuple": [1, {"$array": 0}]})
    (1, array([1., 1.]))
    """

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._numbers: dict[int, int] = {}

    def encode(self, value: Any, place: str) -> Any:
        """Return the tree of a value; ``place`` names the value in error messages."""
        kind = type(value)
        if kind in self._BY_TYPE:
            return self._BY_TYPE[kind](self, value, place)
        if isinstance(value, np.generic):
            return self._scalar(value, place)
        if hasattr(value, "get_level_values"):
            return self._index(value, place)
        return self._object(value, place)

    def _int(self, value: int, place: str) -> Any:
        if value.bit_length() > _MOST_BITS:
            raise ModelFileError(f"{place} is an integer too large to store")
        return value

    def _float(self, value: float, _place: str) -> Any:
        return value if math.isfinite(value) else {"$float": repr(value)}

    def _list(self, value: list[Any], place: str) -> Any:
        return [self.encode(item, f"{place}[{index}]") for index, item in enumerate(value)]

    def _tuple(self, value: tuple[Any, ...], place: str) -> Any:
        return {"$tuple": self._list(list(value), place)}

    def _dict(self, value: dict[Any, Any], place: str) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(item, f"{place}[{key!r}]") for key, item in value.items()}
        pairs = [
            [self.encode(key, f"a key of {place}"), self.encode(item, f"{place}[{key!r}]")]
            for key, item in value.items()
        ]
        return {"$dict": pairs}

    def _scalar(self, value: np.generic, place: str) -> Any:
        name = "str" if isinstance(value, np.str_) else value.dtype.name
        if name not in _SCALARS:
            raise _not_storable(value, place)
        return {"$scalar": [name, self.encode(value.item(), place)]}

    def _array(self, value: NDArray[Any], place: str) -> Any:
        if value.dtype.kind == "O" and all(type(item) is str for item in value.flat):
            return {"$strings": [list(value.shape), value.ravel().tolist()]}
        if value.dtype.kind not in _ARRAY_KINDS:
            raise _not_storable(value, place)
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)
        return {"$array": self._numbers[id(value)]}

    def _csr(self, value: Any, place: str) -> Any:
        if value.ndim != 2:
            raise _not_storable(value, place)
        parts = [self._array(part, place) for part in (value.data, value.indices, value.indptr)]
        return {"$csr": [type(value).__name__, [int(size) for size in value.shape], parts]}

    def _index(self, value: Any, place: str) -> Any:
        """Encode a pandas index by the names and values of its levels."""
        names = [None if name is None else str(name) for name in value.names]
        levels = [np.asarray(value.get_level_values(level)) for level in range(value.nlevels)]
        return {"$index": [names, [self._level(level, place) for level in levels]]}

    def _level(self, values: NDArray[Any], place: str) -> Any:
        if values.dtype.kind in _ARRAY_KINDS:
            return self._array(values, place)
        # an array of bytes, because the size of the tree is limited; what JSON lacks becomes text
        text = json.dumps(values.tolist(), default=_as_json)
        return {"$json": self._array(np.frombuffer(text.encode(), dtype=np.uint8), place)}

    def _object(self, value: Any, place: str) -> Any:
        name = _name_of(type(value))
        if name is None:
            raise _not_storable(value, place)
        state = {
            attribute: self.encode(item, f"{place}.{attribute}")
            for attribute, item in _state_of(value).items()
        }
        return {"$object": {"type": name, "state": state}}

    _BY_TYPE: ClassVar[dict[type, Callable[..., Any]]] = {
        type(None): lambda _self, value, _place: value,
        bool: lambda _self, value, _place: value,
        str: lambda _self, value, _place: value,
        int: _int,
        float: _float,
        list: _list,
        tuple: _tuple,
        dict: _dict,
        np.ndarray: _array,
        np.memmap: _array,
        sp.csr_array: _csr,
        sp.csr_matrix: _csr,
    }


class StateReader:
    """Decoder of the trees of :class:`StateWriter`.

    It creates only the types in :data:`STORABLE_TYPES`, and only sets their attributes: no
    constructor and no other code runs. An invalid tree raises ModelFileError, KeyError, TypeError,
    ValueError or a similar exception.

    Parameters
    ----------
    arrays : sequence of ndarray
        The arrays of the writer.
    classes : mapping of str to type, optional
        Classes to create for some names in :data:`STORABLE_TYPES` instead of those listed.

    Attributes
    ----------
    types : set of str
        The names of the types read so far.
    """

    def __init__(
        self, arrays: list[NDArray[Any]], classes: Mapping[str, type] | None = None
    ) -> None:
        self.arrays = arrays
        self._classes = classes or {}
        self.types: set[str] = set()

    def decode(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            if type(tree) is int and tree.bit_length() > _MOST_BITS:
                raise ModelFileError(f"it holds an integer of {tree.bit_length():,} bits")
            return tree
        if len(tree) == 1:
            ((tag, body),) = tree.items()
            if tag.startswith("$"):
                return self._BY_TAG[tag](self, body)
        return {key: self.decode(item) for key, item in tree.items()}

    def _dict(self, body: list[Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(item) for key, item in body}

    def _scalar(self, body: list[Any]) -> Any:
        name, value = body
        return _SCALARS[name](self.decode(value))

    def _strings(self, body: list[Any]) -> NDArray[np.object_]:
        shape, values = body
        strings = np.empty(len(values), dtype=object)
        strings[:] = values
        return strings.reshape(shape)

    def _csr(self, body: list[Any]) -> Any:
        name, shape, parts = body
        matrix = _SPARSE[name](tuple(self.decode(parts)), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _index(self, body: list[Any]) -> Any:
        """Return a pandas index, or without pandas the names of the rows as a list or array."""
        names, levels = body[0], [self.decode(level) for level in body[1]]
        try:
            import pandas as pd
        except ImportError:
            return levels[0] if len(levels) == 1 else list(zip(*levels, strict=True))
        if len(levels) == 1:
            return pd.Index(levels[0], name=names[0])
        return pd.MultiIndex.from_arrays(levels, names=names)

    def _object(self, body: Mapping[str, Any]) -> Any:
        name = body["type"]
        if name not in STORABLE_TYPES:
            raise ModelFileError(f"it holds a {name}, which this version of coterie does not know")
        kind: Any = self._classes.get(name) or _class_of(name)
        self.types.add(name)
        value = kind.__new__(kind)
        state = {attribute: self.decode(item) for attribute, item in body["state"].items()}
        if not _is_record(kind):
            _refuse_shadows(kind, name, state)
            value.__dict__.update(state)
            return value
        fields = {field.name: field.default for field in dataclasses.fields(kind)}
        # fields added later have defaults that describe objects of older files
        later = {key: fields[key] for key in fields.keys() - state.keys()}
        if state.keys() - fields.keys() or dataclasses.MISSING in later.values():
            raise ModelFileError(f"it holds a {name} of another version of coterie")
        state |= later
        for attribute, item in state.items():
            object.__setattr__(value, attribute, item)  # the class may be frozen
        return value

    _BY_TAG: ClassVar[dict[str, Callable[..., Any]]] = {
        "$float": lambda _self, body: float(body),
        "$tuple": lambda self, body: tuple(self.decode(body)),
        "$dict": _dict,
        "$scalar": _scalar,
        "$array": lambda self, body: self.arrays[body],
        "$strings": _strings,
        "$csr": _csr,
        "$json": lambda self, body: json.loads(self.decode(body).tobytes()),
        "$index": _index,
        "$object": _object,
    }


def _name_of(kind: type) -> str | None:
    """Return the stable name of a class, or None if it cannot be stored."""
    for name, home in STORABLE_TYPES.items():
        # compare the names first: importing every module would be slow
        if home.endswith(f":{kind.__name__}") and _class_of(name) is kind:
            return name
    return None


def _class_of(name: str) -> Any:
    module, _, attribute = STORABLE_TYPES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def _refuse_shadows(kind: type, name: str, attributes: Iterable[str]) -> None:
    """Refuse attributes that would hide methods or properties of the class."""
    for attribute in attributes:
        hidden = inspect.getattr_static(kind, attribute, None)
        computed = hasattr(type(hidden), "__get__") and not isinstance(hidden, cached_property)
        if computed or attribute.startswith("__"):
            raise ModelFileError(f"it holds a {name} with a value for its method {attribute[:80]}")


def _is_record(kind: type) -> bool:
    """Return whether the fields of a class are its whole state; estimators have attributes too."""
    return dataclasses.is_dataclass(kind) and not hasattr(kind, "get_params")


def _state_of(value: Any) -> dict[str, Any]:
    """Return the attributes to store: the fields of a dataclass, without cached properties.

    Optional fields that are None are left out, so that adding such a field to a class does not
    change the files of objects without it.
    """
    if _is_record(type(value)):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if field.default is not None or getattr(value, field.name) is not None
        }
    return dict(vars(value))


def _as_json(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _not_storable(value: Any, place: str) -> ModelFileError:
    kind = type(value).__name__
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return ModelFileError(
            f"{place} holds a {kind}, which cannot be stored; use an int as the seed and fit again"
        )
    of = f" of {value.dtype} values" if isinstance(value, np.ndarray) else ""
    return ModelFileError(f"{place} holds a {kind}{of}; only {_STORABLE} can be stored")
