"""The unit of systemd is valid, and the service does what it relies on."""

import itertools
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from fitted_models import small_model
from real_proxies import PACKAGING
from running_service import PATIENCE, running_service

SERVICE = PACKAGING / "coterie.service"
TOKEN = "a-token-of-24-characters"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
PROGRAM = "/opt/coterie/bin/coterie"

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not installed: the units were not checked by systemd",
)


@pytest.fixture
def unit(tmp_path):
    """Copy the unit, with a program that exists here."""
    text = SERVICE.read_text(encoding="utf-8").replace(PROGRAM, sys.executable)
    (tmp_path / SERVICE.name).write_text(text, encoding="utf-8")
    return str(tmp_path / SERVICE.name)


@needs_analyze
def test_systemd_accepts_the_unit(unit):
    """systemd-analyze has no complaint, except of keys that an older systemd does not know."""
    checked = _analyzed("verify", "--man=no", unit)
    if "Failed to" in checked.stderr and "coterie" not in checked.stderr:
        pytest.skip(f"systemd-analyze cannot work here: {checked.stderr.strip()}")
    # other units of the machine may have faults, too
    messages = [line for line in checked.stderr.splitlines() if "coterie." in line]
    assert [line for line in messages if "Unknown key name" not in line] == []


@needs_analyze
def test_service_is_exposed_little(unit):
    """systemd-analyze rates the exposure of the service below 2 of 10."""
    checked = _analyzed("security", "--offline=yes", "--no-pager", unit)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", checked.stdout)
    if found is None:
        pytest.skip(f"this systemd cannot rate a file: {checked.stderr.strip()}")
    assert float(found[1]) < 2


def _analyzed(*arguments):
    command = ["systemd-analyze", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


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


@pytest.mark.parametrize("workers", [1, 2])
def test_systemd_learns_the_state(workers, tmp_path):
    """With the options of the unit, systemd learns that the service is ready, and that it stops."""
    (tmp_path / "tokens").write_text(f"first {TOKEN}\n", encoding="utf-8")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as states:
        states.bind(str(tmp_path / "notify"))
        states.settimeout(PATIENCE)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        options = _options_of_the_unit(tmp_path, workers)
        with (
            running_service(small_model(), tmp_path, *options, environment=environment) as service,
            service.client(headers=AUTHORIZED) as client,
        ):
            assert states.recv(100) == b"READY=1"
            assert client.get("/v1/model").status_code == 200
            service.signal(signal.SIGTERM)
            assert states.recv(100) == b"STOPPING=1"
            assert service.wait() == 0
        states.setblocking(False)
        with pytest.raises(BlockingIOError):
            states.recv(100)
