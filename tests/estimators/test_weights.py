"""Weights of classes and of rows: what is taken, what is refused, and what a fit makes of them."""

import copy
import inspect
import json
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline

import dperm
from dperm import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, balanced_weights
from dperm.engine.shards.sources import ArrayShards
from dperm.errors import DpermError, InvalidInput, UnknownSetting, Unsupported
from dperm.losses import Logistic, SoftClippedLogistic, Softmax, Weighted
from dperm.mechanisms import Output

ESTIMATORS = [PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression]
X, y = np.linspace(-0.5, 0.5, 40).reshape(20, 2), np.arange(20) % 2


def model_of(Estimator, **settings):
    more = {"y_range": (0, 1)} if Estimator is PrivateLinearRegression else {}
    return Estimator(mechanism="output", random_state=0, **more, **settings)


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 5)) / 3
    p = 1 / (1 + np.exp(-(6 * X[:, 0] - 4 * X[:, 1] - 4)))
    return X, np.where(rng.random(len(X)) < p, "yes", "no")


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_sample_weight_needs_a_declared_bound_and_a_bound_needs_weights(Estimator):
    model = model_of(Estimator)
    with pytest.raises(InvalidInput, match=r"(?s)needs sample_weight_bound.*threshold"):
        model.fit(X, y, sample_weight=np.ones(20))
    assert not hasattr(model, "coef_")
    with pytest.raises(InvalidInput, match="sample_weight_bound"):
        make_pipeline(model).fit(X, y, **{f"{Estimator.__name__.lower()}__sample_weight": np.ones(20)})
    assert hasattr(model.fit(X, y, sample_weight=None), "coef_")
    with pytest.raises(TypeError, match="'wieghts'"):
        model.fit(X, y, wieghts=1)
    with pytest.raises(InvalidInput, match="no sample_weight"):
        model_of(Estimator, sample_weight_bound=2.0).fit(X, y)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_weights_outside_the_bound_are_cut_off(Estimator):
    model = model_of(Estimator, sample_weight_bound=2.0)
    wild = np.where(np.arange(20) % 3 == 0, 1e9, np.where(np.arange(20) % 3 == 1, -5.0, 0.5))
    cut = np.clip(wild, 0.0, 2.0)
    first, second = (clone(model).fit(X, y, sample_weight=weights) for weights in (wild, cut))
    assert np.array_equal(first.coef_, second.coef_)
    third = clone(model).fit(X, y, sample_weight=cut[::-1])
    assert not np.array_equal(first.coef_, third.coef_)  # the control


@pytest.mark.cover(1)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(19), "one number for each row"),
        (np.ones((20, 1)), "one number for each row"),
        (np.full(20, np.nan), "NaN"),
    ],
)
def test_weights_of_a_wrong_form_are_refused(Estimator, weights, message):
    with pytest.raises(InvalidInput, match=message):
        model_of(Estimator, sample_weight_bound=2.0).fit(X, y, sample_weight=weights)


def test_no_weight_is_quoted():
    weights = np.ones(20).astype(object)
    weights[3] = "123456789secret"
    with pytest.raises(DpermError) as caught:
        model_of(PrivateLogisticRegression, sample_weight_bound=2.0).fit(X, y, sample_weight=weights)
    assert "123456789" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.together
@pytest.mark.parametrize("bound", [0, -1.0, np.inf, np.nan, "2", True, 1e10])
def test_bounds_that_are_none_are_refused(bound):
    with pytest.raises(InvalidInput, match="sample_weight_bound"):
        PrivateLogisticRegression(sample_weight_bound=bound).plan(1000, 5)


@pytest.mark.together
@pytest.mark.parametrize(
    ("class_weight", "error", "message"),
    [
        ("balanced", Unsupported, r"counts are private.*balanced_weights"),
        ({0: 1.0, 7: 2.0}, InvalidInput, "none of the classes"),
        ({0: 0.0, 1: 1.0}, InvalidInput, "from 1e-09"),
        ({}, InvalidInput, "mapping"),
        ([1.0, 5.0], InvalidInput, "mapping"),
        ({0: "2"}, InvalidInput, "number"),
    ],
)
def test_class_weights_that_are_none_are_refused(class_weight, error, message):
    for refused in (
        lambda model: model.fit(X, y),
        lambda model: model.set_params(classes=[0, 1]).plan(1000, 5),
    ):
        with pytest.raises(error, match=f"(?s){message}"):
            refused(PrivateLogisticRegression(class_weight=class_weight))


def test_regression_has_no_class_weight():
    with pytest.raises(UnknownSetting, match="sample_weight_bound"):
        PrivateLinearRegression(class_weight={0: 2.0})


def test_shares_that_are_known_make_balanced_weights():
    assert balanced_weights({"no": 90, "yes": 10}) == {"no": 100 / 180, "yes": 5.0}
    with pytest.raises(InvalidInput, match="shares"):
        balanced_weights("balanced")


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_introspection_sees_the_settings_alone(Estimator):
    names = set(inspect.signature(Estimator).parameters)
    assert names == set(Estimator().get_params())
    assert {"epsilon", "delta", "l2", "sample_weight_bound"} <= names
    model = Estimator(l2=0.5)
    for copied in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied.get_params() == model.get_params()
    with pytest.raises(TypeError, match="clas_weight"):
        Estimator(clas_weight=1)


def test_metadata_routing_takes_weights_to_the_model():
    with sklearn.config_context(enable_metadata_routing=True):
        model = model_of(PrivateLogisticRegression, sample_weight_bound=1.0).set_fit_request(
            sample_weight=True
        )
        routed = make_pipeline(model).fit(X, y, sample_weight=np.linspace(0, 1, 20))
    alone = clone(model).fit(X, y, sample_weight=np.linspace(0, 1, 20))
    assert np.array_equal(routed[-1].coef_, alone.coef_)


def test_the_loss_of_the_plan_has_the_largest_weight():
    def loss(**settings):
        return PrivateLogisticRegression(mechanism=Output(clip=None), **settings).plan(1000, 5).problem.loss

    assert loss() == Logistic()
    assert loss(class_weight={"a": 3.0, "b": 0.5}) == Weighted(Logistic(), 3.0)
    assert loss(class_weight={"b": 0.5}) == Weighted(Logistic(), 1.0)  # another class weighs 1
    assert loss(class_weight={"a": 3.0}, sample_weight_bound=2.0) == Weighted(Logistic(), 6.0)
    assert loss(sample_weight_bound=0.5) == Weighted(Logistic(), 0.5)
    several = PrivateLogisticRegression(classes=[0, 1, 2], class_weight={2: 4.0}).plan(1000, 5).problem.loss
    assert several == Weighted(Softmax(3), 4.0)
    chosen = PrivateLogisticRegression(class_weight={0: 2.0}).plan(1000, 5).problem.loss
    assert isinstance(chosen, Weighted)
    assert isinstance(chosen.base, SoftClippedLogistic)


def test_without_noise_the_model_is_that_of_scikit_learn(rare):
    X, y = rare[0][:4000], rare[1][:4000]
    own = np.random.default_rng(0).uniform(0, 2, len(X))
    weights = {"no": 0.5, "yes": 4.0}
    l2 = 1e-3
    mine = PrivateLogisticRegression(
        mechanism="none",
        l2=l2,
        class_weight=weights,
        sample_weight_bound=2.0,
        x_norm=10.0,
        fit_intercept=False,
    ).fit(X, y, sample_weight=own)
    theirs = LogisticRegression(
        C=1 / (l2 * len(X)), class_weight=weights, fit_intercept=False, tol=1e-10, max_iter=1000
    ).fit(X, y, sample_weight=own)
    assert mine.coef_ == pytest.approx(theirs.coef_, rel=1e-5)
    assert mine.predict_proba(X) == pytest.approx(theirs.predict_proba(X), rel=1e-4)


def test_probabilities_are_corrected_by_public_weights(rare):
    X, y = rare
    weights = {"no": 1.0, "yes": 10.0}
    model = PrivateLogisticRegression(mechanism="none", classes=["no", "yes"], class_weight=weights).fit(X, y)
    told = model.predict_proba(X)[:, 1]
    assert told.mean() > 2 * (y == "yes").mean()  # those of a table in which each row counts by its weight
    odds = told / (1 - told) / (weights["yes"] / weights["no"])
    assert (odds / (1 + odds)).mean() == pytest.approx((y == "yes").mean(), abs=0.01)


@pytest.mark.parametrize("mechanism", ["auto", "output", "dp-gd", "objective"])
def test_equal_weights_cost_what_the_loss_scaled_by_them_costs(mechanism):
    """Noise grows by the weight, as the gradients do, and the release is the same up to the weight."""
    plans = [
        PrivateLogisticRegression(
            mechanism=mechanism, classes=[0, 1], class_weight=weights, epsilon=0.5
        ).plan(10_000, 20)
        for weights in ({0: 1.0, 1: 1.0}, {0: 4.0, 1: 4.0})
    ]
    one, four = plans
    assert four.problem.l2 == pytest.approx(4 * one.problem.l2, rel=1e-9)
    factor = 1.0 if mechanism == "output" else 4.0  # on the weights, or on the gradients
    assert four.noise.scale == pytest.approx(factor * one.noise.scale, rel=1e-6)


def test_a_rare_class_is_found_with_weights(rare):
    X, y = rare
    train, test = slice(0, 15_000), slice(15_000, None)

    def balanced(class_weight):
        model = PrivateLogisticRegression(epsilon=1.0, classes=["no", "yes"], class_weight=class_weight)
        return balanced_accuracy_score(y[test], model.fit(X[train], y[train]).predict(X[test]))

    assert balanced(balanced_weights({"no": 0.91, "yes": 0.09})) > balanced(None) + 0.1


@pytest.mark.parametrize("classes", [2, 3])
def test_shards_take_class_weights_and_refuse_sample_weights(classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)) / 3, rng.integers(classes, size=600)
    shards = ArrayShards(X, (200, 250, 150), y)
    settings = {"classes": range(classes), "class_weight": {1: 3.0}, "random_state": 0, "mechanism": "dp-gd"}
    model = PrivateLogisticRegression(**{**settings, "classes": list(range(classes))})
    held, parted = clone(model).fit(X, y), clone(model).fit(shards)
    assert parted.coef_ == pytest.approx(held.coef_, rel=1e-4, abs=1e-6)
    weighted = clone(model).set_params(sample_weight_bound=1.0)
    with pytest.raises(Unsupported, match="class_weight"):
        weighted.fit(shards, sample_weight=np.ones(600))
    apart = ArrayShards(X, (200, 250, 150))
    own = rng.uniform(0, 1, 600)
    first, second = (clone(weighted).fit(rows, y, sample_weight=own) for rows in (X, apart))
    assert second.coef_ == pytest.approx(first.coef_, rel=1e-4, abs=1e-6)


def test_weighted_models_are_certified_saved_and_loaded(rare, tmp_path):
    X, y = rare
    path = tmp_path / "model.json"
    own = np.random.default_rng(0).uniform(0, 3, len(X))
    model = PrivateLogisticRegression(
        classes=["no", "yes"], class_weight={"yes": 8.0}, sample_weight_bound=2.0
    ).fit(X, y, sample_weight=own)
    model.save(path)
    verdict = dperm.verify(path)
    assert verdict.ok, verdict
    assert verdict.independent
    assert any("no row weighs more than 16" in str(line) for line in model.privacy_.assumptions)
    loaded = dperm.load_model(path)
    assert (loaded.class_weight, loaded.sample_weight_bound) == ({"yes": 8.0}, 2.0)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    plain = PrivateLogisticRegression(classes=["no", "yes"]).fit(X, y)
    plain.save(path)
    assert json.loads(path.read_text(encoding="utf-8"))["parameters"]["class_weight"] is None


@pytest.mark.together
@pytest.mark.parametrize("labels", [[0, 1], [True, False], ["a", "b"], [0, 1, 2]])
def test_labels_of_any_type_keep_their_weights(labels, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), np.array(labels)[rng.integers(len(labels), size=300)]
    weights = {label: 1.0 + k for k, label in enumerate(labels)}
    model = PrivateLogisticRegression(classes=labels, class_weight=weights, mechanism="dp-gd").fit(X, y)
    model.save(tmp_path / "model.json")
    loaded = dperm.load_model(tmp_path / "model.json")
    assert loaded.class_weight == weights
    assert dperm.verify(tmp_path / "model.json").accepted
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_moments_by_person_take_weights_of_at_most_one_alone(tmp_path):
    """docs/proofs/weights.md: a mean of rows' moments times numbers from 0 to 1 moves no further than a row's."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(400, 3)) / 3
    y, weights, persons = X[:, 0], rng.random(400), np.repeat(np.arange(100), 4)
    model = PrivateLinearRegression(mechanism="adassp", y_range=(-1, 1), sample_weight_bound=1.0)
    model.fit(X, y, sample_weight=weights, groups=persons)
    path = tmp_path / "model.json"
    model.save(path)
    assert dperm.verify(path).ok
    with pytest.raises(Unsupported, match="count every row once"):
        model.fit(X, y, sample_weight=weights)
    with pytest.raises(Unsupported, match="count every row once"):
        model.set_params(sample_weight_bound=2.0).fit(X, y, sample_weight=weights, groups=persons)
