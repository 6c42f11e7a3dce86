"""Which ids are one person: one rule, the same in memory, in files, in shards and with Dask; bad ids are paid for."""

import decimal
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dperm
from dperm import Ledger, PrivateLinearRegression, PrivateLogisticRegression
from dperm.data import write_shards
from dperm.engine import persons_in
from dperm.engine.shards.sources import ArrayShards
from dperm.errors import InvalidInput
from dperm.estimators.persons import GroupedRows
from dperm.schema import Schema, check_schema, person_ids

pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning")

BIG = 2**53
SECRET = "patient-4711"
SCHEMA = {
    "person": "who",
    "target": {"name": "y", "classes": [0, 1]},
    "features": {"a": {"range": [0.0, 1.0]}},
}
NAN = float("nan")


def objects(values):
    held = np.empty(len(values), object)
    held[:] = values
    return held


def in_memory(ids):
    return GroupedRows.of(ids).person


def in_shards(ids):
    n = len(ids)
    return GroupedRows.of(persons_in(ArrayShards(np.zeros((n, 1)), [n - 1, 1], np.zeros(n), ids))).person


def in_a_folder(ids, place):
    table = {"a": np.zeros(len(ids)), "y": np.zeros(len(ids), int), "who": ids}
    return GroupedRows.of(persons_in(write_shards(table, SCHEMA, place))).person


def by_a_schema(ids):
    return person_ids({"who": ids}, Schema.from_dict(SCHEMA))


def in_dask(ids):
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    import dask

    frame = pd.DataFrame({"a": np.zeros(len(ids)), "y": np.zeros(len(ids), int), "who": ids})
    with dask.config.set({"dataframe.convert-string": False}):
        source = dperm.engine.dask_shards(dd.from_pandas(frame, npartitions=2, sort=False), "y", person="who")
        return GroupedRows.of(persons_in(source)).person


GOOD = {
    "numbers as they come": ([7, 7.0, "7", np.int8(7), np.float64(7), decimal.Decimal(7), 8], [0] * 6 + [1]),
    "no blank is cut off": (["a", "A", "a ", "007", "7", 7], [0, 1, 2, 3, 4, 4]),
    "beyond the exact floats": ([BIG + 1, BIG, str(BIG + 1), 2**64, -5, "-5"], [0, 1, 0, 2, 3, 3]),
    "zeros": ([0.0, -0.0, 0, "0", "-0"], [0, 0, 0, 0, 1]),
    "text": (["ü", "u\u0308", "Ü", "ü"], [0, 1, 2, 0]),
}


@pytest.mark.together
@pytest.mark.parametrize("case", GOOD)
def test_two_ids_are_one_person_by_the_same_rule_everywhere(case, tmp_path):
    ids, expected = GOOD[case]
    for read in (in_memory, in_shards, by_a_schema, in_dask):
        assert read(objects(ids)).tolist() == expected, read.__name__
    assert in_a_folder(objects(ids), tmp_path / "shards").tolist() == expected
    assert in_memory(ids).tolist() == in_memory(tuple(ids)).tolist() == expected


FORMS = {
    "list": list,
    "tuple": tuple,
    "range of numbers": lambda ids: np.array(ids),
    "int32": lambda ids: np.array(ids, np.int32),
    "uint64": lambda ids: np.array(ids, np.uint64),
    "float64": lambda ids: np.array(ids, float),
    "text": lambda ids: np.array(ids).astype(str),
    "objects": objects,
    "masked, nothing hidden": lambda ids: np.ma.array(ids),
    "series": pd.Series,
    "index": pd.Index,
    "Int64": lambda ids: pd.array(ids, "Int64"),
    "string": lambda ids: pd.Series(map(str, ids), dtype="string"),
    "str": lambda ids: pd.Series(map(str, ids)),
    "category": lambda ids: pd.Series(ids).astype("category"),
    "category of text": lambda ids: pd.Categorical(list(map(str, ids)), [*map(str, sorted(set(ids)))]),
    "pandas by Arrow": lambda ids: pd.Series(ids, dtype="int64[pyarrow]"),
    "Arrow": pa.array,
    "Arrow in chunks": lambda ids: pa.chunked_array([ids[:2], ids[2:]]),
    "Arrow dictionary": lambda ids: pa.array(list(map(str, ids))).dictionary_encode(),
    "Arrow decimal": lambda ids: pa.array(list(map(decimal.Decimal, ids)), pa.decimal128(20, 2)),
    "polars": pl.Series,
    "polars text": lambda ids: pl.Series(list(map(str, ids))),
    "polars category": lambda ids: pl.Series(list(map(str, ids)), dtype=pl.Categorical),
}


@pytest.mark.together
@pytest.mark.parametrize("form", FORMS)
def test_what_holds_the_ids_does_not_matter(form):
    given = FORMS[form]([41, 7, 41, 12, 7])
    assert in_memory(given).tolist() == [0, 1, 0, 2, 1]
    assert in_memory(given).dtype == np.int64


BAD = {
    "text and nan": ["a", NAN, "b", NAN],
    "nan alone": [1.0, NAN, 2.0, NAN],
    "None": ["a", None, "b", None],
    "NaT": objects(["a", pd.NaT, "b", pd.NaT]),
    "NA": objects(["a", pd.NA, "b", pd.NA]),
    "pandas string": pd.Series(["a", None, "b", None], dtype="string"),
    "pandas Int64": pd.array([BIG, None, BIG + 1, None], "Int64"),
    "pandas category": pd.Series(["a", None, "b", None]).astype("category"),
    "masked": np.ma.array([1, 2, 3, 4], mask=[False, True, False, True]),
    "masked text": np.ma.array(["a", "b", "c", "d"], mask=[False, True, False, True]),
    "Arrow": pa.array([BIG, None, BIG + 1, None]),
    "polars": pl.Series(["a", None, "b", None]),
    "empty text": ["a", "", "b", "  "],
    "marks": np.array(["a", "nan", "b", " NA"]),
    "marks of pandas": ["a", "<NA>", "b", "None"],
    "half": [1, 0.5, 2, 0.5],
    "half among floats": np.array([1, 0.5, 2, 0.5]),
    "large float": [1, 2.0**53, 2, 2.0**53],
    "large floats": np.array([1, 2.0**53, 2, 2.0**60]),
    "infinite": [1, float("inf"), 2, -float("inf")],
    "truth values": [2, True, 3, np.True_],
    "small floats": objects([2, np.float32(16), 3, np.float16(9)]),
    "bytes": [2, b"a", 3, b"b"],
    "dates": objects(["a", pd.Timestamp("2020-01-01"), "b", np.datetime64("2020-01-01")]),
    "complex": [2, 1j, 3, 2 + 0j],
    "lists": objects(["a", [SECRET], "b", (SECRET,)]),
    "endless": [1, 10**5000, 2, decimal.Decimal("1e999999")],
    "half of a pair": ["a", "b\ud800", "b", "\udfff"],
    "nul": ["a", "b\0", "b", "\0"],
}


@pytest.mark.together
@pytest.mark.parametrize("case", BAD)
def test_what_is_no_id_is_refused_without_quoting_and_counts_as_one_person(case):
    ids = BAD[case]
    for read in (in_memory, in_shards, by_a_schema):
        with pytest.raises(InvalidInput, match="rows without the id of a person, or with one") as caught:
            read(ids if read is not in_shards else objects(list(ids)) if isinstance(ids, list) else ids)
        assert SECRET not in str(caught.value)
        assert caught.value.__context__ is None
    grouped = GroupedRows.of(ids)
    assert grouped.n_persons == 3  # all that cannot be read are one
    for use in (grouped.shares, lambda: grouped.kept(1)):
        with pytest.raises(InvalidInput, match="rows without the id of a person"):
            use()


@pytest.mark.together
@pytest.mark.parametrize(
    "ids",
    [
        np.arange(4, dtype=np.float32),
        np.arange(4, dtype=np.float16),
        np.arange(4, dtype=np.longdouble),
        pd.array([1, 2, 3, 4], "Float32"),
        pa.array([1.0, 2, 3, 4], pa.float32()),
        pl.Series([1.0, 2, 3, 4], dtype=pl.Float32),
        pd.Series([1.0, 2, 3, 4], dtype=np.float32).astype("category"),
        np.array([True, False, True, False]),
        np.arange(4) * 1j,
        np.array(["2020-01-01"] * 4, "M8[D]"),
        pd.Series(pd.to_datetime(["2020-01-01"] * 4)),
        pa.array([b"a"] * 4),
        np.array([b"a"] * 4),
        {1, 2, 3, 4},
        iter([1, 2, 3, 4]),
        np.zeros((4, 1)),
        pd.DataFrame({"who": [1, 2, 3, 4]}),
    ],
    ids=lambda one: f"{type(one).__name__} {getattr(one, 'dtype', getattr(one, 'type', ''))}",
)
def test_a_type_that_holds_no_ids_is_refused_at_once(ids):
    with pytest.raises(InvalidInput, match="one id for each row|one for each row"):
        GroupedRows.of(ids)


def test_one_id_never_changes_how_another_is_read():
    """With 0.5 among them, 1,000 whole numbers beyond the exact floats would be 502 persons."""
    ids = list(range(BIG, BIG + 1000))
    assert GroupedRows.of(ids).n_persons == 1000
    assert GroupedRows.of([*ids, 0.5]).n_persons == 1001
    assert GroupedRows.of([*ids, "x"]).n_persons == 1001
    assert in_memory([*ids, "x"]).tolist() == list(range(1001))
    assert in_memory([1, 1.0, 2, "x"]).tolist() == [0, 0, 1, 2]
    assert GroupedRows.of([1, True]).n_persons == GroupedRows.of([True, 1]).n_persons == 2


def test_a_file_without_a_schema_keeps_ids_as_they_are_written(tmp_path):
    """Guessed as numbers, 007 and 7 would be one person unless another id is text."""
    rows = ["a,y,who", "0.1,0,007", "0.2,1,7", "0.3,0,007"]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    shards = write_shards(tmp_path / "t.csv", None, tmp_path / "shards", y="y", classes=[0, 1], person="who")
    assert GroupedRows.of(persons_in(shards)).person.tolist() == [0, 1, 0]


def test_a_frame_of_mixed_ids_is_converted_by_the_same_rule(tmp_path):
    frame = pd.DataFrame({"a": np.zeros(4), "y": [0, 1, 0, 1], "who": objects([7, "7", "x", 2**60])})
    for name, schema, more in (
        ("coded", SCHEMA, {}),
        ("numbers", None, {"y": "y", "classes": [0, 1], "person": "who"}),
    ):
        shards = write_shards(frame, schema, tmp_path / name, **more)
        assert GroupedRows.of(persons_in(shards)).person.tolist() == [0, 0, 1, 2]
        frame_with_a_hole = frame.assign(who=objects([7, "7", "x", None]))
        with pytest.raises(InvalidInput, match="rows without the id of a person"):
            write_shards(frame_with_a_hole, schema, tmp_path / f"{name}-bad", **more)
        assert not (tmp_path / f"{name}-bad").exists()


def test_a_check_of_a_schema_counts_by_the_same_rule():
    table = {"a": [0.1] * 6, "y": [0, 1] * 3, "who": objects([7, "7", 7.0, "x", 0.5, None])}
    found = check_schema(table, Schema.from_dict(SCHEMA)).persons
    assert (found.n_persons, found.most_rows, found.missing) == (2, 3, 2)


def test_a_million_ids_are_told_apart_quickly():
    ids = np.random.default_rng(0).integers(0, 400_000, 10**6)
    start = time.process_time()
    GroupedRows.of(ids)
    assert time.process_time() - start < 2.0  # about .3 s on an idle machine


RNG = np.random.default_rng(3)
X = RNG.uniform(-0.5, 0.5, (400, 2))
Y = (X[:, 0] > 0).astype(int)
HOLED = [f"patient-{one}" for one in range(100)] * 4
HOLED[17] = None


def _fit(ledger, ids):
    return PrivateLogisticRegression(epsilon=0.5, delta=1e-6, classes=[0, 1], ledger=ledger).fit(
        X, Y, groups=ids
    )


def _regress(ledger, ids):
    model = PrivateLinearRegression(epsilon=0.5, delta=1e-6, y_range=(0, 1), ledger=ledger)
    return model.fit(X, Y, groups=ids)


def _fit_shards(ledger, ids):
    source = ArrayShards(X, [300, 100], Y, objects(ids))
    return PrivateLogisticRegression(epsilon=0.5, delta=1e-6, classes=[0, 1], ledger=ledger).fit(source)


def _public_model():
    return PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, Y)


def _evaluate(ledger, ids):
    return dperm.evaluate(_public_model(), X, Y, dperm.Budget(0.5, 1e-6), groups=ids, ledger=ledger)


def _means(ledger, ids):
    return dperm.mean_predictions(_public_model(), X, dperm.Budget(0.5, 1e-6), groups=ids, ledger=ledger)


@pytest.mark.together
@pytest.mark.parametrize("act", [_fit, _regress, _fit_shards, _evaluate, _means])
def test_a_bad_id_is_found_after_the_charge(act, tmp_path):
    plain = Ledger.create(tmp_path / "plain.db", epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidInput, match="rows without the id of a person"):
        act(plain, HOLED)
    assert [entry.status for entry in plain.entries()] == ["void"]
    strict = Ledger.create(tmp_path / "strict.db", epsilon=1.0, delta=1e-5, strict=True)
    with pytest.raises(InvalidInput, match="^The charge is spent and nothing was released") as caught:
        act(strict, HOLED)
    assert caught.value.__context__ is None
    assert [entry.status for entry in strict.entries()] == ["spent"]


@pytest.mark.parametrize("act", [_fit, _evaluate])
def test_the_form_of_ids_is_public_and_refused_before_the_charge(act, tmp_path):
    strict = Ledger.create(tmp_path / "strict.db", epsilon=1.0, delta=1e-5, strict=True)
    for wrong, words in ((HOLED[:-1], "399 ids for 400 rows"), (np.arange(400, dtype=np.float32), "float32")):
        with pytest.raises(InvalidInput, match=words):
            act(strict, wrong)
    assert list(strict.entries()) == []
