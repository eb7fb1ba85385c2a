"""Runs of tests with a changed module, each in a process forked from this one.

The processes share what is slow to import. Each imports coterie anew, with the changed source in
place of one module, and stops at the first failure. The tests are those of the module, the examples
in its docstrings, and the tests of modules in its folder that import it. Linux only.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.mutation.mutants import SOURCES
from coterie.errors import CoterieError

ROOT = SOURCES.parents[1]
_HEAVY = (
    "duckdb",
    "hypothesis.extra.numpy",
    "joblib",
    "pandas",
    "polars",
    "pyarrow.csv",
    "pyarrow.parquet",
    "rich.progress",
    "scipy.cluster.hierarchy",
    "scipy.stats",
    "sklearn.cluster",
    "sklearn.metrics",
)
_MOST_BYTES = 12 * 2**30
_MOST_SECONDS = 600
_SLACK_SECONDS = 3


class ModuleTests:
    """The tests of a module, to be run with changed sources of it."""

    def __init__(self, module: str) -> None:
        self._module = module
        source = (SOURCES / module).read_text(encoding="utf-8")
        self._limit = _MOST_SECONDS
        for name in _HEAVY:
            importlib.import_module(name)
        gc.freeze()  # or the collector would copy what the forked processes share
        status, tests = self._run(source)
        if status != 0:
            raise CoterieError(f"without a change, the tests of {module} fail, the last of {tests}")
        self._limit = int(3 * sum(tests.values())) + _SLACK_SECONDS

    def outcome(self, source: str) -> dict[str, Any]:
        """Return what the tests say to a changed source: killed, survived or timed out."""
        status, tests = self._run(source)
        words = {0: "survived", -signal.SIGXCPU: "timed out", -signal.SIGKILL: "timed out"}
        return {
            "outcome": words.get(status, "killed"),
            "by": list(tests)[-1] if tests and status == pytest.ExitCode.TESTS_FAILED else "",
        }

    def _run(self, source: str) -> tuple[int, dict[str, float]]:
        """Return the exit status of the tests, and the seconds of each."""
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                try:
                    os._exit(self._test(source, Path(folder)))
                finally:
                    os._exit(pytest.ExitCode.INTERNAL_ERROR)
            status = _wait(child)
            log = Path(folder, "tests")
            lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return status, dict(map(json.loads, lines))

    def _test(self, source: str, folder: Path) -> int:
        """Run the tests in this process, silently, with a changed source."""
        _set_apart(self._limit)
        for name in [name for name in sys.modules if name.split(".")[0] == "coterie"]:
            del sys.modules[name]
        name = "coterie." + self._module.removesuffix(".py").replace("/", ".")
        sys.meta_path.insert(0, _ChangedModule(name, source))
        importlib.import_module(name)  # pytest would look for the file itself
        arguments = ["-x", "-q", "--tb=no", f"--basetemp={folder / 'temporary'}"]
        arguments += ["-p", "no:cacheprovider", "-p", "no:unraisableexception"]
        arguments += ["-p", "_hypothesis_pytestplugin"]
        # hypothesis is imported before the fork
        arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        return pytest.main(
            [*arguments, *paths_of_tests(self._module)], [_Seconds(folder / "tests")]
        )


def paths_of_tests(module: str) -> list[str]:
    """Return the test files of a module and of those in its folder that import it.

    >>> paths_of_tests("counts/coassociation.py")[:2]
    ['tests/counts/test_coassociation.py', 'src/coterie/counts/coassociation.py']
    """
    folder, file = os.path.split(module)
    stem = file.removesuffix(".py")
    package = "coterie." + folder.replace("/", ".")
    imports = (f"from {package}.{stem} import", f"from {package} import {stem}")
    tests = [f"tests/{folder}/test_{file}", f"src/coterie/{module}"]
    for path in sorted((SOURCES / folder).glob("*.py")):
        source = path.read_text(encoding="utf-8")
        if any(text in source for text in imports):
            tests.append(f"tests/{folder}/test_{path.name}")
    return [test for test in tests if (ROOT / test).exists()]


class _ChangedModule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module of coterie, with another source than its file has."""

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        path = SOURCES.parent / (fullname.replace(".", "/") + ".py")
        return importlib.util.spec_from_file_location(fullname, path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, str(module.__file__), "exec"), module.__dict__)


class _Seconds:
    """A plugin of pytest: writes the name and the seconds of each test, and shrinks nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutation", settings(), phases=phases, database=None)
        settings.load_profile("mutation")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        start = time.process_time()
        try:
            return (yield)
        finally:
            line = json.dumps([item.nodeid, time.process_time() - start])
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def _set_apart(limit: int) -> None:
    """Give this process its own group, limits and environment, and no output."""
    os.setsid()
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + limit, used + limit + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)


def _wait(child: int) -> int:
    """Return the exit status of a child; end it, and what it started, if it takes too long."""
    end = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
