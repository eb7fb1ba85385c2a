"""A Spark cluster that cannot start; the tests of the engines use a real one."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

import pytest

from benchmarks import local_spark
from coterie.errors import CoterieError, MissingExtraError


@pytest.mark.parametrize(
    ("script", "seconds", "message"),
    [
        ("import signal; signal.pause()", 0.5, "no Spark cluster within 0.5 s"),
        ("import sys; sys.exit('ERROR: no memory')", 300, "ERROR: no memory"),
    ],
)
def test_a_cluster_that_does_not_start_is_ended(monkeypatch, tmp_path, script, seconds, message):
    """A silent cluster after its time limit, and one that fails."""
    program = tmp_path / "bin" / "spark-class"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable} -IS\n{script}")
    program.chmod(0o755)
    found = ModuleSpec("pyspark", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(local_spark.importlib.util, "find_spec", lambda _: found)
    monkeypatch.setattr(local_spark.shutil, "which", lambda _: "java")
    started = []
    start = local_spark._start
    monkeypatch.setattr(local_spark, "_start", lambda *a: started.append(start(*a)) or started[-1])
    with (
        pytest.raises(CoterieError, match=message),
        local_spark.local_spark(tmp_path / "cluster", seconds),
    ):
        pass
    assert [process.poll() is None for process in started] == [False]


def test_missing_requirements_are_refused(monkeypatch, tmp_path):
    """Without PySpark there is no cluster."""
    monkeypatch.setattr(local_spark.importlib.util, "find_spec", lambda _: None)
    with (
        pytest.raises(MissingExtraError, match="Java"),
        local_spark.local_spark(tmp_path),
    ):
        pass
