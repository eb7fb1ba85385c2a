"""The image of the service is built and run, where containers can run.

Set ``COTERIE_TEST_BASE`` to an image with Python that is on this machine, for example
``python:3.12-slim``, and ``COTERIE_TEST_PODMAN`` to a command other than ``podman``, for example
``podman --runtime runc``. The build installs packages, and takes some minutes.
"""

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from coterie import save_model
from fitted_models import small_model
from real_proxies import free_port
from running_service import running_service, wait_until

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
TOKEN = "a-token-of-24-characters"
IMAGE = "localhost/coterie-test"


def _instruction(name):
    """Return the last instruction of a name in the Dockerfile."""
    return re.findall(rf"^{name}\s+(.*)$", DOCKERFILE, re.MULTILINE)[-1]


def _health_check():
    return json.loads(_instruction("HEALTHCHECK").partition(" CMD ")[2])


def _healthy(port):
    """Run the health check of the image on a port of this machine."""
    program, *arguments = _health_check()
    assert program == "/opt/coterie/bin/python"
    asked = [argument.replace("8400", str(port)) for argument in arguments]
    assert asked != arguments
    command = [sys.executable, *asked]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_health_check_follows_the_service(tmp_path):
    """The check succeeds while the service is ready; not when it drains, nor without it."""
    assert not _healthy(free_port())
    with running_service(small_model(), tmp_path, "--drain-seconds", "3600") as service:
        assert _healthy(service.port)
        service.signal(signal.SIGTERM)
        wait_until(lambda: not _healthy(service.port), "a failing check")
        assert service.process.poll() is None
        service.process.kill()


def test_image_runs_as_a_numeric_user():
    """User and group are numbers other than 0, so that a cluster can see that it is not root."""
    assert all(int(number) > 0 for number in _instruction("USER").split(":"))


def test_only_what_is_copied_is_sent_to_the_build():
    """.dockerignore allows exactly what the Dockerfile copies from the repository."""
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    assert "*" in allowed
    assert {line[1:] for line in allowed if line.startswith("!")} == set(" ".join(copied).split())


@pytest.fixture(scope="module")
def podman():
    """Return the beginning of commands; skip where containers cannot run."""
    base = os.environ.get("COTERIE_TEST_BASE")
    if not base:
        pytest.skip("COTERIE_TEST_BASE names no base: the image was neither built nor run")
    command = shlex.split(os.environ.get("COTERIE_TEST_PODMAN", "podman"))
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed: the image was neither built nor run")
    tried = [*command, "run", "--rm", *_bounds(), "--network=none", base, "true"]
    found = subprocess.run(tried, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"containers cannot run here, so the image was not tried: {found.stderr}")
    return command


@pytest.fixture(scope="module")
def container(podman):
    """Build the image and run it as the guide says; return the words after ``podman exec``."""
    base = os.environ["COTERIE_TEST_BASE"]
    # packages come from where this machine gets them
    files = [Path("/etc/pip.conf"), Path(os.environ.get("PIP_CERT", "/nowhere"))]
    mounts = [f"--volume={file}:{file}:ro" for file in files if file.is_file()]
    build = [*podman, "build", "--isolation=chroot", "--format=docker", f"--build-arg=BASE={base}"]
    subprocess.run([*build, *mounts, f"--tag={IMAGE}", str(ROOT)], check=True)
    options = ["--read-only", "--tmpfs=/tmp", "--cap-drop=all", "--network=none", *_bounds()]
    # the user of the image reads it; pytest closes its own folders to other users
    with tempfile.TemporaryDirectory() as shared:
        folder = Path(shared)
        folder.chmod(0o755)
        save_model(small_model(), folder / "market.coterie")
        (folder / "market.coterie").chmod(0o644)
        run = [*podman, "run", "--detach", *options, f"--env=COTERIE_TOKEN={TOKEN}"]
        run += [f"--volume={folder}:/model:ro", IMAGE, "/model/market.coterie", "--workers", "2"]
        started = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True)
        name = started.stdout.strip()
        try:
            yield [*podman, "exec", name]
        finally:
            subprocess.run([*podman, "rm", "--force", name], check=True)


def _bounds():
    """Return limits that a process without privileges may set."""
    kinds = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    hard = {name: resource.getrlimit(kind)[1] for name, kind in kinds.items()}
    known = {name: min(most, 10_000) for name, most in hard.items() if most > 0}
    return [f"--ulimit={name}={most}:{most}" for name, most in known.items()]


def _said(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_container_serves_and_stops(container):
    """It runs without privileges on a read-only root, and ends with code 0."""
    *podman, _, name = container

    def is_ready():
        checked = [*container, *_health_check()]
        return subprocess.run(checked, capture_output=True, check=False).returncode == 0

    wait_until(is_ready, "a service that is ready")
    assert _said(*container, "id", "-u").strip() == _instruction("USER").split(":")[0]
    asking = (
        "import urllib.request as web; print(web.urlopen(web.Request("
        "'http://127.0.0.1:8400/v1/model', "
        f"headers={{'Authorization': 'Bearer {TOKEN}'}})).status)"
    )
    assert _said(*container, "python", "-c", asking).strip() == "200"
    refused = subprocess.run([*container, "touch", "/opt/coterie/x"], check=False)
    assert refused.returncode != 0
    subprocess.run([*podman, "stop", "--time=40", name], check=True)
    assert _said(*podman, "inspect", name, "--format={{.State.ExitCode}}").strip() == "0"
