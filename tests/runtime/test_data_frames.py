"""Tests of the import of pandas."""

from __future__ import annotations

import sys

import pandas as pd
import pytest

from coterie.errors import MissingExtraError
from coterie.runtime.data_frames import import_pandas


def test_pandas_is_imported():
    """The module is returned if it is installed."""
    assert import_pandas() is pd


def test_a_missing_pandas_is_named(monkeypatch):
    """The error says which extra to install."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'coterie\[frames\]'"):
        import_pandas()
