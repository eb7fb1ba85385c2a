"""The backend of joblib without Spark; its tests on a cluster are in ``tests/spark``."""

import pytest

from coterie.ensembles.spark_backend import SparkBackend
from coterie.errors import InvalidParameterError


def test_a_session_is_needed(monkeypatch):
    """Without an active session the message says how to start one."""
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    monkeypatch.setattr(sql.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(InvalidParameterError, match=r"no active Spark session; start one"):
        SparkBackend()
