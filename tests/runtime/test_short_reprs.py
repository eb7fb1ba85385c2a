"""Tests of reprs in one line."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans

import coterie
from coterie import RobustConsensus, planted_partitions
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import as_label_tuples
from coterie.runtime.wording import short_repr

#: Packages whose records people see.
PACKAGES = (
    "labels",
    "ensembles",
    "counts",
    "search",
    "relaxation",
    "consensus",
    "multiview",
    "engines",
    "inspection",
)


@dataclass
class Record:
    """A record of any value."""

    value: Any
    hidden: Any = dataclasses.field(default=None, repr=False)

    __repr__ = short_repr


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.zeros((40, 2)), "float64 (40, 2)"),
        (np.arange(7), "int64 (7,)"),
        (np.array([1, 2]), "[1, 2]"),
        (np.array([0.123456]), "[0.123]"),
        (np.float64(0.5), "0.5"),
        (csr_array((3, 4)), "csr_array of float64 (3, 4)"),
        ([np.zeros((5, 5))], "[float64 (5, 5)]"),
        ((np.arange(9),), "(int64 (9,),)"),
        ({"losses": [0.5] * 300}, "{'losses': list of 300}"),
        (list(range(1000)), "list of 1,000"),
        (b"x" * 500, "bytes of 500"),
        ("a" * 100, "'" + "a" * 58 + "…"),
        (KMeans(3), "KMeans(…)"),
        (Record(np.zeros((2, 2))), "Record(value=float64 (2, 2))"),
        (3, "3"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_shortened(value, shown):
    """Arrays are shown by type and shape, containers by length, estimators by name."""
    assert repr(Record(value, hidden=1)) == f"Record(value={shown})"


def test_what_is_absent_is_left_out():
    """A field that is None is not shown."""
    assert repr(Record(None)) == "Record()"


def test_results_have_one_line():
    """The records of a fit of many points have a repr of one line."""
    P, _ = planted_partitions([600, 300, 100], 30, n_bad=4, noise=0.3, random_state=0)
    est = RobustConsensus(3, relaxation="l2", random_state=0).fit(P)
    for record in (as_label_matrix(P), as_label_tuples(P), est._tables, est.dissent_):
        text = repr(record)
        assert text.startswith(type(record).__name__) and "\n" not in text and len(text) < 250


def records_with_arrays():
    """Yield the public dataclasses with a field for an array."""
    for module in pkgutil.walk_packages(coterie.__path__, "coterie."):
        if module.name.split(".")[1] not in PACKAGES:
            continue
        try:
            namespace = vars(importlib.import_module(module.name))
        except ImportError:  # an optional package is not installed
            continue
        for name, kind in namespace.items():
            if not dataclasses.is_dataclass(kind) or kind.__module__ != module.name:
                continue
            types = " ".join(str(field.type) for field in dataclasses.fields(kind))
            estimator = hasattr(kind, "get_params")
            if "Array" in types and not estimator and not name.startswith("_"):
                yield kind


def test_no_record_prints_its_arrays():
    """The repr that dataclasses generate, which prints all arrays, is replaced everywhere."""
    kinds = list(records_with_arrays())
    assert len(kinds) > 10
    assert [kind for kind in kinds if hasattr(kind.__repr__, "__wrapped__")] == []
