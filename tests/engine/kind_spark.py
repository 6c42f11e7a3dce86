"""Shards in the tasks of a local Spark; a DataFrame of its own is fitted in test_spark.py."""

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kind_sharded import as_they_are, cut

from dperm.engine import ShardedRows
from dperm.engine.shards.sources import ArrayShards, Placed

name = "spark"
slow = True


def available():
    return find_spec("pyspark") is not None


@cache
def session():
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    here = str(Path(__file__).parent)  # what tests send to workers is defined here
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2,4]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def native(X, y=None):
    from dperm.engine import SparkExecutor

    return Placed(ArrayShards(X, cut(len(X)), y), SparkExecutor(session()))


def rows(X, y, *, row_map, n_rows, mask=None):
    return ShardedRows.of(native(X, y), as_they_are, row_map=row_map, n_rows=n_rows, mask=mask)
