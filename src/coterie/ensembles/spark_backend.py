"""A backend of joblib that runs tasks on the executors of a Spark cluster.

``joblib.parallel_config(backend=SparkBackend())`` sends the runs of an ensemble there. A thread of
this process waits for each task, so that order, errors and interrupts are those of joblib's
threads.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from joblib.parallel import ThreadingBackend

from coterie.errors import InvalidParameterError
from coterie.runtime.imports import require_extra


class SparkBackend(ThreadingBackend):
    """Run each task of joblib as a task of the active Spark session.

    Executors need this package, and the same versions of Python, NumPy and scikit-learn. By default
    as many tasks run at the same time as the cluster has cores.
    """

    supports_sharedmem = False
    default_n_jobs = -1

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        require_extra("spark", "SparkBackend needs", "pyspark")
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is None:
            raise InvalidParameterError(
                "there is no active Spark session; start one with "
                "SparkSession.builder.getOrCreate()"
            )
        self._context = session.sparkContext
        self._group = f"coterie-{uuid.uuid4()}"

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of tasks that run at the same time."""
        if n_jobs is None or n_jobs < 0:
            # with one thread joblib would run the tasks in this process
            return max(2, self._context.defaultParallelism)
        return int(n_jobs)

    def submit(self, func: Callable[[], Any], callback: Any = None) -> Any:
        """Start a task on an executor."""
        return super().submit(partial(self._on_executor, func), callback)

    def terminate(self) -> None:
        """Cancel the tasks that still run."""
        self._context.cancelJobGroup(self._group)
        super().terminate()

    def _on_executor(self, func: Callable[[], Any]) -> Any:
        self._context.setJobGroup(self._group, "runs of an ensemble", interruptOnCancel=True)
        [(result, error)] = self._context.parallelize([func], 1).map(_outcome).collect()
        if error is not None:
            raise error
        return result


def _outcome(func: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return the result or the error; Spark would repeat a task that raises one."""
    try:
        return func(), None
    except Exception as error:
        return None, error
