"""Weights are refused with a reason, and scikit-learn's introspection is left alone."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import has_fit_parameter

from dperm import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.errors import Unsupported

ESTIMATORS = [PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression]
X, y = np.linspace(-0.5, 0.5, 40).reshape(20, 2), np.arange(20) % 2


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_sample_weight_is_refused_with_a_reason_and_a_way_out(Estimator):
    model = Estimator(mechanism="output")
    if Estimator is PrivateLinearRegression:
        model.set_params(y_range=(0, 1))
    with pytest.raises(Unsupported, match="(?s)bound on the weights.*threshold"):
        model.fit(X, y, sample_weight=np.ones(20))
    assert not hasattr(model, "coef_")
    with pytest.raises(Unsupported, match="sample_weight"):
        make_pipeline(model).fit(X, y, **{f"{Estimator.__name__.lower()}__sample_weight": np.ones(20)})
    assert hasattr(model.fit(X, y, sample_weight=None), "coef_")
    with pytest.raises(TypeError, match="'wieghts'"):
        model.fit(X, y, wieghts=1)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize("value", ["balanced", {0: 1, 1: 9}, None])
def test_class_weight_is_refused_with_a_reason(Estimator, value):
    with pytest.raises(Unsupported, match="(?s)balanced.*threshold"):
        Estimator(class_weight=value)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_introspection_sees_the_settings_alone(Estimator):
    names = set(inspect.signature(Estimator).parameters)
    assert names == set(Estimator().get_params())
    assert {"epsilon", "delta", "l2"} <= names
    assert "class_weight" not in names
    assert not has_fit_parameter(Estimator(), "sample_weight")
    model = Estimator(l2=0.5)
    for copied in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied.get_params() == model.get_params()
    with pytest.raises(TypeError, match="clas_weight"):
        Estimator(clas_weight=1)
