"""Bytes that a process sends and receives by sockets."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks import counted_sockets


def test_every_way_to_send_and_receive_is_counted():
    """Methods of sockets and of files made of them."""
    code = """
import socket
from benchmarks.counted_sockets import count_socket_bytes
counts = count_socket_bytes()
one, other = socket.socketpair()
one.sendall(b"x" * 1000)
one.send(b"y" * 10)
file = other.makefile("rwb")
assert len(file.read(1010)) == 1010
file.write(b"z" * 5)
file.flush()
one.recv(3)
one.recv_into(bytearray(9))
print(counts)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "{'sent': 1015, 'received': 1015}\n"


def test_the_program_runs_and_the_counts_are_written(tmp_path):
    """Its arguments, output and exit code are those of the program."""
    file = tmp_path / "bytes.json"
    command = [sys.executable, counted_sockets.__file__, str(file), "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("coterie")
    assert json.loads(file.read_text()).keys() == {"sent", "received"}
