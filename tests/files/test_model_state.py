"""State as a tree and arrays: storable values are restored, others are refused by name."""

from __future__ import annotations

import dataclasses
import json
import math
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from coterie.ads.forecasts.fitted_market import Choice
from coterie.ads.segments.text_vectors import TextVectors
from coterie.errors import CoterieWarning, ModelFileError
from coterie.files import storable_types
from coterie.files.model_state import OutlineReader, StateReader, StateWriter

FEW = settings(deadline=None, max_examples=30)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["i1", "u8", "f2", "f4", "f8", "?"]).map(np.dtype).flatmap(stn.from_dtype),
    st.text(max_size=5).map(np.str_),
)
ARRAYS = st.one_of(
    stn.arrays(
        st.one_of(
            stn.integer_dtypes(endianness="?"),
            stn.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
            stn.unicode_string_dtypes(endianness="=", max_len=4),
            stn.boolean_dtypes(),
        ),
        stn.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    st.lists(st.text(max_size=3), max_size=4).map(lambda texts: np.array(texts, dtype=object)),
)
MATRICES = st.builds(
    lambda kind, dense: kind(dense),
    st.sampled_from([sp.csr_array, sp.csr_matrix]),
    stn.arrays(np.float64, (2, 3), elements=st.sampled_from([0.0, 1.0, -2.5])),
)
KEYS = st.one_of(st.text(max_size=3), st.sampled_from(["$array", "$"]), st.integers(), st.none())
VALUES = st.recursive(
    st.one_of(SCALARS, ARRAYS, MATRICES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(st.tuples(st.text(max_size=2), st.integers()), inner, max_size=2),
    ),
    max_leaves=12,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    """A dataclass held by an estimator."""

    counts: np.ndarray
    names: tuple[str, ...]


class Holder(BaseEstimator):
    """An estimator."""

    def __init__(self, value=None):
        self.value = value


@pytest.fixture(autouse=True, scope="module")
def storable_stand_ins():
    """Make the classes of this file storable."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("Frozen", "Holder"):
            patch.setitem(storable_types.STORABLE_TYPES, name, f"{__name__}:{name}")
        yield


def there_and_back(value):
    """Return a value after encoding to JSON text and arrays, and decoding."""
    writer = StateWriter()
    text = json.dumps(writer.encode(value, "value"), allow_nan=False)
    return StateReader(writer.arrays).decode(json.loads(text))


def assert_same(value, other):
    """Compare values and types recursively."""
    assert type(value) is type(other)
    if isinstance(value, np.ndarray):
        assert value.dtype == other.dtype
        np.testing.assert_array_equal(value, other)
    elif sp.issparse(value):
        assert value.shape == other.shape
        assert_same(value.toarray(), other.toarray())
    elif isinstance(value, list | tuple):
        assert len(value) == len(other)
        for item, other_item in zip(value, other, strict=True):
            assert_same(item, other_item)
    elif isinstance(value, dict):
        assert_same(list(value.keys()), list(other.keys()))
        assert_same(list(value.values()), list(other.values()))
    elif isinstance(value, float | np.floating) and math.isnan(value):
        assert math.isnan(other)
    elif isinstance(value, BaseEstimator):
        assert_same(vars(value), vars(other))
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            assert_same(getattr(value, field.name), getattr(other, field.name))
    else:
        assert value == other
        assert repr(value) == repr(other)  # the sign of zero


@FEW
@given(VALUES)
def test_values_come_back(value):
    """Any nested value is restored with equal values and types."""
    assert_same(value, there_and_back(value))


@pytest.mark.parametrize("kind", [KMeans, StandardScaler, MinMaxScaler])
def test_sklearn_estimators_come_back(kind):
    """A fitted estimator of scikit-learn keeps all attributes and its transform."""
    X = np.random.default_rng(0).random((20, 3))
    estimator = kind(**({"n_clusters": 3, "random_state": 0} if kind is KMeans else {})).fit(X)
    other = there_and_back(estimator)
    assert_same(vars(estimator), vars(other))
    np.testing.assert_array_equal(estimator.transform(X), other.transform(X))


def test_objects_within_objects_come_back():
    """Nested estimators and frozen dataclasses with slots are restored."""
    frozen = Frozen(np.arange(3), ("a", "b"))
    inner = Holder({"members": [frozen, KMeans()]})
    other = there_and_back(Holder(inner))
    assert_same(inner, other.value)
    assert other.value.value["members"][0] is not frozen


def test_an_array_held_twice_is_stored_once():
    """An array that is held twice is stored once and restored once."""
    array = np.arange(3)
    writer = StateWriter()
    tree = writer.encode([array, array], "value")
    assert len(writer.arrays) == 1
    first, second = StateReader(writer.arrays).decode(tree)
    assert first is second


def test_memory_order_is_no_matter():
    """Strided views and Fortran order keep their values."""
    array = np.arange(12).reshape(3, 4)
    assert_same([array[:, ::2], array.T], there_and_back([array[:, ::2], array.T]))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (len, r"estimator\.value holds a builtin_function_or_method; only None, numbers"),
        (lambda: 0, r"estimator\.value holds a function; only"),
        ([0, {"a": (1, {2})}], r"estimator\.value\[1\]\['a'\]\[1\] holds a set"),
        ({print: 1}, r"a key of estimator\.value holds a builtin"),
        (np.array([1, "a"], dtype=object), r"holds a ndarray of object values"),
        (np.zeros(2, dtype=[("a", "i4")]), r"holds a ndarray of \[\('a', '<i4'\)\] values"),
        (np.ma.array([1]), "holds a MaskedArray"),
        (np.datetime64("2020-01-01"), "holds a datetime64"),
        (np.longdouble(1), "holds a longdouble"),
        (sp.csc_array(np.eye(2)), "holds a csc_array"),
        (1 << 5000, r"estimator\.value is an integer too large"),
        (np.random.RandomState(0), r"estimator\.value holds a RandomState.*int as the seed"),
        (np.random.default_rng(0), r"estimator\.value holds a Generator.*int as the seed"),
        (b"bytes", "holds a bytes"),
    ],
)
def test_values_that_cannot_be_stored_are_named_by_their_path(value, message):
    """The message says where the value is, its type, and which types are possible."""
    with pytest.raises(ModelFileError, match=message):
        StateWriter().encode(Holder(value), "estimator")


def test_only_listed_classes_are_stored_and_created():
    """A class with the name of a storable class is not stored; unlisted names are not created."""

    class KMeans(Holder):
        pass

    with pytest.raises(ModelFileError, match="value holds a KMeans"):
        StateWriter().encode(KMeans(), "value")
    for name in ("subprocess.Popen", "sklearn.SVC", "coterie.ads.AdForecaster"):
        tree = {"$object": {"type": name, "state": {}}}
        with pytest.raises(ModelFileError, match=f"{name}, which this version .* does not know"):
            StateReader([]).decode(tree)


def test_types_with_other_fields_are_refused():
    """A dataclass without a required field is refused."""
    tree = {"$object": {"type": "Frozen", "state": {"counts": 1}}}
    with pytest.raises(ModelFileError, match="Frozen of another version"):
        StateReader([]).decode(tree)


def test_sparse_matrices_are_checked():
    """Indices outside the matrix are refused."""
    parts = [np.ones(1), np.array([9], np.int32), np.array([0, 1], np.int32)]
    tree = {"$csr": ["csr_array", [1, 2], [{"$array": index} for index in range(3)]]}
    with pytest.raises(ValueError, match=r"ind(ices|ex)"):
        StateReader(parts).decode(tree)


def test_every_listed_type_can_be_imported():
    """Each stable name refers to a class, and is not a module path."""
    for name, home in storable_types.STORABLE_TYPES.items():
        assert isinstance(storable_types.class_of(name), type), name
        assert name.removeprefix("sklearn.").isidentifier()
        assert home.count(":") == 1


def test_files_name_types_and_not_modules():
    """The tree of an object holds its stable name, not its module."""
    choice = Choice(8, 1.0, float("inf"), 0.1, 0.0, 0.01, 2)
    tree = StateWriter().encode(choice, "choice")
    assert tree["$object"]["type"] == "Choice"
    assert StateReader([]).decode(tree) == choice


def test_other_classes_can_be_created_for_a_listed_name():
    """A caller may replace the class of a listed name only."""
    tree = {"$object": {"type": "TextView", "state": {"words_": [1]}}}
    created = StateReader([], {"TextView": TextVectors}).decode(tree)
    assert type(created) is TextVectors
    assert created.words_ == [1]
    other = {"$object": {"type": "os.environ", "state": {}}}
    with pytest.raises(ModelFileError, match="does not know"):
        StateReader([], {"os.environ": dict}).decode(other)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("TextView", "transform"),
        ("TextView", "__class__"),
        ("TextView", "idf_of_a_later_version_"),
        ("AdForecaster", "forecast"),
        ("sklearn.KMeans", "predict"),
        ("sklearn.KMeans", "_parameter_constraints"),
        ("Frozen", "added_later"),
    ],
)
def test_unknown_attributes_are_dropped_unread(name, attribute):
    """Neither a method nor an attribute that the type does not know comes from a file."""
    of_type = {"Frozen": {"counts": 1, "names": ["a"]}, "sklearn.KMeans": {"labels_": 3}}
    known = of_type.get(name, {})
    unread = {"$object": {"type": "a later type", "state": {}}}
    kind = storable_types.class_of(name)
    before = vars(kind).get(attribute)
    loaded = StateReader([]).decode(
        {"$object": {"type": name, "state": {attribute: unread, **known}}}
    )
    assert type(loaded) is kind
    assert {key: getattr(loaded, key) for key in known} == known
    assert attribute not in getattr(loaded, "__dict__", {})
    assert vars(kind).get(attribute) is before


def test_unknown_attributes_are_reported_when_saving():
    """A note that a user adds to an estimator is not saved, and a warning says so."""
    holder = Holder(3)
    holder.note = "mine"
    writer = StateWriter()
    with pytest.warns(CoterieWarning, match="value has attributes that Holder does not .*: note"):
        tree = writer.encode(holder, "value")
    assert vars(StateReader([]).decode(tree)) == {"value": 3}


def test_arrays_are_not_copied_without_end():
    """A tree that makes many matrices of the same arrays is refused."""
    parts = [np.ones(1000), np.zeros(1000, np.int32), np.arange(1001, dtype=np.int32)]
    matrix = {"$csr": ["csr_array", [1000, 1], [{"$array": index} for index in range(3)]]}
    assert len(StateReader(parts).decode([matrix] * 8)) == 8
    with pytest.raises(ModelFileError, match="more often than save_model does"):
        StateReader(parts).decode([matrix] * 9)


def test_outlines_have_shapes_and_no_numbers():
    """Before the arrays are read, an object has everything but their numbers."""
    value = Holder([np.ones((3, 2)), sp.csr_array(np.eye(3)), INDEXES["texts"], (4, "a")])
    writer = StateWriter()
    tree = writer.encode(value, "value")
    huge = [np.broadcast_to(np.zeros((), a.dtype), (10**9, *a.shape)) for a in writer.arrays]
    array, matrix, index, rest = OutlineReader(huge).decode(tree).value
    assert (array.shape, array.dtype) == ((10**9, 3, 2), np.float64)
    assert (matrix.shape, matrix.data.shape) == ((3, 3), (10**9, 3))
    assert (index, rest) == (None, (4, "a"))


def test_absurd_numbers_are_refused():
    """Integers beyond the range of floats are refused."""
    with pytest.raises(ModelFileError, match=r"an integer of 1,329 bits"):
        StateReader([]).decode({"strength": [10**400]})
    assert StateReader([]).decode([10**300, -3]) == [10**300, -3]


INDEXES = {
    "numbers": pd.Index([3, 1, 2], name="user"),
    "texts": pd.Index(["ada", "bøb", "a\0"]),
    "mixed": pd.Index(["ada", 7, None, 2.5], dtype=object),
    "times": pd.date_range("2026-03-01", periods=3, unit="s"),
    "spans": pd.timedelta_range("1 day", periods=3),
    "range": pd.RangeIndex(5, 8),
    "levels": pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["city", None]),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_a_pandas_index_is_restored(index):
    """Values, levels and names of an index of numbers, texts and times are restored."""
    writer = StateWriter()
    tree = json.loads(json.dumps(writer.encode(index, "index")))
    restored = StateReader(writer.arrays).decode(tree)
    assert restored.equals(index) and list(restored.names) == list(index.names)


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2026-03-01", periods=2, tz="Europe/Berlin"),
        pd.period_range("2026-03", periods=2, freq="M"),
        pd.interval_range(0, 2),
    ],
    ids=["zoned times", "periods", "intervals"],
)
def test_other_index_values_become_texts(index):
    """Values that have no form in JSON are stored as their texts."""
    writer = StateWriter()
    restored = StateReader(writer.arrays).decode(writer.encode(index, "index"))
    assert restored.tolist() == [str(value) for value in index]


def test_an_index_can_be_read_without_pandas(monkeypatch):
    """Without pandas the names of the rows are a list, or an array of numbers."""
    writer = StateWriter()
    trees = [writer.encode(INDEXES[name], "index") for name in ("texts", "numbers", "levels")]
    monkeypatch.setitem(sys.modules, "pandas", None)
    texts, numbers, levels = (StateReader(writer.arrays).decode(tree) for tree in trees)
    assert texts == ["ada", "bøb", "a\0"] and numbers.tolist() == [3, 1, 2]
    assert levels == [("a", 1), ("b", 2)]
