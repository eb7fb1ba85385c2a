"""Model files: models are loaded as saved; what is damaged, forged or too large is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn
from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN, KMeans

from coterie import RobustConsensus, load_model, models, planted_partitions, save_model
from coterie.ads.segments.text_vectors import TextVectors
from coterie.arrays import Floats
from coterie.errors import CoterieWarning, ModelFileError, OutputError
from coterie.models import STORABLE_TYPES, StateReader, StateWriter
from fitted_models import small_model

FEW = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
X = np.random.default_rng(0).random((60, 4))
P = planted_partitions([30, 20, 10], n_partitions=8, n_bad=2, noise=0.1, random_state=0)[0]

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
INDEXES = {
    "numbers": pd.Index([3, 1, 2], name="user"),
    "texts": pd.Index(["ada", "bøb", "a\0"]),
    "mixed": pd.Index(["ada", 7, None, 2.5], dtype=object),
    "times": pd.date_range("2026-03-01", periods=3, unit="s"),
    "spans": pd.timedelta_range("1 day", periods=3),
    "range": pd.RangeIndex(5, 8),
    "zoned times": pd.date_range("2026-03-01", periods=2, tz="Europe/Berlin"),
    "periods": pd.period_range("2026-03", periods=2, freq="M"),
    "intervals": pd.interval_range(0, 2),
    "levels": pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["city", None]),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    counts: np.ndarray
    names: tuple[str, ...]
    added: float | None = None
    weights: Floats | None = None


class Holder(BaseEstimator):
    """An estimator that holds a value, and an estimator of scikit-learn."""

    def __init__(self, value=None):
        self.value = value

    def fit(self, X):
        """Set attributes of several types."""
        self.kmeans_ = KMeans(2, n_init=1, random_state=0).fit(X)
        self.history_ = {"objective": [3.5, float("nan")], "shape": X.shape}
        self.names_ = np.array(["a", "é"], dtype=object)
        return self


@pytest.fixture(autouse=True, scope="module")
def storable_stand_ins():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("Frozen", "Holder"):
            patch.setitem(STORABLE_TYPES, name, f"{__name__}:{name}")
        yield


@pytest.fixture
def saved(tmp_path) -> Path:
    save_model(Holder().fit(X), tmp_path / "m.coterie")
    return tmp_path / "m.coterie"


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repack(path: Path, members: dict[str, bytes], **changed) -> None:
    """Write an archive with valid checksums, like a forger or a newer version."""
    if changed:
        content = json.loads(members["model.json"]) | changed
        members = members | {"model.json": json.dumps(content).encode()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)


def there_and_back(value):
    """Return a value after encoding to JSON text and arrays, and decoding."""
    writer = StateWriter()
    text = json.dumps(writer.encode(value, "value"), allow_nan=False)
    return StateReader(writer.arrays).decode(json.loads(text))


def assert_same(value, other):
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
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            assert_same(getattr(value, field.name), getattr(other, field.name))
    elif isinstance(value, BaseEstimator) or type(value).__module__.startswith("coterie."):
        assert_same(vars(value), vars(other))
    else:
        assert value == other
        assert repr(value) == repr(other)  # the sign of zero


# ---- What is saved comes back


@FEW
@given(VALUES)
def test_values_come_back(value):
    """Any nested value is restored with equal values and types."""
    assert_same(value, there_and_back(value))


def test_objects_within_objects_come_back():
    """Nested estimators and frozen records with slots are restored; shared arrays stay shared."""
    array = np.arange(12).reshape(3, 4)
    frozen = Frozen(array, ("a", "b"))
    inner = Holder({"members": [frozen, KMeans(), array, array[:, ::2], array.T]})
    other = there_and_back(Holder(inner)).value
    assert_same(inner, other)
    members = other.value["members"]
    assert members[0] is not frozen and members[0].counts is members[2]


def test_a_consensus_is_loaded_as_saved(tmp_path):
    """A loaded RobustConsensus has all attributes and the same predictions."""
    estimator = RobustConsensus(n_clusters=3, random_state=0).fit(P)
    save_model(estimator, tmp_path / "m.coterie")
    other = load_model(tmp_path / "m.coterie")
    assert vars(other).keys() == vars(estimator).keys()
    np.testing.assert_array_equal(other.embedding_, estimator.embedding_)
    np.testing.assert_array_equal(other.predict(P), estimator.predict(P))
    assert other.dissent_.in_words() == estimator.dissent_.in_words()


def fitted(name: str):
    kind, home = models._class_of(name), STORABLE_TYPES[name]
    if name == "AdForecaster":
        return small_model()
    if name == "TextView":
        return kind().fit(["beach hotel", "used cars"])
    if home.startswith("sklearn."):
        return kind().fit(X)
    if name == "ConsensusClusterer":
        return kind(3, n_partitions=5, random_state=0).fit(X)
    if name == "MultiViewAffinityPropagation":
        return kind(2, random_state=0).fit([X, X[:, :2]])
    views = ".multiview" in home or name == "MultiViewClusterer"
    return kind(3).fit([X, X[:, :2]] if views else P)


@pytest.mark.filterwarnings("ignore")  # some do not converge on noise
@pytest.mark.parametrize(
    "name",
    [name for name in STORABLE_TYPES if hasattr(models._class_of(name), "get_params")],
)
def test_all_that_fitting_sets_comes_back(name):
    """A fitted estimator is restored with all attributes but cached ones."""
    estimator = fitted(name)
    kind = type(estimator)
    kept = {key: x for key, x in vars(estimator).items() if models.is_attribute(kind, key)}
    cached = [key for key in vars(estimator) if hasattr(getattr(kind, key, None), "attrname")]
    assert kept.keys() == vars(estimator).keys() - cached
    assert_same(kept, vars(there_and_back(estimator)))


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_a_pandas_index_is_restored(index):
    """Values, levels and names of numbers, texts and times; other values become texts."""
    restored = there_and_back(index)
    if not restored.equals(index):
        assert restored.tolist() == [str(value) for value in index]
        assert isinstance(index[0], pd.Timestamp | pd.Period | pd.Interval)
    assert list(restored.names) == list(index.names)


def test_an_index_can_be_read_without_pandas(monkeypatch):
    """Without pandas the names of the rows are a list, or an array."""
    writer = StateWriter()
    trees = [writer.encode(INDEXES[name], "index") for name in ("texts", "numbers", "levels")]
    monkeypatch.setitem(sys.modules, "pandas", None)
    texts, numbers, levels = (StateReader(writer.arrays).decode(tree) for tree in trees)
    assert texts.tolist() == ["ada", "bøb", "a\0"] and numbers.tolist() == [3, 1, 2]
    assert levels == [("a", 1), ("b", 2)]


def test_the_same_model_is_the_same_bytes(saved, tmp_path):
    """A second save, and a save of the loaded model, give the same bytes."""
    save_model(Holder().fit(X), tmp_path / "again")
    save_model(load_model(saved), tmp_path / "loaded")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()
    assert (tmp_path / "loaded").read_bytes() == saved.read_bytes()


# ---- What cannot be saved


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (KMeans(), "this KMeans is not fitted; fit it first"),
        (KMeans, "only a fitted estimator can be saved, not a"),
        ({"a": 1}, "only a fitted estimator can be saved, not a dict"),
        (DBSCAN().fit([[0.0]]), "estimator holds a DBSCAN; only"),
    ],
)
def test_estimators_that_cannot_be_saved_are_refused(estimator, message, tmp_path):
    """The message says why, and no file is written."""
    with pytest.raises(ModelFileError, match=message):
        save_model(estimator, tmp_path / "m.coterie")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (len, r"estimator\.value holds a builtin_function_or_method; only None, numbers"),
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
        (type("KMeans", (Holder,), {})(), "value holds a KMeans"),
        (b"bytes", "holds a bytes"),
    ],
)
def test_values_that_cannot_be_stored_are_named_by_their_path(value, message):
    """The message says where the value is, its type, and which types are possible."""
    with pytest.raises(ModelFileError, match=message):
        StateWriter().encode(Holder(value), "estimator")


def test_endless_and_huge_states_are_refused(tmp_path, monkeypatch):
    """A state that holds itself, or has too much, is refused; so is a missing folder."""
    holder = Holder().fit(X)
    holder.history_ = [holder]
    with pytest.raises(ModelFileError, match="this Holder holds itself"):
        save_model(holder, tmp_path / "m.coterie")
    holder.history_ = [0] * 2_000_000
    with pytest.raises(ModelFileError, match="this Holder cannot be stored: its tree has"):
        save_model(holder, tmp_path / "m.coterie")
    for bound, message in {
        "_MOST_JSON_BYTES": "it has [0-9,]+ bytes of lists and texts",
        "_MOST_MEMBERS": "it has [0-9]+ members",
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(models, bound, 3)
            with pytest.raises(ModelFileError, match=message):
                save_model(Holder().fit(X), tmp_path / "m.coterie")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OutputError, match="does not exist"):
        save_model(Holder().fit(X), tmp_path / "nowhere" / "m.coterie")


# ---- Damaged and foreign files


@FEW
@given(data=st.data())
def test_a_changed_byte_is_detected(data, saved):
    """A file with one changed byte is refused, or holds the same model."""
    good = saved.read_bytes()
    raw = bytearray(good)
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    saved.with_name("flipped").write_bytes(raw)
    try:
        other = load_model(saved.with_name("flipped"))
    except ModelFileError as error:
        assert "flipped" in str(error)
    else:
        save_model(other, saved.with_name("again"))
        assert saved.with_name("again").read_bytes() == good


@FEW
@given(data=st.data())
def test_a_cut_file_is_refused(data, saved):
    raw = saved.read_bytes()
    cut = saved.with_name("cut")
    cut.write_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(ModelFileError, match=r"cannot load .*cut"):
        load_model(cut)


def test_other_files_are_refused(saved, tmp_path):
    """Missing files, folders, text, other archives and devices have different messages."""
    with pytest.raises(ModelFileError, match=r"there is no file .*nothing; check"):
        load_model(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match=r"is a folder; give a model file"):
        load_model(tmp_path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ModelFileError, match=r"cannot load .*text: it is not a model file"):
        load_model(tmp_path / "text")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("hello", "world")
    with pytest.raises(ModelFileError, match="is a zip archive, but not a model file"):
        load_model(tmp_path / "zip")
    with pytest.raises(ModelFileError, match="it is not a file but a pipe, a device"):
        load_model("/dev/zero")


@pytest.mark.parametrize("use", [load_model, models.content_checksum])
def test_pipes_are_not_waited_for(use, tmp_path):
    """A pipe is refused without waiting for its writer."""
    pipe = tmp_path / "m.coterie"
    os.mkfifo(pipe)
    with pytest.raises(ModelFileError, match=r"m\.coterie: it is not a file but a pipe"):
        use(pipe)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format_version": 99, "coterie": "9.9"}, r"version 99, .*coterie 9\.9.*update coterie"),
        (
            {"format_version": 1, "coterie": "0.1"},
            r"version 1, .*coterie 0\.1.*fit the model again",
        ),
        ({"format": "other"}, "its format is 'other'"),
    ],
)
def test_other_versions_and_formats_are_refused(saved, changed, message):
    """The message says to update, or to fit again."""
    repack(saved, members_of(saved), **changed)
    with pytest.raises(ModelFileError, match=message):
        load_model(saved)


def test_missing_extra_and_repeated_members_are_refused(saved):
    """The members are the tree and the numbered arrays."""
    members = members_of(saved)
    first = members["arrays/0.npy"]
    missing = {name: part for name, part in members.items() if name != "arrays/0.npy"}
    for changed, added in ((missing, {}), (members, {"extra.py": b""}), (members, {})):
        repack(saved, changed | added)
        if changed | added == members:
            with zipfile.ZipFile(saved, "a") as archive, pytest.warns(UserWarning, match="Dupl"):
                archive.writestr("arrays/0.npy", first)
        with pytest.raises(ModelFileError, match="other members"):
            load_model(saved)


def test_a_verified_checksum_reads_everything(saved):
    """The checksum names the content; whether the content fits it is looked at on demand."""
    good, members = models.content_checksum(saved, verified=True), members_of(saved)
    raw = saved.read_bytes()
    saved.write_bytes(raw.replace(members["arrays/0.npy"], members["arrays/0.npy"][:-1] + b"\0"))
    assert models.content_checksum(saved) == good and len(good) == 64
    with pytest.raises(ModelFileError, match=r"the checksum of arrays/0\.npy"):
        models.content_checksum(saved, verified=True)
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(saved)
    repack(saved, members | {"arrays/0.npy": members["arrays/1.npy"]})
    assert models.content_checksum(saved) != good


def test_another_sklearn_is_reported(saved, tmp_path):
    """Only a model that holds estimators of scikit-learn gives a warning."""
    repack(saved, members_of(saved), sklearn="0.1")
    with pytest.warns(CoterieWarning, match=r"of scikit-learn 0\.1, and this is"):
        load_model(saved)
    plain = Holder().fit(X)
    del plain.kmeans_
    save_model(plain, tmp_path / "plain")
    repack(tmp_path / "plain", members_of(tmp_path / "plain"), sklearn="0.1")
    assert load_model(tmp_path / "plain").names_.tolist() == ["a", "é"]


# ---- Forged files


@pytest.mark.parametrize(
    "tree",
    [b"{", b"[]", b'{"$what": 1}', b"[" * 100_000, b"[" * 300 + b"]" * 300],
)
def test_forged_trees_are_refused(tree, saved):
    """An invalid tree is reported as damage."""
    repack(saved, members_of(saved) | {"model.json": tree})
    with pytest.raises(ModelFileError, match="it is damaged, cut short or was changed"):
        load_model(saved)


@pytest.mark.parametrize(
    ("tree", "error"),
    [
        ({"$what": 1}, "is not a tag"),
        ({"$list": [], "$tuple": []}, "too many values"),
        ({"$array": 99}, "index"),
        ({"$object": {"type": "subprocess.Popen", "state": {}}}, "Popen, which .* does not know"),
        ({"$object": {"type": "sklearn.SVC", "state": {}}}, "SVC, which this version"),
        ({"$object": {"type": "Frozen", "state": {"counts": 1}}}, "whose counts is not np.ndarray"),
        ({"$object": {"type": "Frozen", "state": {}}}, "Frozen of another version"),
        ([[10**400]], "an integer of 1,329 bits"),
        ({"$plain": [[1], {"$array": 0}]}, "lists are 2 deep"),
        ({"$csr": ["csr_array", [1, 2], [{"$array": i} for i in (1, 2, 3)]]}, "ind(ices|ex)"),
    ],
)
def test_forged_values_are_refused(tree, error):
    """Other classes, tags, types of fields, and indices outside a matrix are refused."""
    nested = np.frombuffer(b"[[]]", np.uint8)
    arrays = [nested, np.ones(1), np.array([9], np.int32), np.array([0, 1], np.int32)]
    with pytest.raises((ModelFileError, ValueError, IndexError), match=error):
        StateReader(arrays).decode(tree)


@pytest.mark.parametrize(
    "state",
    [
        {"names": ["a"]},
        {"added": "x"},
        {"weights": {"$array": 0}},
    ],
)
def test_fields_of_records_are_of_their_types(state):
    """A field of another type than its annotation, or an array of another kind, is refused."""
    good = {"counts": {"$array": 0}, "names": {"$tuple": []}, "added": 1, "weights": None}
    arrays = [np.arange(3)]
    later = good | {"later": {"$what": 1}}  # of another version; it is not read
    assert StateReader(arrays).decode({"$object": {"type": "Frozen", "state": later}}).added == 1
    with pytest.raises(ModelFileError, match="it holds a Frozen whose"):
        StateReader(arrays).decode({"$object": {"type": "Frozen", "state": good | state}})


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("TextView", "transform"),
        ("TextView", "__class__"),
        ("AdForecaster", "forecast"),
        ("sklearn.KMeans", "predict"),
        ("sklearn.KMeans", "_parameter_constraints"),
    ],
)
def test_names_of_the_class_are_dropped_unread(name, attribute):
    """No method or constant of a class is replaced by a value in a file."""
    unread = {"$object": {"type": "a later type", "state": {}}}
    tree = {"$object": {"type": name, "state": {attribute: unread, "labels_": 3}}}
    assert vars(StateReader([]).decode(tree)) == {"labels_": 3}


def test_other_classes_can_be_created_for_a_listed_name():
    """A caller may replace the class of a listed name only."""
    tree = {"$object": {"type": "TextView", "state": {"words_": [1]}}}
    created = StateReader([], {"TextView": TextVectors}).decode(tree)
    assert type(created) is TextVectors and created.words_ == [1]
    other = {"$object": {"type": "os.environ", "state": {}}}
    with pytest.raises(ModelFileError, match="does not know"):
        StateReader([], {"os.environ": dict}).decode(other)


def array_member(header: str, content: bytes, version: bytes) -> bytes:
    padded = header.ljust(117) + "\n"
    return b"\x93NUMPY" + version + len(padded).to_bytes(2, "little") + padded.encode() + content


@pytest.mark.parametrize(
    ("kind", "shape", "content", "message"),
    [
        ("<U0", "(200000000,)", b"", "an array of <U0"),
        ("|O", "(1,)", b"cos\nsystem\n", "an array of object"),
        ("<f8", "(200000000,)", b"", "not as large as it claims"),
        ("<f8", "(2,)", bytes(24), "not as large as it claims"),
        ("<f8", "(0,)", bytes(8), "not as large as it claims"),
        ("<f8", "(-2, -1)", bytes(16), "an array of"),
        ("<f8", "(0,)", b"", "of a form that save_model does not write"),
    ],
)
def test_arrays_are_as_large_as_their_members(kind, shape, content, message, saved):
    """An array of objects, of another size or form of file, is refused before it is made."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    version = b"\2\0" if "of a form" in message else b"\1\0"
    repack(saved, members_of(saved) | {"arrays/0.npy": array_member(header, content, version)})
    with pytest.raises(ModelFileError, match=rf"damaged.*{message}"):
        load_model(saved)


# ---- Bombs


def test_bombs_are_refused(saved, monkeypatch):
    """Compressed, overlapping, huge and too many members are refused before they are read."""
    members = members_of(saved)
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", b" " * 10_000_000)
    with pytest.raises(ModelFileError, match="compressed members"):
        load_model(saved)
    repack(saved, members)
    raw = saved.read_bytes()
    entry = raw.index(b"PK\x01\x02")  # the first entry of the directory
    saved.write_bytes(raw[: entry + 20] + b"\xff\xff\xff\x7f" * 2 + raw[entry + 28 :])
    with pytest.raises(ModelFileError, match="claim to be larger than the file"):
        load_model(saved)
    saved.write_bytes(raw)
    for bound, message in {
        "_MOST_BYTES": r"it has [0-9,]+ bytes, and a model file at most",
        "_MOST_JSON_BYTES": r"it has [0-9,]+ bytes of",
        "_MOST_MEMBERS": r"it has \d+ members",
        "_MOST_DIRECTORY_BYTES": r"its directory of members has \d+ bytes",
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(models, bound, 3 if bound == "_MOST_MEMBERS" else 100)
            with pytest.raises(ModelFileError, match=message):
                load_model(saved)


def test_trees_with_many_values_are_refused(saved):
    """The number of values in the tree is bounded; marks inside texts are none."""
    repack(saved, members_of(saved) | {"model.json": b"[" + 2_000_000 * b"0," + b"0]"})
    with pytest.raises(ModelFileError, match=r"its tree has 2,000,00\d values; at most"):
        load_model(saved)
    text = json.dumps(['"' + "[" * 300 + "\\", "," * 3_000_000, '\\"]'])
    models._refuse_large_tree(text.encode())


def test_arrays_are_not_copied_without_end():
    """A tree that makes many matrices of the same arrays is refused."""
    parts = [np.ones(1000), np.zeros(1000, np.int32), np.arange(1001, dtype=np.int32)]
    matrix = {"$csr": ["csr_array", [1000, 1], [{"$array": index} for index in range(3)]]}
    assert len(StateReader(parts).decode([matrix] * 8)) == 8
    with pytest.raises(ModelFileError, match="more often than save_model does"):
        StateReader(parts).decode([matrix] * 9)
