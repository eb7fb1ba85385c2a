from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris, load_wine

from coterie.datasets import dataset_files
from coterie.datasets import loading as datasets
from coterie.datasets.loading import dataset_info, dataset_names, load_dataset, load_views
from coterie.errors import DatasetUnavailableError, InvalidParameterError

REAL_DATA = os.environ.get("COTERIE_DATA")

# n, features of each view, points of each class
FACTS = {
    "iris": (150, [4], [50, 50, 50]),
    "wine": (178, [13], [59, 71, 48]),
    "glass": (214, [9], [70, 76, 17, 13, 9, 29]),
    "ionosphere": (351, [34], [126, 225]),
    "zoo": (101, [16], [41, 20, 5, 13, 4, 8, 10]),
    "soybean_small": (47, [35], [10, 10, 10, 17]),
    "cstr": (475, [1000], [101, 71, 178, 125]),
    "reuters": (7522, [1000], [3735, 2125, 355, 333, 259, 211, 156, 135, 114, 99]),
    "msrc_v1": (210, [24, 576, 512, 256, 254], [30] * 7),
    "caltech101_7": (1474, [48, 40, 254, 1984, 512, 928], [435, 798, 52, 34, 35, 64, 56]),
    "caltech101_20": (2386, [48, 40, 254, 1984, 512, 928], None),
    "uci_mfeat": (2000, [216, 76, 64, 6, 240, 47], [200] * 10),
}
ALWAYS_THERE = ["iris", "wine", "glass", "ionosphere", "zoo"]
ELSEWHERE = [name for name in FACTS if name not in ALWAYS_THERE]


class FakeResponse(io.BytesIO):
    """What urlopen gives: bytes to read, headers beside them."""

    def __init__(self, content):
        super().__init__(content)
        self.headers = {"Content-Length": str(len(content))}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder for COTERIE_DATA, an empty cache, and no network."""

    def no_network(url, timeout):
        raise OSError("no network in tests")

    monkeypatch.setattr(dataset_files, "urlopen", no_network)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def assert_facts(name, views, y):
    """Views and classes have the sizes of the table."""
    n, widths, sizes = FACTS[name]
    assert [view.shape for view in views] == [(n, width) for width in widths]
    assert all(view.dtype == np.float64 for view in views)
    assert y.dtype == np.int64
    assert y.shape == (n,)
    found = np.bincount(y).tolist()
    assert found == (sizes if sizes is not None else list(dataset_info(name).class_sizes.values()))


def soybean_rows(change=lambda rows: rows):
    """A made-up file with the shape and the classes of soybean-small.data."""
    rng = np.random.default_rng(0)
    names = [
        name
        for name, size in dataset_info("soybean_small").class_sizes.items()
        for _ in range(size)
    ]
    rows = [[*rng.integers(0, 5, 35).astype(str), name] for name in names]
    return "".join(",".join(row) + "\n" for row in change(rows))


def put_soybean(folder: Path, text: str) -> None:
    """Write what is to pass for soybean-small.data."""
    (folder / "soybean_small").mkdir()
    (folder / "soybean_small" / "soybean-small.data").write_text(text)


def test_names():
    """The names are those of the table, in its order."""
    assert dataset_names() == list(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_info_agrees_with_the_table(name):
    """The registry knows sizes without loading anything."""
    info = dataset_info(name)
    n, widths, sizes = FACTS[name]
    assert info.n_samples == n
    assert info.n_features == sum(widths)
    assert sizes is None or len(info.class_names) == len(sizes)


@pytest.mark.parametrize("name", ALWAYS_THERE)
def test_sets_that_are_always_there(name):
    """Five sets need neither a folder nor a network, and have the sizes they should."""
    X, y, info = load_dataset(name, return_info=True)
    assert_facts(name, [X], y)
    assert info == dataset_info(name)
    views, same = load_views(name)
    assert_array_equal(views[0], X)
    assert_array_equal(same, y)


@pytest.mark.parametrize(("name", "loader"), [("iris", load_iris), ("wine", load_wine)])
def test_scikit_learn_sets_are_unchanged(name, loader):
    """The sets iris and wine are scikit-learn's to the last digit."""
    X, y = load_dataset(name)
    expected = loader(return_X_y=True)
    assert_array_equal(X, expected[0])
    assert_array_equal(y, expected[1])


def test_bundled_values():
    """Known cells of the bundled sets are where they belong, with the right class."""
    X, y, info = load_dataset("glass", return_info=True)
    assert X[0].tolist() == [1.52101, 13.64, 4.49, 1.1, 71.78, 0.06, 8.75, 0, 0]
    assert info.class_names[y[-1]] == "7"
    X, y, info = load_dataset("ionosphere", return_info=True)
    assert_array_equal(X[:, 1], 0)
    assert np.abs(X).max() == 1
    assert [info.class_names[c] for c in y[:2]] == ["good", "bad"]
    X, y, info = load_dataset("zoo", return_info=True)
    assert sorted(np.unique(X[:, 12])) == [0, 2, 4, 5, 6, 8]
    assert np.isin(np.delete(X, 12, axis=1), [0, 1]).all()
    # feathers are a bird's, and every bird's
    assert_array_equal(X[:, 1] == 1, y == info.class_names.index("bird"))


def test_folder_of_the_user(elsewhere):
    """A set in the folder COTERIE_DATA names is read from there."""
    put_soybean(elsewhere, soybean_rows())
    X, y = load_dataset("soybean_small")
    assert_facts("soybean_small", [X], y)


def test_download(elsewhere, monkeypatch, tmp_path):
    """A set that is nowhere is downloaded, read and kept."""

    def urlopen(url, timeout):
        return FakeResponse(soybean_rows().encode())

    with monkeypatch.context() as network:
        network.setattr(dataset_files, "urlopen", urlopen)
        first = load_dataset("soybean_small")
    assert (tmp_path / "cache/coterie/soybean_small/soybean-small.data").is_file()
    again = load_dataset("soybean_small")
    assert_array_equal(first[0], again[0])
    assert_array_equal(first[1], again[1])


@pytest.mark.parametrize("name", ELSEWHERE)
def test_sets_that_are_nowhere(name):
    """Without file and network the message names the set, its source and its folder."""
    with pytest.raises(DatasetUnavailableError) as caught:
        load_dataset(name)
    message = str(caught.value)
    assert f"'{name}' is not on this machine" in message
    assert dataset_info(name).how_to_get in message
    assert f"COTERIE_DATA to a folder that has {name}/" in message


def test_damaged_file_is_refused(elsewhere):
    """A prepared file whose checksum is wrong is not read."""
    (elsewhere / "cstr").mkdir()
    (elsewhere / "cstr" / "cstr.npz").write_bytes(b"PK not an archive")
    with pytest.raises(DatasetUnavailableError, match=r"cstr\.npz is damaged"):
        load_dataset("cstr")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], r"shape of its views is \[\(46, 35\)\]"),
        (lambda rows: [row[1:] for row in rows], r"shape of its views is \[\(47, 34\)\]"),
        (lambda rows: [[*rows[0][:-1], "D9"], *rows[1:]], "class 'D9', which is none of"),
        (lambda rows: [[*rows[0][:-1], "D2"], *rows[1:]], r"classes have \[9, 11, 10, 17\]"),
        (lambda rows: [["nan", *rows[0][1:]], *rows[1:]], "not finite"),
        (lambda rows: [["?", *rows[0][1:]], *rows[1:]], "could not convert"),
        (lambda _: [["<html>"]], "does not hold the dataset"),
        (lambda _: [], "does not hold the dataset"),
    ],
)
def test_other_contents_are_refused(elsewhere, change, message):
    """A file without a checksum must still have the points, features and classes of the set."""
    put_soybean(elsewhere, soybean_rows(change))
    with pytest.raises(DatasetUnavailableError, match=message):
        load_dataset("soybean_small")


def test_views_and_numbered_classes(elsewhere, monkeypatch):
    """Views keep their order, load_dataset sets them side by side, classes count from 0."""
    info = replace(
        dataset_info("msrc_v1"),
        view_sizes={"left": 2, "right": 1},
        class_sizes={"1": 1, "2": 2},
        editions=(dataset_files.Edition("views", (dataset_files.DataFile("toy.npz"),)),),
    )
    monkeypatch.setitem(datasets.DATASETS, "msrc_v1", info)
    (elsewhere / "msrc_v1").mkdir()
    left, right = np.arange(6.0).reshape(3, 2), np.array([[7.0], [8.0], [9.0]])
    np.savez(
        elsewhere / "msrc_v1" / "toy.npz",
        right=right,
        left=left,
        views=["left", "right"],
        y=np.array([2, 1, 2]),
    )
    views, y, found = load_views("msrc_v1", return_info=True)
    assert_array_equal(views[0], left)
    assert_array_equal(views[1], right)
    assert y.tolist() == [1, 0, 1]
    assert list(found.view_sizes) == ["left", "right"]
    assert_array_equal(load_dataset("msrc_v1")[0], np.hstack([left, right]))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.data())
def test_stratified_rows(sizes, data):
    """A draw has the size asked, no row twice, and every class within one of its share."""
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    size = data.draw(st.integers(1, len(y)))
    rows = datasets._stratified_rows(y, size)
    assert len(rows) == size
    assert (np.diff(rows) > 0).all()
    share = np.array(sizes) * size / len(y)
    assert (np.abs(np.bincount(y[rows], minlength=len(sizes)) - share) < 1).all()


def test_unknown_names_are_refused():
    """The message lists the names there are."""
    for load in (load_dataset, load_views, dataset_info):
        with pytest.raises(InvalidParameterError, match="no dataset 'irsi'; there are iris, wine"):
            load("irsi")


def test_unknown_subsets_are_refused():
    """The message lists the subsets the dataset has."""
    with pytest.raises(InvalidParameterError, match="no subset '2900'; it has all"):
        load_dataset("iris", subset="2900")
    with pytest.raises(InvalidParameterError, match="no subset '100'; it has all, 2900"):
        load_dataset("reuters", subset="100")


needs_real_data = pytest.mark.skipif(
    not REAL_DATA, reason="COTERIE_DATA is not set: the sets that cannot be shipped are not here"
)


def use_real_data(name, monkeypatch):
    """Look for a dataset in the folder that COTERIE_DATA named when the tests started."""
    monkeypatch.setenv("COTERIE_DATA", str(REAL_DATA))
    if not (Path(str(REAL_DATA)) / name).is_dir():
        pytest.skip(f"COTERIE_DATA has no folder {name}")


@needs_real_data
@pytest.mark.parametrize("name", ELSEWHERE)
def test_real_sets(name, monkeypatch):
    """The real sets, where they are at hand, have the sizes of the table."""
    use_real_data(name, monkeypatch)
    views, y = load_views(name)
    assert_facts(name, views, y)
    assert all(sparse.issparse(view) == (name in ("cstr", "reuters")) for view in views)


@needs_real_data
def test_real_reuters_subset(monkeypatch):
    """The subset of 2,900 is a fixed part of the whole, in proportion to the classes."""
    use_real_data("reuters", monkeypatch)
    X, y, info = load_dataset("reuters", subset="2900", return_info=True)
    assert X.shape == (2900, 1000)
    assert info.n_samples == 2900
    expected = [1440, 819, 137, 129, 100, 81, 60, 52, 44, 38]
    assert list(info.class_sizes.values()) == np.bincount(y).tolist() == expected
