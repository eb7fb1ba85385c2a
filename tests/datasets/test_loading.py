"""Datasets: sizes, bundled values, folders, checksums, downloads, wrong files, and formats."""

import hashlib
import io
import os
import re
import tarfile
from dataclasses import replace
from email.message import Message
from functools import partial
from importlib import resources
from pathlib import Path
from string import ascii_lowercase
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.io import savemat

from coterie.datasets import dataset_info, dataset_names, load_dataset, load_views, loading
from coterie.datasets.catalogue import DATASETS, SHA256, DatasetInfo, Edition
from coterie.datasets.loading import READERS, cache_folder, data_folders, reuters_documents
from coterie.errors import DatasetUnavailableError, InvalidParameterError, OutputError

REAL_DATA = Path(os.environ.get("COTERIE_DATA", "no folder"))
NAMES = dataset_names()
ALWAYS_THERE = ["iris", "wine", "glass", "ionosphere", "zoo"]

TABLE = b"0,1,b\n1,0,a\n2,2,b\n"
HALVES = {"left": b"0 1\n" * 10, "right": b"5\n" * 10}
URL = "https://example.org/toy.data"


class FakeResponse(io.BytesIO):
    """A response of urlopen: bytes to read, and headers."""

    def __init__(self, content, announced):
        super().__init__(content)
        self.headers = {"Content-Length": str(announced)}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Set an empty cache, no COTERIE_DATA, no network, and two small datasets of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    serve(monkeypatch, URLError("no network"))
    table = Edition("headless table", ("toy.data",), "https://example.org")
    toy = DatasetInfo(
        name="toy",
        view_sizes={"features": 2},
        class_sizes={"a": 1, "b": 2},
        source="",
        licence="",
        how_to_get="ask the author",
        editions=(Edition("table", ("toy.csv",)), table),
    )
    halves = replace(
        toy,
        name="halves",
        view_sizes={"left": 2, "right": 1},
        class_sizes={str(digit): 1 for digit in range(10)},
        editions=(Edition("mfeat", ("left", "right"), "https://example.org"),),
    )
    monkeypatch.setitem(DATASETS, "toy", toy)
    monkeypatch.setitem(DATASETS, "halves", halves)
    monkeypatch.setitem(SHA256, "toy.data", hashlib.sha256(TABLE).hexdigest())
    return tmp_path / "xdg" / "coterie"


def serve(monkeypatch, answers, asked=None):
    """Replace the network: every address, or each its own, gives bytes, a response or an error."""

    def urlopen(url, timeout):
        assert timeout > 0
        if asked is not None:
            asked.append(url)
        answer = answers[url.rpartition("/")[2]] if isinstance(answers, dict) else answers
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, FakeResponse) else FakeResponse(answer, len(answer))

    monkeypatch.setattr(loading, "urlopen", urlopen)


def put(folder, name, content=TABLE, dataset="toy"):
    """Write a file of a dataset into a folder of datasets."""
    (folder / dataset).mkdir(parents=True, exist_ok=True)
    (folder / dataset / name).write_bytes(content)
    return folder


def assert_facts(name, views, y):
    """Compare views and classes with the catalogue."""
    info = dataset_info(name)
    sizes = list(info.view_sizes.values())
    assert [view.shape for view in views] == [(info.n_samples, size) for size in sizes]
    assert info.n_features == sum(sizes)
    assert all(view.dtype == np.float64 for view in views) and y.dtype == np.int64
    assert np.bincount(y).tolist() == list(info.class_sizes.values())


def test_the_catalogue_is_complete():
    """It has sources and licences, known formats, and addresses."""
    for info in map(dataset_info, NAMES):
        assert info.source and info.licence and info.how_to_get
        assert all(edition.format in READERS for edition in info.editions)
        assert all(url.startswith("https://") for e in info.editions for url in e.urls)
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in SHA256.values())
    seven, twenty = DATASETS["caltech101_7"], DATASETS["caltech101_20"]
    assert seven.class_sizes.items() <= twenty.class_sizes.items()
    assert seven.view_sizes == twenty.view_sizes


def test_bundled_files_have_the_checksums():
    """The files in the package have the checksums of the catalogue; the README names them."""
    folder = resources.files("coterie.datasets") / "data"
    for info in DATASETS.values():
        for name in info.editions[0].files if info.bundled else ():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == SHA256[name]
            assert f"`{name}`" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ALWAYS_THERE)
def test_datasets_that_need_no_download(name):
    """Five datasets need neither a folder nor a network."""
    X, y, info = load_dataset(name, return_info=True)
    assert_facts(name, [X], y)
    assert info == dataset_info(name)
    assert_array_equal(load_views(name)[0][0], X)


def test_bundled_values():
    """Known cells of the bundled datasets have their values and classes."""
    X, y, info = load_dataset("glass", return_info=True)
    assert X[0].tolist() == [1.52101, 13.64, 4.49, 1.1, 71.78, 0.06, 8.75, 0, 0]
    assert info.class_names[y[-1]] == "7"
    X, y, info = load_dataset("ionosphere", return_info=True)
    assert np.abs(X).max() == 1 and not X[:, 1].any()
    assert [info.class_names[c] for c in y[:2]] == ["good", "bad"]
    X, y, info = load_dataset("zoo", return_info=True)
    assert sorted(np.unique(X[:, 12])) == [0, 2, 4, 5, 6, 8]
    # All birds have feathers, and no other animal has.
    assert_array_equal(X[:, 1] == 1, y == info.class_names.index("bird"))


def test_views_keep_their_order_and_are_joined(cache):
    """Classes start at 0; load_dataset joins the views."""
    for name, content in HALVES.items():
        put(cache, name, content, "halves")
    views, y, info = load_views("halves", return_info=True)
    assert [view.shape for view in views] == [(10, 2), (10, 1)]
    assert list(info.view_sizes) == ["left", "right"] and y.tolist() == list(range(10))
    assert_array_equal(load_dataset("halves")[0], np.hstack(views))


def test_unknown_names_and_subsets_are_refused():
    for load in (load_dataset, load_views, dataset_info):
        with pytest.raises(InvalidParameterError, match=r"no dataset 'irsi'; .* iris, wine"):
            load("irsi")
    with pytest.raises(InvalidParameterError, match=r"no subset '2900'; .* all"):
        load_dataset("iris", subset="2900")
    with pytest.raises(InvalidParameterError, match=r"no subset '100'; .* all, 2900"):
        load_dataset("reuters", subset="100")


@settings(deadline=None, max_examples=20)
@given(size=st.integers(1, 178))
def test_a_subset_is_stratified(size):
    """It has the given size, no row twice, and each class within one of its share."""
    X, y = load_dataset("wine")
    info = replace(dataset_info("wine"), subsets={"part": size})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DATASETS, "wine", info)
        part, classes, told = load_dataset("wine", subset="part", return_info=True)
    assert len(part) == len(np.unique(part, axis=0)) == told.n_samples == size
    counts = np.bincount(classes, minlength=3)
    assert counts.tolist() == list(told.class_sizes.values())
    assert (np.abs(counts - np.bincount(y) * size / len(X)) < 1).all()


def test_the_cache_follows_the_standard(monkeypatch, tmp_path):
    """The cache is in XDG_CACHE_HOME, or in ~/.cache if that is unset or not absolute."""
    assert cache_folder() == tmp_path / "xdg" / "coterie"
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_folder() == tmp_path / ".cache" / "coterie"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "coterie"


def test_the_users_folder_is_searched_before_the_cache(monkeypatch, tmp_path, cache):
    """COTERIE_DATA comes first; in a folder the first edition of the catalogue is preferred."""
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "mine"))
    put(cache, "toy.csv", b"x,y,class\n7,7,a\n7,7,b\n7,7,b\n")
    assert data_folders() == [tmp_path / "mine", cache]
    assert load_dataset("toy")[0][0, 0] == 7
    put(tmp_path / "mine", "toy.data")
    X, y = load_dataset("toy")
    assert X.tolist() == [[0, 1], [1, 0], [2, 2]] and y.tolist() == [1, 0, 1]
    put(tmp_path / "mine", "toy.csv", b"x,y,class\n8,8,a\n8,8,b\n8,8,b\n")
    assert load_dataset("toy")[0][0, 0] == 8
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetUnavailableError, match=r"COTERIE_DATA names .*nowhere.*correct it"):
        load_dataset("toy")


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("toy.data", b"0,1,b", f"toy.data is damaged .* not {hashlib.sha256(TABLE).hexdigest()}"),
        ("toy.csv", b"0,1,b\n1,0,a\n", r"toy.csv .*shape of its views is \[\(2, 2\)\].*remove it"),
        ("toy.csv", b"0,1,c\n1,0,a\n2,2,b\n", "class 'c', which is not one of"),
        ("toy.csv", b"0,1,a\n1,0,a\n2,2,b\n", r"classes have \[2, 1\]"),
        ("toy.csv", b"0,nan,b\n1,0,a\n2,2,b\n", "not finite"),
        ("toy.csv", b"0,one,b\n", "does not hold the dataset"),
    ],
)
def test_other_contents_are_refused(cache, name, rows, message):
    """A file has its checksum, if one is known, and the shape and classes of the catalogue."""
    put(cache, name, b"x,y,class\n" + rows)
    with pytest.raises(DatasetUnavailableError, match=message):
        load_dataset("toy")


def test_a_download_is_stored_and_used_again(monkeypatch, cache):
    """A download is stored in the cache, without other files, and not repeated."""
    asked: list[str] = []
    serve(monkeypatch, TABLE, asked)
    first, again = load_dataset("toy"), load_dataset("toy")
    assert_array_equal(first[0], again[0])
    assert [path.name for path in (cache / "toy").iterdir()] == ["toy.data"]
    assert asked == [URL]


def test_an_incomplete_edition_is_downloaded_whole(monkeypatch, cache):
    """An edition with a missing file counts as not found."""
    put(cache, "left", HALVES["left"], "halves")
    asked: list[str] = []
    serve(monkeypatch, HALVES, asked)
    load_views("halves")
    assert asked == ["https://example.org/left", "https://example.org/right"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (URLError("no route"), "could not be downloaded .*no route"),
        (HTTPError(URL, 404, "Not Found", Message(), None), "could not be downloaded .*404"),
        (FakeResponse(b"0,1", 15), "incomplete: 3 of 15 bytes"),
        (b"<html>moved</html>", "has changed: its SHA-256 is .* not "),
    ],
)
def test_a_failed_download_stores_nothing_and_says_what_to_do(monkeypatch, cache, answer, message):
    """Without network, or with a wrong or short response, the message lists three ways."""
    serve(monkeypatch, answer)
    with pytest.raises(DatasetUnavailableError, match=message) as caught:
        load_dataset("toy")
    assert not cache.exists()
    ways = str(caught.value).splitlines()[1:]
    assert [way[:2] for way in ways] == ["1.", "2.", "3."]
    assert URL in ways[0]
    assert "ask the author" in ways[1] and str(cache) in ways[1]
    assert ways[2].endswith("COTERIE_DATA to a folder that has toy/toy.csv or toy/toy.data.")


@pytest.mark.parametrize("right", [URLError("gone"), b"5 5\n" * 10])
def test_half_a_download_is_not_stored(monkeypatch, cache, right):
    """If a file fails, or the contents are wrong, no file is stored."""
    serve(monkeypatch, HALVES | {"right": right})
    with pytest.raises(DatasetUnavailableError, match=r"/right (could not be|does not hold)"):
        load_views("halves")
    assert not cache.exists()


def test_a_dataset_without_address_says_where_to_put_it():
    """If nothing can be downloaded, the message names the two folders for a copy."""
    with pytest.raises(DatasetUnavailableError, match="cannot be downloaded") as caught:
        load_dataset("caltech101_7")
    assert len(str(caught.value).splitlines()) == 3
    assert dataset_info("caltech101_7").how_to_get in str(caught.value)


def test_an_unusable_cache_is_reported(monkeypatch, tmp_path):
    """A cache folder that cannot be created is an output error that names the setting."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    serve(monkeypatch, TABLE)
    with pytest.raises(OutputError, match="XDG_CACHE_HOME"):
        load_dataset("toy")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ALWAYS_THERE])
def test_real_datasets(name, monkeypatch):
    """The real datasets, if they are available, have the sizes of the catalogue."""
    if not (REAL_DATA / name).is_dir():
        pytest.skip(f"COTERIE_DATA has no folder {name}")
    monkeypatch.setenv("COTERIE_DATA", str(REAL_DATA))
    views, y = load_views(name)
    assert_facts(name, views, y)
    assert all(sparse.issparse(view) == (name in ("cstr", "reuters")) for view in views)
    if name == "reuters":
        X, y, info = load_dataset("reuters", subset="2900", return_info=True)
        assert X.shape == (2900, 1000)
        expected = [1440, 819, 137, 129, 100, 81, 60, 52, 44, 38]
        assert list(info.class_sizes.values()) == np.bincount(y).tolist() == expected


# ---- Readers of each format, on small files

X = np.array([[1.0, 0.5], [2.0, 0.0], [3.0, -1.0]])
Z = np.array([[0.0], [7.0], [8.0]])


def read(format_, *paths):
    """Read files in a format."""
    return READERS[format_](list(paths))


def write_views(path):
    """Write two views, in an order of their own."""
    np.savez(path, one=Z.astype("f4"), two=X, views=["two", "one"], y=np.int16([3, 1, 3]))


def write_named_views(path):
    """Write a view whose classes have names."""
    np.savez(path, a=X, views=["a"], y=np.int16([1, 0, 1]), class_names=["cat", "dog"])


def write_sparse(path):
    """Write a sparse matrix of another format."""
    sparse.save_npz(path, sparse.csc_array(X.astype("f4")))
    with np.load(path) as archive:
        np.savez(path, **archive, y=np.int16([1, 2, 1]))


def matlab_views(*views):
    """Return a writer of a cell of views, dense or sparse, points in rows or columns."""
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = views
    return partial(savemat, mdict={"X": cell, "Y": np.array([[1.0], [2.0], [1.0]])})


ROWS = "1,0.5,D1\n2,0,D2 \n3,-1,D1\n\n"
FEATURES = {"fea": X, "gnd": np.uint8([[1], [2], [1]])}


@pytest.mark.parametrize(
    ("format_", "write", "views", "classes"),
    [
        ("table", partial(Path.write_text, data=f"a,b,class\n{ROWS}"), [X], ["D1", "D2", "D1"]),
        ("headless table", partial(Path.write_text, data=ROWS), [X], ["D1", "D2", "D1"]),
        ("views", write_views, [X, Z], [3, 1, 3]),
        ("views", write_named_views, [X], ["dog", "cat", "dog"]),
        ("sparse", write_sparse, [X], [1, 2, 1]),
        ("MATLAB views", matlab_views(X.T, Z.T), [X, Z], [1, 2, 1]),
        ("MATLAB views", matlab_views(X, sparse.csc_matrix(Z)), [X, Z], [1, 2, 1]),
        ("MATLAB sparse", partial(savemat, mdict=FEATURES), [X], [1, 2, 1]),
    ],
)
def test_every_format_is_read(tmp_path, format_, write, views, classes):
    """Views are float64, in order, sparse ones in rows; classes are the numbers or names given."""
    path = tmp_path / ("t.mat" if "MATLAB" in format_ else "t.npz")
    write(path)
    found, labels = read(format_, path)
    assert labels.tolist() == classes
    for view, expected in zip(found, views, strict=True):
        assert isinstance(view, sparse.csr_array if "parse" in format_ else np.ndarray)
        assert view.dtype == np.float64
        assert_array_equal(view.toarray() if sparse.issparse(view) else view, expected)


def test_mfeat(tmp_path):
    """Each view is a file; rows are sorted by digit."""
    for name, width in (("a", 3), ("b", 1)):
        np.savetxt(tmp_path / name, np.arange(20 * width).reshape(20, width))
    views, labels = read("mfeat", tmp_path / "a", tmp_path / "b")
    assert [view.shape for view in views] == [(20, 3), (20, 1)]
    assert labels.tolist() == sorted([*range(10), *range(10)])


def reuters_archive(path, *files):
    """Write an archive of SGML files, each a list of (topics, title, body or None)."""
    with tarfile.open(path, "w:gz") as archive:
        for number, documents in enumerate(files):
            sgml = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + "".join(
                f'<REUTERS TOPICS="YES" NEWID="{i}">\n<DATE>1987</DATE>\n'
                f"<TOPICS>{''.join(f'<D>{topic}</D>' for topic in topics)}</TOPICS>\n"
                f"<PLACES><D>usa</D></PLACES>\n<TEXT>&#2;\n<TITLE>{title}</TITLE>\n"
                + ("" if body is None else f"<BODY>{body}\n Reuter\n&#3;</BODY>")
                + "</TEXT>\n</REUTERS>\n"
                for i, (topics, title, body) in enumerate(documents)
            )
            member = tarfile.TarInfo(f"reut2-{number:03}.sgm")
            content = sgml.encode("latin-1")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        archive.addfile(tarfile.TarInfo("README.txt"))
    return path


def test_reuters_documents(tmp_path):
    """Only documents with one topic and a body are returned; places are not topics."""
    path = reuters_archive(
        tmp_path / "t.tar.gz",
        [
            (["earn"], "PROFIT", "Up\nagain, señor"),
            (["earn", "acq"], "BOTH", "no"),
            ([], "NONE", "no"),
        ],
        [(["acq"], "BRIEF", None), (["acq"], "DEAL &lt;XYZ>", "Done")],
    )
    topics, texts = zip(*reuters_documents(path), strict=True)
    assert topics == ("earn", "acq")
    assert texts[0].startswith("PROFIT Up\nagain, señor")
    assert texts[1].startswith("DEAL &lt;XYZ> Done")


def test_reuters_terms(tmp_path):
    """Terms are lower-case runs of three letters or more, less stop words and boilerplate."""
    path = reuters_archive(
        tmp_path / "t.tar.gz",
        [
            (["earn"], "PROFIT RISES", "Profit of 3 mln dlrs, the company said. XY&amp;Z-rises"),
            (["acq"], "BLAH", "Company buys company"),
        ],
    )
    (counts,), labels = read("reuters", path)
    # columns: buys, company, dlrs, mln, profit, rises
    assert counts.toarray().tolist() == [[0, 1, 1, 1, 2, 2], [1, 2, 0, 0, 0, 0]]
    assert labels.tolist() == ["earn", "acq"]


def test_reuters_keeps_ten_topics_and_a_thousand_terms(tmp_path):
    """The ten largest topics and the most frequent terms remain, ties in alphabetical order."""
    words, more = (
        [f"{x}{a}{b}" for a in ascii_lowercase for b in ascii_lowercase] for x in ("zz", "yy")
    )
    documents = [([f"topic{k}"], "common", f"text {w}") for k in range(10) for w in ("one", "two")]
    documents += [(["topic0"], "common", " ".join(words)), (["topic0"], "rare", " ".join(more))]
    documents += [(["small"], "small", "vanishing")]
    (counts,), labels = read("reuters", reuters_archive(tmp_path / "t.tar.gz", documents))
    assert "small" not in labels
    assert counts.shape == (22, 1000)
    # of the words in one document, "rare" and the first in the alphabet remain: all 676 of yy..
    assert (counts > 0).sum(axis=1)[20:].tolist() == [1 + (1000 - 676 - 3), 1 + 676]
