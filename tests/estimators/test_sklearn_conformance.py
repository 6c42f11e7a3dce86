"""scikit-learn's own checks of an estimator. What does not hold is declared here, with its reason."""

import inspect

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.validation import has_fit_parameter

from dperm import (
    PrivateLinearClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from dperm.errors import InvalidInput

NO_BOUND = "weights of rows need a declared sample_weight_bound, without which they are refused"
NEVER = {
    "check_all_zero_sample_weights_error": "whether all weights are 0 depends on the rows, so it makes no error",
    "check_sample_weight_equivalence_on_dense_data": (
        "the loss is averaged over the public number of rows, which a row of weight 0 is one of, and a fit without "
        "weights is refused where a bound is declared"
    ),
    "check_sample_weight_equivalence_on_sparse_data": "the same, of sparse rows",
}
WITH_A_BOUND = [
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
]
EXPECTED = dict.fromkeys([*WITH_A_BOUND, *NEVER], NO_BOUND)
ESTIMATORS = [
    PrivateLogisticRegression(),
    PrivateLinearSVC(),
    PrivateLinearClassifier(),
    PrivateLinearRegression(y_range=(-1, 1)),
    PrivateLinearRegression(mechanism="adassp", y_range=(-1, 1)),
]


@pytest.mark.some(3)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learn_conformance(estimator):
    found = estimator_checks.check_estimator(
        estimator, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None
    )
    by_status = {
        status: {r["check_name"] for r in found if r["status"] == status}
        for status in ("passed", "failed", "xfail")
    }
    assert by_status["failed"] == set()
    assert by_status["xfail"] == set(EXPECTED)
    assert sum(r["status"] == "passed" for r in found) >= 40


@pytest.mark.cover(1)
@pytest.mark.parametrize("check", [*WITH_A_BOUND, *NEVER])
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearRegression])
def test_what_is_asked_of_weights_holds_with_a_bound(kind, check):
    settings = {"y_range": (-1, 1)} if kind is PrivateLinearRegression else {}
    one = kind(sample_weight_bound=3.0, mechanism="output", **settings)
    if check in NEVER:
        with pytest.raises((AssertionError, InvalidInput)):
            getattr(estimator_checks, check)(kind.__name__, one)
    else:
        getattr(estimator_checks, check)(kind.__name__, one)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_fit_names_what_it_takes(estimator):
    assert list(inspect.signature(estimator.fit).parameters) == ["X", "y", "sample_weight", "groups"]
    assert has_fit_parameter(estimator, "sample_weight")
    assert has_fit_parameter(estimator, "groups")
    with pytest.raises(TypeError, match="unexpected keyword"):
        estimator.fit(np.zeros((4, 2)), np.array([0, 1, 0, 1]), weights=np.ones(4))
    with pytest.raises(InvalidInput, match="sample_weight needs sample_weight_bound"):
        estimator.fit(np.zeros((4, 2)), np.array([0, 1, 0, 1]), sample_weight=np.ones(4))
