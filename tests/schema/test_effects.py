"""Effects of features add up to the score of a record."""

import math

import numpy as np
import pytest

from dperm.errors import InvalidInput
from dperm.schema import Schema, effects, encode

SCHEMA = Schema.from_dict(
    {
        "target": {"name": "y", "classes": ["no", "yes"]},
        "rows": {"cross": [["job", "years"]]},
        "features": {
            "age": {"range": [18, 90], "missing": [54], "indicator": True},
            "pay": {"range": [0, 1000], "log": True, "centre": 0, "spline": 5},
            "years": {"range": [0, 40], "bins": [10, 20]},
            "job": {"categories": ["nurse", "clerk", "smith"]},
            "town": {"categories": [False, True]},
        },
    }
)
RNG = np.random.default_rng(0)
COEF = RNG.normal(size=SCHEMA.n_columns)
RECORD = {"age": 40.5, "pay": 99.0, "years": 10.0, "job": "clerk", "town": True}


def _at(effect, value):
    assert effect.values is not None
    return np.interp(value, effect.values, effect.added[0])


def test_they_add_up_to_the_score_of_a_record():
    found = {effect.name: effect for effect in effects(SCHEMA, COEF)}
    assert list(found) == ["age", "pay", "years", "job", "town", "job & years"]
    axis = np.log1p(found["pay"].values)
    total = [
        _at(found["age"], 40.5),
        np.interp(np.log1p(99.0), axis, found["pay"].added[0]),
        _at(found["years"], 10.0),
        found["job"].added[0, 1],
        found["town"].added[0, 1],
        found["job & years"].added[0, found["job & years"].levels.index("clerk & [10, 20)")],
    ]
    row = encode({name: [value] for name, value in RECORD.items()}, SCHEMA)[0]
    assert math.fsum(total) == pytest.approx(row @ COEF, abs=1e-9)


def test_a_curve_has_its_knots_and_both_ends():
    age = effects(SCHEMA, COEF)[0]
    assert age.values[[0, -1]].tolist() == [18, 90]
    assert age.shares[[0, -1]].tolist() == [0, 1]
    for knot in np.linspace(18, 90, 8):
        assert np.abs(age.values - knot).min() < 1e-9
    slopes = np.diff(age.added[0]) / np.diff(age.values)
    bends = age.values[1:-1][np.abs(np.diff(slopes)) > 1e-9]
    assert np.allclose(bends, np.linspace(18, 90, 8)[1:-1])


def test_a_value_that_marks_a_missing_one_does_not_break_the_curve():
    curve = effects(SCHEMA, COEF)[0]
    plain = Schema.from_dict({**SCHEMA.to_dict(), "features": {**SCHEMA.to_dict()["features"],
                              "age": {"range": [18, 90], "indicator": True}}})  # fmt: skip
    assert np.array_equal(effects(plain, COEF)[0].added, curve.added)
    assert 54.0 in curve.values


def test_one_row_of_effects_for_each_score():
    three = np.stack([COEF, -COEF, 2 * COEF])
    for one, many in zip(effects(SCHEMA, COEF), effects(SCHEMA, three), strict=True):
        assert many.added.shape == (3, one.added.shape[1])
        assert np.allclose(many.added, np.array([[1], [-1], [2]]) * one.added[0])
        assert np.allclose(many.span, np.array([1, 1, 2]) * np.ptp(one.added))


def test_levels_have_no_effect_on_average():
    for effect in effects(SCHEMA, COEF)[3:]:
        assert effect.values is None
        assert effect.added.sum() == pytest.approx(0, abs=1e-12)


def test_coefficients_of_another_schema_are_refused():
    for coef in (COEF[1:], np.zeros((2, 2, 2)), 3.0):
        with pytest.raises(InvalidInput, match=f"{SCHEMA.n_columns} columns"):
            effects(SCHEMA, coef)
