"""A cluster starts, is reached by its URL, and always ends; here Spark is a small script."""

from __future__ import annotations

import os
import sys
import urllib.parse
from importlib.machinery import ModuleSpec

import pytest

from benchmarks import local_spark
from benchmarks.local_spark import LocalSpark, check_spark
from coterie.errors import CoterieError, InvalidParameterError, MissingExtraError

# a master that listens and reports two workers; workers that wait
_WORKING = """
import http.server, json, socket, sys, time
name, *rest = sys.argv[1:]
options = dict(zip(rest[::2], rest[1::2]))
assert options["--host"] == "127.0.0.1"
if name.endswith("Worker"):
    time.sleep(60)
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"workers": 2 * [{"state": "ALIVE"}]}).encode())
listening = socket.create_server(("127.0.0.1", int(options["--port"])))
http.server.HTTPServer(("127.0.0.1", int(options["--webui-port"])), Page).serve_forever()
"""


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Return a function that replaces Spark by a script."""

    def replace(script: str) -> None:
        program = tmp_path / "bin" / "spark-class"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable} -IS\n{script}")
        program.chmod(0o755)
        found = ModuleSpec("pyspark", None, origin=str(tmp_path / "__init__.py"))
        monkeypatch.setattr(local_spark.importlib.util, "find_spec", lambda _: found)

    return replace


def is_running(process) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cluster_listens_on_loopback_and_leaves_no_process(install, tmp_path):
    """A master and two workers run in the block, also if it ends by an error."""
    install(_WORKING)
    cluster = LocalSpark(tmp_path / "it's here", seconds=30)
    with pytest.raises(ZeroDivisionError), cluster as url:
        address, query = url.removeprefix("pyspark://").split("?")
        settings = dict(urllib.parse.parse_qsl(query))
        assert address.startswith("127.0.0.1:")
        assert settings["spark.driver.bindAddress"] == "127.0.0.1"
        assert settings["spark.local.dir"] == str(tmp_path / "it's here")
        assert [is_running(process) for process in cluster._processes] == [True] * 3
        raise ZeroDivisionError
    assert [is_running(process) for process in cluster._processes] == [False] * 3


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import time; time.sleep(60)", "no Spark cluster within 0.5 s"),
        ("import sys; sys.exit('ERROR: no memory')", "ERROR: no memory"),
    ],
)
def test_a_cluster_that_does_not_start_is_ended(install, tmp_path, script, message):
    """A silent cluster after its time limit, and one that fails."""
    install(script)
    cluster = LocalSpark(tmp_path / "cluster", seconds=0.5)
    with pytest.raises(CoterieError, match=message), cluster:
        pass
    assert [is_running(process) for process in cluster._processes] == [False]


def test_missing_requirements_are_found_before_the_work(monkeypatch):
    """Another engine, no Java, and no PySpark are refused."""
    check_spark(None)
    with pytest.raises(InvalidParameterError, match="give local"):
        check_spark("duckdb://")
    monkeypatch.setattr(local_spark.shutil, "which", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(local_spark.importlib.util, "find_spec", lambda _: "there")
    with pytest.raises(MissingExtraError, match="Java"):
        check_spark("local")
    monkeypatch.setattr(local_spark.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="PySpark"):
        check_spark("pyspark://host:7077")
