"""What a notebook shows of models and reports: scikit-learn's diagram, the guarantee, the coefficients; all escaped."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from dperm import PrivateLinearRegression, PrivateLogisticRegression, PublicEncoder

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)) / 3, columns=["<i>left", "right"])
LABELS = np.where(FRAME["right"] > 0, "<u>yes", "no")


@pytest.fixture(scope="module")
def model():
    return PrivateLogisticRegression(classes=["no", "<u>yes"], mechanism="output").fit(FRAME, LABELS)


def test_a_fitted_model_shows_guarantee_and_coefficients(model):
    page = model._repr_html_()
    assert "sk-top-container" in page
    assert "(1, 1e-06)-differentially private" in page
    assert "&lt;i&gt;left" in page
    assert "&lt;u&gt;yes" in page
    assert "<i>left" not in page.split('<div class="dperm">', 1)[1]
    assert "<u>yes" not in page.split('<div class="dperm">', 1)[1]
    assert model._repr_mimebundle_()["text/html"].count("What the model says") == 1


def test_what_is_not_fitted_shows_what_scikit_learn_shows(model):
    page = clone(model)._repr_html_()
    assert "sk-top-container" in page
    assert "dperm" not in page.split("</style>")[-1]


def test_the_setting_of_scikit_learn_is_obeyed(model):
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()


def test_a_pipeline_shows_its_diagram(model):
    schema = {"target": {"name": "t", "classes": [0, 1]}, "features": {"a": {"range": [0, 1]}}}
    pipeline = make_pipeline(PublicEncoder(schema), PrivateLogisticRegression(classes=[0, 1]))
    assert "PrivateLogisticRegression" in pipeline.fit({"a": [0.0, 1.0] * 50}, [0, 1] * 50)._repr_html_()


def test_a_report_shows_the_guarantee_and_its_assumptions(model):
    page = model.privacy_._repr_html_()
    assert "(1, 1e-06)-differentially private" in page
    assert "One person contributes one row." in page
    assert 'class="good"' in page
    bare = PrivateLinearRegression(mechanism="none", y_range=(-1, 1)).fit(FRAME, FRAME["right"])
    assert 'class="bad">NOT PRIVATE' in bare.privacy_._repr_html_()
    assert "No noise was added" in bare._repr_html_()
