"""The sessions and configurations on the pages about the service work."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from coterie.ads import Client
from coterie.ads.protocol import Limits
from coterie.ads.service.metrics import Metrics
from coterie.errors import InvalidParameterError, ServiceError
from fitted_models import HOSTILE_IDS, small_model
from guide_sessions import captioned, commands_in, fenced_in_order, run_command, run_python
from running_service import RunningService, running_service, wait_until

# one worker runs all these tests, so that each service is started once
pytestmark = pytest.mark.xdist_group("the service's guide")

GUIDE = Path(__file__).parents[1] / "docs" / "guide"
USING, RUNNING = GUIDE / "service.md", GUIDE / "running_the_service.md"
USUAL_ADDRESS = "http://127.0.0.1:8400"
HOST = "forecasts.example.com"
TOKEN = "a-token-of-24-characters"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands need curl")
def test_sessions_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands and Python sessions run in order, with the service that the page starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    names: dict[str, Any] = {}
    address = USUAL_ADDRESS
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: "client" in names and names["client"].close())
        for language, block in fenced_in_order(USING, "console", "pycon"):
            if language == "pycon":
                run_python(block.replace(USUAL_ADDRESS, address), names, USING)
                continue
            for command, shown in commands_in(block):
                if serve := re.fullmatch(r"coterie ads serve (\S+)", command):
                    started = running_service(tmp_path / serve[1], tmp_path)
                    address = stack.enter_context(started).address
                    assert shown == f"coterie is listening on {USUAL_ADDRESS}\n"
                else:
                    run_command(command.replace(USUAL_ADDRESS, address), shown, tmp_path)
    assert address != USUAL_ADDRESS


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: Any) -> Iterator[RunningService]:
    """Run a service with the options of the systemd unit on the page."""
    command = captioned(RUNNING, "ini").replace("\\\n", " ")
    (options,) = re.findall(r"^ExecStart=\S+/coterie ads serve \S+ (.+)$", command, re.MULTILINE)
    folder = tmp_path_factory.mktemp("guarded")
    variables = {"COTERIE_TOKEN": TOKEN}
    with running_service(small_model(), folder, *options.split(), environment=variables) as found:
        yield found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: Any) -> tuple[Path, Path]:
    """Make a self-signed certificate of the host on the page, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    made, key = folder / "made.pem", folder / "made.key"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    named = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    files = ["-keyout", str(key), "-out", str(made)]
    command = ["openssl", "req", *options.split(), *named, *files]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


@pytest.fixture(scope="module")
def nginx_sockets(
    guarded: RunningService, certificate: tuple[Path, Path], tmp_path_factory: Any
) -> Iterator[tuple[Path, Path]]:
    """Run nginx with the configuration on the page; return its sockets for https and http."""
    program = shutil.which("nginx")
    if program is None:
        pytest.skip("nginx is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    secure, plain = folder / "443", folder / "80"
    site = captioned(RUNNING, "nginx")
    for shown, used in (
        # sockets in a folder, because the ports may be in use
        ("listen 443 ssl;", f"listen unix:{secure} ssl;"),
        ("listen 80;", f"listen unix:{plain};"),
        ("server 127.0.0.1:8400;", f"server 127.0.0.1:{guarded.port};"),
        ("/etc/ssl/forecasts.example.com.pem", str(certificate[0])),
        ("/etc/ssl/private/forecasts.example.com.key", str(certificate[1])),
    ):
        assert site.count(shown) == 1, shown
        site = site.replace(shown, used)
    configuration = folder / "nginx.conf"
    configuration.write_text(_nginx_configuration(site, folder), encoding="utf-8")
    command = [program, "-p", str(folder), "-e", str(folder / "errors"), "-c", str(configuration)]
    with subprocess.Popen(command) as process:
        try:
            wait_until(
                lambda: process.poll() is not None or (_listens(secure) and _listens(plain)),
                "a connection to nginx",
            )
            assert process.poll() is None, (folder / "errors").read_text()
            yield secure, plain
        finally:
            process.terminate()
            process.wait(60)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as attempt:
        return attempt.connect_ex(str(path)) == 0


def _nginx_configuration(site: str, folder: Path) -> str:
    """Return a configuration with one process and all files in one folder."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "\n".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    return (
        f"daemon off;\nmaster_process off;\npid {folder / 'pid'};\n"
        f"events {{}}\nhttp {{\n{paths}\n{site}\n}}\n"
    )


@pytest.fixture
def through_nginx(
    nginx_sockets: tuple[Path, Path], certificate: tuple[Path, Path]
) -> Iterator[httpx.HTTPTransport]:
    """Make a transport to nginx that trusts its certificate."""
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    with httpx.HTTPTransport(verify=trust, uds=str(nginx_sockets[0])) as transport:
        yield transport


def test_client_works_through_nginx(through_nginx: httpx.HTTPTransport) -> None:
    """TLS, the token, batches of bids and ids with special characters pass nginx unchanged."""
    model = small_model()
    with Client(f"https://{HOST}", token=TOKEN, transport=through_nginx) as client:
        for name in HOSTILE_IDS:
            assert client.advertiser(name).id == name
            assert client.forecast(name, 2.5) == model.forecast(name, 2.5)
        bids = [1 + i / 1000 for i in range(9_000)]
        assert client.forecast("adv-00041", bids) == model.forecast("adv-00041", bids)
        with pytest.raises(InvalidParameterError, match="has no advertiser"):
            client.advertiser("..")


def test_nginx_requires_the_token(through_nginx: httpx.HTTPTransport) -> None:
    """Requests without the token are refused, except for /health and the page itself."""
    with httpx.Client(base_url=f"https://{HOST}", transport=through_nginx) as client:
        assert client.get("/v1/model").status_code == 401
        assert client.get("/health").json() == {"status": "ok"}
        page = client.get("/")
        assert page.status_code == 200
        assert page.headers["Strict-Transport-Security"] == "max-age=31536000"
        assert len(page.headers.get_list("Content-Security-Policy")) == 1
        assert re.fullmatch("[0-9a-f]{32}", page.headers["X-Request-Id"])  # given by nginx


def test_too_large_body_is_refused_by_the_service(
    through_nginx: httpx.HTTPTransport,
) -> None:
    """nginx passes the body on, so that the error is the JSON of the service."""
    with httpx.Client(base_url=f"https://{HOST}", transport=through_nginx) as client:
        refused = client.post(
            "/v1/forecast",
            content=b" " * 1_500_000,
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
    assert refused.status_code == 413
    assert refused.json()["status"] == 413


def test_metrics_are_refused_from_other_machines(through_nginx: httpx.HTTPTransport) -> None:
    """nginx refuses /metrics even with the token."""
    with (
        Client(f"https://{HOST}", token=TOKEN, transport=through_nginx) as client,
        pytest.raises(ServiceError, match="403"),
    ):
        client.metrics()


def test_plain_http_is_redirected(
    nginx_sockets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """nginx redirects http to https, and the client does not follow."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    with (
        Client(
            f"http://{HOST}", transport=httpx.HTTPTransport(uds=str(nginx_sockets[1]))
        ) as client,
        pytest.raises(ServiceError, match=f"points to 'https://{HOST}/v1/model'"),
    ):
        client.model()


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="units are checked by systemd-analyze"
)
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """systemd-analyze accepts the unit, except for keys that an older systemd does not know."""
    unit = tmp_path / "coterie.service"
    program = str(Path(sys.executable).with_name("coterie"))
    text = captioned(RUNNING, "ini")
    assert text.count("/opt/coterie/bin/coterie") == 1
    unit.write_text(text.replace("/opt/coterie/bin/coterie", program), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    checked = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if "Failed to" in checked.stderr and "coterie" not in checked.stderr:
        pytest.skip(f"systemd-analyze cannot work here: {checked.stderr.strip()}")
    # other units of the machine may have faults, too
    messages = [line for line in checked.stderr.splitlines() if unit.name in line]
    assert [line for line in messages if "Unknown key name" not in line] == []


def test_page_lists_the_metrics() -> None:
    """The scrape configuration names the address of the service, and the table all metrics."""
    (job,) = yaml.safe_load(captioned(RUNNING, "yaml"))["scrape_configs"]
    assert job["static_configs"] == [{"targets": [USUAL_ADDRESS.removeprefix("http://")]}]
    assert job["metrics_path"] == "/metrics"
    page = RUNNING.read_text(encoding="utf-8")
    metrics = Metrics()
    metrics.answered("/health", "GET", 200, 0.001)
    served = set(re.findall(rb"^# TYPE (\S+) ", metrics.text(), re.MULTILINE))
    named = set(re.findall(r"^\| `(coterie_\w+)", page, re.MULTILINE))
    assert named
    assert named == {name.decode() for name in served if not name.endswith(b"_created")}


def test_page_lists_the_limits() -> None:
    """The numbers in the table of limits are those of the service."""
    page = RUNNING.read_text(encoding="utf-8")
    (table,) = re.findall(r"^## Limits\n\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    cells = [row.split("|")[2] for row in table.splitlines()[2:]]
    shown = sorted(
        float(number.replace(",", "")) for cell in cells for number in re.findall(r"[\d,]+", cell)
    )
    limits = Limits()
    large = {name: value / 2**20 for name, value in vars(limits).items() if "_bytes" in name}
    kept = vars(limits) | large | {"header_bytes": limits.header_bytes / 2**10}
    assert shown == sorted(kept[name] for name in kept if name != "grace_seconds")
    assert f"within {limits.grace_seconds:g} seconds" in " ".join(page.split())


def test_picture_of_the_page_is_small() -> None:
    """The picture, which the README shows too, loads quickly."""
    assert (GUIDE.parent / "images" / "what_if.png").stat().st_size < 300_000
