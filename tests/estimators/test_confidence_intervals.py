"""``confidence_intervals``: names, units, contrasts, files and words."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import dperm
from dperm import PrivateLinearRegression, PrivateLogisticRegression, confidence_intervals, load_model
from dperm.cli.app import run
from dperm.errors import InvalidInput, Unsupported
from dperm.models.intervals import Interval, Intervals
from dperm.models.intervals.first_order import MOST_NOISE
from dperm.models.intervals.table import HELP, interval_words
from dperm.render.numbers import TOO_NOISY

N = 4000
SLOPES = np.array([2.0, -1.0, 0.0])


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.5, 0.5, (N, 3)), rng


def classifier(epsilon=3.0, names=False, **settings):
    X, rng = rows()
    y = rng.random(N) < 1 / (1 + np.exp(-(X @ SLOPES + 0.3)))
    X = pd.DataFrame(X, columns=["age", "<pay>", "rest"]) if names else X
    model = PrivateLogisticRegression(
        epsilon=epsilon, delta=1e-6, classes=[False, True], inference=True, random_state=3, **settings
    )
    return model.fit(X, y)


def regression(low=0.0, high=100.0, **settings):
    X, rng = rows()
    y = (low + high) / 2 + (high - low) / 2 * (0.5 * X @ SLOPES + 0.05 + 0.1 * rng.standard_normal(N))
    return PrivateLinearRegression(
        epsilon=3.0, delta=1e-6, y_range=(low, high), inference=True, random_state=3, **settings
    ).fit(X, y)


@pytest.fixture(scope="module")
def model():
    return classifier()


def test_a_row_for_every_coefficient_and_the_intercept(model):
    found = model.confidence_intervals()
    assert isinstance(found, Intervals)
    assert [row.name for row in found.rows] == ["x0", "x1", "x2", "intercept"]
    for row, coefficient in zip(found.rows, [*model.coef_[0], *model.intercept_], strict=True):
        assert row.low < row.estimate < row.high
        assert abs(row.estimate) > 0.99 * abs(coefficient)  # away from the penalty
        assert row.high - row.low == pytest.approx(2 * 1.96 * row.error, rel=0.2)
        assert 0 < row.privacy < 1
    assert found["x0"].low < 2 < found["x0"].high
    assert found["intercept"].low < 0.3 < found["intercept"].high
    with pytest.raises(KeyError):
        found["x9"]


def test_it_is_the_same_every_time_and_as_a_function(model):
    assert model.confidence_intervals().to_dict() == model.confidence_intervals().to_dict()
    assert confidence_intervals(model).to_dict() == model.confidence_intervals().to_dict()


def test_a_higher_level_is_wider(model):
    narrow, wide = (model.confidence_intervals(level)["x0"] for level in (0.8, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert wide.error == narrow.error


@pytest.mark.parametrize("level", [0, 1, 95, True, "0.9", None, math.nan])
def test_levels_that_are_none(model, level):
    with pytest.raises(InvalidInput, match="level"):
        model.confidence_intervals(level)


def test_a_contrast_is_a_combination(model):
    alone = model.confidence_intervals()
    found = model.confidence_intervals(contrast={"x0": 1, "x1": -1})
    assert [row.name for row in found.rows] == ["contrast"]
    row = found["contrast"]
    assert row.estimate == pytest.approx(alone["x0"].estimate - alone["x1"].estimate, rel=1e-6)
    assert row.error < alone["x0"].error + alone["x1"].error
    same = model.confidence_intervals(contrast=[1, -1, 0])["contrast"]
    assert same == row
    one = model.confidence_intervals(contrast=[0, 1, 0])["contrast"]
    assert (one.low, one.high) == pytest.approx((alone["x1"].low, alone["x1"].high))


@pytest.mark.parametrize(
    ("contrast", "words"),
    [
        ({"y": 1}, "'y'"),
        ([1, 2], "3 finite"),
        ([0, 0, 0], "not all 0"),
        ([1, math.inf, 0], "finite"),
        ("a", "numbers"),
    ],
)
def test_contrasts_that_are_none(model, contrast, words):
    with pytest.raises(InvalidInput, match=words):
        model.confidence_intervals(contrast=contrast)


def test_numbers_have_the_unit_of_the_target():
    """The same table in other units: every number is scaled, the intercept moved."""
    narrow, wide = regression(-1, 1).confidence_intervals(), regression(100, 300).confidence_intervals()
    for name in ("x0", "x1", "x2"):
        for part in ("estimate", "error", "low", "high"):
            assert getattr(wide[name], part) == pytest.approx(100 * getattr(narrow[name], part), rel=1e-6)
    assert wide["intercept"].low == pytest.approx(200 + 100 * narrow["intercept"].low, rel=1e-6)
    assert narrow["x0"].low < 1.0 < narrow["x0"].high
    assert narrow["x1"].privacy == pytest.approx(wide["x1"].privacy)


@pytest.mark.together
@pytest.mark.parametrize(
    "settings", [{"mechanism": "adassp"}, {"mechanism": "dp-gd"}, {"residual_bound": 0.3}]
)
def test_other_ways_to_train(settings):
    found = regression(-1, 1, **settings).confidence_intervals()
    assert found["x0"].low < 1.0 < found["x0"].high
    assert found["x0"].high - found["x0"].low < 0.6


def test_without_an_intercept_there_is_no_row_for_it():
    X, rng = rows()
    y = rng.random(N) < 1 / (1 + np.exp(-(X @ SLOPES)))
    model = PrivateLogisticRegression(
        epsilon=3.0, delta=1e-6, classes=[False, True], inference=True, fit_intercept=False, random_state=0
    ).fit(X, y)
    found = model.confidence_intervals()
    assert [row.name for row in found.rows] == ["x0", "x1", "x2"]
    assert found["x0"].low < 2 < found["x0"].high


def test_a_file_gives_the_same(model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    assert load_model(path).confidence_intervals().to_dict() == model.confidence_intervals().to_dict()
    assert str(confidence_intervals(path)) == str(model.confidence_intervals())


def test_too_noisy_is_said_and_not_shown():
    model = classifier(epsilon=0.02)
    found = model.confidence_intervals()
    assert all(row.too_noisy for row in found.rows)
    assert found.noise_level > MOST_NOISE
    assert str(found).count(TOO_NOISY) == 4
    assert HELP.split(":")[0][:40] in " ".join(str(found).split())
    assert found.to_dict()["rows"][0] == {
        "name": "x0",
        "estimate": None,
        "error": None,
        "low": None,
        "high": None,
        "privacy": None,
        "too_noisy": True,
    }
    told = model.summary()
    assert str(told).count(TOO_NOISY) == 4
    assert told.sure == "not known"


def test_open_ends_are_words_and_null():
    assert interval_words(-math.inf, 2.0) == "at most +2"
    assert interval_words(1.0, math.inf) == "at least +1"
    assert interval_words(None, None) == TOO_NOISY
    row = Interval(name="a", estimate=1.0, error=0.5, low=0.1, high=math.inf, privacy=0.9)
    assert row.to_dict()["high"] is None
    assert not row.too_noisy


def test_what_is_shown(model):
    shown = str(model.confidence_intervals(0.9))
    assert "90 % interval" in shown
    assert "differentially private" in shown or "NOT PRIVATE" in shown
    assert max(map(len, shown.splitlines())) <= 100
    json.dumps(model.confidence_intervals().to_dict(), allow_nan=False)


def test_names_are_escaped_in_a_notebook():
    found = classifier(names=True).confidence_intervals()
    assert [row.name for row in found.rows] == ["age", "<pay>", "rest", "intercept"]
    page = found._repr_html_()
    assert "&lt;pay&gt;" in page
    assert "<pay>" not in page


def test_a_model_that_released_nothing_says_how():
    X, rng = rows()
    y = rng.random(N) < 0.5
    plain = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=[False, True], random_state=0)
    with pytest.raises(NotFittedError):
        plain.confidence_intervals()
    with pytest.raises(InvalidInput, match="inference=True"):
        plain.fit(X, y).confidence_intervals()


def test_descent_that_stopped_early_says_so():
    X, rng = rows()
    y = rng.random(N) < 1 / (1 + np.exp(-(X @ SLOPES)))
    model = PrivateLogisticRegression(
        epsilon=3.0,
        delta=1e-6,
        classes=[False, True],
        inference=True,
        mechanism=dperm.mechanisms.DPGD(steps=3),
        random_state=0,
    ).fit(X, y)
    with pytest.raises(Unsupported, match="stopped before"):
        model.confidence_intervals()
    assert "stopped before" in model.summary().noise


def test_summaries_show_intervals(model, tmp_path, capsys):
    told, found = model.summary(), model.confidence_intervals()
    for row in told.rows:
        name = row.feature
        assert (row.interval.low, row.interval.high) == (found[name].low, found[name].high)
        assert row.noise == pytest.approx(found[name].error * math.sqrt(found[name].privacy))
    assert told.sure == "estimated"
    assert not told.tells_noise
    for shown in (str(told), told._repr_html_(), told.section()):
        assert "95 % interval" in shown
        assert found["x0"].words in shown
    json.dumps(told.to_dict(), allow_nan=False)
    assert told.to_dict()["rows"][0]["interval"]["low"] == found["x0"].low
    model.save(tmp_path / "model.json")
    assert run(["show", str(tmp_path / "model.json")]) == 0
    assert found["x0"].words in capsys.readouterr().out


def homeowner(epsilon=5.0):
    return PrivateLogisticRegression(
        epsilon=epsilon, delta=1e-6, classes=["no", "yes"], inference=True, random_state=0
    )


def homes():
    rng = np.random.default_rng(4)
    schema = {
        "target": {"name": "late", "classes": ["no", "yes"]},
        "features": {"home": {"categories": ["rent", "own", "other"]}, "age": {"range": [18, 90]}},
    }
    table = pd.DataFrame({"home": rng.choice(["rent", "own", "other"], N), "age": rng.integers(18, 91, N)})
    y = np.where(rng.random(N) < np.where(table["home"] == "rent", 0.6, 0.3), "yes", "no")
    return table, y, schema


def test_categories_in_a_summary_are_told_against_their_mean():
    table, y, schema = homes()
    model = homeowner().fit(dperm.PublicEncoder(schema).fit_transform(table), y)
    told = model.summary(schema)
    assert all(
        row.interval.too_noisy for row in model.summary().rows
    )  # without a schema a sum of columns is 0
    rent, own = (next(row for row in told.rows if row.level == level) for level in ("rent", "own"))
    true = np.log(0.6 / 0.4) - np.log(0.3 / 0.7)
    assert rent.interval.low < 2 / 3 * true < rent.interval.high
    assert own.interval.low < -1 / 3 * true < own.interval.high
    assert rent.interval.high - rent.interval.low < 0.5
    columns = model.confidence_intervals(schema=schema)
    assert not any(row.too_noisy for row in columns.rows)
    names = [row.name for row in columns.rows]
    factors = np.zeros(len(names) - 1)
    factors[:2] = 1, -1
    both = model.confidence_intervals(contrast=factors, schema=schema)["contrast"]
    apart = columns.rows[0].estimate - columns.rows[1].estimate
    assert both.estimate == pytest.approx(apart, rel=1e-3)


def test_a_pipeline_and_a_file_bring_their_schema(tmp_path):
    table, y, schema = homes()
    pipeline = make_pipeline(dperm.PublicEncoder(schema), homeowner()).fit(table, y)
    found = confidence_intervals(pipeline)
    assert not any(row.too_noisy for row in found.rows)
    dperm.save_model(pipeline, tmp_path / "model.json")
    assert confidence_intervals(tmp_path / "model.json").to_dict() == found.to_dict()


def test_hats_and_bins_tell_what_is_left_of_them():
    """The linear column follows from the hats, and bins sum to 0: a schema tells so, and the curve has an interval."""
    rng = np.random.default_rng(2)
    schema = {
        "target": {"name": "late", "classes": ["no", "yes"]},
        "features": {"age": {"range": [18, 90], "spline": 3}, "pay": {"range": [0, 10], "bins": [3, 6]}},
    }
    table = pd.DataFrame({"age": rng.uniform(18, 90, 5 * N), "pay": rng.uniform(0, 10, 5 * N)})
    y = np.where(rng.random(5 * N) < 1 / (1 + np.exp(2 - table["age"] / 30)), "yes", "no")
    model = homeowner(epsilon=10.0).fit(dperm.PublicEncoder(schema).fit_transform(table), y)
    rows = model.summary(schema).rows
    age = next(row for row in rows if row.feature == "age")
    assert age.interval.low < 72 / 30 < age.interval.high
    assert age.interval.high - age.interval.low < 1


def test_the_command_line_has_intervals(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, y, _ = homes()
    table.assign(late=y).to_csv("homes.csv", index=False)
    (tmp_path / "homes.toml").write_text(
        '[target]\nname = "late"\nclasses = ["no", "yes"]\n[features.home]\ncategories = ["rent", "own", "other"]\n'
        "[features.age]\nrange = [18, 90]\nspline = 0\n"
    )
    fit = ["fit", "homes.csv", "--schema", "homes.toml", "--epsilon", "5", "--delta", "1e-6", "--output"]
    assert run([*fit, "model.json", "--inference"]) == 0
    assert run([*fit, "plain.json"]) == 0
    capsys.readouterr()
    assert run(["show", "model.json"]) == 0
    assert "95 % interval" in capsys.readouterr().out
    assert run(["show", "plain.json"]) == 0
    assert "95 % interval" not in capsys.readouterr().out
    assert not confidence_intervals("model.json")["age"].too_noisy
    assert run(["verify", "model.json", "--max-epsilon", "5"]) == 0
