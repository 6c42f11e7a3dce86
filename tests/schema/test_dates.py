"""Dates: a number of days within what is declared, levels for what comes round, from whatever holds them."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.data import write_shards
from dperm.errors import InvalidInput
from dperm.estimators.encoder import PublicEncoder
from dperm.schema import Schema, effects, encode, encode_codes, feature_names, read_table
from dperm.schema.dates import Date, date_of, day_of, place_in
from dperm.schema.features import Numeric

TARGET = {"name": "y", "classes": ["no", "yes"]}
SECRET = "1987-06-15x"


def _schema(rows=None, **date):
    features = {"admitted": {"date": ["2015-01-01", "2025-01-01"], **date}, "sex": {"categories": ["f", "m"]}}
    return Schema.from_dict({"target": TARGET, "features": features, "rows": rows or {"spline": 0}})


def _encoded(values, schema):
    rows = encode({"admitted": values, "sex": ["f"] * len(values)}, schema)
    return dict(zip(feature_names(schema), (rows / schema.scale).T.round(6).tolist(), strict=True))


def test_a_date_is_a_number_of_days_on_its_range():
    days = (datetime.date(2025, 1, 1) - datetime.date(2015, 1, 1)).days
    found = _encoded(
        ["2015-01-01", "2015-01-11", "1999-12-31", "2030-01-01", None, "", "2025-01-01T23:59:59"], _schema()
    )
    assert found["admitted"] == [-0.5, round(10 / days - 0.5, 6), -0.5, 0.5, 0.0, 0.0, 0.5]


def test_cycles_are_coded_as_categories():
    found = _encoded(["2020-02-29", "2021-12-31 23:05", None], _schema(cycles=["month", "weekday", "hour"]))
    assert found["admitted month=February"] == [round(11 / 12, 6), round(-1 / 12, 6), 0.0]
    assert found["admitted month=December"] == [round(-1 / 12, 6), round(11 / 12, 6), 0.0]
    assert found["admitted weekday=Saturday"] == [round(6 / 7, 6), round(-1 / 7, 6), 0.0]
    assert found["admitted weekday=Friday"] == [round(-1 / 7, 6), round(6 / 7, 6), 0.0]
    assert found["admitted hour=23h"] == [round(-1 / 24, 6), round(23 / 24, 6), 0.0]
    assert len(found) == 1 + 12 + 7 + 24 + 2


@settings(deadline=None)
@given(st.datetimes(min_value=datetime.datetime(1, 1, 1), max_value=datetime.datetime(9999, 12, 31)))
def test_places_agree_with_the_calendar_of_python(moment):
    moment = moment.replace(microsecond=0)
    day = np.array([day_of(moment.isoformat())])
    assert date_of(day[0]) == moment.date().isoformat()
    assert place_in("month", day) == [moment.month - 1]
    assert place_in("weekday", day) == [moment.weekday()]
    assert place_in("hour", day) == [moment.hour]


def test_every_way_to_hold_dates_gives_the_same_rows():
    texts = ["2016-02-29", None, "2024-12-31", "2019-07-04"]
    dates = [None if text is None else datetime.date.fromisoformat(text) for text in texts]
    schema = _schema(cycles=["month", "weekday"], indicator=True, rows={"spline": 4})
    expected = encode({"admitted": texts, "sex": ["f"] * 4}, schema)
    held = [
        pa.array(dates, pa.date32()),
        pa.array(dates, pa.date64()),
        *(pa.array(dates, pa.date32()).cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
        pa.array(texts).dictionary_encode(),
        pa.chunked_array([pa.array(texts[:1]), pa.array([], pa.string()), pa.array(texts[1:])]),
        pd.to_datetime(pd.Series(texts)),
        pl.Series(dates),
        dates,
        np.array(texts, dtype="M8[D]"),
    ]
    for column in held:
        assert np.array_equal(encode({"admitted": column, "sex": ["f"] * 4}, schema), expected)
    german = [None if text is None else "{2}.{1}.{0}".format(*text.split("-")) for text in texts]
    other = _schema(cycles=["month", "weekday"], indicator=True, rows={"spline": 4}, format="%d.%m.%Y")
    assert np.array_equal(encode({"admitted": german, "sex": ["f"] * 4}, other), expected)


def test_times_in_a_zone_count_as_its_clocks_show_them():
    utc = pa.array([datetime.datetime(2020, 3, 31, 23, 30)], pa.timestamp("us", "UTC"))
    schema = _schema(cycles=["month"])
    for zone, month in (("UTC", "March"), ("Europe/Berlin", "April")):
        found = _encoded(utc.cast(pa.timestamp("us", zone)), schema)
        assert found[f"admitted month={month}"] == [round(11 / 12, 6)]
    assert _encoded(["2020-03-31T23:30+00:00"], schema)["admitted month=March"] == [round(11 / 12, 6)]


def test_marks_of_a_missing_date_are_text_and_hold_for_dates_too():
    schema = _schema(missing=["9999-12-31", "unknown"], indicator=True)
    assert _encoded(["9999-12-31", "unknown", "2020-01-01"], schema)["admitted=missing"] == [0.5, 0.5, -0.5]
    column = pa.array([datetime.date(9999, 12, 31), datetime.date(2020, 1, 1)])
    assert _encoded(column, schema)["admitted=missing"] == [0.5, -0.5]


@pytest.mark.parametrize(
    "values",
    [[SECRET], ["31.02.2020"], ["2020-02-31"], [20200101.0], [True], pa.array([b"2020"]), [SECRET, None]],
)
def test_what_is_no_date_is_refused_and_not_quoted(values):
    with pytest.raises(InvalidInput, match="Column 'admitted'") as caught:
        _encoded(values, _schema())
    assert SECRET not in str(caught.value)
    assert "20200101" not in str(caught.value)
    assert caught.value.__context__ is None


INSTANTS = st.one_of(
    st.none(),
    st.dates().map(lambda day: day.isoformat()),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.sampled_from(["", " ", "?", "9999-12-31"]),
)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(INSTANTS, min_size=1, max_size=20),
    st.lists(st.sampled_from(["month", "weekday", "hour"]), unique=True),
    st.sampled_from([0, 3, 8]),
    st.booleans(),
    st.sampled_from([1.0, 0.5]),
)
def test_every_record_has_norm_at_most_one_and_is_encoded_by_itself(
    values, cycles, splines, indicator, share
):
    schema = _schema(
        cycles=cycles, indicator=indicator, missing=["?"], rows={"spline": splines, "norm_share": share}
    )
    table = {"admitted": pa.array(values, pa.string()), "sex": ["f"] * len(values)}
    rows, coded = encode(table, schema), np.asarray(encode_codes(table, schema))
    assert (np.einsum("ij,ij->i", rows, rows) <= 1).all()
    assert (np.einsum("ij,ij->i", coded, coded, dtype=np.float64) <= 1).all()
    assert np.allclose(rows, coded, rtol=0, atol=1e-6)
    for row, value in zip(rows, values, strict=True):
        alone = encode({"admitted": pa.array([value], pa.string()), "sex": ["f"]}, schema)
        assert np.array_equal(alone[0], row)


def test_integers_of_any_size_in_a_column_of_times_stay_bounded():
    schema = _schema(cycles=["month", "weekday", "hour"])
    counts = pa.array([2**63 - 1, -(2**63 - 1), 0], pa.int64())
    for kind in (pa.timestamp("s"), pa.timestamp("ns"), pa.date64()):
        rows = encode({"admitted": counts.view(kind), "sex": ["f"] * 3}, schema)
        assert np.isfinite(rows).all()
        assert (np.einsum("ij,ij->i", rows, rows) <= 1).all()


def test_the_longest_row_reaches_the_bound():
    schema = _schema(cycles=["month"], indicator=True)
    rows = encode({"admitted": ["2015-01-01"], "sex": ["f"]}, schema)
    assert np.linalg.norm(rows) == pytest.approx(1, rel=1e-8)


def test_hats_bins_and_crosses_are_those_of_numbers():
    schema = _schema(rows={"spline": 3})
    assert feature_names(schema)[:4] == [
        "admitted",
        "admitted@2015-01-01",
        "admitted@2020-01-01",
        "admitted@2025-01-01",
    ]
    binned = _schema(bins=["2020-03-01"], cycles=["weekday"], rows={"cross": [["admitted weekday", "sex"]]})
    assert feature_names(binned)[1:3] == [
        "admitted=[2015-01-01, 2020-03-01)",
        "admitted=[2020-03-01, 2025-01-01]",
    ]
    assert "admitted weekday=Monday & sex=f" in feature_names(binned)
    assert np.asarray(encode_codes({"admitted": ["2020-03-01"], "sex": ["m"]}, binned)).shape == (
        1,
        3 + 7 + 2 + 14,
    )
    assert feature_names(binned.plain())[0:2] == ["admitted", "admitted weekday=Monday"]
    assert schema.settled().blocks == schema.blocks
    assert Schema.from_dict(schema.settled().to_dict()).blocks == schema.blocks
    assert schema.with_spline(5).blocks[0].n_splines == 5
    assert _schema(rows={"norm_share": 1}).blocks[0].n_splines == 8, (
        "a date counts as a number in the default"
    )


def test_a_range_of_fewer_days_than_hats_has_names_of_its_own():
    schema = _schema(date=["2020-01-01", "2020-01-03"], rows={"spline": 8})
    assert len(set(feature_names(schema))) == schema.n_columns


def test_the_curve_of_a_date_tells_its_ends_as_dates():
    schema = _schema(cycles=["month"], rows={"spline": 3})
    curve, months, _sex = effects(schema, np.ones(schema.n_columns))
    assert curve.ends == ("2015-01-01", "2025-01-01")
    assert date_of(curve.values[0]) == "2015-01-01"
    assert months.levels[0] == "January"


def test_a_date_goes_through_files_shards_and_the_encoder(tmp_path):
    schema = _schema(cycles=["month"], rows={"spline": 3})
    (tmp_path / "stays.csv").write_text("admitted,sex,y\n2016-05-04,f,no\n,m,yes\n2024-01-31,m,no\n")
    table = read_table(tmp_path / "stays.csv", schema)
    expected = encode(table, schema)
    assert np.allclose(PublicEncoder(schema).fit_transform(table).toarray(), expected, atol=1e-6)
    shards = write_shards(tmp_path / "stays.csv", schema, tmp_path / "stays.shards")
    assert shards.schema == schema.settled()
    rows, labels = shards.load(0)
    assert np.allclose(np.asarray(rows), expected, atol=1e-6)
    assert list(labels) == ["no", "yes", "no"]


def test_a_schema_of_dates_is_read_as_text_or_as_toml_has_dates(tmp_path):
    (tmp_path / "a.toml").write_text(
        '[target]\nname = "y"\nclasses = ["no", "yes"]\n[features.admitted]\ndate = [2015-01-01, "2025-01-01"]\n'
        'cycles = ["month"]\nbins = [2020-03-01]\n'
    )
    schema = Schema.from_toml(tmp_path / "a.toml")
    assert schema.features == (
        Date(name="admitted", date=("2015-01-01", "2025-01-01"), cycles=("month",), bins=("2020-03-01",)),
    )
    (tmp_path / "b.toml").write_text(schema.to_toml())
    assert Schema.from_toml(tmp_path / "b.toml") == schema
    assert isinstance(schema.blocks[0], Numeric)


@pytest.mark.parametrize(
    ("date", "words"),
    [
        ({"date": ["2020-01-01", "2020-01-01"]}, "first before the last"),
        ({"date": ["2020-01-01"]}, "two dates"),
        ({"date": "2020-01-01"}, "date must be a list"),
        ({"date": ["2020-01-01", "soon"]}, "2015-01-31"),
        ({"date": ["2020-01-01", "2020-01-02T10:00"]}, "2015-01-31"),
        ({"date": [20200101, 20210101]}, "2015-01-31"),
        ({"date": [datetime.datetime(2020, 1, 1, 5), "2021-01-01"]}, "2015-01-31"),
        ({"format": "%d.%m"}, "year %Y"),
        ({"format": "%d.%m.%Y %Y"}, "year %Y"),
        ({"format": "%x"}, "year %Y"),
        ({"format": "%d.%m.%Y%"}, "year %Y"),
        ({"format": "%d" + "." * 100 + "%m%Y"}, "year %Y"),
        ({"cycles": ["moon"]}, "month, weekday, hour"),
        ({"cycles": ["month", "month"]}, "each once"),
        ({"cycles": [["month"]]}, "month, weekday, hour"),
        ({"missing": [3]}, "missing must hold text"),
        ({"bins": ["2014-01-01"]}, "within the range"),
        ({"bins": ["2020-01-01"], "spline": 3}, "bins stand in place"),
        ({"range": [0, 1]}, "exactly one of range"),
        ({"log": True}, "unknown key 'log'"),
    ],
)
def test_a_wrong_date_is_named(date, words):
    with pytest.raises(InvalidInput, match=r"^schema, \[features.admitted\]") as caught:
        _schema(**date)
    assert words in str(caught.value)


def test_a_column_may_not_be_called_as_a_cycle_is():
    schema = _schema(cycles=["month"]).to_dict()
    schema["features"]["admitted month"] = {"range": [0, 1]}
    with pytest.raises(InvalidInput, match="same name"):
        Schema.from_dict(schema)


def test_a_date_says_what_it_is():
    assert _schema(cycles=["month", "weekday"], missing=["?"]).features[0].in_words() == (
        "date from 2015-01-01 to 2025-01-01; dates beyond are moved to the nearer end; with its month and weekday; "
        "missing if ?"
    )
