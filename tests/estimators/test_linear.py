"""Private linear regression keeps scikit-learn's contract and solves the problem that it says it solves."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import Ridge

from dperm.errors import DpermError, InvalidInput, Unsupported
from dperm.estimators.linear import PrivateLinearRegression
from dperm.mechanisms import RSGDAR, NoPrivacy, Output
from dperm.mechanisms.statistics.adassp import AdaSSP
from dperm.problem import INTERCEPT_SCALE

EXACT = NoPrivacy(tolerance=1e-11)


@pytest.fixture(scope="module")
def wages():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4)) * 0.3
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    return X, 30 + 15 * X @ [1.0, -0.6, 0.3, 0.0] + rng.normal(size=6000)


def test_the_default_mechanism_is_auto():
    assert PrivateLinearRegression().mechanism == "auto"


@pytest.mark.parametrize(
    "mechanism",
    [
        AdaSSP(),
        AdaSSP(standardise=True),
        "rsgd-ar",
        "rsgd",
        "nsgd",
        "output-gd",
        "bolt-on",
        "output",
        "none",
    ],
    ids=str,
)
def test_every_mechanism_for_real_targets_fits_and_reports(mechanism, wages):
    X, y = wages
    model = PrivateLinearRegression(mechanism=mechanism, y_range=(0, 60), epsilon=10, l2=0.05).fit(X, y)
    assert model.coef_.shape == (4,)
    assert isinstance(model.intercept_, float)
    assert model.predict(X).shape == y.shape
    report = model.privacy_.to_dict()
    json.dumps(report)
    assert report["loss"] == "squared"
    assert (report["guarantee"] == {"epsilon": 10.0, "delta": 1e-6}) is (mechanism != "none")
    assert any("y_range" in assumption["text"] for assumption in report["assumptions"])
    assert model.score(X, y) > 0.3


def test_a_papers_noise_that_falls_short_is_not_called_private(wages):
    X, y = wages
    model = PrivateLinearRegression(mechanism=AdaSSP(accounting="paper"), y_range=(0, 60), epsilon=20).fit(
        X, y
    )
    assert model.privacy_.guarantee is None
    assert "does not reach" in model.privacy_.reason
    model.set_params(epsilon=1.0).fit(X, y)
    assert model.privacy_.guarantee == {"epsilon": 1.0, "delta": 1e-6}


def test_no_noise_equals_ridge_where_no_residual_is_clipped(wages):
    X, y = wages
    ours = PrivateLinearRegression(
        mechanism=EXACT, l2=1e-3, y_range=(-60, 60), fit_intercept=False, residual_bound=10.0
    )
    theirs = Ridge(alpha=len(y) * 1e-3, fit_intercept=False, tol=1e-12).fit(X, y)
    ours.fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-6)
    assert ours.intercept_ == 0.0


def test_the_intercept_is_a_penalised_column_and_the_middle_of_the_range_is_free(wages):
    X, y = wages
    ours = PrivateLinearRegression(mechanism=EXACT, l2=1e-3, y_range=(10, 50), residual_bound=10.0)
    ours.fit(X, y)
    column = np.column_stack([X, np.full(len(X), INTERCEPT_SCALE)])
    theirs = Ridge(alpha=len(y) * 1e-3, fit_intercept=False, tol=1e-12).fit(column, np.clip(y, 10, 50) - 30)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[:-1], atol=1e-6)
    assert ours.intercept_ == pytest.approx(30 + INTERCEPT_SCALE * theirs.coef_[-1], abs=1e-6)


def test_no_noise_equals_the_huber_minimiser_where_residuals_are_clipped(wages):
    X, y = wages
    bound = 0.1  # 3 units of y: one standard deviation is 1, but the first column is cut off
    ours = PrivateLinearRegression(mechanism=EXACT, y_range=(0, 60), residual_bound=bound, l2=0.3).fit(X, y)
    column, t = np.column_stack([X, np.full(len(X), INTERCEPT_SCALE)]), (y - 30) / 30

    def objective(w):
        size = np.abs(column @ w - t)
        huber = np.where(size <= bound, size**2 / 2, bound * (size - bound / 2))
        gradient = column.T @ np.clip(column @ w - t, -bound, bound) / len(t) + 0.3 * w
        return huber.mean() + 0.15 * w @ w, gradient

    found = minimize(objective, np.zeros(5), jac=True, method="BFGS", options={"gtol": 1e-12}).x
    assert (np.abs(column @ found - t) > bound).mean() > 0.1
    np.testing.assert_allclose(ours.coef_, 30 * found[:-1], atol=1e-6)
    assert ours.intercept_ == pytest.approx(30 + 30 * INTERCEPT_SCALE * found[-1], abs=1e-6)


def test_targets_beyond_the_range_are_cut_off(wages):
    X, y = wages
    wild = np.where(np.arange(len(y)) % 7 == 0, 1e6, y)
    settings = {"mechanism": EXACT, "y_range": (0, 60)}
    one = PrivateLinearRegression(**settings).fit(X, wild)
    two = PrivateLinearRegression(**settings).fit(X, np.clip(wild, 0, 60))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert np.abs(one.coef_).max() < 60


def test_units_of_the_target_do_not_matter(wages):
    X, y = wages
    small = PrivateLinearRegression(mechanism=AdaSSP(), y_range=(0, 64), random_state=1).fit(X, y)
    large = PrivateLinearRegression(mechanism=AdaSSP(), y_range=(0, 6400), random_state=1).fit(X, 100 * y)
    np.testing.assert_allclose(large.predict(X), 100 * small.predict(X), rtol=1e-6)


def test_more_budget_means_a_better_fit(wages):
    X, y = wages
    means = [
        np.mean(
            [
                PrivateLinearRegression(mechanism=AdaSSP(), epsilon=e, y_range=(0, 60), random_state=s)
                .fit(X[:1500], y[:1500])
                .score(X, y)
                for s in range(12)
            ]
        )
        for e in (0.1, 1, 10)
    ]
    assert means[0] < means[1] < means[2]
    assert means[2] > 0.8


def test_a_seed_is_repeatable_and_never_called_private(wages):
    X, y = wages
    first, second = (
        PrivateLinearRegression(mechanism=AdaSSP(), y_range=(0, 60), random_state=3).fit(X, y)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.privacy_.guarantee is None
    secret = [PrivateLinearRegression(mechanism=AdaSSP(), y_range=(0, 60)).fit(X, y).coef_ for _ in range(2)]
    assert (secret[0] != secret[1]).all()


def test_add_remove_needs_a_capacity_and_halves_the_sensitivity(wages):
    X, y = wages
    settings = {"mechanism": AdaSSP(), "y_range": (0, 60), "neighbours": "add-remove"}
    with pytest.raises(InvalidInput, match="max_rows"):
        PrivateLinearRegression(**settings).fit(X, y)
    one = PrivateLinearRegression(**settings, max_rows=6500).fit(X, y)
    two = PrivateLinearRegression(mechanism=AdaSSP(), y_range=(0, 60)).fit(X, y)
    assert one.privacy_.sensitivity == pytest.approx(two.privacy_.sensitivity / 2, rel=1e-6)
    assert one.score(X, y) > 0.5


def test_frames_and_clones(wages):
    X, y = wages
    names = ["a", "b", "c", "d"]
    model = clone(PrivateLinearRegression(mechanism=AdaSSP(failure=0.1), y_range=(0, 60)))
    model.fit(pd.DataFrame(X, columns=names), pd.Series(y))
    assert list(model.feature_names_in_) == names
    assert model.get_params()["mechanism"] == AdaSSP(failure=0.1)
    assert model.privacy_.settings["failure"] == 0.1


MARKER = 123454321.5


def bad_rows():
    X = np.full((20, 2), 0.1)
    X[7] = MARKER
    y = np.linspace(-1, 1, 20)
    y[5] = MARKER
    nan = X.copy()
    nan[3, 1] = np.nan
    yield "epsilon zero", {"epsilon": 0}, X, y, "epsilon"
    yield "delta zero", {"delta": 0}, X, y, "delta"
    yield "NaN feature", {}, nan, y, "NaN"
    yield "NaN target", {}, X, np.where(np.arange(20) == 3, np.nan, y), "NaN"
    yield "infinite target", {}, X, np.where(np.arange(20) == 3, np.inf, y), "infinity"
    yield "text target", {}, X, np.full(20, "a"), "string"
    yield "lengths differ", {}, X, y[:-1], "inconsistent"
    yield "two targets", {}, X, np.column_stack([y, y]), "1d"
    yield "y_range missing", {"y_range": None}, X, y, "y_range"
    yield "y_range of one", {"y_range": (1.0,)}, X, y, "y_range"
    yield "y_range reversed", {"y_range": (1.0, -1.0)}, X, y, "low < high"
    yield "y_range empty", {"y_range": (1.0, 1.0)}, X, y, "low < high"
    yield "y_range infinite", {"y_range": (0.0, float("inf"))}, X, y, "finite"
    yield "y_range text", {"y_range": "01"}, X, y, "y_range"
    yield "y_range of text", {"y_range": ("0", "1")}, X, y, "y_range"
    yield "residual_bound zero", {"residual_bound": 0.0}, X, y, "residual_bound"
    yield "residual_bound text", {"residual_bound": "1"}, X, y, "residual_bound"
    yield "x_norm zero", {"x_norm": 0}, X, y, "x_norm"
    yield "l2 negative", {"l2": -1}, X, y, "l2"
    yield "l2 zero for output", {"l2": 0, "mechanism": Output()}, X, y, "l2 > 0"
    yield "ssp", {"mechanism": "ssp"}, X, y, "not squared"
    yield "unknown mechanism", {"mechanism": "magic"}, X, y, "rsgd-ar"
    yield "unknown relation", {"neighbours": "next-door"}, X, y, "replace-one"
    yield "step above 2/L", {"mechanism": RSGDAR(step_size=100.0)}, X, y, "2/L"


@pytest.mark.parametrize(
    ("name", "params", "X", "y", "says"), list(bad_rows()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_bad_input_is_refused_clearly(name, params, X, y, says):
    with pytest.raises((DpermError, ValueError, TypeError), match=f"(?i){says}") as caught:
        PrivateLinearRegression(**{"mechanism": AdaSSP(), "y_range": (-1.0, 1.0), **params}).fit(X, y)
    assert "12345" not in str(caught.value)


def test_a_failed_fit_leaves_nothing_fitted():
    model = PrivateLinearRegression(mechanism=Output(), y_range=(-1, 1), l2=0.0)
    with pytest.raises(Unsupported):
        model.fit(np.full((20, 2), 0.1), np.linspace(-1, 1, 20))
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "privacy_")
