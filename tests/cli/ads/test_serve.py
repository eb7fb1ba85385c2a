"""Tests of ``coterie ads serve``: problems are reported before the service listens."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from answers import assert_one_line
from coterie.ads import service
from coterie.ads.service.access import ServiceSettings


@pytest.fixture(autouse=True)
def no_token(monkeypatch):
    """Remove a token of the environment."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)


def test_options_reach_the_service(run, monkeypatch, tmp_path):
    """Options of the command line are passed to the service."""
    asked = []
    monkeypatch.setattr(service, "serve", asked.append)
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


def test_problems_are_one_line(run, tmp_path, monkeypatch):
    """Signals of the process that called the program act as before."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    serve = ("ads", "serve", tmp_path / "none.coterie", "--port", 0)
    assert_one_line(run(*serve), "none.coterie")
    assert_one_line(run(*serve, "--host", "0.0.0.0"), "COTERIE_TOKEN", "secrets.token_urlsafe")
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert_one_line(run(*serve), "starlette", "[ads]'")
    assert [signal.getsignal(number) for number in numbers] == before


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
