"""Model files: mutated, and forged with right checksums.

Checksums refuse almost every mutated file at the door. To get past it, the bytes of a target may
also be the tree of the attributes, or a change of it, around which a valid archive is written.
"""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from coterie import RobustConsensus
from coterie.ads.forecasts.fitted_market import FittedMarket, load_market
from coterie.errors import InvalidParameterError, ModelFileError
from coterie.models import load_model, save_model
from fitted_models import small_model
from fuzz.contract import Target, own_folder

__all__ = ["make"]

_LEAVES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**70, 1.5, 1e308, "", "x", "é", [], {}, [[]], {"$array": 0}),
    *({"$array": 10**9}, {"$array": -1}, {"$object": {}}, {"$object": {"type": "os.system"}}),
    *({"$object": {"type": "AdForecaster", "state": {}}}, {"$tuple": [1]}, {"$type": "int"}),
    *({"$dict": [[1, 2]]}, {"$float": "nan"}, "NaN", "builtins.eval", "__reduce__"),
)


class ModelText(NamedTuple):
    """A model file: which valid one it is made of, and how."""

    base: int
    content: bytes  # of the whole file, or of its tree if the checksums are to be right
    forged: bool


def make() -> Target:
    """Return the target."""
    base = st.integers(0, 2)
    values = st.sampled_from(_LEAVES) | st.integers() | st.floats() | st.text(max_size=5)
    changes = st.lists(st.tuples(st.integers(0, 10**6), values), min_size=1, max_size=3)
    damage = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=6)), max_size=3)
    inputs = st.one_of(
        st.builds(_changed_tree, base, changes),
        st.builds(_damaged, base, damage, st.floats(0, 2)),
        st.builds(_changed_array, base, st.integers(0, 10**6), st.sampled_from(_ARRAYS)),
    )
    refusals = (ModelFileError, InvalidParameterError)
    return Target("models", check, inputs, seeds, from_bytes, refusals, prepare=_valid_files)


def check(given: ModelText) -> str:
    """Load a file; a market that is not refused must give forecasts."""
    path = own_folder() / "model.coterie"
    path.write_bytes(_forged(given.base, given.content) if given.forged else given.content)
    if given.base:
        load_model(path)
        return "loaded"
    model = load_market(path)
    assert isinstance(model, FittedMarket)
    found = model.forecast(str(model.advertisers_[0]), 2.5)
    json.dumps(found.as_dict(), allow_nan=False)
    return "forecast"


def from_bytes(data: bytes) -> ModelText:
    """Return a whole file, or a tree to forge one with, by the first byte."""
    kind = data[0] if data else 0
    return ModelText(kind % 3, data[1:], kind >= 128)


def seeds() -> Iterator[bytes]:
    """Yield the trees of valid models, and a small file as a whole."""
    for number in range(3):
        yield bytes([129 + (number - 129) % 3]) + _members(number)["model.json"]
    yield b"\x01" + _valid_files()[1]


@cache
def _valid_files() -> tuple[bytes, ...]:
    points = np.array([[0.0], [1.0], [9.0]])
    labels = np.array([[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 1]])
    models = (
        small_model(),
        KMeans(2, n_init=1, random_state=0).fit(points),
        RobustConsensus(2, random_state=0).fit(labels),
    )
    path, found = own_folder() / "valid.coterie", []
    for model in models:
        save_model(model, path)
        found.append(path.read_bytes())
    return tuple(found)


@cache
def _members(base: int) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(_valid_files()[base])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _forged(base: int, tree: bytes, arrays: dict[str, bytes] | None = None) -> bytes:
    """Return a file with another tree or other arrays; the checksums are right."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in {**_members(base), "model.json": tree, **(arrays or {})}.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return written.getvalue()


def _changed_tree(base: int, changes: list[tuple[int, Any]]) -> ModelText:
    """Replace values at some places of the tree."""
    tree = copy.deepcopy(json.loads(_members(base)["model.json"]))
    for place, value in changes:
        nodes = list(_nodes(tree))
        holder, key = nodes[place % len(nodes)]
        # a copy: the same value at two places could come to hold itself
        holder[key] = copy.deepcopy(value)
    return ModelText(base, json.dumps(tree).encode(), True)


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the holder and the key of every value within a tree."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(inner):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _nodes(value)


def _damaged(base: int, damage: list[tuple[float, bytes]], length: float) -> ModelText:
    """Overwrite bytes of a whole file, and cut it; no cut for a length above 1."""
    content = bytearray(_valid_files()[base])
    for share, replacement in damage:
        start = int(share * len(content))
        content[start : start + len(replacement)] = replacement
    return ModelText(base, bytes(content[: int(length * len(content))]), False)


_ARRAYS = tuple(
    np.asarray(values)
    for values in (
        *(0.0, np.nan, -1, [], [np.inf], [-1.0, np.nan], [[1, 2]], [True], ["x"], ["x", "y\0"]),
        *(np.zeros((3, 0)), np.arange(60), np.full(60, -1), np.full(60, 2**62), np.full(60, 1e308)),
    )
)


def _changed_array(base: int, place: int, values: Any) -> ModelText:
    """Replace one array by another, or by one of its own shape with other values."""
    members = _members(base)
    names = [name for name in members if name.endswith(".npy")]
    name = names[place % len(names)]
    before = np.load(io.BytesIO(members[name]), allow_pickle=False)
    if values.ndim == 0 and before.dtype.kind in "if":
        with np.errstate(all="ignore"):
            values = np.full_like(before, values.item() if np.isfinite(values) else -1)
        if np.isnan(values.ravel()[:1].astype(np.float64)).any():
            values = before
    content = io.BytesIO()
    np.lib.format.write_array(content, values, allow_pickle=False)
    whole = _forged(base, members["model.json"], {name: content.getvalue()})
    return ModelText(base, whole, False)
