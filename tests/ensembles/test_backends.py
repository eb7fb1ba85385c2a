"""Runs on the worker processes of a local Dask cluster."""

import contextlib
import os
import signal
import threading
import time

import joblib
import numpy as np
import pytest
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import make_blobs

from coterie import make_partitions
from coterie.ensembles.generate import fit_ensemble
from coterie.ensembles.runs import KINDS
from coterie.errors import CoterieError

distributed = pytest.importorskip(
    "distributed", reason="tests of runs on other machines need Dask: distributed"
)


pytestmark = [
    pytest.mark.slow,
    # joblib before 1.6 calls its own backend of Dask by a name that it has replaced
    pytest.mark.filterwarnings("ignore:`apply_async` is deprecated:DeprecationWarning"),
]


X, _ = make_blobs(300, 8, centers=30, cluster_std=6, random_state=0)
RUNS = {"n_clusters": 10, "n_partitions": 8, "random_state": 0}


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes of one thread each, on the loopback interface."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=50,  # tests kill workers
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """A connection to the cluster, after both workers have started."""
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=300)
        yield client


@pytest.fixture(scope="module")
def expected():
    """The labels of the runs, computed in this process."""
    return make_partitions(X, ensemble=KMeans(n_init=1), n_jobs=1, **RUNS)


def held_until(flag):
    """Return a k-means that waits on its worker until the file ``flag`` exists."""

    # A class in a function is sent to the workers by value; they cannot import this module.
    class Held(KMeans):
        def __init__(self, n_clusters=8, *, n_init=1, random_state=None, flag=""):
            super().__init__(n_clusters, n_init=n_init, random_state=random_state)
            self.flag = flag

        def fit(self, X, y=None, sample_weight=None):
            deadline = time.monotonic() + 60
            while not os.path.exists(self.flag) and time.monotonic() < deadline:  # noqa: PTH110
                time.sleep(0.01)
            return super().fit(X, y, sample_weight)

    return Held(flag=str(flag))


@contextlib.contextmanager
def half_way(cluster, flag, act):
    """Call ``act(worker address)`` when a worker has a run, then let all runs continue."""
    chosen = []
    over = threading.Event()

    def wait_and_act():
        try:
            while not chosen and not over.wait(0.01):
                busy = [
                    name for name, state in cluster.scheduler.workers.items() if state.processing
                ]
                if busy:
                    chosen.append(busy[0])
                    act(busy[0])
        finally:
            flag.touch()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        yield chosen
    finally:
        over.set()
        thread.join()
    assert chosen, "no worker was ever busy"


def test_workers_make_the_same_partitions(client):
    """Labels and predictions equal those of one local job to the last bit."""
    settings = {"ensemble": [*KINDS, MiniBatchKMeans(n_init=1)], "random_state": 3}
    here = fit_ensemble(X[:200], 5, 10, n_jobs=1, **settings)
    with joblib.parallel_config(backend="dask"):
        there = fit_ensemble(X[:200], 5, 10, **settings)
    np.testing.assert_array_equal(there.labels, here.labels)
    np.testing.assert_array_equal(there.predict(X[200:]), here.predict(X[200:]))
    assert os.getpid() not in client.run(os.getpid).values()


def test_a_worker_may_die(cluster, client, expected, tmp_path):
    """The runs of a killed worker are repeated on another, with the same labels."""
    processes, flag = client.run(os.getpid), tmp_path / "go on"
    with (
        half_way(cluster, flag, lambda at: os.kill(processes[at], signal.SIGKILL)) as killed,
        joblib.parallel_config(backend="dask", scatter=[X]),
    ):
        P = make_partitions(X, ensemble=held_until(flag), **RUNS)
    np.testing.assert_array_equal(P, expected)
    client.wait_for_workers(2, timeout=300)
    assert processes[killed[0]] not in client.run(os.getpid).values()


def test_loss_of_the_only_copy_is_reported(cluster, client, tmp_path):
    """If all workers with a copy of X are lost, the error says how to send more copies."""
    processes, flag = client.run(os.getpid), tmp_path / "go on"

    def kill_all(_):
        for process in processes.values():
            os.kill(process, signal.SIGKILL)

    with (
        half_way(cluster, flag, kill_all),
        pytest.raises(CoterieError, match=r"the only copy of X was lost.*scatter=\[X\]"),
        joblib.parallel_config(backend="dask"),
    ):
        make_partitions(X, ensemble=held_until(flag), **RUNS)
