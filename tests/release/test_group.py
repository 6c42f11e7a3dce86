"""A person with several rows: never less than the exact price of one Gaussian, close to it, and the plain formula."""

import math

import numpy as np
import pytest
from release_models import data, model_file
from scipy.optimize import brentq
from scipy.stats import norm

from dperm import PrivateLogisticRegression, save_model, verify
from dperm.mechanisms import Output
from dperm.models import read_document
from dperm.release.group import at_most, claimed_delta, group_privacy

ROWS = (1, 2, 5, 10)


def gaussian_delta(epsilon, mu):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


def exact(mu, delta):
    """k changes of one row move a Gaussian k times as far, and no further statement is possible."""
    return brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 1e-6, 80)


@pytest.fixture(scope="module")
def gaussian(tmp_path_factory):
    X, score = data()
    model = PrivateLogisticRegression(mechanism=Output(standardise=False), classes=[False, True])
    path = tmp_path_factory.mktemp("group") / "model.json"
    save_model(model.fit(X, score > 0), path)
    document = read_document(path)
    (release,) = document["certificate"]["releases"]
    return verify(document), release["padded_sensitivity"] / release["noise_scale"]


@pytest.mark.parametrize("rows", ROWS)
def test_one_gaussian_release(gaussian, rows):
    verdict, mu = gaussian
    truth = exact(rows * mu, verdict.guarantee["delta"])
    found = group_privacy(verdict, rows).epsilon
    assert found >= truth * (1 - 1e-6)
    assert found <= truth * 1.02


def test_one_row_too_few_would_be_noticed(gaussian):
    """The control: what holds for k - 1 rows is below the truth for k."""
    verdict, mu = gaussian
    for rows in ROWS[1:]:
        assert group_privacy(verdict, rows - 1).epsilon < exact(rows * mu, verdict.guarantee["delta"]) * 0.99


@pytest.mark.together
@pytest.mark.parametrize("case", ["no schema", "removable", "steps", "standardised", "regression"])
def test_more_rows_are_protected_less(case):
    verdict = verify(model_file(case))
    found = [group_privacy(verdict, rows) for rows in range(1, 12)]
    epsilons = [group.epsilon for group in found]
    assert epsilons[0] == pytest.approx(verdict.guarantee["epsilon"], rel=1e-9)
    assert (np.diff(epsilons) > 0).all()
    assert found[3].claim_epsilon == pytest.approx(4 * verdict.guarantee["epsilon"])


def test_pure_privacy_has_no_delta_to_pay():
    verdict = verify(model_file("pure"))
    found = group_privacy(verdict, 7)
    assert found.epsilon == found.claim_epsilon == pytest.approx(7.0)
    assert found.claim_delta == 0.0


def test_the_plain_formula():
    assert claimed_delta(1.0, 1e-6, 1) == pytest.approx(1e-6)
    assert claimed_delta(1.0, 1e-6, 3) == pytest.approx(1e-6 * (1 + math.e + math.e**2))
    assert claimed_delta(1.0, 1e-6, 3) == pytest.approx(1e-6 * (math.exp(3) - 1) / (math.e - 1))
    assert claimed_delta(1.0, 1e-6, 10_000) == 1.0
    assert claimed_delta(0.5, 0.0, 9) == 0.0


def test_many_rows_do_not_break_it(gaussian):
    verdict, _ = gaussian
    found = group_privacy(verdict, 1000)
    assert found.epsilon > 1000
    assert found.claim_delta == 1.0


def test_numbers_are_rounded_up():
    assert at_most(2.1277) == "2.13"
    assert at_most(1.0) == "1"
    assert at_most(13.5319) == "13.6"
    assert at_most(0.30001) == "0.301"
    assert at_most(math.inf) == "no promise"
    assert at_most(0.0) == "0"
