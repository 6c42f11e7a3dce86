"""Persons whose rows lie in shards: the model of the same rows in memory, and what is refused."""

import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dperm import Ledger, PrivateLinearRegression, PrivateLogisticRegression, PublicEncoder, verify
from dperm.data import FolderShards, open_shards, write_shards
from dperm.engine import persons_in
from dperm.engine.shards.sources import ArrayShards, KeptShards
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.persons import GroupedRows, grouped_rows, of_persons
from dperm.mechanisms import mechanism_names, resolve
from dperm.person_ids import digests
from dperm.schema import Schema, encode_rows, person_ids

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")

N, SIZES = 900, [400, 0, 350, 150]
RNG = np.random.default_rng(4)
X = RNG.uniform(-0.5, 0.5, (N, 3))
VALUE = X[:, 0] + 0.2 * RNG.normal(size=N)
Y = np.where(VALUE > 0, "yes", "no")
IDS = np.array([f"patient-{one}" for one in RNG.integers(0, 250, N)])
SECRET = "patient-7"
SCHEMA = {
    "person": "patient",
    "target": {"name": "back", "classes": ["no", "yes"]},
    "features": {"a": {"range": [-0.5, 0.5]}, "b": {"range": [-0.5, 0.5]}, "c": {"range": [-0.5, 0.5]}},
}
WAYS = {
    "mean": {},
    "bounded": {"max_rows_per_person": 2},
    "one row each": {"max_rows_per_person": 1},
    "sum": {"person_loss": "sum", "max_rows_per_person": 3},
    "hidden": {"neighbours": "add-remove", "max_rows": 300},
}


def classifier(**settings):
    return PrivateLogisticRegression(
        **{"epsilon": 2.0, "delta": 1e-6, "random_state": 0, "classes": ["no", "yes"], **settings}
    )


def table():
    return pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "back": Y, "patient": IDS})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mechanism", ["auto", "output", "dp-gd", "ssp"])
def test_the_weights_are_those_of_one_array(mechanism, way):
    if mechanism == "ssp" and way == "sum":
        pytest.skip("covers the mean alone")
    model = classifier(mechanism=mechanism, **WAYS[way]).fit(X, Y, groups=IDS)
    told = model.privacy_.statement
    for source, y, groups in (
        (ArrayShards(X, SIZES, Y, IDS), None, None),
        (ArrayShards(X, SIZES, Y), None, IDS),
        (ArrayShards(X, SIZES), Y, IDS),
    ):
        spread = classifier(mechanism=mechanism, **WAYS[way]).fit(source, y, groups=groups)
        np.testing.assert_allclose(spread.coef_, model.coef_, rtol=1e-5, atol=1e-5)
        assert spread.privacy_.statement["persons"] == told["persons"]
        assert spread.privacy_.statement["unit"] == "one person"
        assert spread.privacy_.statement["problem"]["n_units"] == told["problem"]["n_units"]


@pytest.mark.parametrize("way", ["mean", "bounded", "sum", "hidden"])
def test_samples_of_persons_are_the_same_wherever_the_rows_are(way):
    model = classifier(mechanism="dp-sgd", **WAYS[way]).fit(X, Y, groups=IDS)
    spread = classifier(mechanism="dp-sgd", **WAYS[way]).fit(ArrayShards(X, SIZES, Y, IDS))
    np.testing.assert_allclose(spread.coef_, model.coef_, rtol=1e-5, atol=1e-5)


def test_a_regression_fits_persons_in_shards():
    settings = {"y_range": (-1, 1), "epsilon": 2.0, "delta": 1e-6, "random_state": 0, "mechanism": "adassp"}
    one = PrivateLinearRegression(**settings).fit(X, VALUE, groups=IDS)
    spread = PrivateLinearRegression(**settings).fit(ArrayShards(X, SIZES, VALUE, IDS))
    np.testing.assert_allclose(spread.coef_, one.coef_, rtol=1e-5, atol=1e-5)


def test_rows_beyond_the_bound_count_for_nothing():
    """The last row of a person with many is put elsewhere and given the other label: the model stays the same."""
    often = max(set(IDS), key=IDS.tolist().count)
    last = max(np.flatnonzero(often == IDS))
    moved, other = X.copy(), Y.copy()
    moved[last], other[last] = -X[last], "no" if Y[last] == "yes" else "yes"
    bounded = [
        classifier(max_rows_per_person=2).fit(ArrayShards(rows, SIZES, y, IDS)).coef_
        for rows, y in ((X, Y), (moved, other))
    ]
    np.testing.assert_array_equal(*bounded)
    free = [classifier().fit(ArrayShards(rows, SIZES, y, IDS)).coef_ for rows, y in ((X, Y), (moved, other))]
    assert np.abs(free[0] - free[1]).max() > 0


def test_passes_do_not_depend_on_whether_a_row_was_left_out():
    """A neighbour may have rows that are left out where this table has none, so places are never taken as kept."""
    model = classifier(max_rows_per_person=1)
    problem = model.plan(N, 3, n_persons=N).problem
    alone = GroupedRows.of(np.arange(N))
    rows, targets, members = of_persons(ArrayShards(X, SIZES, Y), len, alone, problem)
    assert isinstance(rows, KeptShards)
    assert not rows.keeps_places
    assert (targets, members) == (len, None)
    assert rows.sizes == tuple(SIZES)


@pytest.mark.parametrize("name", [name for name in mechanism_names() if resolve(name).private])
def test_an_order_of_persons_is_refused_before_anything_is_spent_and_nothing_else_is(name, tmp_path):
    ledger = Ledger(tmp_path / "ledger.json", epsilon=3.0, delta=1e-5, create=True)
    model = classifier(mechanism=name, random_state=None, ledger=ledger)
    if name in ("adassp", "amp", "objective-pure"):
        pytest.skip("for numbers alone, or not for persons at all")
    if resolve(name).in_order:
        with pytest.raises(Unsupported, match="cannot be drawn for rows in shards"):
            model.fit(ArrayShards(X, SIZES, Y, IDS))
    else:
        model.fit(ArrayShards(X, SIZES, Y, IDS))
    assert len(ledger.entries()) == (not resolve(name).in_order)


@pytest.mark.parametrize("hole", [None, float("nan")])
def test_a_missing_id_is_refused_and_none_is_quoted(hole):
    ids = IDS.astype(object)
    ids[500] = hole
    with pytest.raises(InvalidInput, match="rows without the id of a person") as caught:
        classifier().fit(ArrayShards(X, SIZES, Y, ids))
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


def test_groups_that_say_something_else_are_refused():
    with pytest.raises(InvalidInput, match="hold the ids of the persons beside their rows"):
        classifier().fit(ArrayShards(X, SIZES, Y, IDS), groups=IDS)
    with pytest.raises(InvalidInput, match="name of a column only where"):
        classifier().fit(ArrayShards(X, SIZES, Y), groups="patient")
    with pytest.raises(InvalidInput, match="name of a column only where"):
        classifier().fit(X, Y, groups="patient")
    with pytest.raises(InvalidInput, match=f"{N - 1} ids for {N} rows"):
        classifier().fit(ArrayShards(X, SIZES, Y), groups=IDS[:-1])


def test_an_id_is_the_same_person_as_text_and_as_a_number():
    numbers = np.array([7, 12, 7, -3])
    assert len(np.unique(numbers)) == 3
    for same in (
        numbers.astype(float),
        numbers.astype(str),
        numbers.astype(object),
        numbers.astype(np.int32),
    ):
        np.testing.assert_array_equal(digests(same), digests(numbers))
    assert len({bytes(one) for one in digests(numbers)}) == 3
    holds_lists = np.empty(2, object)
    holds_lists[:] = [[1], [2]]
    for none in (
        [True, False],
        np.array(["2020-01-01"], "M8[D]"),
        [[1, 2]],
        [float("inf")],
        [0.5],
        holds_lists,
    ):
        with pytest.raises(InvalidInput):
            digests(none)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("persons") / "shards"
    write_shards(table(), SCHEMA, place, rows_per_shard=1)
    return place


def test_a_folder_keeps_the_persons_and_fit_finds_them(folder, tmp_path):
    shards = FolderShards(folder)
    assert shards.person == "patient"
    grouped, known = GroupedRows.of(persons_in(shards)), GroupedRows.of(IDS)
    np.testing.assert_array_equal(grouped.person, known.person)
    schema = Schema.from_dict(SCHEMA)
    expected = classifier(mechanism="output").fit(
        encode_rows(table(), schema), Y, groups=person_ids(table(), schema)
    )
    for groups in (None, "patient"):
        model = classifier(mechanism="output").fit(folder, groups=groups)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5, atol=1e-5)
    assert "patient" not in model.feature_names_in_.tolist()
    ledger = Ledger(tmp_path / "ledger.json", epsilon=3.0, delta=1e-5, create=True)
    paid = classifier(random_state=None, ledger=ledger).fit(folder)
    paid.save(tmp_path / "model.json", schema)
    verdict = verify(tmp_path / "model.json", unit="person")
    assert verdict.ok, verdict.failures


def test_a_manifest_says_the_column_and_no_id(folder):
    told = (folder / "manifest.json").read_text()
    assert json.loads(told)["rows_as"]["schema"]["person"] == "patient"
    assert SECRET not in told


def test_a_table_beyond_memory_is_by_person_too(tmp_path):
    pq.write_table(table(), tmp_path / "visits.parquet")
    expected = classifier(mechanism="output").fit(
        encode_rows(table(), Schema.from_dict(SCHEMA)), Y, groups=IDS
    )
    model = classifier(mechanism="output").fit(open_shards(tmp_path / "visits.parquet", SCHEMA))
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5, atol=1e-5)
    dataset = ds.dataset(tmp_path / "visits.parquet")
    encoded = PublicEncoder(SCHEMA).fit(dataset).transform(dataset)
    again = classifier(mechanism="output").fit(encoded)
    np.testing.assert_allclose(again.coef_, expected.coef_, rtol=1e-5, atol=1e-5)
    ledger = Ledger(tmp_path / "ledger.json", epsilon=3.0, delta=1e-5, create=True)
    with pytest.raises(InvalidInput, match="number of persons must be known before a row is read"):
        classifier(random_state=None, ledger=ledger).fit(open_shards(tmp_path / "visits.parquet", SCHEMA))
    assert list(ledger.entries()) == []


def test_a_dataset_of_numbers_takes_the_name_of_the_column(tmp_path):
    numbers = table().set_column(3, "back", pa.array((VALUE > 0).astype(int)))
    pq.write_table(numbers, tmp_path / "visits.parquet")
    dataset = ds.dataset(tmp_path / "visits.parquet")
    model = classifier(mechanism="output", classes=[0, 1]).fit(dataset, "back", groups="patient")
    expected = classifier(mechanism="output", classes=[0, 1]).fit(
        X.astype(np.float32), (VALUE > 0).astype(int), groups=IDS
    )
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5, atol=1e-5)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(InvalidInput, match="no column named 'person', which person asks for"):
        classifier(classes=[0, 1]).fit(dataset, "back", groups="person")
    written = write_shards(numbers, None, tmp_path / "shards", y="back", classes=[0, 1], person="patient")
    np.testing.assert_array_equal(persons_in(written), persons_in(ArrayShards(X, SIZES, Y, IDS)))
    for wrong in ({"schema": SCHEMA, "person": "patient"}, {"schema": None, "y": Y, "person": "patient"}):
        source = numbers if wrong["schema"] is not None else X
        with pytest.raises(InvalidInput, match="person"):
            write_shards(source, folder=tmp_path / "other", **wrong)


def frames():
    import dask.dataframe as dd
    import pandas as pd

    whole = pd.DataFrame({"a": X[:, 0], "patient": IDS, "b": X[:, 1], "back": Y, "c": X[:, 2]})
    return dd.from_pandas(whole, npartitions=3, sort=False)


@pytest.mark.parametrize("on_cluster", [False, True])
def test_a_dask_frame_takes_the_name_of_the_column(on_cluster):
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    from dperm.engine import dask_shards

    def fitted(**settings):
        frame = frames()
        for source, y in ((frame, "back"), (frame.drop(columns="back"), frame["back"])):
            yield classifier(mechanism="output", **settings).fit(source, y, groups="patient")
        shards = dask_shards(frame, "back", person="patient")
        yield classifier(mechanism="output", **settings).fit(shards)

    def check():
        for way in ("mean", "bounded"):
            expected = classifier(mechanism="output", **WAYS[way]).fit(X, Y, groups=IDS)
            for model in fitted(**WAYS[way]):
                np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5, atol=1e-5)
                assert model.feature_names_in_.tolist() == ["a", "b", "c"]
                np.testing.assert_array_equal(model.predict(frames()), expected.predict(X))
        with pytest.raises(InvalidInput, match="groups names no column"):
            classifier().fit(frames(), "back", groups="person")
        with pytest.raises(InvalidInput, match="no columns with names"):
            classifier().fit(frames()[["a", "b"]].to_dask_array(lengths=True), Y, groups="patient")

    if not on_cluster:
        check()
        return
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"):
        check()


def test_the_driver_needs_some_hundred_bytes_for_each_row():
    n = 200_000
    ids = digests(np.random.default_rng(0).integers(0, n // 4, n))
    rows = ArrayShards(np.zeros((n, 1), np.float32), [n // 4] * 4, np.ones(n), ids)
    problem = classifier().plan(n, 1, n_persons=n).problem
    tracemalloc.start()
    try:
        of_persons(rows, np.asarray, grouped_rows(None, rows, n, False), problem)
        peak = tracemalloc.get_traced_memory()[1] / n
    finally:
        tracemalloc.stop()
    assert 80 < peak < 125
