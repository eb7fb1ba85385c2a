"""Run coterie and count the bytes that its process sends and receives by sockets.

    python counted_sockets.py FILE consensus TABLE …

A program that drives Spark talks to the Java process of the driver by sockets: commands, the code
for the executors, and all results. FILE gets ``{"sent": …, "received": …}`` at the end. The module
imports only the standard library, so that it can count before anything else runs.
"""

from __future__ import annotations

import json
import runpy
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the program of the command line, and write the bytes counted to the file."""
    _, file, *arguments = sys.argv
    sys.argv = ["coterie", *arguments]
    counts = count_socket_bytes()
    try:
        runpy.run_module("coterie", run_name="__main__", alter_sys=True)
    finally:
        Path(file).write_text(json.dumps(counts), encoding="utf-8")


def count_socket_bytes() -> dict[str, int]:
    """Count from now on, in all threads of this process; return the counts, which change."""
    counts = {"sent": 0, "received": 0}

    def counted(name: str, direction: str, size: Callable[[Any, Any], int]) -> None:
        original = getattr(socket.socket, name)

        def method(self: socket.socket, data: Any, *rest: Any) -> Any:
            result = original(self, data, *rest)
            counts[direction] += size(data, result)
            return result

        setattr(socket.socket, name, method)

    counted("recv", "received", lambda _, found: len(found))
    counted("recv_into", "received", lambda _, n: n)
    counted("send", "sent", lambda _, n: n)
    counted("sendall", "sent", lambda data, _: memoryview(data).nbytes)
    return counts


if __name__ == "__main__":
    main()
