"""Tables that stay in an engine: DuckDB or Spark, reached through Ibis."""

from coterie.runtime.imports import require_extra

require_extra("tables", "engines need", "pyarrow", "ibis")
