"""Loading datasets: sizes, bundled values, folders, downloads, wrong files."""

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


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Set an empty folder for COTERIE_DATA, an empty cache, and no network."""

    def no_network(url, timeout):
        raise OSError("no network in tests")

    monkeypatch.setattr(dataset_files, "urlopen", no_network)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def assert_facts(name, views, y):
    """Compare views and classes with the table."""
    n, widths, sizes = FACTS[name]
    assert [view.shape for view in views] == [(n, width) for width in widths]
    assert all(view.dtype == np.float64 for view in views)
    assert y.dtype == np.int64
    assert y.shape == (n,)
    found = np.bincount(y).tolist()
    assert found == (sizes if sizes is not None else list(dataset_info(name).class_sizes.values()))


def soybean_rows(change=lambda rows: rows):
    """Return the text of an artificial file with the shape and classes of soybean-small.data."""
    rng = np.random.default_rng(0)
    names = np.repeat(["D1", "D2", "D3", "D4"], [10, 10, 10, 17])
    rows = [[*rng.integers(0, 5, 35).astype(str), name] for name in names]
    return "".join(",".join(row) + "\n" for row in change(rows))


def put_soybean(folder: Path, text: str) -> None:
    """Write soybean-small.data into a folder of datasets."""
    (folder / "soybean_small").mkdir()
    (folder / "soybean_small" / "soybean-small.data").write_text(text)


def test_info_agrees_with_the_table():
    """The catalogue has the names and sizes of the table."""
    assert dataset_names() == list(FACTS)
    for name, (n, widths, sizes) in FACTS.items():
        info = dataset_info(name)
        assert info.n_samples == n
        assert info.n_features == sum(widths)
        assert sizes is None or len(info.class_names) == len(sizes)


@pytest.mark.parametrize("name", ALWAYS_THERE)
def test_datasets_that_need_no_download(name):
    """Five datasets need neither a folder nor a network, and have the sizes of the table."""
    X, y, info = load_dataset(name, return_info=True)
    assert_facts(name, [X], y)
    assert info == dataset_info(name)
    views, same = load_views(name)
    assert_array_equal(views[0], X)
    assert_array_equal(same, y)


def test_bundled_values():
    """Known cells of the bundled datasets have their values and classes."""
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
    # All birds have feathers, and no other animal has.
    assert_array_equal(X[:, 1] == 1, y == info.class_names.index("bird"))


def test_download(monkeypatch, tmp_path):
    """A dataset that is not found is downloaded, read and stored in the cache."""
    response = io.BytesIO(soybean_rows().encode())
    response.headers = {}
    with monkeypatch.context() as network:
        network.setattr(dataset_files, "urlopen", lambda *_, **__: response)
        first = load_dataset("soybean_small")
    assert (tmp_path / "cache/coterie/soybean_small/soybean-small.data").is_file()
    again = load_dataset("soybean_small")
    assert_array_equal(first[0], again[0])
    assert_array_equal(first[1], again[1])


@pytest.mark.parametrize("name", ["cstr", "caltech101_7"])
def test_missing_datasets_are_reported(name):
    """Without file and network the message names the dataset, its source and its folder."""
    with pytest.raises(DatasetUnavailableError, match=f"'{name}' is not on this") as caught:
        load_dataset(name)
    assert dataset_info(name).how_to_get in str(caught.value)
    assert f"COTERIE_DATA to a folder that has {name}/" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], r"shape of its views is \[\(46, 35\)\]"),
        (lambda rows: [[*rows[0][:-1], "D9"], *rows[1:]], "class 'D9', which is not one of"),
        (lambda rows: [[*rows[0][:-1], "D2"], *rows[1:]], r"classes have \[9, 11, 10, 17\]"),
        (lambda rows: [["nan", *rows[0][1:]], *rows[1:]], "not finite"),
        (lambda _: [], "does not hold the dataset"),
    ],
)
def test_other_contents_are_refused(elsewhere, change, message):
    """A file without a checksum must have the points, features and classes of the catalogue."""
    put_soybean(elsewhere, soybean_rows(change))
    with pytest.raises(DatasetUnavailableError, match=message):
        load_dataset("soybean_small")


def test_views_and_numbered_classes(elsewhere, monkeypatch):
    """Views keep their order, load_dataset joins them, and classes start at 0."""
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


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.data())
def test_stratified_rows(sizes, data):
    """A sample has the given size, no row twice, and each class within one of its share."""
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    size = data.draw(st.integers(1, len(y)))
    rows = datasets._stratified_rows(y, size)
    assert len(rows) == size
    assert (np.diff(rows) > 0).all()
    share = np.array(sizes) * size / len(y)
    assert (np.abs(np.bincount(y[rows], minlength=len(sizes)) - share) < 1).all()


def test_unknown_names_are_refused():
    """The message lists the known names."""
    for load in (load_dataset, load_views, dataset_info):
        with pytest.raises(InvalidParameterError, match=r"no dataset 'irsi'; .* iris, wine"):
            load("irsi")


def test_unknown_subsets_are_refused():
    """The message lists the subsets of the dataset."""
    with pytest.raises(InvalidParameterError, match=r"no subset '2900'; .* all"):
        load_dataset("iris", subset="2900")
    with pytest.raises(InvalidParameterError, match=r"no subset '100'; .* all, 2900"):
        load_dataset("reuters", subset="100")


needs_real_data = pytest.mark.skipif(
    not REAL_DATA, reason="COTERIE_DATA is not set, so datasets that are not bundled are missing"
)


def use_real_data(name, monkeypatch):
    """Use the folder that COTERIE_DATA named when the tests started."""
    monkeypatch.setenv("COTERIE_DATA", str(REAL_DATA))
    if not (Path(str(REAL_DATA)) / name).is_dir():
        pytest.skip(f"COTERIE_DATA has no folder {name}")


@needs_real_data
@pytest.mark.parametrize("name", ELSEWHERE)
def test_real_datasets(name, monkeypatch):
    """The real datasets, if they are available, have the sizes of the table."""
    use_real_data(name, monkeypatch)
    views, y = load_views(name)
    assert_facts(name, views, y)
    assert all(sparse.issparse(view) == (name in ("cstr", "reuters")) for view in views)


@needs_real_data
def test_real_reuters_subset(monkeypatch):
    """The subset of 2,900 documents is fixed and keeps the proportions of the classes."""
    use_real_data("reuters", monkeypatch)
    X, y, info = load_dataset("reuters", subset="2900", return_info=True)
    assert X.shape == (2900, 1000)
    assert info.n_samples == 2900
    expected = [1440, 819, 137, 129, 100, 81, 60, 52, 44, 38]
    assert list(info.class_sizes.values()) == np.bincount(y).tolist() == expected
