"""A summary says what predictions do: every change is the difference of two scores, in the units of the table."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from dperm import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PublicEncoder,
    load_model,
    save_model,
    summary,
)
from dperm.errors import InvalidInput
from dperm.mechanisms import Output
from dperm.models.summary import summary_of
from dperm.models.terms import step_of
from dperm.schema import Schema, encode

N = 600
SCHEMA = Schema.from_dict(
    {
        "target": {"name": "late", "classes": ["no", "yes"]},
        "rows": {"cross": [["home", "visits"]]},
        "features": {
            "age": {"range": [18, 90], "indicator": True},
            "income": {"range": [0, 1e5], "spline": 0},
            "debt": {"range": [0, 1e5], "spline": 0, "log": True},
            "visits": {"range": [0, 50], "bins": [1, 5]},
            "home": {"categories": ["rent", "own", "<b>other"]},
            "note": {"hashed": 50, "words": True},
        },
    }
)
REGRESSION = Schema.from_dict({**SCHEMA.to_dict(), "target": {"name": "days", "range": [0, 365]}})
PERSON = {"age": 40.0, "income": 2e4, "debt": 0.0, "visits": 2.0, "home": "rent", "note": "quiet person"}
LINEAR = {"mechanism": "auto"}


def people(rows):
    frame = pd.DataFrame(rows)
    frame["age"] = frame["age"].astype(float)
    return frame


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(0)
    return people(
        {
            "age": rng.uniform(18, 90, N),
            "income": rng.uniform(0, 1e5, N),
            "debt": rng.uniform(0, 1e5, N),
            "visits": rng.uniform(0, 50, N),
            "home": rng.choice(["rent", "own", "<b>other"], N),
            "note": ["quiet person"] * N,
        }
    )


@pytest.fixture(scope="module")
def model(crowd):
    y = np.where(crowd["age"] > 50, "yes", "no")
    return PrivateLogisticRegression(classes=["no", "yes"], epsilon=5.0).fit(encode(crowd, SCHEMA), y)


def row(told, feature, level="", output=None):
    (found,) = [
        each for each in told.rows if (each.feature, each.level, each.output) == (feature, level, output)
    ]
    return found


def difference(predict, schema, **changed):
    """Of the score of a person with these values and of one with others."""
    before, after = ({name: pair[place] for name, pair in changed.items()} for place in (0, 1))
    scores = predict(encode(people([{**PERSON, **before}, {**PERSON, **after}]), schema))
    return scores[1] - scores[0]


def test_changes_are_differences_of_scores(model):
    told = summary(model, SCHEMA)
    score = model.decision_function
    close = {"rel": 1e-9, "abs": 1e-12}
    age = row(told, "age")
    assert age.per == "from 18 to 90"
    assert age.change == pytest.approx(difference(score, SCHEMA, age=(18, 90)), **close)
    for value, change, _ in age.curve:
        assert change == pytest.approx(difference(score, SCHEMA, age=(18, value)), **close)
    income = row(told, "income")
    assert income.per == "per 10,000"
    assert income.change == pytest.approx(difference(score, SCHEMA, income=(3e4, 4e4)), **close)
    debt = row(told, "debt")
    assert debt.per == "per doubling of 1 + it"
    assert debt.change == pytest.approx(difference(score, SCHEMA, debt=(1e4, 2e4 + 1)), **close)


def test_categories_against_their_mean_or_the_first(model):
    homes = ["rent", "own", "<b>other"]
    # Without visits there is no pair of levels, so the category alone counts.
    alone = {"visits": (np.nan, np.nan)}
    against_mean, against_first = summary(model, SCHEMA), model.summary(SCHEMA, against="first")
    unknown = [difference(model.decision_function, SCHEMA, home=("tent", home), **alone) for home in homes]
    assert [row(against_mean, "home", home).change for home in homes] == pytest.approx(unknown)
    assert sum(unknown) == pytest.approx(0.0, abs=1e-12)
    for home in homes[1:]:
        found = difference(model.decision_function, SCHEMA, home=("rent", home), **alone)
        assert row(against_first, "home", home).change == pytest.approx(found)
        assert row(against_first, "home", home).per == "against rent"
    with pytest.raises(InvalidInput, match="against must be one of"):
        summary(model, SCHEMA, against="median")


def test_missing_values_and_pairs_and_hashed_columns(model):
    told = summary(model, SCHEMA)
    knots = [value for value, _, _ in row(told, "age").curve]
    missing = np.mean([difference(model.decision_function, SCHEMA, age=(knot, np.nan)) for knot in knots])
    assert row(told, "age", "missing").change == pytest.approx(missing)
    pairs = [each for each in told.rows if each.feature == "home & visits"]
    assert len(pairs) == 9
    assert sum(pair.change for pair in pairs) == pytest.approx(0.0, abs=1e-12)
    assert len([each for each in told.rows if each.kind == "column"]) == 50
    assert "and 10 more with smaller changes" in str(told)


def test_several_classes_are_told_against_their_mean(crowd):
    y = np.digitize(crowd["age"], [40, 60])
    schema = Schema.from_dict({**SCHEMA.to_dict(), "target": {"name": "late", "classes": [0, 1, 2]}})
    model = PrivateLogisticRegression(classes=[0, 1, 2], epsilon=5.0).fit(encode(crowd, schema), y)
    told = summary(model, schema)
    found = difference(model.decision_function, schema, income=(0, 1e4))
    for label, change in zip("012", found - found.mean(), strict=True):
        assert row(told, "income", output=label).change == pytest.approx(change)


def test_a_regression_speaks_in_the_unit_of_its_target(crowd):
    y = crowd["age"] * 3
    model = PrivateLinearRegression(y_range=(0, 365), epsilon=5.0).fit(encode(crowd, REGRESSION), y)
    told = summary(model, REGRESSION)
    assert told.score == "the prediction of days"
    assert row(told, "age").change == pytest.approx(difference(model.predict, REGRESSION, age=(18, 90)))
    exact = PrivateLinearRegression(y_range=(0, 365), mechanism="output", fit_intercept=False)
    exact.fit(encode(crowd, REGRESSION), y)
    told = summary(exact)
    scale = exact.privacy_.noise_scale
    assert told.rows[0].noise == pytest.approx(365 * scale)
    assert "intercept" not in {each.feature for each in told.rows}


def test_without_a_schema_coefficients_are_shown_as_they_are(model):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)) / 3, columns=["left", "right"])
    named = PrivateLogisticRegression(classes=[0, 1], mechanism=Output(standardise=False))
    named.fit(frame, frame["left"] > 0)
    told = named.summary()
    assert [each.feature for each in told.rows] == ["left", "right", "intercept"]
    assert [each.change for each in told.rows] == [*named.coef_[0], named.intercept_[0]]
    assert [each.noise for each in told.rows[:2]] == pytest.approx([named.privacy_.noise_scale] * 2)
    assert told.rows[2].noise == pytest.approx(0.3 * named.privacy_.noise_scale)
    assert [each.feature for each in model.summary().rows][:2] == ["x0", "x1"]


def test_pipelines_and_files_bring_their_schema(crowd, model, tmp_path):
    pipeline = make_pipeline(PublicEncoder(SCHEMA), PrivateLogisticRegression(classes=["no", "yes"]))
    pipeline.fit(crowd, np.where(crowd["age"] > 50, "yes", "no"))
    save_model(pipeline, tmp_path / "pipeline.json")
    save_model(model, tmp_path / "model.json", schema=SCHEMA)
    told = summary(load_model(tmp_path / "pipeline.json"))
    assert told.to_dict() == summary(pipeline).to_dict()
    assert summary(tmp_path / "model.json").to_dict() == summary(model, SCHEMA).to_dict()
    with pytest.raises(InvalidInput, match="schema of its own"):
        summary(pipeline, SCHEMA)
    with pytest.raises(InvalidInput, match="columns and the model"):
        summary(model, {"target": {"name": "t", "classes": [0, 1]}, "features": {"a": {"range": [0, 1]}}})
    with pytest.raises(InvalidInput, match="private linear model"):
        summary_of(PublicEncoder(SCHEMA), None)


def test_it_is_plain_and_escaped(model):
    told = summary(model, SCHEMA)
    assert json.loads(json.dumps(told.to_dict(), allow_nan=False))["rows"][0]["feature"] == "age"
    for page in (told.section(), told._repr_html_(), told.table()):
        assert "<b>other" not in page
        assert "&lt;b&gt;other" in page
        assert "<script" not in page
    assert max(map(len, str(told).splitlines())) <= 100


DATED = Schema.from_dict(
    {
        "target": {"name": "late", "classes": [0, 1]},
        "features": {
            "opened": {"date": ["2015-01-01", "2024-12-31"], "cycles": ["weekday"], "spline": 3},
            "closed": {"date": ["2015-01-01", "2024-12-31"], "spline": 0},
            "weight": {"range": [40, 140], "unit": "kg", "spline": 0},
            "rent": {"range": [0, 3000], "unit": "EUR"},
            "home": {"categories": ["rent", "own"], "fold": True},
        },
    }
)


def test_dates_and_units():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3652, N), unit="D")
    table = pd.DataFrame(
        {
            "opened": days.strftime("%Y-%m-%d"),
            "closed": days.strftime("%Y-%m-%d"),
            "weight": rng.uniform(40, 140, N),
            "rent": rng.uniform(0, 3000, N),
            "home": rng.choice(["Rent ", "own"], N),
        }
    )
    model = PrivateLogisticRegression(classes=[0, 1], epsilon=5.0)
    model.fit(encode(table, DATED), (table["weight"] > 90).astype(int))
    told = summary(model, DATED)
    assert row(told, "opened").per == "from 2015-01-01 to 2024-12-31"
    assert [value for value, _, _ in row(told, "opened").curve] == ["2015-01-01", "2020-01-01", "2024-12-31"]
    assert row(told, "closed").per == "per 100 days"
    assert row(told, "weight").per == "per 10 kg"
    assert row(told, "rent").per == "from 0 to 3,000 EUR"
    assert next(each.level for each in told.rows if each.feature == "opened weekday") == "Monday"
    first, second = ({**table.iloc[0].to_dict(), "closed": date} for date in ("2020-01-01", "2020-04-10"))
    scores = model.decision_function(encode(pd.DataFrame([first, second]), DATED))
    assert row(told, "closed").change == pytest.approx(scores[1] - scores[0])
    assert json.dumps(told.to_dict(), allow_nan=False)
    assert "2020-01-01" in told.section()


@pytest.mark.parametrize(
    ("span", "step"), [(72, 1), (1e5, 1e4), (2.5e5, 1e4), (1, 0.1), (9, 1), (0.003, 0.0001)]
)
def test_steps_are_round(span, step):
    assert step_of(span) == pytest.approx(step)
