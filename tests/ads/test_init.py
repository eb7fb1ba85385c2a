"""The public names of the advertising part, which are imported when first used."""

import importlib.util
import subprocess
import sys

import pytest

from coterie import ads


@pytest.mark.parametrize("name", ads.__all__)
def test_every_public_name_is_there(name):
    """A public name is that of its home module, and it is documented."""
    assert getattr(ads, name).__doc__


@pytest.mark.parametrize("name", ads.__all__)
def test_no_public_name_is_a_module(name):
    """Importing a module would replace a function of the same name."""
    assert importlib.util.find_spec(f"coterie.ads.{name}") is None


def test_dir_lists_the_public_names():
    """Completion in a shell offers every public name, used or not."""
    assert set(ads.__all__) <= set(dir(ads))


def test_importing_is_quick():
    """Engines and numerical libraries are imported on first use."""
    code = (
        "import sys, coterie.ads; print({'ibis', 'numpy', 'duckdb', 'jinja2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_unknown_name_is_an_attribute_error():
    """The error is that of any module."""
    with pytest.raises(AttributeError, match="no attribute 'forecast_everything'"):
        _ = ads.forecast_everything
