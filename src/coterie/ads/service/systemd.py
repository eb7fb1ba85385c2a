"""Sockets from systemd, and notifications to it (``sd_listen_fds``, ``sd_notify``)."""

from __future__ import annotations

import contextlib
import os
import socket

from coterie.errors import ServiceError

__all__ = ["inherited_socket", "notify"]

_FIRST_DESCRIPTOR = 3


def inherited_socket() -> socket.socket | None:
    """Return the socket that systemd opened for this process; None if it did not.

    Raises
    ------
    ServiceError
        If there are several sockets, or it is none for connections.
    """
    number = os.environ.get("LISTEN_FDS", "")
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or not number:
        return None
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)  # not for the workers
    if number != "1":
        raise ServiceError(f"systemd passed {number} sockets; write one ListenStream= in the unit")
    try:
        found = socket.socket(fileno=_FIRST_DESCRIPTOR)
    except OSError as error:
        raise ServiceError(f"systemd passed no socket: {error.strerror}") from error
    if found.type != socket.SOCK_STREAM:
        found.detach()
        raise ServiceError("systemd passed a socket for datagrams; write ListenStream= in the unit")
    found.set_inheritable(False)
    return found


def notify(state: str) -> None:
    """Tell systemd the state of the service, for example ``READY=1``; nothing without systemd."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # a leading @ means the abstract namespace
    path = "\0" + address[1:] if address.startswith("@") else address
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_systemd,
    ):
        to_systemd.connect(path)
        to_systemd.sendall(state.encode())
