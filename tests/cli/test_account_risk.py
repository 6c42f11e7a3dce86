"""``dperm account``: the risk of a promise, a promise from a risk, and the losses it prices."""

import json
import math

import pytest

from dperm import Budget
from dperm.cli.account import percent, risk_of
from dperm.cli.app import run
from dperm.losses import ClippedSquared, Logistic
from dperm.mechanisms import mechanism_names, resolve
from dperm.privacy.budget import advantage, tradeoff
from dperm.problem import Problem


@pytest.fixture
def account(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    def call(options):
        code = run(["account", *options.split()])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def document(account, options):
    code, out, err = account(f"{options} --json")
    assert code == 0, err
    return json.loads(out)


def test_the_risk_is_printed_in_a_table_and_in_words(account):
    code, out, _ = account("--n 50000 --epsilon 0.5 --delta 1e-8 --mechanism rsgd-ar")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    budget = Budget(0.5, 1e-8)
    for fpr, shown in ((0.001, "0.1"), (0.01, "1"), (0.05, "5")):
        (row,) = [line for line in lines if line[:2] == [shown, "%"]]
        assert row[4] == percent(budget.attack(fpr)).split()[0]
        assert float(row[6]) < float(row[4])  # the price of rsgd-ar itself allows less
    assert any(line[:1] == ["advantage"] for line in lines)
    assert "which of two rows the table holds" in out
    assert "In plain words: an attacker who may accuse 1 of 100 wrongly" in out
    code, out, _ = account("--max-rows 50000 --epsilon 0.5 --delta 1e-8 --neighbours add-remove")
    assert "whether the table holds a certain row" in out


def test_the_risk_in_json_is_that_of_the_budget_and_of_the_plan(account):
    risk = document(account, "--n 50000 --epsilon 0.5 --delta 1e-8 --mechanism output")["risk"]
    budget = Budget(0.5, 1e-8)
    assert [attack["fpr"] for attack in risk["attacks"]] == [0.001, 0.01, 0.05]
    for attack in risk["attacks"]:
        assert attack["tpr"] == tradeoff(budget, attack["fpr"])
        # the output mechanism is one Gaussian release
        assert attack["tpr_own_price"] == pytest.approx(budget.attack(attack["fpr"], gaussian=True), rel=1e-6)
    assert risk["advantage"] == advantage(budget)
    assert risk["advantage_own_price"] == pytest.approx(budget.advantage(gaussian=True), rel=1e-6)


PLANNED_SLOWLY = {"dp-sgd", "sgd-ma", "dp-svrg"}


@pytest.mark.together
@pytest.mark.parametrize(
    "name", [name for name in mechanism_names() if resolve(name).private and name not in PLANNED_SLOWLY]
)
def test_every_mechanism_has_a_risk_and_none_above_its_promise(name):
    mechanism = resolve(name)
    loss = Logistic() if "binary" in mechanism.labels else ClippedSquared()
    problem = Problem(loss=loss, l2=1e-3, x_norm=1.0, n_rows=1000, n_features=5, intercept=0.3)
    risk = risk_of(mechanism.plan(problem, Budget(1.0, 1e-6)))
    for attack in risk["attacks"]:
        own = attack["tpr_own_price"]
        assert attack["fpr"] < attack["tpr"]
        assert own is None or attack["fpr"] < own <= attack["tpr"]


@pytest.mark.parametrize(
    ("name", "one_gaussian"), [("dp-gd", True), ("output", True), ("nsgd", True), ("objective", False)]
)
def test_where_the_bound_for_one_gaussian_may_be_used(name, one_gaussian):
    budget = Budget(1.0, 1e-6)
    problem = Problem(loss=Logistic(), l2=1e-3, x_norm=1.0, n_rows=50_000, n_features=50, intercept=0.3)
    own = advantage(resolve(name).plan(problem, budget).profile)
    assert (own <= budget.advantage(gaussian=True)) is one_gaussian


def test_a_budget_from_an_attack(account):
    told = document(account, "--n 50000 --tpr 0.05 --fpr 0.01 --delta 1e-8")
    assert told["epsilon"] <= math.log(5)
    assert told["epsilon"] == pytest.approx(math.log(5), rel=1e-4)
    assert told["risk"]["attacks"][1]["tpr"] <= 0.05
    again = document(account, f"--n 50000 --epsilon {told['epsilon']:g} --delta 1e-8")
    assert again == told  # the epsilon that is shown is the one that was used
    by_advantage = document(account, "--n 50000 --advantage 0.2 --delta 1e-8")
    assert by_advantage["risk"]["advantage"] <= 0.2
    assert by_advantage["epsilon"] == pytest.approx(2 * math.atanh(0.2), rel=1e-4)


def test_more_classes_and_squared_loss_are_priced(account):
    base = "--n 50000 --features 20 --epsilon 1 --delta 1e-8 --mechanism dp-gd"
    two, ten = (document(account, f"{base} {more}")["prices"][0] for more in ("--classes 2", "--classes 10"))
    # What rounding adds depends on the margins of the loss, by parts of some ten thousandth.
    assert ten["sensitivity"] == pytest.approx(math.sqrt(2) * two["sensitivity"], rel=1e-3)
    assert two == document(account, base)["prices"][0]
    one, half = (
        document(account, f"{base} --loss squared {more}")["prices"][0]
        for more in ("", "--residual-bound 0.5")
    )
    assert half["sensitivity"] == pytest.approx(one["sensitivity"] / 2, rel=1e-6)
    code, out, _ = account(f"{base} --classes 10")
    assert (code, "softmax" in out) == (0, True)
    assert document(account, f"{base} --loss squared --mechanism adassp")["prices"][0]["noise_scale"] > 0


@pytest.mark.together("account")
@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ("", 2, "one of --epsilon"),
        ("--epsilon 1 --tpr 0.5 --fpr 0.1", 2, "one of --epsilon"),
        ("--epsilon 1 --advantage 0.5", 2, "one of --epsilon"),
        ("--tpr 0.5", 2, "belong together"),
        ("--fpr 0.5 --epsilon 1", 2, "belong together"),
        ("--tpr 0.01 --fpr 0.5", 1, "fpr < tpr"),
        ("--tpr 5 --fpr 0.5", 1, "rate"),
        ("--advantage 1e-9", 1, "smaller delta"),
        ("--epsilon 1 --loss svm --classes 3", 1, "one of logistic, softmax"),
        ("--epsilon 1 --loss squared --classes 2", 2, "--classes"),
        ("--epsilon 1 --classes 1", 2, "at least 2"),
        ("--epsilon 1 --residual-bound 2", 2, "--loss squared"),
        ("--epsilon 1 --loss squared --residual-bound 0", 1, "residual_bound"),
        ("--epsilon 1 --mechanism ssp --classes 3", 1, "softmax"),
    ],
)
def test_bad_questions_are_refused(account, options, code, says):
    got, _, err = account(f"--n 5000 --delta 1e-6 {options}")
    assert got == code
    assert says in err


@pytest.mark.together
@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (0.05, "5.0 %"),
        (0.0501, "5.1 %"),
        (0.00171, "0.18 %"),
        (0.9999, "100.0 %"),
        (1.0, "100.0 %"),
        (0.0, "0.0 %"),
    ],
)
def test_percentages_are_rounded_up(rate, shown):
    assert percent(rate) == shown
    assert float(shown.split()[0]) / 100 >= rate * (1 - 1e-8)
