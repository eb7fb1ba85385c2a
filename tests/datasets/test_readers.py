"""Readers of each dataset format, on small files."""

import io
import tarfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.io import savemat

from coterie.datasets.readers import READERS, reuters_documents

X = np.array([[1.0, 0.5], [2.0, 0.0], [3.0, -1.0]])
Z = np.array([[0.0], [7.0], [8.0]])


def read(format_, *paths):
    """Read files in a format."""
    return READERS[format_](list(paths))


def test_table(tmp_path):
    """A CSV table has a header, numbers, and the class in the last column."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,class\n1,0.5,x\n2,0,y\n3,-1,x\n")
    (features,), labels = read("table", path)
    assert_array_equal(features, X)
    assert labels.tolist() == ["x", "y", "x"]


def test_headless_table(tmp_path):
    """Tables of UCI have no header; blank lines and trailing blanks are ignored."""
    path = tmp_path / "t.data"
    path.write_text("1,0.5,D1\n2,0,D2 \n3,-1,D1\n\n")
    (features,), labels = read("headless table", path)
    assert_array_equal(features, X)
    assert labels.tolist() == ["D1", "D2", "D1"]


def test_views(tmp_path):
    """Views are in the order of ``views``, as float64; classes keep their numbers."""
    path = tmp_path / "t.npz"
    np.savez(path, one=Z.astype(np.float32), two=X, views=["two", "one"], y=np.int16([3, 1, 3]))
    views, labels = read("views", path)
    assert_array_equal(views[0], X)
    assert_array_equal(views[1], Z)
    assert [view.dtype for view in views] == [np.float64, np.float64]
    assert labels.tolist() == [3, 1, 3]


def test_archived_class_names(tmp_path):
    """If the archive names its classes, the labels are the names."""
    path = tmp_path / "t.npz"
    np.savez(path, a=X, views=["a"], y=np.int16([1, 0, 1]), class_names=["cat", "dog"])
    assert read("views", path).labels.tolist() == ["dog", "cat", "dog"]


def test_sparse(tmp_path):
    """A sparse archive of any format becomes a CSR array of float64."""
    path = tmp_path / "t.npz"
    sparse.save_npz(path, sparse.csc_array(X.astype(np.float32)))
    with np.load(path) as archive:
        np.savez(path, **archive, y=np.int16([1, 2, 1]))
    (features,), labels = read("sparse", path)
    assert isinstance(features, sparse.csr_array)
    assert features.dtype == np.float64
    assert_array_equal(features.toarray(), X)
    assert labels.tolist() == [1, 2, 1]


@pytest.mark.parametrize("upright", [True, False])
def test_matlab_views(tmp_path, upright):
    """A cell of views is read, with points in rows or columns, dense or sparse."""
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = (X, sparse.csc_matrix(Z)) if upright else (X.T, Z.T)
    savemat(tmp_path / "t.mat", {"X": cell, "Y": np.array([[1.0], [2.0], [1.0]])})
    views, labels = read("MATLAB views", tmp_path / "t.mat")
    assert_array_equal(views[0], X)
    assert_array_equal(views[1], Z)
    assert labels.tolist() == [1, 2, 1]


def test_matlab_sparse(tmp_path):
    """Dense and sparse features are read as a CSR array."""
    savemat(tmp_path / "t.mat", {"fea": X, "gnd": np.uint8([[1], [2], [1]])})
    (features,), labels = read("MATLAB sparse", tmp_path / "t.mat")
    assert isinstance(features, sparse.csr_array)
    assert_array_equal(features.toarray(), X)
    assert labels.tolist() == [1, 2, 1]


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
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [f"zz{a}{b}" for a in letters for b in letters]
    more = [f"yy{a}{b}" for a in letters for b in letters]
    documents = [([f"topic{k}"], "common", f"text {w}") for k in range(10) for w in ("one", "two")]
    documents += [(["topic0"], "common", " ".join(words)), (["topic0"], "rare", " ".join(more))]
    documents += [(["small"], "small", "vanishing")]
    (counts,), labels = read("reuters", reuters_archive(tmp_path / "t.tar.gz", documents))
    assert "small" not in labels
    assert counts.shape == (22, 1000)
    # "common" and "text" are in most documents. Of the words in one document, "rare" and the first
    # in the alphabet remain: all 676 of yy.., then the first zz..
    kept = (counts > 0).sum(axis=1)
    assert kept[21] == 1 + 676
    assert kept[20] == 1 + (1000 - 676 - 3)
