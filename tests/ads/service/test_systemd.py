"""The service takes a socket from systemd and tells it its state."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.ads.service import systemd
from coterie.ads.service.systemd import inherited_socket, notify
from coterie.errors import ServiceError


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Pass a listening socket to this process, as systemd does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        _pass(listening, monkeypatch)
        yield listening


def _pass(given: socket.socket, monkeypatch: pytest.MonkeyPatch, number: str = "1") -> None:
    copy = os.dup(given.fileno())
    os.set_inheritable(copy, True)
    monkeypatch.setattr(systemd, "_FIRST_DESCRIPTOR", copy)
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", number)
    monkeypatch.setenv("LISTEN_FDNAMES", "coterie.socket")


def test_socket_of_systemd_is_taken(passed: socket.socket) -> None:
    """The socket is the one that systemd opened; programs that the service starts do not get it."""
    found = inherited_socket()
    assert found is not None
    with found:
        assert found.getsockname() == passed.getsockname()
        assert not found.get_inheritable()


def test_socket_is_taken_once(passed: socket.socket) -> None:
    """The variables are removed, so that no worker takes the descriptor for its own."""
    first = inherited_socket()
    assert first is not None
    first.close()
    assert not [name for name in os.environ if name.startswith("LISTEN_")]
    assert inherited_socket() is None


@pytest.mark.parametrize("other", ["1", ""], ids=["another process", "no process"])
def test_socket_of_another_process_is_left_alone(
    passed: socket.socket, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """Variables that are meant for another process mean nothing."""
    monkeypatch.setenv("LISTEN_PID", other)
    assert inherited_socket() is None
    os.close(systemd._FIRST_DESCRIPTOR)


def test_several_sockets_are_refused(
    passed: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service serves one socket; it does not leave the others without an answer."""
    monkeypatch.setenv("LISTEN_FDS", "2")
    with pytest.raises(ServiceError, match="passed 2 sockets"):
        inherited_socket()
    os.close(systemd._FIRST_DESCRIPTOR)


def test_socket_for_datagrams_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit with ListenDatagram= is an error that says what to write."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        _pass(datagrams, monkeypatch)
        with pytest.raises(ServiceError, match="ListenStream="):
            inherited_socket()
    os.close(systemd._FIRST_DESCRIPTOR)


def test_file_is_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """A descriptor that is not a socket is an error."""
    with tempfile.TemporaryFile() as file:
        monkeypatch.setattr(systemd, "_FIRST_DESCRIPTOR", file.fileno())
        monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
        monkeypatch.setenv("LISTEN_FDS", "1")
        with pytest.raises(ServiceError, match="passed no socket"):
            inherited_socket()


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_systemd_is_told_the_state(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state arrives at a socket in the file system or in the abstract namespace."""
    address = str(tmp_path / "notify") if kind == "path" else f"@coterie-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(address.replace("@", "\0") if kind == "abstract" else address)
        receiving.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("READY=1")
        assert receiving.recv(100) == b"READY=1"


def test_service_works_without_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a socket, or if nobody listens on it, telling the state does nothing."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify("READY=1")
