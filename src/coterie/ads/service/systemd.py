"""Sockets from systemd, and notifications to it (``sd_listen_fds``, ``sd_notify``)."""

from __future__ import annotations

import contextlib
import os
import socket

__all__ = ["inherited_socket", "notify"]

_FIRST_DESCRIPTOR = 3


def inherited_socket() -> socket.socket | None:
    """Return the socket that systemd opened for this process; None if it did not."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or not os.environ.get("LISTEN_FDS"):
        return None
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)  # not for the workers
    return socket.socket(fileno=_FIRST_DESCRIPTOR)


def notify(state: str) -> None:
    """Tell systemd the state of the service, for example ``READY=1``; nothing without systemd."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # a leading @ stands for the abstract namespace
    path = "\0" + address[1:] if address.startswith("@") else address
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_systemd,
    ):
        to_systemd.connect(path)
        to_systemd.sendall(state.encode())
