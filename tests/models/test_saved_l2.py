"""A model that was fitted with ``l2="auto"``: in its file as asked, in its statement as a number."""

import json

import numpy as np
import pytest
from sklearn.base import clone

from dperm import PrivateLogisticRegression, PrivateSearchCV, load_model
from dperm.certificate.statement import file_digest
from dperm.certificate.verification import verify
from dperm.cli.app import run
from dperm.errors import InvalidInput
from dperm.experiments.compare import compare
from dperm.experiments.results import Study
from dperm.mechanisms import Output, resolve
from dperm.privacy import Budget

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)) / 4
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def document(tmp_path):
    PrivateLogisticRegression(mechanism="output", classes=[0, 1]).fit(X, Y).save(tmp_path / "model.json")
    return json.loads((tmp_path / "model.json").read_text())


def test_it_is_asked_in_the_parameters_and_a_number_in_the_statement(document, tmp_path):
    assert document["parameters"]["l2"] == "auto"
    model = load_model(tmp_path / "model.json")
    assert model.get_params()["l2"] == clone(model).l2 == "auto"
    stated = document["certificate"]["problem"]["l2"]
    problem = model.plan(400, 3).problem
    assert stated == model.privacy_.l2 == resolve("output").l2_rule(problem, Budget(1.0, 1e-6))
    assert all(check.passed for check in verify(document).checks)


def test_another_number_than_the_rules_is_rejected(document):
    """Also one with which all else agrees."""
    number = PrivateLogisticRegression(mechanism="output", classes=[0, 1], l2=0.1)
    assert number.plan(400, 3).problem.l2 == 0.1
    document["certificate"] = number.fit(X, Y).certificate_
    document["coefficients"], document["intercept"] = number.coef_[0].tolist(), float(number.intercept_[0])
    document["row_map"] = number.row_map_.to_dict()
    document["digest"] = file_digest(document)
    verdict = verify(document)
    (failed,) = [check for check in verdict.checks if not check.passed]
    assert "l2" in failed.detail
    document["parameters"]["l2"] = 0.1
    document["digest"] = file_digest(document)
    assert all(check.passed for check in verify(document).checks)


def test_a_wrong_word_is_no_parameter(document, tmp_path):
    document["parameters"]["l2"] = "automatic"
    document["digest"] = file_digest(document)
    (tmp_path / "other.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="l2"):
        load_model(tmp_path / "other.json")


def test_a_search_may_choose_between_the_rule_and_numbers():
    model = PrivateLogisticRegression(mechanism=Output(), classes=[0, 1])
    search = PrivateSearchCV(model, {"l2": ["auto", 0.1]}, epsilon=2.0, delta=1e-6).fit(X, Y)
    assert search.best_params_["l2"] in ("auto", 0.1)
    assert search.best_estimator_.l2 == search.best_params_["l2"]


def test_a_comparison_records_the_number_of_every_model():
    facts = {"dataset": "made up", "epsilons": [0.5, 2.0], "delta": 1e-6, "folds": 2, "repeats": 1}
    results = compare(X, Y, mechanisms=["output", "dp-gd", "none"], **facts)
    assert Study.of(results).l2 == "auto"
    for name, epsilon, l2 in zip(
        *(results[c].to_pylist() for c in ("mechanism", "epsilon", "l2")), strict=True
    ):
        model = PrivateLogisticRegression(mechanism=name, epsilon=epsilon, delta=1e-6)
        assert l2 == model.plan(200, 3).problem.l2
    fixed = compare(X, Y, mechanisms=["output"], l2=0.01, **facts)
    assert set(fixed["l2"].to_pylist()) == {Study.of(fixed).l2} == {0.01}
    with pytest.raises(InvalidInput, match="l2"):
        compare(X, Y, mechanisms=["output"], l2="none", **facts)


def test_the_command_line_takes_the_word_or_a_number(capsys):
    line = ["account", "--n", "5000", "--epsilon", "1", "--delta", "1e-8", "--mechanism", "output", "--json"]
    told = {}
    for l2 in ("auto", "0.25"):
        assert run([*line, "--l2", l2]) == 0
        told[l2] = json.loads(capsys.readouterr().out)["l2"]
    assert told["0.25"] == 0.25
    assert 0 < told["auto"] < 0.25
    assert run([*line, "--l2", "automatic"]) != 0
    assert "'automatic' is neither 'auto' nor a number" in capsys.readouterr().err
