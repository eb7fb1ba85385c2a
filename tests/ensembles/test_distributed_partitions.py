"""Partitions made by worker processes of a Dask cluster on this machine."""

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

from coterie import ConsensusClusterer, make_partitions
from coterie.ensembles.making import STRATEGIES, fit_ensemble
from coterie.errors import CoterieError

distributed = pytest.importorskip(
    "distributed", reason="tests of runs on other machines need Dask: coterie[dask]"
)

X, _ = make_blobs(600, 8, centers=30, cluster_std=6, random_state=0)
RUNS = {"n_clusters": 20, "n_partitions": 12, "random_state": 0}


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes of one thread each, on loopback."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=50,  # a killed worker is no news here
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """A connection to the cluster, once both workers are there."""
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=30)
        yield client


@pytest.fixture(scope="module")
def expected():
    """The labels of the runs, made here, one at a time."""
    return make_partitions(X, clusterer=KMeans(n_init=1), n_jobs=1, **RUNS)


def held_until(flag):
    """A k-means that waits on its worker until the file is there: so there is a half-way."""

    # a class within a function goes to the workers by value; they cannot import this module
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
    """Call ``act(worker address)`` once a worker holds a run, then let all runs go on."""
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


@pytest.mark.parametrize("clusterer", [None, MiniBatchKMeans(n_init=1)], ids=["kmeans", "given"])
def test_workers_make_the_same_partitions(client, clusterer):
    """Labels and members are those of one job, to the last bit, and none of them was made here."""
    settings = {"strategy": STRATEGIES, "clusterer": clusterer, "random_state": 3}
    here = fit_ensemble(X[:400], 5, 10, n_jobs=1, **settings)
    with joblib.parallel_config(backend="dask"):
        there = fit_ensemble(X[:400], 5, 10, **settings)
    np.testing.assert_array_equal(there.labels, here.labels)
    np.testing.assert_array_equal(there.predict(X[400:600]), here.predict(X[400:600]))
    assert os.getpid() not in client.run(os.getpid).values()


def test_clusterers_follow_the_backend(client):
    """A clusterer from features to labels sends its runs to the workers without being told to."""
    est = ConsensusClusterer(3, n_partitions=6, random_state=0)
    labels = est.fit(X[:500]).labels_
    before = n_runs_of_workers(client)
    with joblib.parallel_config(backend="dask"):
        again = est.fit(X[:500]).labels_
    np.testing.assert_array_equal(again, labels)
    assert n_runs_of_workers(client) > before


def n_runs_of_workers(client):
    """How many batches of runs the scheduler has ever seen begin."""
    return client.run_on_scheduler(
        lambda dask_scheduler: sum(
            prefix.state_counts["processing"] + prefix.state_counts["memory"]
            for name, prefix in dask_scheduler.task_prefixes.items()
            if name.startswith("batch_of")
        )
    )


@pytest.mark.parametrize("scatter", [False, True])
def test_features_travel_once(client, monkeypatch, scatter):
    """However many runs there are, X is handed to the cluster one time."""
    sent = []
    send = client.scatter

    def counted(data, *args, **kwargs):
        sent.extend(item for item in (data if isinstance(data, list) else [data]) if item is X)
        return send(data, *args, **kwargs)

    monkeypatch.setattr(client, "scatter", counted)
    settings = {"client": client} | ({"scatter": [X]} if scatter else {})
    with joblib.parallel_config(backend="dask", **settings):
        make_partitions(X, 2, n_partitions=12, random_state=0)
    assert len(sent) == 1


def test_progress_is_shown(client, capsys):
    """The bar counts runs on workers too."""
    with joblib.parallel_config(backend="dask"):
        make_partitions(X[:100], 3, n_partitions=4, progress=True, random_state=0)
    out, err = capsys.readouterr()
    assert out == "" and "partitions" in err and "100%" in err


@pytest.fixture
def plain_interrupts():
    """Ctrl-C as Python has it: Spark, where a test used it before, leaves a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupts_get_through(cluster, client, expected, plain_interrupts, tmp_path):
    """Ctrl-C ends the waiting; the cluster is left in a state to be used again."""
    main, flag = threading.main_thread().ident, tmp_path / "go on"
    with (
        half_way(cluster, flag, lambda _: signal.pthread_kill(main, signal.SIGINT)),
        pytest.raises(KeyboardInterrupt),
        joblib.parallel_config(backend="dask"),
    ):
        make_partitions(X, clusterer=held_until(flag), **RUNS)
        time.sleep(60)  # should the runs have ended first, the interrupt still comes here
    with joblib.parallel_config(backend="dask"):
        P = make_partitions(X, clusterer=KMeans(n_init=1), **RUNS)
    np.testing.assert_array_equal(P, expected)


def test_a_worker_may_die(cluster, client, expected, tmp_path):
    """A worker killed half-way costs its runs, which another does again: the same labels come."""
    processes, flag = client.run(os.getpid), tmp_path / "go on"
    with (
        half_way(cluster, flag, lambda at: os.kill(processes[at], signal.SIGKILL)) as killed,
        joblib.parallel_config(backend="dask", scatter=[X]),
    ):
        P = make_partitions(X, clusterer=held_until(flag), **RUNS)
    np.testing.assert_array_equal(P, expected)
    client.wait_for_workers(2, timeout=30)
    assert processes[killed[0]] not in client.run(os.getpid).values()


def test_no_copy_may_be_left(cluster, client, tmp_path):
    """If X dies with all workers that held it, the error says how to keep more copies."""
    processes, flag = client.run(os.getpid), tmp_path / "go on"

    def kill_all(_):
        for process in processes.values():
            os.kill(process, signal.SIGKILL)

    with (
        half_way(cluster, flag, kill_all),
        pytest.raises(CoterieError, match=r"lost that had the only copy of X.*scatter=\[X\]"),
        joblib.parallel_config(backend="dask"),
    ):
        make_partitions(X, clusterer=held_until(flag), **RUNS)
