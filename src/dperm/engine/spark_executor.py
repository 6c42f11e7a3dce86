"""Tasks on the executors of a Spark cluster, classic or Connect."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dperm.engine.executors import Executor, Task
from dperm.errors import InvalidInput


class SparkExecutor(Executor):
    """One Spark task for each slot, over a range of slot numbers; the numbers of a slot's shards follow from its own.

    No RDD, no accumulator and no shuffle: what a task is to do is a function of its slot, so one that is run again does
    the same, and Spark takes the answers of one attempt alone.

    Parameters
    ----------
    spark : SparkSession, optional
        By default the active one.
    slots : int, optional
        Spark tasks of one pass; by default as many as Spark runs at once.
    """

    def __init__(self, spark: Any = None, slots: int | None = None) -> None:
        from pyspark.sql import SparkSession

        self._spark = SparkSession.active() if spark is None else spark
        self._slots = slots

    def run(self, task: Task, shards: Sequence[int]) -> Iterable[tuple[int, Any]]:
        from pyspark.cloudpickle import dumps

        slots = min(self._slots_at_once(), len(shards))
        work = _Work(dumps(task), tuple(shards), slots)
        failed = None
        try:
            with warnings.catch_warnings():
                # At every call it says which pandas it was not tried with; no pandas is used here.
                warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
                table = self._spark.range(0, slots, 1, slots).mapInArrow(work, "shard long, answer binary")
                rows = table.collect()
        except Exception as error:  # with the traceback of a worker in its text
            failed = type(error).__name__
        if failed is not None:
            raise InvalidInput(
                f"Spark could not run the tasks of a pass: {failed}. See that every worker can import dperm, of the "
                "driver's version, and has memory for a shard."
            )
        for row in rows:
            yield row.shard, pickle.loads(row.answer)

    def _slots_at_once(self) -> int:
        if self._slots is None:
            from pyspark.sql.functions import spark_partition_id

            places = self._spark.range(0, 2**16).select(spark_partition_id()).distinct()
            self._slots = max(1, places.count())
        return self._slots


class _Work:
    """What a Spark task does with the numbers of its slots."""

    def __init__(self, task: bytes, shards: tuple[int, ...], slots: int) -> None:
        self._task, self._shards, self._slots = task, shards, slots

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        task = pickle.loads(self._task)
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                for shard in self._shards[slot :: self._slots]:
                    answer = pickle.dumps(task(shard))
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([shard], pa.int64()), pa.array([answer], pa.binary())], ["shard", "answer"]
                    )
