"""nginx and Caddy with the configurations of the folder ``packaging``, in front of a service."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from running_service import PATIENCE, RunningService, wait_until

PACKAGING = Path(__file__).parents[2] / "packaging"
HOST = "forecasts.example.com"


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@dataclass
class Proxy:
    """A proxy that listens on ports of its own, and what it logged."""

    name: str
    folder: Path
    certificate: tuple[Path, Path]
    https: int = field(default_factory=free_port)
    http: int = field(default_factory=free_port)

    @property
    def trust(self) -> ssl.SSLContext:
        """A context that trusts the certificate of the proxy, and nothing else."""
        return ssl.create_default_context(cafile=str(self.certificate[0]))

    @property
    def logged(self) -> str:
        """All that it logged."""
        return "".join(file.read_text() for file in sorted(self.folder.glob("*.log")))

    def client(self, address: str = "127.0.0.1", **settings: Any) -> httpx.Client:
        """Return a client, to be closed, that connects from an address of this machine."""
        transport = self.transport(address)
        url = f"https://{HOST}"
        return httpx.Client(base_url=url, transport=transport, timeout=PATIENCE, **settings)

    def transport(self, address: str = "127.0.0.1", *, secure: bool = True) -> httpx.HTTPTransport:
        """Return a transport that finds the host of the configuration at this proxy."""
        port = self.https if secure else self.http
        return _Transport(port, verify=self.trust, local_address=address, retries=0)

    def connect(self) -> ssl.SSLSocket:
        """Return a connection, to be closed."""
        plain = socket.create_connection(("127.0.0.1", self.https), PATIENCE)
        return self.trust.wrap_socket(plain, server_hostname=HOST)


class _Transport(httpx.HTTPTransport):
    def __init__(self, port: int, **settings: Any) -> None:
        super().__init__(**settings)
        self._port = port

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions = {**request.extensions, "sni_hostname": HOST}
        request.url = request.url.copy_with(host="127.0.0.1", port=self._port)
        return super().handle_request(request)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate of the host of the configurations, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no proxy with TLS was tried")
    made, key = folder / "made.pem", folder / "made.key"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    named = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    files = ["-keyout", str(key), "-out", str(made)]
    command = ["openssl", "req", *options.split(), *named, *files]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


@contextlib.contextmanager
def running_proxy(
    name: str,
    service: RunningService,
    folder: Path,
    certificate: tuple[Path, Path],
    *changes: tuple[str, str],
) -> Iterator[Proxy]:
    """Start nginx or caddy in front of a service, and end it afterwards.

    ``changes`` are parts of its configuration, each with what is used instead.
    """
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed: its configuration was not tried")
    (folder / name).mkdir()
    folder /= name
    proxy = Proxy(name, folder, certificate)
    command, environment = _KINDS[name](program, proxy, service.port, changes)
    variables = {**os.environ, **environment}

    def is_up_or_over() -> bool:
        return process.poll() is not None or (listens(proxy.https) and listens(proxy.http))

    with (
        (folder / "standard.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=variables) as process,
    ):
        try:
            wait_until(is_up_or_over, f"a connection to {name}")
            assert process.poll() is None, proxy.logged
            yield proxy
        finally:
            process.terminate()
            process.wait(PATIENCE)


def listens(port: int) -> bool:
    """Whether something listens on a port of this machine."""
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


def _changed(text: str, *changes: tuple[str, str]) -> str:
    for shown, used in changes:
        assert shown in text, shown
        text = text.replace(shown, used)
    return text


_Started = tuple[list[str], dict[str, str]]


def _nginx(program: str, proxy: Proxy, port: int, changes: tuple[tuple[str, str], ...]) -> _Started:
    folder = proxy.folder
    site = _changed(
        (PACKAGING / "nginx.conf").read_text(encoding="utf-8"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{proxy.https} ssl;"),
        ("listen 80;", f"listen 127.0.0.1:{proxy.http};"),
        ("server 127.0.0.1:8400 ", f"server 127.0.0.1:{port} "),
        ("/etc/ssl/forecasts.example.com.pem", str(proxy.certificate[0])),
        ("/etc/ssl/private/forecasts.example.com.key", str(proxy.certificate[1])),
        ("/var/log/nginx/", f"{folder}/"),
        *changes,
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "\n".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    file = folder / "nginx.conf"
    file.write_text(
        f"daemon off;\nmaster_process off;\npid {folder / 'pid'};\n"
        f"events {{}}\nhttp {{\n{paths}\n{site}\n}}\n",
        encoding="utf-8",
    )
    return [program, "-p", str(folder), "-e", str(folder / "start.log"), "-c", str(file)], {}


def _caddy(program: str, proxy: Proxy, port: int, changes: tuple[tuple[str, str], ...]) -> _Started:
    made, key = proxy.certificate
    ports = f"http_port {proxy.http}\n\thttps_port {proxy.https}\n\tdefault_bind 127.0.0.1"
    text = _changed(
        (PACKAGING / "Caddyfile").read_text(encoding="utf-8"),
        ("\n{\n", f"\n{{\n\tadmin off\n\t{ports}\n"),
        (f"\n{HOST} {{\n", f"\n{HOST} {{\n\ttls {made} {key}\n"),
        ("127.0.0.1:8400", f"127.0.0.1:{port}"),
        *changes,
    )
    file = proxy.folder / "Caddyfile"
    file.write_text(text, encoding="utf-8")
    folders = {name: str(proxy.folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    return [program, "run", "--config", str(file), "--adapter", "caddyfile"], folders


_KINDS: dict[str, Callable[..., _Started]] = {"nginx": _nginx, "caddy": _caddy}
