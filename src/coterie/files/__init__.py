"""Files of tables (CSV, Parquet, NPY) and of fitted models."""
