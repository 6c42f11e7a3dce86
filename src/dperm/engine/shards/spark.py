"""A Spark DataFrame as shards, whose rows are written once and every file is one, and tasks on Spark's executors."""

from __future__ import annotations

import os
import pickle
import tempfile
import uuid
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dperm.engine.registry import register_adapter
from dperm.engine.shards.sources import Executor, ShardSource, Task
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


FOLDER = "DPERM_SPARK_FOLDER"
"""The environment variable that names a folder which the driver and all workers can read and write."""

_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal", "boolean")


class SparkShards(ShardSource):
    """Parquet files that Spark wrote of a DataFrame.

    A partition of a DataFrame is computed anew when a task is run again, and its rows may then be others or come in
    another order. The files stay as they are, and each is read as a whole.
    """

    def __init__(
        self, frame: Any, y: str | None, folder: str | None = None, person: str | None = None
    ) -> None:
        names = [name for name in frame.columns if name not in (y, person)]
        _check_columns(frame, names, {"y": y, "groups": person})
        self._frame, self._y, self._names, self.person = frame, y, names, person
        self._wished = folder
        self._files: tuple[str, ...] = ()
        self._sizes: tuple[int, ...] | None = None
        self.n_features, self.has_labels = len(names), y is not None
        self.feature_names, self.key = tuple(names), uuid.uuid4().hex

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        """The files are written when they are first asked for."""
        if self._sizes is None:
            self._write()
        assert self._sizes is not None
        return self._sizes

    @property
    def sizes_are_known(self) -> bool:  # type: ignore[override]
        return self._sizes is not None

    def load(self, shard: int) -> tuple[Any, Any]:
        table = self._read(shard)
        X = np.empty((table.num_rows, self.n_features))
        for j, name in enumerate(self._names):
            X[:, j] = table.column(name).to_numpy()
        return X, None if self._y is None else table.column(self._y).to_numpy()

    def labels(self, shard: int) -> Any:
        return self._read(shard, self._y).column(0).to_numpy()

    def persons(self, shard: int) -> Any:
        return super().persons(shard) if self.person is None else self._read(shard, self.person).column(0)

    def _read(self, shard: int, *names: str | None) -> Any:
        """The table of a file, or some of its columns."""
        import pyarrow.parquet as pq

        path, filesystem = _opened(self._files[shard])
        return pq.ParquetFile(path, filesystem=filesystem).read(columns=list(names) or None)

    def executor(self) -> Executor:
        return SparkExecutor(self._frame.sparkSession)

    def close(self) -> None:
        """Delete the files."""
        if self._sizes is not None:
            self._delete()

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_y", "_names", "_files", "n_features", "has_labels", "feature_names", "key", "person")
        return {name: self.__dict__[name] for name in kept} | {"_sizes": self.sizes}

    def _write(self) -> None:
        from pyarrow import fs, parquet
        from pyspark.sql.functions import col

        folder = self._folder()
        columns = [col(_quoted(name)).cast("double").alias(name) for name in self._names]
        columns += [col(_quoted(name)) for name in (self._y, self.person) if name is not None]
        path, filesystem = _opened(folder)
        self._delete = weakref.finalize(self, _delete, folder)
        self._frame.select(*columns).write.parquet(f"{folder}/rows")
        found = filesystem.get_file_info(fs.FileSelector(f"{path}/rows"))
        names = sorted(os.path.basename(info.path) for info in found if info.path.endswith(".parquet"))
        sizes = [
            parquet.ParquetFile(f"{path}/rows/{name}", filesystem=filesystem).metadata.num_rows
            for name in names
        ]
        self._files, self._sizes = tuple(f"{folder}/rows/{name}" for name in names), tuple(sizes)

    def _folder(self) -> str:
        wished = self._wished or os.environ.get(FOLDER)
        if wished:
            return f"{wished.rstrip('/')}/dperm-{uuid.uuid4().hex}"
        if not self._frame.sparkSession.conf.get("spark.master", "").startswith("local"):
            raise InvalidInput(
                f"Spark runs on several machines: set {FOLDER}, or the folder of spark_shards, to a private "
                "folder that the driver and all workers can read and write. The rows are written there once."
            )
        return tempfile.mkdtemp(prefix="dperm-")  # for this user alone


def spark_shards(
    frame: Any, y: str | None = None, folder: str | None = None, person: str | None = None
) -> ShardSource:
    """Write the rows of a Spark DataFrame to Parquet files, and take these as shards.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Columns of numbers, and that of the labels.
    y : str, optional
        The column of the labels.
    folder : str, optional
        A private folder that the driver and all workers can read and write, as a path or a URI. The files in it are as
        sensitive as the rows; ``close`` deletes them.
    person : str, optional
        The column with the ids of persons, which is then no feature.
    """
    source = SparkShards(frame, y, folder, person)
    assert source.sizes  # written now, before anyone pays for a fit
    return source


def _adapted(X: Any, y: Any, person: str | None = None) -> ShardSource | None:
    if type(X).__module__.partition(".")[0] != "pyspark" or not hasattr(X, "mapInArrow"):
        return None
    if y is not None and not isinstance(y, str):
        raise InvalidInput(
            "the labels of a Spark DataFrame are one of its columns: give y as the column's name."
        )
    return SparkShards(X, y, None, person)


register_adapter(_adapted, opens=("pyspark",))


def _check_columns(frame: Any, names: list[str], apart: Mapping[str, str | None]) -> None:
    for what, name in apart.items():
        if name is not None and name not in frame.columns:
            raise InvalidInput(f"{what} names no column of X.")
    kinds = {field.name: field.dataType.typeName() for field in frame.schema.fields}
    other = [name for name in names if not kinds[name].startswith(_NUMBERS)]
    if other:
        raise InvalidInput(
            f"{len(other)} of {len(names)} columns hold no numbers; encode them first, and give a vector as columns."
        )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _opened(folder: str) -> tuple[str, Any]:
    """A path and the file system that it is of."""
    from pyarrow import fs

    if "://" not in folder:
        return os.path.abspath(folder), fs.LocalFileSystem()
    filesystem, path = fs.FileSystem.from_uri(folder)
    return path, filesystem


def _delete(folder: str) -> None:
    path, filesystem = _opened(folder)
    filesystem.delete_dir(path)
