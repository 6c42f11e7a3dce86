"""What a plan says is what a fit does, and what it refuses a fit refuses."""

import copy

import numpy as np
import pytest

from dperm import (
    Ledger,
    PrivateLinearClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from dperm.errors import DpermError, InvalidInput, Unsupported
from dperm.losses import HuberHinge, Logistic, Softmax
from dperm.mechanisms import AdaSSP, Objective, Output
from dperm.mechanisms.plan_words import plan_summary

X = np.random.default_rng(0).normal(size=(400, 3)) / 3
LABELS = (X[:, 0] > 0).astype(int)
HIDDEN = {"neighbours": "add-remove", "max_rows": 500}


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(classes=[0, 1]),
        PrivateLogisticRegression(mechanism="rsgd-ar", classes=[0, 1, 2], epsilon=0.5),
        PrivateLinearSVC(mechanism=Output(standardise=True), **HIDDEN, classes=[0, 1]),
        PrivateLinearSVC(mechanism="bolt-on", fit_intercept=False),
        PrivateLinearClassifier(loss=HuberHinge(0.1), mechanism="objective", classes=[0, 1]),
        PrivateLinearRegression(y_range=(0, 1), mechanism="adassp"),
    ],
    ids=str,
)
def test_a_fit_follows_the_plan(model):
    plan = model.plan(*X.shape)
    report = model.fit(X, LABELS).privacy_
    assert (report.noise_scale, report.sensitivity) == (plan.noise.scale, plan.noise.sensitivity)
    assert (report.releases, report.n_rows) == (plan.releases, plan.problem.n_rows)
    assert report.n_coefficients == plan.problem.dimension
    assert report.settings.keys() == plan.settings.keys()
    assert (plan.problem.x_norm, plan.problem.intercept) == (model.row_map_.x_norm, model.row_map_.intercept)


@pytest.mark.together
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (PrivateLogisticRegression, {"epsilon": -1.0}),
        (PrivateLogisticRegression, {"delta": 2.0}),
        (PrivateLogisticRegression, {"mechanism": "magic"}),
        (PrivateLogisticRegression, {"mechanism": "output", "l2": 0}),
        (PrivateLogisticRegression, {"l2": "a little"}),
        (PrivateLogisticRegression, {"x_norm": 0.0}),
        (PrivateLogisticRegression, {"fit_intercept": "yes"}),
        (PrivateLogisticRegression, {"neighbours": "next-door"}),
        (PrivateLogisticRegression, {"neighbours": "add-remove"}),
        (PrivateLogisticRegression, {"max_rows": 10}),
        (PrivateLogisticRegression, {"random_state": "seed"}),
        (PrivateLogisticRegression, {"dataset": "people"}),
        (PrivateLogisticRegression, {"ledger": "file"}),
        (PrivateLogisticRegression, {"classes": [1, 1]}),
        (PrivateLogisticRegression, {"classes": None, **HIDDEN}),
        (PrivateLinearSVC, {"classes": [0, 1, 2]}),
        (PrivateLinearSVC, {"mechanism": "adassp"}),
        (PrivateLinearClassifier, {"loss": "cubic"}),
        (PrivateLinearClassifier, {"loss": "squared"}),
        (PrivateLinearClassifier, {"loss": Softmax(4)}),
        (PrivateLinearRegression, {"y_range": None}),
        (PrivateLinearRegression, {"y_range": (1, 0)}),
        (PrivateLinearRegression, {"residual_bound": "wide"}),
        (PrivateLinearRegression, {"loss": "logistic"}),
        (PrivateLinearRegression, {"loss": Softmax(3)}),
    ],
)
def test_a_plan_refuses_what_a_fit_refuses(kind, settings):
    usual = {"y_range": (0, 1)} if kind is PrivateLinearRegression else {"classes": [0, 1]}
    model = kind(**{**usual, **settings})
    with pytest.raises(DpermError) as planned:
        model.plan(*X.shape)
    with pytest.raises(type(planned.value)) as fitted:
        model.fit(X, LABELS)
    assert str(fitted.value) == str(planned.value)
    assert not hasattr(model, "coef_")


def test_a_ledger_needs_declared_classes_and_no_seed_in_a_plan_too(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidInput, match="With a ledger declare classes="):
        PrivateLogisticRegression(ledger=ledger).plan(400, 3)
    with pytest.raises(InvalidInput, match="random_state makes the noise predictable"):
        PrivateLogisticRegression(ledger=ledger, random_state=1, classes=[0, 1]).plan(400, 3)
    PrivateLogisticRegression(ledger=ledger, classes=[0, 1]).plan(400, 3)
    assert ledger.spent() == 0


def test_two_classes_unless_told_otherwise():
    assert PrivateLogisticRegression(mechanism=Objective(clip=None)).plan(400, 3).problem.loss == Logistic()
    assert PrivateLogisticRegression().plan(400, 3).problem.loss.labels == "binary"
    assert PrivateLogisticRegression().plan(400, 3, n_classes=3).problem.loss == Softmax(3)
    with pytest.raises(InvalidInput, match="declares 2 classes and n_classes is 3"):
        PrivateLogisticRegression(classes=[0, 1]).plan(400, 3, n_classes=3)
    with pytest.raises(InvalidInput, match="whole number of at least 2"):
        PrivateLogisticRegression().plan(400, 3, n_classes=1)
    with pytest.raises(Unsupported, match="does not fit 3 classes"):
        PrivateLinearSVC().plan(400, 3, n_classes=3)


@pytest.mark.together
@pytest.mark.parametrize("shape", [(400.0, 3), (True, 3), (400, "3"), (0, 3), (400, 0)])
def test_a_shape_is_two_whole_numbers(shape):
    with pytest.raises(InvalidInput, match="n_rows|n_features"):
        PrivateLinearSVC().plan(*shape)


def test_under_add_remove_the_number_of_rows_is_not_looked_at():
    model = PrivateLogisticRegression(classes=[0, 1], **HIDDEN)
    few, many = model.plan(1, 3), model.plan(10**9, 3)
    assert few.problem == many.problem
    assert few.problem.n_rows == 500


def test_a_plan_does_not_advance_a_generator():
    model = PrivateLogisticRegression(
        mechanism="output", random_state=np.random.default_rng(0), classes=[0, 1]
    )
    before = copy.deepcopy(model.random_state.bit_generator.state)
    model.plan(400, 3)
    assert model.random_state.bit_generator.state == before


@pytest.mark.together
@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (
            PrivateLogisticRegression(mechanism="output", epsilon=0.5, classes=[0, 1]),
            [
                "Plan for (0.5, 1e-06)-differential privacy, replace-one neighbours",
                "400 rows of 3 features",
                "epsilon = 0.5 at delta = 1e-06",
                "a model of 4 coefficients; noise of scale",
                "on the 4 coefficients, once",
            ],
        ),
        (
            PrivateLinearRegression(mechanism=AdaSSP(standardise=True), y_range=(0, 1), **HIDDEN),
            ["at most 500 rows", "mean of the rows, noise scale", "sums over the rows, once"],
        ),
        (PrivateLinearSVC(mechanism="none"), ["WITHOUT PRIVACY", "no finite epsilon", "without noise"]),
        (
            PrivateLogisticRegression(mechanism="objective-pure", classes=[0, 1]),
            ["WITHOUT PRIVACY", "more than the budget says"],
        ),
        (
            PrivateLogisticRegression(classes=[0, 1, 2]),
            ["chosen by auto: several classes", "steps, each of 12"],
        ),
    ],
    ids=lambda v: str(v)[:30],
)
def test_a_plan_says_in_words_what_is_spent_and_released(model, lines):
    plan = model.plan(400, 3)
    said = plan_summary(plan)
    for line in lines:
        assert line in said
    if plan.noise is not None:
        assert f"{plan.noise.scale:.6g}" in said
