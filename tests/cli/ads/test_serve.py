"""Tests of ``coterie ads serve``: problems are reported before the service listens."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.ads.service import workers
from coterie.ads.service.access import ServiceSettings


@pytest.fixture(autouse=True)
def no_token(monkeypatch):
    """Remove a token of the environment."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)


def _error(result):
    """Return the one line of a run that ended with 1."""
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_options_reach_the_service(run, monkeypatch, tmp_path):
    """Options of the command line are passed to the service."""
    asked = []
    monkeypatch.setattr(workers, "serve", asked.append)
    options = ["--host", "::1", "--port", "0", "--no-watch", "--log-format", "json", "--quiet"]
    options += ["--workers", "3", "--token-file", "tokens", "--drain-seconds", "0.5", "--traces"]
    names = ["--allowed-host", "a.example", "--allowed-host", "b.example"]
    run("ads", "serve", tmp_path / "m", *options, *names, "--trusted-proxy", "10.0.0.5")
    run("ads", "serve", tmp_path / "m")
    first, plain = asked
    assert first == ServiceSettings(
        tmp_path / "m",
        host="::1",
        port=0,
        workers=3,
        allowed_hosts=("a.example", "b.example"),
        trusted_proxies=("10.0.0.5",),
        token_file=Path("tokens"),
        watch=False,
        drain_seconds=0.5,
        log_format="json",
        quiet=True,
        traces=True,
    )
    assert plain == ServiceSettings(tmp_path / "m")


def test_taken_port_is_refused_before_the_model_is_read(run, tmp_path):
    """A taken port is refused, with advice."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        message = _error(run("ads", "serve", tmp_path / "none.coterie", "--port", port))
    assert f"port {port} is taken; choose another with --port" in message


@pytest.mark.parametrize(
    "options",
    [
        ["--host", "0.0.0.0"],
        ["--allowed-host", "ads.example.com"],
        ["--trusted-proxy", "10.0.0.5"],
    ],
)
def test_remote_access_needs_a_token(run, tmp_path, options):
    """Access from other machines needs a token; the error says how to make one."""
    message = _error(run("ads", "serve", tmp_path / "none.coterie", "--port", 0, *options))
    assert "COTERIE_TOKEN" in message
    assert "secrets.token_urlsafe" in message


def test_short_token_is_refused(run, tmp_path, monkeypatch):
    """A short token is refused, also for local access."""
    monkeypatch.setenv("COTERIE_TOKEN", "qwertz")
    message = _error(run("ads", "serve", tmp_path / "none.coterie", "--port", 0))
    assert "fewer than 16" in message
    assert "qwertz" not in message


def test_missing_model_is_named(run, tmp_path):
    """A missing file is named; signals of the process that called the program act as before."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    message = _error(run("ads", "serve", tmp_path / "none.coterie", "--port", 0))
    assert "none.coterie" in message
    assert [signal.getsignal(number) for number in numbers] == before


def test_missing_extra_is_named(run, tmp_path, monkeypatch):
    """If a package of the service is missing, the error names the extra."""
    monkeypatch.setitem(sys.modules, "starlette", None)
    message = _error(run("ads", "serve", tmp_path / "none.coterie", "--port", 0))
    assert "starlette" in message
    assert "[ads]'" in message


@pytest.mark.parametrize("options", [["--port", "65536"], ["--log-format", "xml"]])
def test_wrong_option_ends_with_2(run, tmp_path, options):
    """An invalid option is wrong usage."""
    assert run("ads", "serve", tmp_path / "none.coterie", *options).exit_code == 2


def test_module_is_the_program():
    """``python -m coterie`` runs the program under its name."""
    done = subprocess.run(
        [sys.executable, "-m", "coterie", "ads", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Usage: coterie ads serve" in done.stdout
