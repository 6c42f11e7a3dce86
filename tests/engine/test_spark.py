"""Spark: a DataFrame is fitted; a task that fails once, or whose process dies, changes no bit. `make test-engines`."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

import pandas as pd  # noqa: E402
from kind_spark import session  # noqa: E402

from dperm import Ledger, PrivateLogisticRegression  # noqa: E402
from dperm.engine import LocalExecutor, Placed, SparkExecutor, persons_in, source_of, spark_shards  # noqa: E402
from dperm.engine.shards.sources import ArrayShards  # noqa: E402
from dperm.errors import InvalidInput  # noqa: E402
from dperm.estimators.persons import GroupedRows  # noqa: E402
from dperm.mechanisms import DPSGD  # noqa: E402

SETTINGS = {"classes": ["no", "yes"], "epsilon": 4.0, "delta": 1e-6, "random_state": 7}


def table(n=3000):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4)) / 3
    return X, np.where(X[:, 0] + 0.1 * rng.standard_normal(n) > 0, "yes", "no")


def frame():
    X, y = table()
    whole = pd.DataFrame(X, columns=["a", "b", "c d", "e`"]).assign(label=y.astype(object))
    return session().createDataFrame(whole).repartition(5)


class Breaks(ArrayShards):
    """Loading one shard goes wrong once: by an error, or by the end of the process."""

    def __init__(self, X, sizes, y, marker, way):
        super().__init__(X, sizes, y)
        self._marker, self._way = str(marker), way

    def load(self, shard):
        if shard == 1 and not os.path.exists(self._marker):
            with open(self._marker, "w"):
                pass
            if self._way == "dies":
                os._exit(3)
            raise OSError("once")
        return super().load(shard)


@pytest.mark.parametrize("way", ["raises", "dies"])
def test_a_task_that_fails_once_changes_no_bit(way, tmp_path):
    X, y = table()
    model = partial(PrivateLogisticRegression, mechanism=DPSGD(steps=4), **SETTINGS)
    expected = model().fit(Placed(ArrayShards(X, [1000] * 3, y), LocalExecutor())).coef_
    broken = Breaks(X, [1000] * 3, y, tmp_path / "once", way)
    found = model().fit(Placed(broken, SparkExecutor(session()))).coef_
    assert (tmp_path / "once").exists()
    np.testing.assert_array_equal(found, expected)


def test_the_column_of_persons_is_no_feature_and_the_unit_is_a_person():
    X, y = table()
    ids = np.random.default_rng(1).integers(0, 700, len(X))
    whole = pd.DataFrame(X, columns=["a", "b", "c d", "e`"]).assign(label=y.astype(object), id=ids)
    rows = session().createDataFrame(whole).repartition(3)
    for bound in (None, 2):
        # Spark deals the rows anew, so which two come first is its choice: those that it wrote are fitted by hand too.
        shards = spark_shards(rows, "label", person="id")
        parts = [(*shards.load(shard), shards.persons(shard)) for shard in range(len(shards.sizes))]
        dealt = [np.concatenate(column) for column in zip(*parts, strict=True)]
        model = partial(PrivateLogisticRegression, mechanism="output", max_rows_per_person=bound, **SETTINGS)
        expected = model().fit(*dealt[:2], groups=dealt[2])
        found = model().fit(shards)
        shards.close()
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5, atol=1e-5)
        assert found.privacy_.statement["unit"] == "one person"
        assert found.feature_names_in_.tolist() == ["a", "b", "c d", "e`"]
        named = model().fit(rows, "label", groups="id")
        assert named.privacy_.statement["persons"] == found.privacy_.statement["persons"]
    with pytest.raises(InvalidInput, match="groups names no column"):
        PrivateLogisticRegression(**SETTINGS).fit(rows, "label", groups="person")


def test_ids_are_told_apart_as_in_memory(tmp_path):
    """A column of integers with a gap is not read as floats, which would merge those beyond 2**53."""
    big = 2**60
    for kind, ids, readable in (
        ("long", [big, big + 1, None, 7, big, None], False),
        ("string", ["007", "7", "007", "x", "7", "X"], True),
        ("decimal(20,0)", [big, big + 1, 7, 7, big, 8], True),
        ("double", [7.0, 8.0, 7.0, 0.5, 9.0, 8.0], False),
    ):
        told = session().createDataFrame(
            [(0.1 * k, k % 2, None if one is None else str(one)) for k, one in enumerate(ids)],
            "a double, label int, text string",
        )
        rows = told.selectExpr("a", "label", f"cast(text as {kind}) as id").coalesce(1)
        shards = spark_shards(rows, "label", person="id")
        places = np.argsort(np.concatenate([shards.load(s)[0][:, 0] for s in range(len(shards.sizes))]))
        found, known = GroupedRows.of(persons_in(shards)), GroupedRows.of(ids)
        shards.close()
        assert found.readable is known.readable is readable
        np.testing.assert_array_equal(found.numbers[places], known.numbers)
    narrow = told.selectExpr("a", "label", "cast(text as float) as id")
    with pytest.raises(InvalidInput, match="got float"):
        persons_in(spark_shards(narrow, "label", person="id"))


def test_a_frame_is_written_once_fitted_and_deleted(tmp_path):
    rows = frame()
    source = spark_shards(rows, "label", folder=str(tmp_path))
    (made,) = tmp_path.iterdir()
    X, y = table()
    loaded = [source.load(shard) for shard in range(len(source.sizes))]
    found = np.concatenate([part for part, _ in loaded])
    order, mine = np.lexsort(X.T), np.lexsort(found.T)
    np.testing.assert_array_equal(found[mine], X[order])
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in loaded])[mine], y[order])
    model = PrivateLogisticRegression(mechanism="ssp", **SETTINGS).fit(source)
    assert model.score(source) > 0.8
    assert list(model.feature_names_in_) == ["a", "b", "c d", "e`"]
    assert made.exists()
    source.close()
    assert not made.exists()


def test_fit_predict_and_score_on_a_frame():
    model = PrivateLogisticRegression(mechanism="ssp", **SETTINGS).fit(frame(), "label")
    X, y = table()
    dense = PrivateLogisticRegression(mechanism="ssp", **SETTINGS).fit(X, y)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-5, atol=1e-5)
    assert len(model.predict(frame())) == len(X)
    assert abs(model.score(frame(), "label") - dense.score(X, y)) < 1e-3


def test_what_does_not_fit_is_refused(tmp_path):
    rows = frame()
    with pytest.raises(InvalidInput, match="declare classes"):
        PrivateLogisticRegression().fit(rows, "label")
    with pytest.raises(InvalidInput, match="column's name"):
        source_of(rows, np.zeros(3))
    with pytest.raises(InvalidInput, match="no column"):
        source_of(rows, "other")
    with pytest.raises(InvalidInput, match="hold no numbers"):
        source_of(rows)
    ledger = Ledger(tmp_path / "ledger.json", epsilon=1.0, delta=1e-6, create=True)
    with pytest.raises(InvalidInput, match="make shards first"):
        PrivateLogisticRegression(classes=["no", "yes"], ledger=ledger).fit(rows, "label")


CONNECT = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import numpy as np
from pyspark.sql import SparkSession
builder = SparkSession.builder.remote("local[2]")
for name in ("bindAddress", "host"):
    builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
from dperm import PrivateLogisticRegression
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 2)) / 3
rows = spark.createDataFrame([(float(a), float(b), int(a > 0)) for a, b in X], ["a", "b", "label"])
model = PrivateLogisticRegression(mechanism="ssp", classes=[0, 1], random_state=0).fit(rows, "label")
print("score", model.score(rows, "label"))
spark.stop()
"""


@pytest.mark.system_noise(failing=0)
def test_spark_connect(tmp_path):
    pytest.importorskip("grpc", reason="Spark Connect needs grpc")
    script = tmp_path / "connect.py"
    script.write_text(CONNECT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout.split()[-1]) > 0.8
