"""Dataset files: search order, checksums, downloads, and messages that say how to get a file."""

import hashlib
import io
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from coterie.datasets import dataset_files
from coterie.datasets.dataset_files import DataFile, Edition, cache_folder, data_folders, obtain
from coterie.errors import DatasetUnavailableError, OutputError

CONTENT = b"the right bytes"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URL = "https://example.org/toy.bin"
TOY = [
    Edition("prepared", (DataFile("toy.npz", SHA256),)),
    Edition("upstream", (DataFile("toy.bin", SHA256, URL),)),
]
PARTS = [Edition("parts", tuple(DataFile(p, url=f"https://example.org/{p}") for p in "ab"))]


class FakeResponse(io.BytesIO):
    """A response of urlopen: bytes to read, and headers."""

    def __init__(self, content: bytes, announced: int | None = None) -> None:
        super().__init__(content)
        self.headers = {} if announced is None else {"Content-Length": str(announced)}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Set an empty cache, no COTERIE_DATA and no network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    serve(monkeypatch, URLError("no network"))
    return tmp_path / "xdg" / "coterie"


def serve(monkeypatch, answers, asked=None):
    """Replace the network: every address, or each its own, gives bytes, a response or an error."""

    def urlopen(url, timeout):
        assert timeout > 0
        if asked is not None:
            asked.append(url)
        answer = answers[url] if isinstance(answers, dict) else answers
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, FakeResponse) else FakeResponse(answer, len(answer))

    monkeypatch.setattr(dataset_files, "urlopen", urlopen)


def put(folder: Path, name: str, content: bytes = CONTENT) -> Path:
    """Write a file of the dataset into a folder of datasets."""
    (folder / "toy").mkdir(parents=True, exist_ok=True)
    (folder / "toy" / name).write_bytes(content)
    return folder


def read(format_, paths):
    """Return the format and the bytes."""
    return format_, [path.read_bytes() for path in paths]


def refuse(format_, paths):
    """Raise the error of a reader that finds wrong contents."""
    raise ValueError("three rows are missing")


def test_cache_folder_follows_the_standard(monkeypatch, tmp_path):
    """The cache is in XDG_CACHE_HOME, or in ~/.cache if that is unset or not absolute."""
    assert cache_folder() == tmp_path / "xdg" / "coterie"
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_folder() == tmp_path / ".cache" / "coterie"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "coterie"


def test_users_folder_is_searched_before_the_cache(monkeypatch, tmp_path, cache):
    """The folder COTERIE_DATA is searched first; the cache if the dataset is not there."""
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "mine"))
    put(cache, "toy.npz")
    assert data_folders() == [tmp_path / "mine", cache]
    assert obtain("toy", TOY, read, "") == ("prepared", [CONTENT])
    put(tmp_path / "mine", "toy.bin")
    assert obtain("toy", TOY, read, "") == ("upstream", [CONTENT])
    put(tmp_path / "mine", "toy.npz")  # the first edition of the list is preferred
    assert obtain("toy", TOY, read, "") == ("prepared", [CONTENT])
    with pytest.raises(DatasetUnavailableError, match=r"toy.npz .*three rows are .*remove it"):
        obtain("toy", TOY, refuse, "")


def test_edition_must_be_complete(cache, monkeypatch):
    """An edition with a missing file counts as not found."""
    put(cache, "a")
    asked: list[str] = []
    serve(monkeypatch, CONTENT, asked)
    assert obtain("toy", PARTS, read, "") == ("parts", [CONTENT, CONTENT])
    assert asked == ["https://example.org/a", "https://example.org/b"]


def test_wrong_folder_is_refused(monkeypatch, tmp_path):
    """A COTERIE_DATA that does not exist is an error; nothing is downloaded."""
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetUnavailableError, match=r"COTERIE_DATA names .*nowhere.*correct it"):
        obtain("toy", TOY, read, "")


def test_damaged_file_is_refused(cache):
    """The message names the file and both checksums."""
    put(cache, "toy.npz", b"other bytes")
    with pytest.raises(DatasetUnavailableError, match=f"toy.npz is damaged .* not {SHA256}"):
        obtain("toy", TOY, read, "")


def test_download_is_stored_and_used_again(monkeypatch, cache):
    """A download is stored in the cache, without other files, and not repeated."""
    asked: list[str] = []
    serve(monkeypatch, CONTENT, asked)
    assert obtain("toy", TOY, read, "") == ("upstream", [CONTENT])
    assert [path.name for path in (cache / "toy").iterdir()] == ["toy.bin"]
    assert obtain("toy", TOY, read, "") == ("upstream", [CONTENT])
    assert asked == [URL]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (URLError("no route"), "could not be downloaded .*no route"),
        (HTTPError(URL, 404, "Not Found", Message(), None), "could not be downloaded .*404"),
        (FakeResponse(b"the right", 15), "incomplete: 9 of 15 bytes"),
        (b"<html>moved</html>", f"has changed: its SHA-256 is .* not {SHA256}"),
    ],
)
def test_failed_download_stores_nothing_and_says_what_to_do(monkeypatch, cache, answer, message):
    """Without network, or with a wrong or short response, the message lists three ways."""
    serve(monkeypatch, answer)
    with pytest.raises(DatasetUnavailableError, match=message) as caught:
        obtain("toy", TOY, read, "ask the author")
    assert not cache.exists()
    ways = str(caught.value).splitlines()[1:]
    assert [way[:2] for way in ways] == ["1.", "2.", "3."]
    assert URL in ways[0]
    assert "ask the author" in ways[1]
    assert str(cache) in ways[1]
    assert "COTERIE_DATA to a folder that has toy/toy.npz or toy/toy.bin" in ways[2]


def test_download_that_cannot_be_read_is_not_stored(monkeypatch, cache):
    """A complete download with wrong contents is not stored in the cache."""
    serve(monkeypatch, CONTENT)
    with pytest.raises(
        DatasetUnavailableError, match=f"{URL} does not hold .*three rows are missing"
    ):
        obtain("toy", TOY, refuse, "")
    assert not cache.exists()


def test_half_a_download_is_not_stored(monkeypatch, cache):
    """If the second of two downloads fails, the first file is not stored either."""
    answers = {"https://example.org/a": CONTENT, "https://example.org/b": URLError("gone")}
    serve(monkeypatch, answers)
    with pytest.raises(DatasetUnavailableError, match="/b could not be downloaded"):
        obtain("toy", PARTS, read, "")
    assert not cache.exists()


def test_dataset_without_address_says_where_to_put_it():
    """If nothing can be downloaded, the message names the two folders for a copy."""
    with pytest.raises(DatasetUnavailableError, match="cannot be downloaded") as caught:
        obtain("toy", TOY[:1], read, "ask the author")
    assert len(str(caught.value).splitlines()) == 3


def test_unusable_cache_is_reported(monkeypatch, tmp_path):
    """A cache folder that cannot be created is an output error that names the setting."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    serve(monkeypatch, CONTENT)
    with pytest.raises(OutputError, match="XDG_CACHE_HOME"):
        obtain("toy", TOY, read, "")
