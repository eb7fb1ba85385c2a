"""Services in processes: started and found, weighed, ended, and told of where they do not start."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

import canned_service
from benchmarks import serve_processes
from benchmarks.serve_processes import (
    BARE,
    RunningService,
    running_service,
    serve_command,
)
from coterie.errors import CoterieError

CANNED = (sys.executable, canned_service.__file__)


@pytest.fixture(scope="module")
def service():
    """A service that gives back what it gets."""
    with running_service(CANNED) as running:
        yield running


def test_it_is_found_where_it_listens(service):
    """The port is read from what the process says, and asked there it answers."""
    assert service.start_seconds > 0
    assert service.get("/health") == {"model": {"version": "abc"}}
    assert service.post("/v1/forecast", b'{"bid":1}') == {"bid": 1}


def test_refusals_are_errors(service):
    """An answer other than 200 is an error that names it."""
    with pytest.raises(CoterieError, match="GET /nowhere with 404"):
        service.get("/nowhere")


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="there is no /proc")
def test_it_is_weighed(service):
    """All three figures are there, which the system may change at any moment; time only grows."""
    memory = service.memory()
    assert min(memory.resident, memory.proportional, memory.peak) > 0
    before = service.processor_seconds()
    service.get("/health")
    assert 0 <= before <= service.processor_seconds()


def test_figures_of_the_kernel_are_kilobytes(tmp_path):
    """A figure is found by its whole name, and is in bytes; one that is not there is None."""
    status = tmp_path / "status"
    status.write_text("VmRSSx:\t 1 kB\nVmRSS:\t    20 kB\nVmHWM:\t 30 kB\n")
    figures = [serve_processes._kilobytes(status, name) for name in ("VmRSS", "VmHWM", "Pss")]
    assert figures == [20 * 1024, 30 * 1024, None]


def test_what_the_system_does_not_tell_is_none(service):
    """Of a process that is not there nothing is known, and that is no error."""

    class Gone:
        pid = -1

    gone = RunningService(service.port, Gone(), 0.0)
    assert (gone.memory().resident, gone.processor_seconds()) == (None, None)


def test_it_ends_with_the_block():
    """No process is left when the block is, whether in peace or by an error."""
    with pytest.raises(ZeroDivisionError), running_service(CANNED) as running:
        assert running.process.poll() is None
        raise ZeroDivisionError
    assert running.process.returncode is not None


def test_a_service_that_hangs_up_did_not_answer():
    """A connection that nobody takes is an error that says so."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # but it does not listen
        nobody = RunningService(taken.getsockname()[1], None, 0.0)
        with pytest.raises(CoterieError, match="did not answer GET /health"):
            nobody.get("/health")


def test_a_service_that_does_not_start_says_why():
    """The last words of a process that ended are in the error."""
    command = (sys.executable, "-c", "raise SystemExit('Error: no model there')")
    told = pytest.raises(CoterieError, match="did not start: Error: no model there")
    with told, running_service(command):
        pass


def test_the_token_of_the_user_is_not_handed_on(monkeypatch):
    """A service that is measured asks for no token, whatever the environment holds."""
    monkeypatch.setenv("COTERIE_TOKEN", "a token of the user's own")
    script = "import os; raise SystemExit('Error: ' + os.environ.get('COTERIE_TOKEN', 'none'))"
    told = pytest.raises(CoterieError, match="Error: none")
    with told, running_service((sys.executable, "-c", script)):
        pass


def test_the_command_serves_the_model_on_a_free_port(tmp_path):
    """The program itself is run, with the model and no log line a request."""
    command = serve_command(tmp_path / "m.coterie")
    assert command[-6:] == ("ads", "serve", str(tmp_path / "m.coterie"), "--port", "0", "--quiet")


def test_the_bare_service_returns_its_constant():
    """It answers any body alike, and is well."""
    pytest.importorskip("uvloop")
    from benchmarks.bare_service import CONSTANT

    with running_service(BARE) as bare:
        assert bare.post("/v1/forecast", b"not even JSON") == CONSTANT
        assert bare.get("/health") == {"status": "ok"}
