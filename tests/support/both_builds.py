"""Kernels that are compiled twice: for every processor, and for wide vectors."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

#: Under another name the first module does not look for the wide one.
_COMPARE = """
import importlib
import importlib.util
import numpy as np
{run}
place = importlib.util.find_spec("{package}.kernels").origin
spec = importlib.util.spec_from_file_location("generic.kernels", place)
generic = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generic)
wide = importlib.import_module("{package}.wide_kernels")
assert wide.{kernel} is not generic.{kernel}
for one, other in zip(run(generic), run(wide), strict=True):
    assert np.array_equal(one, other)
"""


def assert_same_bits(package: str, kernel: str, run: str) -> None:
    """Check that ``run(kernels)`` yields the same arrays with both builds of a package's kernels.

    ``run`` is the code of this function, for a fresh interpreter; ``kernel`` is one of the kernels.
    """
    if importlib.util.find_spec(f"{package}.wide_kernels") is None:
        pytest.skip("this build has no kernels for wide vectors")
    flags = Path("/proc/cpuinfo")
    if flags.exists() and "avx2" not in flags.read_text():
        pytest.skip("this processor has no AVX2: the wide kernels were not run")
    code = _COMPARE.format(package=package, kernel=kernel, run=run)
    subprocess.run([sys.executable, "-c", code], check=True)
