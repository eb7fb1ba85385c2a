"""Compiled code: a warmed cache is used though it is read-only, and no cache is no failure."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import numba as nb
import pytest
from numba.core import caching

import coterie
from coterie.errors import CoterieWarning
from coterie.runtime import compiled_code
from plain_users import run_python, set_writable, shared_folder, started_python

# calls one kernel and prints what became of it
CALL = """
import logging, sys, warnings
logging.basicConfig(level=logging.INFO, format="log: %(message)s", stream=sys.stdout)
import numpy as np
from coterie.runtime import compiled_code

from coterie.counts.cluster_kernels import first_largest
assert first_largest(np.array([0.0, 2.0, 1.0])) == 1
for kind in sys.argv[1:]:
    assert first_largest(np.array([0, 2, 1], dtype=kind)) == 1
found = compiled_code.compiled_functions()
print(found.compiled, found.loaded, *found.folders)
print("private:", compiled_code.prepare_cache())
"""
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"


def outcome(printed: str) -> list[str]:
    """Return how many kernels were compiled and loaded, and where the cache is."""
    return printed.splitlines()[-2].split()


def private_folder(printed: str) -> str:
    """Return the private folder that a process used, or nothing."""
    return printed.splitlines()[-1].removeprefix("private:").strip()


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the compiled code below a folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*.nb[ic]"))}


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder that other users reach."""
    with shared_folder() as folder:
        yield folder


@pytest.fixture
def cache(shared) -> Path:
    """Return a folder to which everybody can write."""
    folder = shared / "cache"
    folder.mkdir()
    set_writable(folder, True)
    return folder


@pytest.fixture(scope="module")
def compiled() -> Iterator[Path]:
    """Return a cache to which a process has saved one kernel; tests must not write to it."""
    with shared_folder() as folder:
        set_writable(folder, True)
        run_python(CALL, NUMBA_CACHE_DIR=str(folder))
        yield folder


@pytest.fixture
def warmed_cache(cache, compiled) -> Path:
    """Return a copy of the cache with one kernel, to which everybody can write."""
    shutil.copytree(compiled, cache, dirs_exist_ok=True)
    set_writable(cache, True)
    return cache


@pytest.fixture
def copied_package(shared) -> Path:
    """Return the parent of a copy of the package without compiled code, which nobody can change."""
    source = Path(coterie.__file__).parent
    shutil.copytree(
        source, shared / "site" / "coterie", ignore=shutil.ignore_patterns("__pycache__")
    )
    set_writable(shared / "site", False)
    return shared / "site"


def test_a_writable_folder_is_used_as_it_is(cache):
    """The first process compiles and saves, the second loads; nothing is said or copied."""
    first, second = (run_python(CALL, NUMBA_CACHE_DIR=str(cache)) for _ in range(2))
    assert outcome(first.stdout)[:2] == ["1", "0"]
    assert outcome(second.stdout)[:2] == ["0", "1"]
    assert Path(outcome(second.stdout)[2]).parent == cache
    assert private_folder(first.stdout) == private_folder(second.stdout) == ""
    assert first.stderr == second.stderr == ""


def test_a_read_only_cache_is_used_without_writing(warmed_cache):
    """Warmed code is loaded; code for other types is compiled, and the folder stays as it is."""
    set_writable(warmed_cache, False)
    before = files_in(warmed_cache)
    done = run_python(CALL, "i8", NUMBA_CACHE_DIR=str(warmed_cache))
    assert outcome(done.stdout)[:2] == ["1", "1"]
    assert Path(outcome(done.stdout)[2]).parent == warmed_cache
    assert files_in(warmed_cache) == before
    assert f"log: Using the compiled code in {warmed_cache}" in done.stdout
    assert private_folder(done.stdout) and not Path(private_folder(done.stdout)).exists()
    assert done.stderr == ""


def test_processes_do_not_disturb_each_other(warmed_cache):
    """Several processes use a read-only cache at the same time, each with a folder of its own."""
    set_writable(warmed_cache, False)
    started = [started_python(CALL, NUMBA_CACHE_DIR=str(warmed_cache)) for _ in range(3)]
    printed = [process.communicate()[0] for process in started]
    assert [outcome(text)[:2] for text in printed] == [["0", "1"]] * 3
    assert len({private_folder(text) for text in printed}) == 3


def test_code_beside_the_package_is_used_though_it_is_read_only(copied_package):
    """An image may have been warmed without NUMBA_CACHE_DIR."""
    set_writable(copied_package, True)
    run_python(CALL, package=copied_package)
    assert files_in(copied_package)
    set_writable(copied_package, False)
    done = run_python(CALL, package=copied_package)
    assert outcome(done.stdout)[:2] == ["0", "1"]
    assert Path(outcome(done.stdout)[2]) == copied_package / "coterie" / "counts" / "__pycache__"


def test_without_any_folder_kernels_are_compiled_in_memory(copied_package):
    """One warning says what to do, and the result is right."""
    script = "import warnings; warnings.simplefilter('always')" + CALL
    done = run_python(script, package=copied_package, NUMBA_CACHE_DIR="/proc/nowhere")
    assert outcome(done.stdout) == ["1", "0"]
    assert done.stderr.count("CoterieWarning: compiled code cannot be kept") == 1
    assert "Set NUMBA_CACHE_DIR to a writable folder" in done.stderr


def test_a_full_disk_is_a_warning(cache):
    """Code that cannot be saved works, and the next process compiles it again."""
    done = run_python(LIMITED + CALL, "i8", NUMBA_CACHE_DIR=str(cache))
    assert outcome(done.stdout)[:2] == ["2", "0"]
    assert done.stderr.count(f"could not be saved in {cache}") == 1
    again = run_python(CALL, "i8", NUMBA_CACHE_DIR=str(cache))
    assert outcome(again.stdout)[:2] == ["2", "0"]


def test_code_that_could_not_be_saved_is_not_mistaken_for_older_code(warmed_cache):
    """If a save fails, the index does not refer to a file of the same name that is still there."""
    for index in warmed_cache.rglob("*.nbi"):
        index.unlink()  # as if the source had changed; the code of before is still there
    run_python(LIMITED + CALL, "i8", NUMBA_CACHE_DIR=str(warmed_cache))
    done = run_python(CALL, "i8", NUMBA_CACHE_DIR=str(warmed_cache))
    assert outcome(done.stdout)[:2] == ["2", "0"]


@pytest.mark.parametrize("suffix", ["nbc", "nbi"])
def test_damaged_code_is_compiled_again(suffix, warmed_cache):
    """A file that was cut short is no failure, and is replaced."""
    for path in warmed_cache.rglob(f"*.{suffix}"):
        path.write_bytes(path.read_bytes()[:50])
    for expected in (["1", "0"], ["0", "1"]):
        assert outcome(run_python(CALL, NUMBA_CACHE_DIR=str(warmed_cache)).stdout)[:2] == expected


def test_other_versions_of_numba_only_lose_the_links(monkeypatch):
    """Without the classes and attributes that this module looks for, kernels still work."""
    compiled_code.prepare_cache.cache_clear()
    for name in ("InTreeCacheLocator", "_InTreeCacheLocator"):
        monkeypatch.delattr(caching, name, raising=False)
    assert compiled_code.prepare_cache() == ""
    compiled_code.prepare_cache.cache_clear()
    compiled_code._guard(object())


def test_the_cache_of_other_packages_is_not_touched(tmp_path):
    """The setting of numba is as before when a kernel has been decorated."""
    before = nb.config.CACHE_DIR
    with compiled_code._cache_dir(str(tmp_path)):
        assert nb.config.CACHE_DIR == str(tmp_path)
    assert nb.config.CACHE_DIR == before


def test_other_errors_of_the_decorator_are_not_hidden():
    """Only a missing cache is tolerated."""
    with pytest.raises(TypeError):
        compiled_code.njit(nogil=True)("no function")


def test_a_problem_is_one_warning(monkeypatch):
    """The first problem is reported; what follows is of the same kind."""
    monkeypatch.setattr(compiled_code, "_problems", [])
    with pytest.warns(CoterieWarning, match=r"saved in /x: No space left"):
        compiled_code._warn_unsaved("/x", "No space left on device")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled_code._warn_unsaved("/y", "No space left on device")
    assert "/x" in compiled_code.compiled_functions().problem
