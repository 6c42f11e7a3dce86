"""A delta of one over the rows, fewer rows than coefficients, targets without a range: said, not swallowed."""

import json
import subprocess
import sys
import warnings

import click
import numpy as np
import pytest
from certified_models import sealed
from sklearn.linear_model import LinearRegression

from dperm import (
    Ledger,
    PrivacyWarning,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    UtilityWarning,
)
from dperm.certificate import verify
from dperm.cli.app import cli, run
from dperm.errors import InvalidInput
from dperm.models import save_model

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, size=(100, 3))
Y = (X[:, 0] > 0).astype(int)
WIDE = rng.uniform(-0.1, 0.1, size=(20, 30))


def model(**settings):
    return PrivateLogisticRegression(**{"mechanism": "output", "classes": [0, 1], **settings})


def cautions(report):
    return list(map(str, report.cautions))


@pytest.mark.parametrize("delta", [0.01, 0.1])
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
def test_a_delta_of_one_over_the_rows_warns_and_is_reported(kind, delta):
    with pytest.warns(PrivacyWarning, match=f"delta = {delta} is not below 1 / 100,") as caught:
        fitted = kind(mechanism="output", classes=[0, 1], delta=delta).fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    (line,) = cautions(fitted.privacy_)
    assert line == f"CAUTION: {caught[0].message}"
    assert line in str(fitted.privacy_)
    assert fitted.certificate_["assumptions"][-1] == fitted.privacy_.cautions[0].to_dict()
    assert fitted.certificate_["assumptions"][-1]["status"] == "caution"


def test_a_smaller_delta_and_a_baseline_are_silent():
    assert cautions(model(delta=0.0099).fit(X, Y).privacy_) == []
    assert cautions(model(mechanism="none", delta=0.1).fit(WIDE, Y[:20]).privacy_) == []


def test_under_add_remove_the_public_capacity_counts():
    settings = {"neighbours": "add-remove", "delta": 0.008}
    assert cautions(model(**settings, max_rows=100).fit(X, Y).privacy_) == []
    with pytest.warns(PrivacyWarning, match="delta = 0.008 is not below 1 / 125, one over max_rows"):
        model(**settings, max_rows=125).fit(X, Y)  # and not the private number of rows
    with pytest.warns(UtilityWarning, match="max_rows, 25, is below that of the coefficients, 31"):
        model(neighbours="add-remove", max_rows=25).fit(WIDE, Y[:20])


def test_fewer_rows_than_coefficients_warn_and_are_reported():
    with pytest.warns(
        UtilityWarning, match="the number of rows, 20, is below that of the coefficients, 31:"
    ) as caught:
        fitted = model().fit(WIDE, Y[:20])
    assert [warning.filename for warning in caught] == [__file__]
    (line,) = cautions(fitted.privacy_)
    assert "the number of rows, 20, is below that of the coefficients, 31" in line
    assert cautions(model(fit_intercept=False).fit(WIDE[:, :20], Y[:20]).privacy_) == []  # as many
    with pytest.warns(UtilityWarning, match="coefficients, 21:"):
        model().fit(WIDE[:, :20], Y[:20])
    with pytest.warns(UtilityWarning, match="coefficients, 33:"):  # of all classes together
        model(classes=[0, 1, 2]).fit(WIDE[:, :10], Y[:20])


def test_both_are_errors_on_demand_before_anything_is_spent(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=9.0, delta=0.9)
    search = PrivateSearchCV(model(), {"l2": [0.1, 1.0]}, epsilon=1.0, delta=0.05, ledger=ledger)
    wide = PrivateSearchCV(model(), {"l2": [0.1, 1.0]}, epsilon=1.0, delta=1e-6, ledger=ledger)
    fits = [
        (PrivacyWarning, lambda: model(delta=0.05, ledger=ledger).fit(X, Y)),
        (UtilityWarning, lambda: model(ledger=ledger).fit(WIDE, Y[:20])),
        (PrivacyWarning, lambda: search.fit(X, Y)),
        (UtilityWarning, lambda: wide.fit(WIDE, Y[:20])),
    ]
    for kind, fit in fits:
        with warnings.catch_warnings():
            warnings.simplefilter("error", kind)
            with pytest.raises(kind):
                fit()
    assert ledger.entries() == []


@pytest.mark.parametrize("public", [None, (X, Y)], ids=["private", "public"])
def test_a_search_warns_once_of_its_whole(public):
    search = PrivateSearchCV(
        model(), {"l2": [0.1, 1.0]}, epsilon=1.0, delta=0.01, public_data=public, cv=2, refit_share=None
    )
    with pytest.warns(PrivacyWarning, match="delta = 0.01 is not below 1 / 100,") as caught:
        search.fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    assert cautions(search.privacy_) == [f"CAUTION: {caught[0].message}"]


def test_the_verifier_recomputes_the_caution(tmp_path):
    with pytest.warns(PrivacyWarning):
        fitted = model(delta=0.02).fit(X, Y)
    save_model(fitted, tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    assert verify(document).accepted
    document["certificate"]["assumptions"].pop()
    assert not verify(sealed(document)).accepted


def test_a_regression_without_a_range_says_what_to_do(tmp_path):
    wages = 30 + 20 * X[:, 0]
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=9.0, delta=0.9)
    assert PrivateLinearRegression().y_range is None  # as scikit-learn's tools need it
    with pytest.raises(InvalidInput, match=r"y_range is needed.*known without the data.*y_range=\(0, 100\)"):
        PrivateLinearRegression(ledger=ledger).fit(X, wages)
    search = PrivateSearchCV(PrivateLinearRegression(), {"l2": [0.1]}, epsilon=1.0, delta=1e-6, ledger=ledger)
    with pytest.raises(InvalidInput, match="y_range is needed"):
        search.fit(X, wages)
    assert ledger.entries() == []


def test_a_range_that_suits_the_targets_learns_them():
    rows = np.random.default_rng(1).uniform(-0.5, 0.5, size=(4000, 3))
    wages = 30 + 20 * rows[:, 0]
    fitted = PrivateLinearRegression(y_range=(0, 60)).fit(rows, wages)
    assert fitted.score(rows, wages) > 0.5
    assert LinearRegression().fit(rows, wages).score(rows, wages) > 0.99


# On the command line.

SCHEMA = """
[target]
name = "y"
classes = [0, 1]

[features.a]
range = [-1, 1]

[features.town]
categories = ["north", "east", "south", "west"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(SCHEMA)
    lines = [f"{a},north,{label}" for a, label in zip(X[:, 0], Y, strict=True)]
    (tmp_path / "people.csv").write_text("\n".join(["a,town,y", *lines]) + "\n")
    (tmp_path / "few.csv").write_text("\n".join(["a,town,y", *lines[:5]]) + "\n")
    return tmp_path


FIT = ["fit", "--schema", "people.toml", "--epsilon", "1", "--mechanism", "output", "--output", "model.json"]


def test_fit_says_it_in_one_line_and_in_the_report(folder, capsys):
    assert run([*FIT, "--delta", "0.01", "people.csv"]) == 0
    shown = capsys.readouterr()
    (line,) = [line for line in shown.err.splitlines() if "warning" in line]
    assert line.startswith("dperm: warning: delta = 0.01 is not below 1 / 100,")
    assert "CAUTION: delta = 0.01" in shown.out
    assert "PrivacyWarning" not in shown.err
    assert run([*FIT, "--delta", "1e-6", "--force", "few.csv"]) == 0
    shown = capsys.readouterr()
    assert "dperm: warning: the number of rows, 5, is below that of the coefficients, 14" in shown.err
    assert "CAUTION: the number of rows, 5," in shown.out
    assert run([*FIT, "--delta", "1e-6", "--force", "people.csv"]) == 0
    shown = capsys.readouterr()
    assert "warning" not in shown.err
    assert "CAUTION" not in shown.out


@pytest.mark.system_noise(failing=0)
def test_the_command_itself_shows_no_python_warning(folder):
    program = "from dperm.cli import main; main()"
    command = [sys.executable, "-c", program, *FIT, "--delta", "0.1", "people.csv"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr.count("dperm: warning: delta = 0.1 is") == 1
    assert "PrivacyWarning" not in ran.stderr
    assert ".py" not in ran.stderr


def test_account_says_it_before_any_data(capsys):
    asked = ["account", "--epsilon", "1", "--mechanism", "output", "--features", "30"]
    assert run([*asked, "--n", "20", "--delta", "0.05", "--json"]) == 0
    shown = capsys.readouterr()
    told = json.loads(shown.out)["cautions"]
    assert ["delta = 0.05" in told[0], "coefficients, 31" in told[1]] == [True, True]
    for text in told:
        assert f"dperm: warning: {text}" in shown.err
    assert run([*asked, "--n", "2000", "--delta", "1e-6"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_warnings_of_others_are_left_alone(monkeypatch):
    @click.command("old")
    def old():
        warnings.warn("not ours", DeprecationWarning, stacklevel=1)

    monkeypatch.setitem(cli.commands, "old", old)
    with pytest.warns(DeprecationWarning, match="not ours"):
        run(["old"])
