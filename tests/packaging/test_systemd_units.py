"""The units of systemd are valid, and the service does what they rely on."""

import contextlib
import itertools
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from coterie import save_model
from fitted_models import small_model
from real_proxies import PACKAGING, free_port
from running_service import PATIENCE, wait_until

SERVICE, SOCKET = PACKAGING / "coterie.service", PACKAGING / "coterie.socket"
TOKEN = "a-token-of-24-characters"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
PROGRAM = "/opt/coterie/bin/coterie"

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not installed: the units were not checked by systemd",
)
needs_activation = pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None,
    reason="systemd-socket-activate is not installed: no socket was passed by systemd",
)


@pytest.fixture
def units(tmp_path):
    """Copy the units, with a program that exists here."""
    for file in (SERVICE, SOCKET):
        text = file.read_text(encoding="utf-8").replace(PROGRAM, sys.executable)
        (tmp_path / file.name).write_text(text, encoding="utf-8")
    return [str(tmp_path / file.name) for file in (SERVICE, SOCKET)]


@needs_analyze
def test_systemd_accepts_the_units(units):
    """systemd-analyze has no complaint, except of keys that an older systemd does not know."""
    checked = _analyzed("verify", "--man=no", *units)
    if "Failed to" in checked.stderr and "coterie" not in checked.stderr:
        pytest.skip(f"systemd-analyze cannot work here: {checked.stderr.strip()}")
    # other units of the machine may have faults, too
    messages = [line for line in checked.stderr.splitlines() if "coterie." in line]
    assert [line for line in messages if "Unknown key name" not in line] == []


@needs_analyze
def test_service_is_exposed_little(units):
    """systemd-analyze rates the exposure of the service below 2 of 10."""
    checked = _analyzed("security", "--offline=yes", "--no-pager", units[0])
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", checked.stdout)
    if found is None:
        pytest.skip(f"this systemd cannot rate a file: {checked.stderr.strip()}")
    assert float(found[1]) < 2


def _analyzed(*arguments):
    command = ["systemd-analyze", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


class Activated:
    """A service with the options of the unit, started as its socket is."""

    def __init__(self, folder, *options, host="127.0.0.1"):
        self.port, self.log = free_port(), folder / "service.log"
        (folder / "tokens").write_text(f"first {TOKEN}\n", encoding="utf-8")
        save_model(small_model(), folder / "market.coterie")
        self.states = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.states.bind(str(folder / "notify"))
        self.states.settimeout(300)  # a first start compiles
        kept = {name: value for name, value in os.environ.items() if name != "COTERIE_TOKEN"}
        variables = kept | {"NOTIFY_SOCKET": str(folder / "notify")}
        self._command = ["systemd-socket-activate", "--listen", f"{host}:{self.port}"]
        for name in variables:
            self._command += ["--setenv", name]
        self._command += [sys.executable, "-m", "coterie", "ads", "serve"]
        self._command += [str(folder / "market.coterie"), *options]
        self._variables = variables

    @contextlib.contextmanager
    def running(self):
        """Listen, and start the service at the first connection."""
        with (
            self.states,
            self.log.open("wb") as log,
            subprocess.Popen(self._command, env=self._variables, stdout=log, stderr=log) as process,
        ):
            try:
                wait_until(lambda: b"Listening on" in self.log.read_bytes(), "a socket")
                yield process
            finally:
                process.terminate()
                process.wait(PATIENCE)

    def client(self):
        """Return a client, to be closed, that waits for the start of the service."""
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers=AUTHORIZED,
            timeout=300,
            trust_env=False,
        )


def _options_of_the_unit(folder, workers):
    """Return the options of the unit's service, with the folder of the credentials."""
    text = SERVICE.read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
    program, ads, serve, _, *options = shlex.split(line.replace("%d", str(folder)))
    assert [program, ads, serve] == [PROGRAM, "ads", "serve"]
    chosen = {"--workers": str(workers), "--drain-seconds": "0"}
    for name in chosen.keys() & set(options):
        place = options.index(name)
        del options[place : place + 2]
    return [*options, *itertools.chain(*chosen.items())]


@needs_activation
@pytest.mark.parametrize("workers", [1, 2])
def test_request_waits_for_the_start(workers, tmp_path):
    """A request that starts the service is answered once the model is loaded.

    systemd learns that the service is ready, and that it stops.
    """
    activated = Activated(tmp_path, *_options_of_the_unit(tmp_path, workers))
    with activated.running() as process, activated.client() as client:
        # nothing runs yet: this connection starts the service
        assert client.get("/v1/model").status_code == 200
        assert activated.states.recv(100) == b"READY=1"
        assert f"127.0.0.1:{activated.port}" in activated.log.read_text()
        process.send_signal(signal.SIGTERM)
        assert activated.states.recv(100) == b"STOPPING=1"
        assert process.wait(PATIENCE) == 0
        activated.states.setblocking(False)
        with pytest.raises(BlockingIOError):
            activated.states.recv(100)
