"""Tables that stay in an engine: DuckDB or Spark, reached through Ibis."""
