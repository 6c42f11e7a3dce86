"""Settings of scikit-learn's models are answered with what stands for them here."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from dperm import (
    PrivateLinearClassifier,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from dperm.errors import InvalidInput, UnknownSetting, Unsupported
from dperm.mechanisms import NoPrivacy

ESTIMATORS = [PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression, PrivateLinearClassifier]
HINTS = {
    "C": "l2 = 1 / (C n)",
    "penalty": "l2",
    "alpha": "l2",
    "max_iter": "epochs",
    "tol": "looks at the rows",
    "solver": "mechanism=",
    "warm_start": "budget anew",
}


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", HINTS)
def test_a_setting_of_scikit_learn_is_answered_with_ours(kind, name):
    for refused in (lambda: kind(**{name: 1.0}), lambda: kind().set_params(**{name: 1.0})):
        with pytest.raises(UnknownSetting) as caught:
            refused()
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, Unsupported)
        assert str(caught.value).startswith(f"{kind.__name__} has no {name}. ")
        assert HINTS[name] in str(caught.value)


def test_inside_a_pipeline_too():
    with pytest.raises(UnknownSetting, match="l2"):
        make_pipeline(PrivateLinearSVC()).set_params(privatelinearsvc__C=2.0)


def test_a_fixed_loss_points_to_the_estimator_that_takes_one():
    with pytest.raises(UnknownSetting, match="PrivateLinearClassifier"):
        PrivateLinearSVC(loss="hinge")
    assert PrivateLinearClassifier(loss="huber-hinge").loss == "huber-hinge"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_other_names_are_left_to_python_and_scikit_learn(kind):
    with pytest.raises(TypeError, match="unexpected keyword argument 'lambda_'"):
        kind(lambda_=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'lambda_'"):
        kind().set_params(lambda_=1.0)
    assert clone(kind(l2=0.5)).get_params()["l2"] == 0.5


def test_a_grid_is_told_the_same():
    search = PrivateSearchCV(PrivateLogisticRegression(classes=[0, 1]), {"C": [1.0]}, epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidInput, match=r"no parameter C\. Use l2='auto', .* or l2 = 1 / \(C n\)"):
        search.fit(np.zeros((20, 2)), np.arange(20) % 2)


def test_the_hints_for_the_regulariser_are_true():
    """Without noise and intercept, the l2 of the hint gives the coefficients that C and alpha give."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) / 4
    y, n, exact = X @ [1.0, -0.5, 0.2] + 0.1 * rng.normal(size=300), 300, NoPrivacy(tolerance=1e-11)
    ours = PrivateLogisticRegression(mechanism=exact, l2=1 / (0.7 * n), fit_intercept=False).fit(X, y > 0)
    theirs = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-10).fit(X, y > 0)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)
    line = PrivateLinearRegression(
        mechanism=exact, l2=2.0 / n, fit_intercept=False, y_range=(-4, 4), residual_bound=10.0
    ).fit(X, y)
    np.testing.assert_allclose(line.coef_, Ridge(alpha=2.0, fit_intercept=False).fit(X, y).coef_, rtol=1e-5)
