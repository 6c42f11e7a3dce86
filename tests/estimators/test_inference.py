"""``inference=True``: what a fitted estimator carries for intervals, keeps in its file and says of it."""

import numpy as np
import pytest
from sklearn.base import clone

from dperm import (
    Ledger,
    PrivateLinearClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    load_model,
    save_model,
)
from dperm.errors import BudgetExceeded, InvalidInput, Unsupported
from dperm.mechanisms.inference import CURVATURE, SQUARES

N, P = 2000, 3
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(N, P))
LABELS = (X[:, 0] + 0.2 * RNG.normal(size=N) > 0).astype(int)
NUMBERS = 50 + 40 * X[:, 0] + 2 * RNG.normal(size=N)
FITS = {
    "logistic": (PrivateLogisticRegression, {"classes": [0, 1]}, LABELS),
    "classifier": (PrivateLinearClassifier, {"classes": [0, 1]}, LABELS),
    "logistic, dp-gd": (PrivateLogisticRegression, {"classes": [0, 1], "mechanism": "dp-gd"}, LABELS),
    "linear": (PrivateLinearRegression, {"y_range": (0, 100)}, NUMBERS),
    "linear, adassp": (PrivateLinearRegression, {"y_range": (0, 100), "mechanism": "adassp"}, NUMBERS),
}


def fitted(case, **settings):
    kind, known, y = FITS[case]
    return kind(**{**known, "inference": True, "random_state": 0, **settings}).fit(X, y)


@pytest.mark.together
@pytest.mark.parametrize("case", FITS)
def test_a_model_carries_what_intervals_are_made_of(case):
    model = fitted(case, random_state=None)
    found = model._curvature
    assert found.hessian.shape == (P + 1, P + 1)
    np.testing.assert_array_equal(found.hessian, found.hessian.T)
    assert found.noise > 0
    assert (found.score_square is None) == ("linear" not in case)
    assert model.privacy_.guarantee == {"epsilon": 1.0, "delta": 1e-06}
    report = str(model.privacy_)
    assert "intervals    " in report
    assert (SQUARES if "adassp" in case else CURVATURE) in report
    assert "no longer than x_norm" in report
    assert model.privacy_.to_dict()["inference"] == model.privacy_.inference


def same(one, other):
    for name in ("hessian", "noise", "score_square", "score_noise", "cross", "cross_noise", "constant"):
        left, right = getattr(one, name), getattr(other, name)
        if left is None or right is None:
            assert left is right
        else:
            np.testing.assert_array_equal(left, right)


@pytest.mark.together
@pytest.mark.parametrize("case", FITS)
def test_a_file_gives_it_back_bit_for_bit(case, tmp_path):
    model = fitted(case)
    save_model(model, tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert loaded.inference is True
    same(loaded._curvature, model._curvature)
    save_model(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_without_it_nothing_is_carried_and_a_refit_forgets_it():
    model = fitted("logistic")
    model.set_params(inference=False).fit(X, LABELS)
    assert model._curvature is None
    assert model.privacy_.inference is None
    assert "inference" not in model.privacy_.to_dict()
    plain = PrivateLogisticRegression(classes=[0, 1], random_state=0).fit(X, LABELS)
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_auto_trains_with_the_loss_that_was_asked_for():
    logistic, linear = fitted("logistic"), fitted("linear", residual_bound=0.5)
    assert logistic.privacy_.loss == "logistic"
    assert linear.privacy_.statement["problem"]["loss_parameters"] == [0.5]
    for model in (logistic, linear):
        assert model.privacy_.standardisation is None
        assert "the loss that was asked for" in model.privacy_.settings["why"]
        assert not model.row_map_.linear


def test_the_plan_is_that_of_the_fit_and_the_ledger_pays_once(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.json", epsilon=1.0, delta=1e-6)
    model = PrivateLogisticRegression(classes=[0, 1], inference=True, ledger=ledger)
    plan = model.plan(N, P)
    assert CURVATURE in str(plan)
    model.fit(X, LABELS)
    assert len(model.privacy_.statement["releases"]) == 3
    with pytest.raises(BudgetExceeded):
        model.set_params(epsilon=0.01).fit(X, LABELS)


def test_it_is_a_parameter_like_any_other():
    model = PrivateLogisticRegression(inference=True)
    assert clone(model).inference is True
    assert "inference" in PrivateLogisticRegression.__doc__
    with pytest.raises(InvalidInput, match="inference must be True or False"):
        PrivateLogisticRegression(classes=[0, 1], inference="yes").fit(X, LABELS)


@pytest.mark.together
@pytest.mark.parametrize(
    ("model", "said"),
    [
        (PrivateLinearSVC(classes=[0, 1], inference=True), "not for huber-hinge"),
        (PrivateLogisticRegression(classes=[0, 1, 2], inference=True), "several outputs"),
        (PrivateLogisticRegression(classes=[0, 1], class_weight={1: 3.0}, inference=True), "weigh more"),
        (PrivateLogisticRegression(classes=[0, 1], mechanism="rsgd-ar", inference=True), "use 'auto'"),
        (PrivateLogisticRegression(classes=[0, 1], mechanism="ssp", inference=True), "not log odds"),
        (PrivateLinearRegression(y_range=(0, 1), fit_intercept=False, inference=True), "fit_intercept=True"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_have_intervals_says_so_before_a_row_is_read(model, said):
    with pytest.raises(Unsupported, match=said):
        model.plan(N, P)
    with pytest.raises(Unsupported, match=said):
        model.fit(X, LABELS)


def test_a_search_gives_no_intervals():
    search = PrivateSearchCV(
        PrivateLogisticRegression(classes=[0, 1], inference=True),
        {"l2": [1e-3, 1e-2]},
        epsilon=1.0,
        delta=1e-6,
    )
    with pytest.raises(Unsupported, match="a search gives no intervals"):
        search.fit(X, LABELS)


def test_coefficients_of_many_rows_are_near_the_truth_and_the_curvature_near_that_of_the_rows():
    """The released matrix is that of the model's own weights on rows as they came."""
    model = fitted("logistic", epsilon=50.0)
    Z = np.column_stack([X, np.full(N, 0.3)])
    weights = np.append(model.coef_[0], model.intercept_ / 0.3)
    chance = 1 / (1 + np.exp(-Z @ weights))
    exact = (Z * (chance * (1 - chance))[:, None]).T @ Z
    found = model._curvature
    assert np.abs(found.hessian - exact).max() < 6 * found.noise
    assert found.noise < 0.1 * exact.diagonal().max()
