"""``dperm account``: which mechanism is priced, and by whose accounting."""

import json
from dataclasses import replace

import pytest

from dperm import Budget
from dperm.cli.account import percent
from dperm.cli.app import run
from dperm.losses import Logistic, SoftClippedLogistic, SoftClippedSquared, rebuild_loss
from dperm.mechanisms import resolve
from dperm.mechanisms.auto import choose
from dperm.privacy.budget import tradeoff
from dperm.problem import Problem

ASKED = ["account", "--n", "50000", "--epsilon", "0.5", "--delta", "1e-8"]
PROBLEM = Problem(loss=Logistic(), l2=1e-3, x_norm=1.0, n_rows=50_000, n_features=100, intercept=0.3)
BUDGET = Budget(0.5, 1e-8)


@pytest.fixture
def account(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    def call(*more):
        code = run([*ASKED, *more])
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out) if "--json" in more else out

    return call


@pytest.mark.parametrize("features", ["10", "100", "1000"])
def test_auto_says_what_it_chose_and_why_and_prices_that(account, features):
    told = account("--json", "--features", features)
    problem = Problem(
        loss=Logistic(), l2=0.0, x_norm=1.0, n_rows=50_000, n_features=int(features), intercept=0.3
    )
    problem = resolve("auto").regularised(problem, BUDGET)
    chosen, why = choose(problem, BUDGET)
    assert told["l2"] == problem.l2
    assert (told["mechanism"], told["chosen"], told["why"]) == ("auto", chosen.name, why)
    assert told["prices"][0]["noise_scale"] == resolve("auto").plan(problem, BUDGET).noise.scale
    text = account("--features", features)
    assert f"mechanism   {chosen.name}, chosen by auto: {chosen.title}" in text
    assert why in " ".join(text.split())
    assert account("--json", "--features", features, "--mechanism", "auto") == told


def test_a_mechanism_that_is_named_is_the_one_that_is_priced(account):
    told = account("--json", "--mechanism", "rsgd")
    assert (told["mechanism"], told["chosen"], told["why"]) == ("rsgd", "rsgd", None)
    assert "chosen by" not in account("--mechanism", "rsgd")


def test_the_risk_under_the_papers_noise_is_that_of_the_papers_noise(account):
    tight, paper = (
        account("--json", "--l2", "1e-3", "--mechanism", name)
        for name in ("rsgd-ar standardise=false clip=none", "rsgd-ar:paper")
    )
    assert tight["prices"] == paper["prices"]
    assert (tight["accounting"], paper["accounting"]) == ("tight", "paper")
    plan = resolve("rsgd-ar:paper").plan(PROBLEM, BUDGET)
    own = paper["risk"]["attacks"][1]["tpr_own_price"]
    assert own == tradeoff(plan.profile, 0.01)
    assert own < tight["risk"]["attacks"][1]["tpr_own_price"]  # more noise, less risk
    assert percent(own) in account("--l2", "1e-3", "--mechanism", "rsgd-ar:paper")


@pytest.mark.parametrize("name", ["rsgd-ar", "bolt-on", "dp-sgd"])
@pytest.mark.parametrize("accounting", ["tight", "paper"])
def test_both_accountings_price_the_training_of_the_one_that_is_asked_for(account, name, accounting):
    told = account("--json", "--mechanism", name if accounting == "tight" else f"{name}:paper")
    settings = {key: told["settings"][key] for key in resolve(name).settings if key in told["settings"]}
    trained = rebuild_loss(**told["trained_loss"])
    if name != "dp-sgd":
        settings["clip"] = None  # of a loss that is clipped already
        assert told["settings"]["clip"] == getattr(trained, "clip", None)
    if settings.get("rule", "").startswith("strong"):
        settings["step_size"] = None
    assert settings["standardise"] == ("linear" if accounting == "tight" else False)
    problem = replace(PROBLEM, loss=trained, l2=told["l2"])
    for price in told["prices"]:
        if price["accounting"] in ("tight", "paper"):
            mechanism = replace(resolve(name), accounting=price["accounting"], **settings)
            noise = mechanism.plan(problem, BUDGET).noise
            assert price["noise_scale"] == pytest.approx(noise.scale, rel=1e-9)


@pytest.mark.parametrize(
    ("asked", "trained", "says"),
    [
        (["--mechanism", "rsgd-ar"], SoftClippedLogistic, "soft-clipped-logistic in place of logistic,"),
        (["--mechanism", "rsgd-ar:paper"], Logistic, "loss        logistic,"),
        (["--mechanism", "rsgd-ar", "--l2", "0.5"], Logistic, "loss        logistic,"),
        (["--mechanism", "rsgd-ar", "--loss", "soft-clip"], SoftClippedLogistic, "loss        soft-clipped-"),
        (["--loss", "squared"], SoftClippedSquared, "soft-clipped-squared in place of squared,"),
    ],
)
def test_it_says_which_loss_is_trained_with(account, asked, trained, says):
    text, told = account(*asked), account("--json", *asked)
    loss = rebuild_loss(**told["trained_loss"])
    assert isinstance(loss, trained)
    assert says in text
    assert f"slope at most {loss.lipschitz:.4g};" in text
    assert ("in place of" in text) == (" in place of " in says)


def test_all_prices_leave_room_for_the_standardisation(account):
    """It is a part of the training: what forgets that the batch is hidden asks for more noise, not for less."""
    prices = account("--json", "--mechanism", "rsgd-ar standardise=true")["prices"]
    assert [price["accounting"] for price in prices] == ["tight", "worst batch alone", "Rényi + CKS", "paper"]
    assert all(price["ratio"] > 1 for price in prices[1:])
    plain = account("--json", "--mechanism", "rsgd-ar standardise=false")["prices"]
    assert prices[2]["ratio"] == pytest.approx(plain[2]["ratio"], abs=0.01)


def test_noise_that_does_not_keep_the_promise_has_no_risk_to_show(account):
    told = account("--json", "--mechanism", "dp-sgd:paper")
    assert told["risk"] is None
    assert "above the 0.5 asked for" in told["not_certified"]
    text = account("--mechanism", "dp-sgd:paper")
    assert "The guarantee does NOT hold" in text
    assert "true positives" not in text
    assert account("--json", "--mechanism", "dp-sgd")["not_certified"] is None


def test_settings_are_those_of_the_grammar(account):
    told = account("--json", "--mechanism", "bolt-on:paper batch_size=100 passes=3")
    assert (told["settings"]["batch_size"], told["settings"]["passes"]) == (100, 3)
