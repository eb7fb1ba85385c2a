"""Functions on Arrow batches that run on the executors of Spark.

The code of a function is pickled by value, so the executors need NumPy and PyArrow but not coterie.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from coterie.engines.label_tables import executor_scoring
from coterie.engines.label_tables.executor_scoring import COUNT_COLUMN, batches_of_low_hash
from coterie.engines.label_tables.packed_keys import HASH_RANGE, KeyLayout
from coterie.engines.queries import engine_errors

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pyspark.sql import DataFrame

__all__ = ["count_keys_of_low_hash", "mapped", "spark_frame"]


def spark_frame(rows: ir.Table) -> DataFrame:
    """Return the Spark frame of an Ibis table."""
    import ibis

    backend: Any = rows.get_backend()
    frame: DataFrame = backend._session.sql(ibis.to_sql(rows))
    return frame


def mapped(frame: DataFrame, function: Callable[..., Any], schema: Any) -> DataFrame:
    """Apply a function of :mod:`.executor_scoring` to the batches of every partition."""
    import pyspark.cloudpickle

    cloudpickle: Any = pyspark.cloudpickle
    cloudpickle.register_pickle_by_value(executor_scoring)
    return frame.mapInArrow(function, schema)


def count_keys_of_low_hash(keys: ir.Table, layout: KeyLayout, below: int) -> pa.Table:
    """Count the distinct keys whose hash is below a bound.

    As an expression, the hash is slow on Spark: it names every key many times, and Spark computes
    the key from its labels each time.
    """
    sample = partial(batches_of_low_hash, layout.hash_factors, HASH_RANGE, below)
    with engine_errors("pyspark cannot read the table"):
        frame = spark_frame(keys)
        counted = mapped(frame, sample, frame.schema).groupBy(*layout.key_names).count()
        return counted.withColumnRenamed("count", COUNT_COLUMN).toArrow()
