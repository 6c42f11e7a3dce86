"""Comparisons of targets that are numbers: scores in their units, on the same splits, in a store of their own."""

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score

from dperm import PrivateLinearRegression
from dperm.errors import InvalidInput
from dperm.experiments.compare import compare, specify
from dperm.experiments.judging import number_scores
from dperm.experiments.metrics import with_error
from dperm.experiments.results import Study, combine, curves, separate
from dperm.experiments.series import looks
from dperm.experiments.splits import assign_folds

RANGE = (10.0, 60.0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, size=(600, 3))
    return X, 35 + 20 * X[:, 0] - 10 * X[:, 1] + 2 * rng.normal(size=600)


def run(rows, mechanisms, **settings):
    given = {"dataset": "toy", "epsilons": [1.0], "delta": 1e-5, "folds": 3, "repeats": 2, "y_range": RANGE}
    return compare(*rows, mechanisms=mechanisms, **{**given, **settings})


def test_scores_are_those_of_scikit_learn_in_units_of_the_target():
    rng = np.random.default_rng(0)
    y, predicted = rng.normal(size=50), rng.normal(size=50)
    found = number_scores(predicted, y, unit=25.0)
    assert found.r2 == pytest.approx(r2_score(y, predicted), rel=1e-12)
    assert found.mae == pytest.approx(25 * mean_absolute_error(y, predicted), rel=1e-12)
    assert found.rmse == pytest.approx(25 * np.sqrt(np.mean((y - predicted) ** 2)), rel=1e-12)
    assert found[:3] == (None, None, None)
    assert number_scores(predicted, np.ones(50), unit=1.0).r2 is None


def test_a_mean_is_written_with_its_error_and_without_a_sign_of_zero():
    assert with_error(0.25, 0.0625, 2, 1) == "0.25 ±0.062"
    assert with_error(-0.0001, 0.0, 3) == "0.000 ±0.000"
    assert with_error(1.5, np.nan, 1) == "1.5"
    assert with_error(np.nan, np.nan, 1) == ""


def test_a_model_is_judged_as_the_estimator_would_be(rows):
    X, y = rows
    table = run(rows, ["none"], l2=1e-4, repeats=1).to_pylist()
    fold = assign_folds("toy", 0, len(y), 3)
    for row in table:
        tested = fold == row["fold"]
        model = PrivateLinearRegression(mechanism="none", l2=1e-4, y_range=RANGE).fit(X[~tested], y[~tested])
        assert row["r2"] == pytest.approx(
            r2_score(np.clip(y[tested], *RANGE), model.predict(X[tested])), abs=1e-4
        )


def test_the_constant_is_the_mean_of_the_training_rows(rows):
    _, y = rows
    fold = assign_folds("toy", 0, len(y), 3)
    for row in run(rows, ["majority"], repeats=1).to_pylist():
        tested = fold == row["fold"]
        middle = np.clip(y[~tested], *RANGE).mean()
        expected = np.abs(np.clip(y[tested], *RANGE) - middle).mean()
        assert row["mae"] == pytest.approx(expected, rel=1e-5)
        assert -0.1 < row["r2"] <= 0


def test_numbers_beyond_the_range_are_moved_to_its_ends(rows):
    X, y = rows
    far = np.where(y > 45, 1e6, y)
    clipped = np.where(y > 45, RANGE[1], y)
    one, other = (run((X, some), ["none"]) for some in (far, clipped))
    assert one["rmse"].to_pylist() == other["rmse"].to_pylist()


def test_finished_batches_are_kept_and_the_range_is_part_of_the_identity(rows, tmp_path):
    calls = []
    first = run(rows, ["none", "output"], folder=tmp_path, progress=lambda *done: calls.append(done))
    calls.clear()
    again = run(rows, ["none", "output"], folder=tmp_path, progress=lambda *done: calls.append(done))
    assert again.equals(first)
    assert calls == [(2, 2)]
    study = Study.of(again)
    assert (study.y_range, study.n_classes, study.loss) == (RANGE, 0, "squared")
    identities = {
        specify(*rows, dataset="toy", mechanisms=["none"], epsilons=[1.0], delta=1e-5, y_range=y_range)[
            0
        ].identity
        for y_range in (RANGE, (0.0, 60.0), (10.0, 61.0))
    }
    assert len(identities) == 3


def test_configurations_are_ranked_by_r2(rows):
    methods = {f"{steps} steps": mechanism for steps, mechanism in _many()}
    found = curves(run(rows, methods))
    look = dict(zip((curve.label for curve in found), looks(found), strict=True))
    score = {curve.label: float(curve.r2[0].mean()) for curve in found}
    grey = {name for name, some in look.items() if some.colour is None}
    assert len(grey) == 2
    assert max(score[name] for name in grey) <= min(score[name] for name in set(score) - grey)


def _many():
    from dperm.mechanisms import DPGD

    return [(steps, DPGD(steps=steps)) for steps in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)]


def test_numbers_and_classes_share_a_table(rows):
    X, y = rows
    both = [run(rows, ["none"]), run((X, y > 35), ["none"], y_range=None, dataset="other")]
    numbers, classes = separate(combine(both))
    assert curves(numbers)[0].r2[0].min() > 0.5
    assert np.isnan(curves(numbers)[0].accuracy[0]).all()
    assert np.isnan(curves(classes)[0].r2[0]).all()


@pytest.mark.together
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"y_range": (60.0, 10.0)}, "low < high"),
        ({"y_range": (0.0, np.inf)}, "finite"),
        ({"loss": "logistic"}, "for classes, and the target is a number"),
    ],
)
def test_wrong_ranges_and_losses_are_refused(rows, settings, says):
    with pytest.raises(InvalidInput, match=says):
        run(rows, ["none"], **settings)


def test_a_text_among_the_numbers_is_not_quoted(rows):
    X, _ = rows
    with pytest.raises(InvalidInput, match="finite numbers") as caught:
        run((X, np.array(["zyxwv"] * len(X))), ["none"])
    assert "zyxwv" not in str(caught.value)
    assert caught.value.__context__ is None
