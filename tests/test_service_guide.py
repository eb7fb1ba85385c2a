"""The pages on the service: their sessions run against one, their configurations run it."""

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

# services are shared: by one worker, so that each is started once
pytestmark = pytest.mark.xdist_group("the service's guide")

GUIDE = Path(__file__).parents[1] / "docs" / "guide"
USING, RUNNING = GUIDE / "service.md", GUIDE / "running_the_service.md"
USUAL_ADDRESS = "http://127.0.0.1:8400"
HOST = "forecasts.example.com"
TOKEN = "a-token-of-24-characters"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands need curl")
def test_the_page_on_using_it_shows_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands and Python sessions, one after the other, against the service it starts."""
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
    """A service with the options that the page's unit gives it."""
    command = captioned(RUNNING, "ini").replace("\\\n", " ")
    (options,) = re.findall(r"^ExecStart=\S+/coterie ads serve \S+ (.+)$", command, re.MULTILINE)
    folder = tmp_path_factory.mktemp("guarded")
    variables = {"COTERIE_TOKEN": TOKEN}
    with running_service(small_model(), folder, *options.split(), environment=variables) as found:
        yield found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: Any) -> tuple[Path, Path]:
    """A certificate of the page's host, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("a certificate is made with openssl, which is not installed")
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
    """Where nginx with the page's configuration listens: for https, and for http."""
    program = shutil.which("nginx")
    if program is None:
        pytest.skip("nginx is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    secure, plain = folder / "443", folder / "80"
    site = captioned(RUNNING, "nginx")
    for stands, put in (
        # sockets in a folder, in place of ports that others may have
        ("listen 443 ssl;", f"listen unix:{secure} ssl;"),
        ("listen 80;", f"listen unix:{plain};"),
        ("server 127.0.0.1:8400;", f"server 127.0.0.1:{guarded.port};"),
        ("/etc/ssl/forecasts.example.com.pem", str(certificate[0])),
        ("/etc/ssl/private/forecasts.example.com.key", str(certificate[1])),
    ):
        assert site.count(stands) == 1, stands
        site = site.replace(stands, put)
    configuration = folder / "nginx.conf"
    configuration.write_text(_around(site, folder), encoding="utf-8")
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


def _around(site: str, folder: Path) -> str:
    """A configuration of one process, all of whose files are in one folder."""
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
    """The way to nginx that trusts its certificate."""
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    with httpx.HTTPTransport(verify=trust, uds=str(nginx_sockets[0])) as transport:
        yield transport


def test_the_client_asks_through_nginx(through_nginx: httpx.HTTPTransport) -> None:
    """TLS, the token, batches of bids, ids of all characters: all arrive as they were sent."""
    model = small_model()
    with Client(f"https://{HOST}", token=TOKEN, transport=through_nginx) as client:
        for name in HOSTILE_IDS:
            assert client.advertiser(name)["id"] == name
            assert client.forecast(name, 2.5) == model.forecast(name, 2.5)
        bids = [1 + i / 1000 for i in range(9_000)]
        assert client.forecast("adv-00041", bids) == model.forecast("adv-00041", bids)
        with pytest.raises(InvalidParameterError, match="has no advertiser"):
            client.advertiser("..")


def test_nobody_asks_through_nginx_without_the_token(through_nginx: httpx.HTTPTransport) -> None:
    """The page says so, and that health and the page itself are open."""
    with httpx.Client(base_url=f"https://{HOST}", transport=through_nginx) as client:
        assert client.get("/v1/model").status_code == 401
        assert client.get("/health").json() == {"status": "ok"}
        page = client.get("/")
        assert page.status_code == 200
        assert page.headers["Strict-Transport-Security"] == "max-age=31536000"
        assert len(page.headers.get_list("Content-Security-Policy")) == 1
        assert re.fullmatch("[0-9a-f]{32}", page.headers["X-Request-Id"])  # as nginx numbers it


def test_a_body_that_is_too_large_is_refused_in_the_words_of_the_service(
    through_nginx: httpx.HTTPTransport,
) -> None:
    """nginx lets it through, so that the answer is a problem in JSON."""
    with httpx.Client(base_url=f"https://{HOST}", transport=through_nginx) as client:
        refused = client.post(
            "/v1/forecast",
            content=b" " * 1_500_000,
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
    assert refused.status_code == 413
    assert refused.json()["status"] == 413


def test_metrics_are_not_for_everyone(through_nginx: httpx.HTTPTransport) -> None:
    """Not even for those with a token, from elsewhere."""
    with (
        Client(f"https://{HOST}", token=TOKEN, transport=through_nginx) as client,
        pytest.raises(ServiceError, match="403"),
    ):
        client.metrics()


def test_plain_http_is_sent_to_https(
    nginx_sockets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the body being sent in the clear twice: the client does not follow."""
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
    """It finds no fault with the unit, but for keys that an older systemd does not know."""
    unit = tmp_path / "coterie.service"
    program = str(Path(sys.executable).with_name("coterie"))
    text = captioned(RUNNING, "ini")
    assert text.count("/opt/coterie/bin/coterie") == 1
    unit.write_text(text.replace("/opt/coterie/bin/coterie", program), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    checked = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if "Failed to" in checked.stderr and "coterie" not in checked.stderr:
        pytest.skip(f"systemd-analyze cannot work here: {checked.stderr.strip()}")
    # other units of the machine may be at fault too
    said = [line for line in checked.stderr.splitlines() if unit.name in line]
    assert [line for line in said if "Unknown key name" not in line] == []


def test_prometheus_finds_what_the_page_names() -> None:
    """The scrape configuration is YAML of the service's address; the metrics exist."""
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


def test_the_table_of_limits_is_that_of_the_service() -> None:
    """Every number in it is one that the service has, and every one of them is there."""
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


def test_the_picture_of_the_page_loads_quickly() -> None:
    """It stands in the README too."""
    assert (GUIDE.parent / "images" / "what_if.png").stat().st_size < 300_000
