"""A model file is replaced whole, and the service is asked until it has taken each."""

from __future__ import annotations

import hashlib

import pytest

from benchmarks import serve_reloads
from benchmarks.serve_reloads import Replacements, version_of
from coterie.errors import CoterieError


class Watching:
    """A service that has always taken what lies there, and remembers what it saw."""

    def __init__(self, served):
        self.served, self.seen = served, []

    def get(self, path):
        """Its health."""
        assert path == "/health"
        self.seen.append(self.served.read_bytes())
        return {"model": {"version": version_of(self.served)}}


@pytest.fixture
def files(tmp_path):
    """The file that is served, and two others."""
    names = ("served", "other", "first")
    paths = [tmp_path / f"{name}.coterie" for name in names]
    for path, content in zip(paths, (b"first", b"other", b"first"), strict=True):
        path.write_bytes(content)
    return paths


def test_a_version_is_the_beginning_of_the_checksum(files):
    """Twelve digits of the SHA-256, as the service has them."""
    assert version_of(files[1]) == hashlib.sha256(b"other").hexdigest()[:12]


def test_files_take_turns_and_every_one_is_waited_for(files):
    """Each replacement is another file than the one before, and has a time until it was taken."""
    service = Watching(files[0])
    changes = Replacements(service, files[0], files[1:], times=5, seconds=0.05)
    changes.make()
    assert service.seen == [b"other", b"first", b"other", b"first", b"other"]
    assert (len(changes.waits), changes.missed) == (5, 0)
    assert all(wait >= 0 for wait in changes.waits)


def test_the_files_themselves_stay(files):
    """What is linked over the served file is still there afterwards, and nothing else is."""
    before = {path.name for path in files[0].parent.iterdir()}
    Replacements(Watching(files[0]), files[0], files[1:], times=4, seconds=0.0).make()
    assert {path.name for path in files[0].parent.iterdir()} == before
    assert [path.read_bytes() for path in files[1:]] == [b"other", b"first"]


def test_a_service_that_keeps_its_model_is_told_of(files, monkeypatch):
    """A replacement that is not taken in time counts as missed, as does one of no answer."""

    class Stubborn(Watching):
        def get(self, _path):
            return {"model": {"version": "of old"}}

    class Silent(Watching):
        def get(self, _path):
            raise CoterieError("no answer")

    monkeypatch.setattr(serve_reloads, "_DEADLINE", 0.1)
    for kind in (Stubborn, Silent):
        changes = Replacements(kind(files[0]), files[0], files[1:], times=2, seconds=0.0)
        changes.make()
        assert (changes.waits, changes.missed) == ([], 2)
