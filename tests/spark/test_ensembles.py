"""make_partitions on the executors of a local Spark cluster."""

import os

import joblib
import numpy as np
import pytest
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import make_blobs

from coterie import make_partitions
from coterie.ensembles import runs
from coterie.ensembles.spark_backend import SparkBackend
from coterie.errors import InvalidParameterError

pytestmark = [
    # PySpark does not close its sockets
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("spark"),
]

X, _ = make_blobs(200, 4, centers=5, cluster_std=3, random_state=0)


def test_executors_make_the_same_partitions(monkeypatch):
    """Labels equal those of one local job, also if the runs are fitted to samples."""
    settings = {"n_partitions": 4, "random_state": 0}
    for most in (1_000, 150):
        monkeypatch.setitem(runs.MOST_FITTED, "mixture", most)
        here = make_partitions(X, 5, n_jobs=1, **settings)
        with joblib.parallel_config(backend=SparkBackend()):
            there = make_partitions(X, 5, **settings)
        np.testing.assert_array_equal(there, here)


def test_tasks_run_in_other_processes():
    """Tasks are functions of processes that Spark started."""
    with joblib.parallel_config(backend=SparkBackend()):
        found = joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(2))
    assert os.getpid() not in found


def test_errors_of_executors_are_those_of_local_runs():
    """A clusterer that fails on an executor gives the same error and message as here."""
    with pytest.raises(InvalidParameterError) as here:
        make_partitions(X, 5, n_partitions=2, ensemble=DBSCAN(eps=-1), n_jobs=1, random_state=0)
    with (
        joblib.parallel_config(backend=SparkBackend()),
        pytest.raises(InvalidParameterError) as there,
    ):
        make_partitions(X, 5, n_partitions=2, ensemble=DBSCAN(eps=-1), random_state=0)
    assert str(there.value) == str(here.value)
    with joblib.parallel_config(backend=SparkBackend()):  # the cluster remains usable
        make_partitions(X, 5, n_partitions=2, ensemble=KMeans(n_init=1), random_state=0)
