"""Coded tables stand for the very rows that ``encode`` gives, and are handled like arrays."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing, check_array

from dperm.codes import CodedTable
from dperm.datasets import load_adult
from dperm.errors import InvalidInput
from dperm.schema import Schema, code_layout, encode, encode_codes

ROUNDING = 2.0**-21  # of a place among at most 8 knots, in float32


def schema(norm_share=1.0, spline=None):
    return Schema.from_dict(
        {
            "target": {"name": "y", "classes": ["no", "yes"]},
            "rows": {"norm_share": norm_share, "spline": 5, "cross": [["job", "age"]]},
            "features": {
                "age": {"range": [18, 90], "bins": [30, 50], "missing": [-1]},
                "income": {"range": [0, 1000], "log": True, "centre": 0, "indicator": True},
                "height": {"range": [-3, 5], "spline": spline or 8},
                "weight": {"range": [0, 1], "indicator": True, "spline": 0},
                "job": {"categories": ["a", "b", "c"], "missing": ["?"]},
                "town": {"categories": ["x", "y"], "missing": ["?"], "missing_as": "y"},
                "car": {"categories": [True, False]},
            },
        }
    )


numbers = st.none() | st.floats(-2000, 2000, width=32) | st.just(float("nan"))
records = st.fixed_dictionaries(
    {
        "age": numbers | st.sampled_from([-1.0, 18.0, 30.0, 50.0, 90.0]),
        "income": numbers,
        "height": numbers | st.sampled_from([-3.0, 5.0, -3 + 8 / 7]),
        "weight": numbers | st.floats(0, 1),
        "job": st.none() | st.sampled_from(["a", "b", "c", "?", "unknown"]),
        "town": st.none() | st.sampled_from(["x", "y", "?", "unknown"]),
        "car": st.none() | st.booleans(),
    }
)


def columns(rows):
    import pyarrow as pa

    kinds = {"job": pa.string(), "town": pa.string(), "car": pa.bool_()}
    return {name: pa.array([row[name] for row in rows], kinds.get(name, pa.float64())) for name in rows[0]}


@settings(max_examples=60, deadline=None)
@given(st.lists(records, min_size=1, max_size=80), st.sampled_from([1.0, 0.6, 0.2]))
def test_coded_rows_are_the_encoded_rows(rows, norm_share):
    """Missing, unknown and clipped values, logarithms, splines, bins, crosses and rows beyond their norm share."""
    declared = schema(norm_share)
    coded, expected = encode_codes(columns(rows), declared), encode(columns(rows), declared)
    assert (coded.shape, coded.dtype, len(coded)) == (expected.shape, expected.dtype, len(rows))
    np.testing.assert_allclose(coded.toarray(), expected, rtol=0, atol=ROUNDING * declared.scale)
    assert np.linalg.norm(coded.toarray(), axis=1).max() <= 1


def test_a_wrong_code_would_show():
    """A control: other codes stand for rows that are farther away than rounding."""
    rows = {"age": 40.0, "income": 3.0, "height": 1.0, "weight": 0.5, "job": "a", "town": "x", "car": True}
    coded, expected = encode_codes(columns([rows]), schema()), encode(columns([rows]), schema())
    for place in range(coded.codes.shape[1]):
        codes = coded.codes.copy()
        codes[0, place, 0] += 1
        other = CodedTable(coded.layout, codes, coded.floats, 1).toarray()
        assert np.abs(other - expected).max() > 100 * ROUNDING


def test_the_layout_is_public():
    """It follows from the schema alone, and packs codes so that a row of Adult is 26 bytes and no table is large."""
    adult = load_adult().part("test")
    assert adult.coded.layout == code_layout(adult.schema)
    for declared in (adult.schema, adult.schema.plain()):
        layout = code_layout(declared)
        assert max(layout.sizes) <= 1024
        assert layout.row_bytes == 26
    plain = encode_codes(adult.table, adult.schema.plain())
    assert plain.nbytes <= 40 * len(plain)
    assert code_layout(schema()).n_floats == 4


@pytest.fixture(scope="module")
def table():
    return load_adult().part("test").coded


def test_indexing_is_that_of_arrays(table):
    X = table.toarray()
    chosen = np.random.default_rng(0).permutation(len(X))[:777]
    mask = X[:, 0] > 0
    for key in (
        slice(64, 200),
        slice(3, 500, 7),
        slice(None),
        slice(9, 3),
        chosen,
        chosen.tolist(),
        mask,
        -2,
    ):
        assert np.array_equal(table[key], X[key])
    assert isinstance(table[chosen], CodedTable)
    assert isinstance(table[128:], CodedTable)
    assert np.shares_memory(table[128:].codes, table.codes)
    assert np.array_equal(table[chosen, 3], X[chosen, 3])
    assert np.array_equal(table[:, [1, 2]], X[:, [1, 2]])


def test_scikit_learn_takes_parts_of_it(table):
    X = table.toarray()
    for key in (np.arange(5, 70), X[:, 1] > 0, [3, 1, 2]):
        assert np.array_equal(_safe_indexing(table, key), X[key])
    train, test = next(iter(KFold(3, shuffle=True, random_state=0).split(table)))
    assert len(train) + len(test) == len(table)
    assert np.array_equal(check_array(table), X)


def test_parts_are_joined(table):
    whole = CodedTable.concatenate([table[:100], table[100:101], table[101:]])
    assert np.array_equal(whole, table)
    with pytest.raises(InvalidInput, match="one layout"):
        CodedTable.concatenate([table, encode_codes(columns([dict.fromkeys(columns_of())]), schema())])


def columns_of():
    return [feature.name for feature in schema().features]


def test_arrays_can_be_kept_in_files(table, tmp_path):
    held = {}
    for name, array in table.arrays().items():
        np.save(tmp_path / name, array)
        held[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    again = CodedTable.from_arrays(table.layout, held, len(table))
    assert np.array_equal(again, table)
    assert np.shares_memory(again.codes, held["codes"])
    assert np.array_equal(pickle.loads(pickle.dumps(table[:70])), table[:70])


def test_arrays_of_another_shape_are_refused(table):
    with pytest.raises(InvalidInput, match="uint16"):
        CodedTable.from_arrays(table.layout, {**table.arrays(), "codes": table.codes.astype(int)}, len(table))
    with pytest.raises(InvalidInput, match="shape"):
        CodedTable.from_arrays(table.layout, table.arrays(), len(table) + 640)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(table, copy=False)


def test_it_tells_no_value(table):
    assert repr(table) == f"CodedTable of {len(table)} rows and {table.shape[1]} columns"
