"""Rows in shards, here, on Dask or on Spark."""
