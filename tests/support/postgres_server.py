"""A PostgreSQL server of this machine's packages, for the time of some tests."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

#: Where Debian, Ubuntu and others put the programs that are not on the PATH.
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
_SECONDS_TO_START = 60


@dataclass(frozen=True)
class Server:
    """A running server; its user needs no password on the socket, and one over the network."""

    folder: Path
    port: int
    user: str
    password: str

    @property
    def url(self) -> str:
        """The database over the network, without credentials."""
        return f"postgres://127.0.0.1:{self.port}/postgres"

    @property
    def environment(self) -> dict[str, str]:
        """Where the driver finds the credentials."""
        return {"PGUSER": self.user, "PGPASSWORD": self.password}

    def connect(self) -> Any:
        """Return a connection of ADBC, as its owner."""
        import adbc_driver_postgresql.dbapi

        place = f"{self.user}:{self.password}@127.0.0.1:{self.port}/postgres"
        return adbc_driver_postgresql.dbapi.connect(f"postgresql://{place}", autocommit=True)


@contextlib.contextmanager
def postgres_server() -> Iterator[Server]:
    """Yield a server with an empty database, whose texts are in the order of a dictionary."""
    pytest.importorskip("adbc_driver_postgresql", reason="its driver is not installed")
    programs = _programs()
    # not a folder of pytest: these are closed to other users
    folder = Path(tempfile.mkdtemp(prefix="coterie-pg-", dir="/tmp"))
    try:
        server = Server(folder, _free_port(), "owner", secrets.token_hex(8))
        (folder / "password").write_text(server.password)
        account = _account()
        if account:
            for path in (folder, folder / "password"):
                shutil.chown(path, account["user"], account["group"])
        how: dict[str, Any] = {"cwd": "/", **account}
        _make(programs, server, how)
        with _running(programs, server, how):
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(connection: Any, *statements: str) -> None:
    """Run statements without results."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def load(connection: Any, name: str, rows: pa.Table) -> None:
    """Store an Arrow table as a table of the server."""
    with connection.cursor() as cursor:
        cursor.adbc_ingest(name, rows, mode="replace")


def _programs() -> Path:
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    for pattern in _PLACES:
        places += sorted(Path("/").glob(pattern[1:]), reverse=True)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    pytest.skip("PostgreSQL is not installed; on Debian or Ubuntu: apt install postgresql")


def _account() -> dict[str, Any]:
    """Return the account to run the server as; PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    known = {one.pw_name: one for one in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in known:
            return {"user": name, "group": known[name].pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is no account postgres or nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _make(programs: Path, server: Server, how: dict[str, Any]) -> None:
    words = [
        *(programs / "initdb", "--pgdata", server.folder / "data", "--no-sync"),
        *("--username", server.user, "--pwfile", server.folder / "password"),
        *("--auth-local", "trust", "--auth-host", "scram-sha-256"),
        *("--encoding", "UTF8", "--locale", "C", "--locale-provider", "icu"),
        *("--icu-locale", "en-US"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **how)
    if done.returncode:
        pytest.skip(f"PostgreSQL makes no database here: {done.stderr.strip().splitlines()[-1]}")


@contextlib.contextmanager
def _running(programs: Path, server: Server, how: dict[str, Any]) -> Iterator[None]:
    words = [
        *(programs / "postgres", "-D", server.folder / "data", "-F", "-p", str(server.port)),
        *("-k", server.folder, "-h", "127.0.0.1"),
    ]
    with (
        (server.folder / "log").open("wb") as log,
        subprocess.Popen(words, stdout=log, stderr=log, **how) as process,
    ):
        try:
            _wait(server, process)
            yield
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    import adbc_driver_manager

    ends = time.monotonic() + _SECONDS_TO_START
    while True:
        try:
            server.connect().close()
            return
        except adbc_driver_manager.Error:
            if process.poll() is not None or time.monotonic() > ends:
                last = (server.folder / "log").read_text(errors="replace").splitlines()[-1:]
                pytest.skip(f"PostgreSQL does not start here: {''.join(last)}")
            time.sleep(0.05)
