"""The wheel has what a user needs."""

import email
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import coterie

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from this tree."""
    pytest.importorskip("mesonpy", reason="meson-python is not installed: no wheel was built")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*build, "--disable-pip-version-check", "--wheel-dir", str(folder), str(ROOT)],
        env=os.environ | {"PATH": tools},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as opened:
        yield opened


def test_the_wheel_is_the_package(wheel):
    """It has every file of the package and nothing else; type checkers find their marker."""
    tracked = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert "coterie/py.typed" in packed
    assert not [name for name in packed if re.search(r"__pycache__|\.pyc$|meson\.build$", name)]
    if tracked.returncode == 0 and tracked.stdout:
        sources = {name.removeprefix("src/") for name in tracked.stdout.splitlines()}
        present = {name for name in sources if (ROOT / "src" / name).exists()}
        assert {name for name in present if not name.endswith("meson.build")} <= packed
        for kernels in (name.removesuffix(".pyx") for name in present if name.endswith(".pyx")):
            assert any(name.startswith(f"{kernels}.cpython") for name in packed)


def test_version_and_addresses_are_those_of_the_project(wheel):
    """The version is that of the source; package indexes know the labels of the addresses."""
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Version"] == coterie.__version__
    urls = dict(entry.split(", ", 1) for entry in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert all(url.startswith(urls["Homepage"]) for url in urls.values())
