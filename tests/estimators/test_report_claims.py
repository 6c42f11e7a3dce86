"""A report calls a guarantee what holds, and nothing else."""

import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dperm import PrivateLogisticRegression
from dperm.errors import PrivacyWarning

X = np.random.default_rng(0).normal(size=(300, 2)) / 3
Y = (X[:, 0] > 0).astype(int)
CLAIM = {"epsilon": 1.0, "delta": 1e-6}


def model(**settings):
    return PrivateLogisticRegression(classes=[0, 1], **{"mechanism": "output", **settings})


def test_a_guarantee_that_holds_is_shown():
    report = model().fit(X, Y).privacy_
    shown = report.to_dict()
    assert report.guarantee == report.claim == shown["guarantee"] == shown["claim"] == CLAIM
    assert (shown["epsilon"], shown["delta"], shown["not_met"]) == (1.0, 1e-6, [])


def test_one_whose_assumption_is_not_met_is_not():
    with pytest.warns(PrivacyWarning):
        report = make_pipeline(StandardScaler(), model()).fit(X, Y)[-1].privacy_
    shown = json.loads(json.dumps(report.to_dict()))
    assert report.guarantee is None
    assert (shown["guarantee"], shown["epsilon"], shown["delta"]) == (None, None, None)
    assert shown["claim"] == shown["budget"] == CLAIM  # of this one fit
    assert len(shown["not_met"]) == 1
    assert shown["not_met"][0]["code"] == "learned-steps"
    assert shown["not_met"][0]["text"].startswith("steps before this model learned from the rows")
    assert str(report).startswith("NOT PRIVATE AS A WHOLE")


@pytest.mark.parametrize("settings", [{"random_state": 0}, {"mechanism": "none"}])
def test_nor_one_that_is_not_claimed(settings):
    report = model(**settings).fit(X, Y).privacy_
    shown = report.to_dict()
    assert report.guarantee is report.claim is None
    assert (shown["guarantee"], shown["claim"], shown["epsilon"], shown["delta"]) == (None, None, None, None)
    assert shown["reason"]
    assert shown["budget"] == CLAIM
