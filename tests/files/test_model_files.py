"""Model files: models are loaded as saved, and damaged or forged files are refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sklearn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN, KMeans

from coterie import RobustConsensus, load_model, planted_partitions, save_model
from coterie.errors import CoterieWarning, ModelFileError, OutputError
from coterie.files import model_files, size_bounds, storable_types

FEW = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

X = np.random.default_rng(0).random((20, 3))


class Holder(BaseEstimator):
    """An estimator that holds an estimator of scikit-learn."""

    def __init__(self, seed=0):
        self.seed = seed

    def fit(self, X):
        """Set attributes of several types."""
        self.kmeans_ = KMeans(2, n_init=1, random_state=self.seed).fit(X)
        self.history_ = {"objective": [3.5, float("nan")], "shape": X.shape}
        self.names_ = np.array(["a", "é"], dtype=object)
        return self


@pytest.fixture(autouse=True)
def storable_stand_in(monkeypatch):
    """Make Holder storable."""
    monkeypatch.setitem(storable_types.STORABLE_TYPES, "Holder", f"{__name__}:Holder")


@pytest.fixture
def saved(tmp_path) -> Path:
    """Save a fitted Holder."""
    save_model(Holder().fit(X), tmp_path / "m.coterie")
    return tmp_path / "m.coterie"


def members_of(path: Path) -> dict[str, bytes]:
    """Return the members of an archive, the manifest last."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def repack(path: Path, members: dict[str, bytes], *, sign: bool = True, **manifest) -> None:
    """Write an archive with valid checksums, like a forger or a newer version."""
    content = json.loads(members.pop("manifest.json")) | manifest
    if sign:
        content["sha256"] = {n: hashlib.sha256(m).hexdigest() for n, m in members.items()}
    raw = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in [*members.items(), ("manifest.json", raw)]:
            archive.writestr(name, member)
        archive.comment = b"coterie-model sha256 " + hashlib.sha256(raw).hexdigest().encode()


def test_a_model_is_loaded_as_saved(saved):
    """Attributes, types and predictions are equal."""
    holder, other = Holder().fit(X), load_model(saved)
    assert type(other) is Holder
    assert vars(other).keys() == vars(holder).keys()
    np.testing.assert_array_equal(other.kmeans_.predict(X), holder.kmeans_.predict(X))
    assert other.history_["shape"] == (20, 3)
    assert np.isnan(other.history_["objective"][1])
    assert other.names_.tolist() == ["a", "é"]


def test_a_consensus_is_loaded_as_saved(tmp_path):
    """A loaded RobustConsensus has all attributes and the same predictions."""
    P, _ = planted_partitions([30, 20, 10], n_partitions=8, n_bad=2, noise=0.1, random_state=0)
    estimator = RobustConsensus(n_clusters=3, random_state=0).fit(P)
    save_model(estimator, tmp_path / "m.coterie")
    other = load_model(tmp_path / "m.coterie")
    assert vars(other).keys() == vars(estimator).keys()
    np.testing.assert_array_equal(other.labels_, estimator.labels_)
    np.testing.assert_array_equal(other.embedding_, estimator.embedding_)
    np.testing.assert_array_equal(other.predict(P), estimator.predict(P))
    assert other.dissent_.in_words() == estimator.dissent_.in_words()


def test_the_same_model_is_the_same_bytes(saved, tmp_path):
    """A second save, and a save of the loaded model, give the same bytes."""
    save_model(Holder().fit(X), tmp_path / "again")
    save_model(load_model(saved), tmp_path / "loaded")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()
    assert (tmp_path / "loaded").read_bytes() == saved.read_bytes()


def test_the_file_is_what_is_documented(saved):
    """The archive has a manifest with versions and checksums, and arrays that numpy reads."""
    members = members_of(saved)
    manifest = json.loads(members["manifest.json"])
    assert manifest["format"] == "coterie-model"
    assert manifest["format_version"] == 2
    assert manifest["sklearn"] == sklearn.__version__
    assert manifest["type"] == "Holder"
    assert manifest["sha256"].keys() == members.keys() - {"manifest.json"}
    np.load(io.BytesIO(members["arrays/0.npy"]), allow_pickle=False)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (KMeans(), "this KMeans is not fitted; fit it first"),
        (KMeans, "only a fitted estimator can be saved, not a"),
        ({"a": 1}, "only a fitted estimator can be saved, not a dict"),
        (DBSCAN().fit([[0.0]]), "estimator holds a DBSCAN; only"),
        (
            KMeans(2, n_init=1, random_state=np.random.RandomState(0)).fit([[0.0], [1.0]]),
            r"estimator\.random_state holds a RandomState.*int as the seed",
        ),
    ],
)
def test_estimators_that_cannot_be_saved_are_refused(estimator, message, tmp_path):
    """The message says why, and no file is written."""
    with pytest.raises(ModelFileError, match=message):
        save_model(estimator, tmp_path / "m.coterie")
    assert list(tmp_path.iterdir()) == []


def test_endless_and_huge_states_are_refused(tmp_path, monkeypatch):
    """A state that holds itself, or has too much text, is refused; so is a missing folder."""
    holder = Holder().fit(X)
    holder.history_["self"] = [holder]
    with pytest.raises(ModelFileError, match="this Holder holds itself"):
        save_model(holder, tmp_path / "m.coterie")
    with monkeypatch.context() as patch:
        patch.setattr(model_files, "MOST_JSON_BYTES", 100)
        with pytest.raises(ModelFileError, match="bytes of lists and texts"):
            save_model(Holder().fit(X), tmp_path / "m.coterie")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OutputError, match="does not exist"):
        save_model(Holder().fit(X), tmp_path / "nowhere" / "m.coterie")


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
    """A truncated file is refused."""
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


def test_other_versions_and_formats_are_refused(saved):
    """The message says to update, or to fit again; version 1 named classes by module paths."""
    repack(saved, members_of(saved), format_version=3, coterie="9.9")
    with pytest.raises(ModelFileError, match=r"version 3, written by coterie 9\.9.*update coterie"):
        load_model(saved)
    repack(saved, members_of(saved), format_version=1, coterie="0.1.0")
    with pytest.raises(ModelFileError, match=r"version 1, .*coterie 0\.1\.0.*fit the model again"):
        load_model(saved)
    repack(saved, members_of(saved), format="other")
    with pytest.raises(ModelFileError, match="its format is 'other'"):
        load_model(saved)


def test_missing_extra_and_repeated_members_are_refused(saved):
    """The members must be exactly those of the manifest."""
    members = members_of(saved)
    without = {name: member for name, member in members.items() if name != "arrays/0.npy"}
    repack(saved, without, sign=False)
    with pytest.raises(ModelFileError, match=r"the member arrays/0\.npy is missing"):
        load_model(saved)
    repack(saved, {"extra.py": b"", **members}, sign=False)
    with pytest.raises(ModelFileError, match=r"the member extra\.py does not belong to it"):
        load_model(saved)
    repack(saved, dict(members))
    with zipfile.ZipFile(saved, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("arrays/0.npy", members["arrays/0.npy"])
    with pytest.raises(ModelFileError, match=r"more than one member arrays/0\.npy"):
        load_model(saved)


def test_changed_members_are_refused(saved):
    """A member or manifest with another checksum is named."""
    members = members_of(saved)
    repack(saved, members | {"state.json": b"{}"}, sign=False)
    with pytest.raises(ModelFileError, match=r"the checksum of state\.json does not match"):
        load_model(saved)
    repack(saved, dict(members))
    with zipfile.ZipFile(saved, "a") as archive:
        archive.comment = b"coterie-model sha256 " + b"0" * 64
    with pytest.raises(ModelFileError, match=r"the checksum of manifest\.json does not match"):
        load_model(saved)


def test_forged_classes_are_refused(saved):
    """A class that is not listed is refused in spite of valid checksums."""
    members = members_of(saved)
    state = members["state.json"].replace(b'"Holder"', b'"subprocess.Popen"')
    repack(saved, members | {"state.json": state}, type="subprocess.Popen")
    with pytest.raises(ModelFileError, match=r"subprocess\.Popen, which .* does not know"):
        load_model(saved)


@pytest.mark.parametrize(
    "state",
    [b"{", b'{"$what": 1}', b'{"$array": 99}', b"[" * 100_000, b"[" * 300 + b"]" * 300],
)
def test_forged_trees_are_refused(state, saved):
    """An invalid tree is reported as damage."""
    repack(saved, members_of(saved) | {"state.json": state})
    with pytest.raises(ModelFileError, match="it is damaged, cut short or was changed"):
        load_model(saved)


def test_forged_manifests_are_refused(saved):
    """The type in the manifest is the type in the file."""
    repack(saved, members_of(saved), type="sklearn.KMeans")
    with pytest.raises(ModelFileError, match=r"its state is that of another type"):
        load_model(saved)


def test_pickles_in_arrays_are_refused(saved):
    """An array of objects is never unpickled."""
    pickled = io.BytesIO()
    np.save(pickled, np.array([print], dtype=object), allow_pickle=True)
    repack(saved, members_of(saved) | {"arrays/0.npy": pickled.getvalue()})
    with pytest.raises(ModelFileError, match=r"damaged.*an array of object"):
        load_model(saved)


def array_member(header: str, content: bytes, version: bytes = b"\1\0") -> bytes:
    """Return the bytes of an npy file with any header."""
    padded = header.ljust(117) + "\n"
    return b"\x93NUMPY" + version + len(padded).to_bytes(2, "little") + padded.encode() + content


@pytest.mark.parametrize(
    ("kind", "shape", "content", "message"),
    [
        ("<U0", "(200000000,)", b"", "an array of <U0"),
        ("|S0", "(3,)", b"", r"an array of \|S0"),
        ("<f8", "(200000000,)", b"", "not as large as it claims"),
        ("<f8", "(2,)", bytes(24), "not as large as it claims"),
        ("<f8", "(0,)", bytes(8), "not as large as it claims"),
        ("<f8", "(-2, -1)", bytes(16), "an array of"),
    ],
)
def test_arrays_are_as_large_as_their_members(kind, shape, content, message, saved):
    """An array whose size differs from its bytes is refused before memory is allocated."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    repack(saved, members_of(saved) | {"arrays/0.npy": array_member(header, content)})
    with pytest.raises(ModelFileError, match=rf"damaged.*{message}"):
        load_model(saved)


def test_arrays_of_other_forms_are_refused(saved):
    """Other versions of npy are refused."""
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }"
    forged = array_member(header, b"", version=b"\2\0")
    repack(saved, members_of(saved) | {"arrays/0.npy": forged})
    with pytest.raises(ModelFileError, match="of a form that save_model does not write"):
        load_model(saved)


@pytest.mark.parametrize("use", [load_model, model_files.content_checksum])
def test_pipes_are_not_waited_for(use, tmp_path):
    """A pipe is refused without waiting for its writer."""
    pipe = tmp_path / "m.coterie"
    os.mkfifo(pipe)
    with pytest.raises(ModelFileError, match=r"m\.coterie: it is not a file but a pipe"):
        use(pipe)


def test_files_larger_than_any_model_are_refused(saved, monkeypatch):
    """The size is checked before anything is read."""
    monkeypatch.setattr(model_files, "MOST_BYTES", saved.stat().st_size - 1)
    with pytest.raises(ModelFileError, match=r"it has [0-9,]+ bytes, and a model file at most"):
        load_model(saved)


def test_bombs_are_refused(saved, monkeypatch):
    """Compressed, overlapping and huge members are refused before they are read."""
    members = members_of(saved)
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("state.json", b" " * 10_000_000)
    with pytest.raises(ModelFileError, match="compressed members"):
        load_model(saved)
    repack(saved, dict(members))
    raw = saved.read_bytes()
    entry = raw.index(b"PK\x01\x02")  # the first entry of the directory
    forged = raw[: entry + 20] + b"\xff\xff\xff\x7f" * 2 + raw[entry + 28 :]
    saved.write_bytes(forged)
    with pytest.raises(ModelFileError, match="claim to be larger than the file"):
        load_model(saved)
    saved.write_bytes(raw)
    monkeypatch.setattr(model_files, "MOST_JSON_BYTES", 100)
    with pytest.raises(ModelFileError, match=r"json has [0-9,]+ bytes"):
        load_model(saved)


def test_trees_with_many_values_are_refused(saved, tmp_path):
    """The number of values in the tree is bounded, for files and for estimators to save."""
    repack(saved, members_of(saved) | {"state.json": b"[" + 2_000_000 * b"0," + b"0]"})
    with pytest.raises(ModelFileError, match=r"its tree has 2,000,00\d values; at most"):
        load_model(saved)
    holder = Holder().fit(X)
    holder.history_ = [0] * 2_000_000
    with pytest.raises(ModelFileError, match="this Holder cannot be stored: its tree has"):
        save_model(holder, tmp_path / "m.coterie")


def test_marks_inside_texts_are_no_values():
    """Brackets, commas and escaped quotation marks in texts neither nest nor count."""
    text = json.dumps(['"' + "[" * 300 + "\\", "," * 3_000_000, '\\"]'])
    size_bounds.refuse_large_tree(text.encode())


def test_archives_of_many_members_are_refused(saved, monkeypatch):
    """The number of members and the size of their directory are bounded."""
    monkeypatch.setattr(model_files, "MOST_MEMBERS", 3)
    with pytest.raises(ModelFileError, match=r"it has \d+ members"):
        load_model(saved)
    monkeypatch.setattr(size_bounds, "_MOST_DIRECTORY_BYTES", 100)
    with pytest.raises(ModelFileError, match=r"its directory of members has \d+ bytes"):
        load_model(saved)


def test_outlines_are_checked_before_arrays_are_read(saved):
    """A check of shapes sees the headers of the arrays while their data is still unread."""
    members = members_of(saved)
    unread = bytearray(members["arrays/0.npy"])
    unread[-1] ^= 1  # would be detected by its checksum
    repack(saved, members | {"arrays/0.npy": bytes(unread)}, sign=False)
    shapes = []

    def check(outline):
        shapes.append(outline.kmeans_.cluster_centers_.shape)
        raise ModelFileError("these shapes do not fit")

    with pytest.raises(ModelFileError, match=r"m\.coterie: these shapes do not fit"):
        load_model(saved, check_outline=check)
    assert shapes == [(2, 3)]
    with pytest.raises(ModelFileError, match=r"the checksum of arrays/0\.npy"):
        load_model(saved, check_outline=lambda _: None)


def test_attributes_of_a_later_version_are_dropped(saved):
    """A file with a further attribute, of a type that is not known yet, is loaded without it."""
    members = members_of(saved)
    tree = json.loads(members["state.json"])
    tree["$object"]["state"] |= {"predict": 1, "later_": {"$object": {"type": "Later"}}}
    repack(saved, members | {"state.json": json.dumps(tree).encode()})
    assert vars(load_model(saved)).keys() == vars(Holder().fit(X)).keys()


def test_a_verified_checksum_reads_everything(saved):
    """The checksum names the content; whether the content fits it is looked at on demand."""
    good = model_files.content_checksum(saved, verified=True)
    members = members_of(saved)
    changed = members["arrays/0.npy"][:-1] + b"\0"
    repack(saved, members | {"arrays/0.npy": changed}, sign=False)
    assert len(model_files.content_checksum(saved)) == len(good) == 64
    with pytest.raises(ModelFileError, match=r"the checksum of arrays/0\.npy"):
        model_files.content_checksum(saved, verified=True)


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
