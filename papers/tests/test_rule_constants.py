"""The candidates differ from the default in what they say, and no set chooses the constants that it is judged by."""

import pytest

from dperm.losses import Logistic, SoftClippedLogistic
from dperm.mechanisms import mechanism_names, resolve
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm_papers.reproduce import constants
from dperm_papers.reproduce.defaults_tables import (
    CANDIDATES,
    DEFAULT,
    DEFAULT_PLAIN,
    MAJORITY,
    NONE,
    Candidate,
    papers,
)
from dperm_papers.reproduce.regret import Entry

PROBLEM = Problem.for_table(20_000, 30, loss=Logistic(), l2=0.0, x_norm=1.0)
BUDGET = Budget(0.5, 1e-8)


def planned(mechanism):
    return mechanism.plan(mechanism.regularised(PROBLEM, BUDGET), BUDGET)


def test_the_candidate_with_the_constants_of_the_rule_is_the_default():
    default = planned(resolve("auto"))
    same = planned(Candidate(clip=default.problem.loss.clip))
    assert same.problem == default.problem
    assert same.noise == default.noise
    assert same.budget == default.budget == BUDGET


def test_a_candidate_changes_what_it_says():
    assert len(CANDIDATES) == 13
    assert not {candidate.name for candidate in CANDIDATES.values()} & set(mechanism_names())
    usual = planned(Candidate(clip=0.35))
    for label, candidate in CANDIDATES.items():
        plan = planned(candidate)
        assert plan.problem.loss == SoftClippedLogistic(candidate.clip, 0.7)
        assert plan.budget == BUDGET
        assert plan.trained_by.standardisation.variant == candidate.standardise
        assert label == f"{candidate.standardise} rows, clip {candidate.clip:g}, l2 × {candidate.l2_times:g}"
        if candidate.clip == 0.35:
            assert plan.problem.l2 == pytest.approx(candidate.l2_times * usual.problem.l2)


GOOD, BAD = list(CANDIDATES)[:2]
EPSILONS = (0.05, 0.1, 1.0)


def entry(dataset, label, accuracy, *, private=True, log_loss=0.5):
    means = {
        "accuracy": dict.fromkeys(EPSILONS, accuracy),
        "auc": dict.fromkeys(EPSILONS, accuracy),
        "log_loss": dict.fromkeys(EPSILONS, log_loss),
    }
    return Entry(dataset=dataset, label=label, private=private, means=means)


def entries(default=0.80):
    """GOOD is the best candidate on x and y, BAD on z; a paper's method is the best of all on y."""
    found = []
    for dataset, good, bad in (("x", 0.81, 0.79), ("y", 0.81, 0.79), ("z, 9 rows", 0.70, 0.90)):
        found += [
            entry(dataset, DEFAULT, default),
            entry(dataset, GOOD, good),
            entry(dataset, BAD, bad),
            entry(dataset, "paper", 0.83 if dataset == "y" else 0.5),
            entry(dataset, NONE, 0.82, private=False),
            entry(dataset, MAJORITY, 0.6, private=False),
        ]
    return found


SETS = {"x": "binary", "y": "binary", "z, 9 rows": "binary", "other": "classes"}


def test_the_choice_without_a_set_is_judged_against_the_best_of_all():
    some = constants.binary([*entries(), entry("other", DEFAULT, 0.1)], SETS, EPSILONS)
    assert {epsilon for one in some for epsilon in one.means["accuracy"]} == {0.1, 1.0}
    assert {one.dataset for one in some} == {"x", "y", "z, 9 rows"}
    assert constants.possible_rules(some) == [DEFAULT, GOOD, BAD]
    chosen = constants.choices(some, [DEFAULT, GOOD, BAD])
    assert chosen == {"x": BAD, "y": BAD, "z, 9 rows": GOOD}  # z is left with what is best on x and y
    means = constants.chosen_means(some, chosen, "accuracy")
    assert means["z, 9 rows", 1.0] == 0.70
    assert means["x", 0.1] == 0.79
    assert papers(some, "accuracy")["x", 0.1] == 0.5  # no candidate counts as a paper's method


def test_tables_and_checks():
    short, rules, left_out = constants.sections(entries(), SETS, EPSILONS)
    accuracy = dict(zip(short.columns, short.rows[0], strict=True))
    assert accuracy["best of all entrants"] == "+4.67"  # 1, 3 and 10 points
    assert accuracy["worst set"] == "+10.00 (z)"
    assert accuracy["chosen with the set left out"] == "+8.67"  # 2, 4 and 20 points
    assert accuracy["none, ε = 1"] == "+2.00"
    assert accuracy["none, ε = 0.5"] == ""  # was not run
    assert accuracy["majority, worst cell"] == "-20.00 (x)"
    assert [row[:2] for row in rules.rows] == [(DEFAULT, "4.67"), (GOOD, "7.33"), (BAD, "2.00")]
    assert left_out.rows[2][:3] == ("z", GOOD, "20.00 / 10.00")
    held = {
        check.claim.partition(" [")[0]: check.holds for check in constants.checks(entries(), SETS, EPSILONS)
    }
    assert sorted(held.values()) == [False, False, True, True]  # accuracy is far behind, log loss is not
    good = constants.checks(entries(default=0.9), SETS, EPSILONS)
    assert good[0].holds


def test_a_candidate_that_was_refused_somewhere_is_no_rule():
    some = [one for one in entries() if (one.dataset, one.label) != ("x", GOOD)]
    assert constants.possible_rules(some) == [DEFAULT, BAD]
    assert constants.sections([entry("other", DEFAULT, 0.5)], SETS, EPSILONS) == ()
    assert constants.checks([entry("other", DEFAULT, 0.5)], SETS, EPSILONS) == ()
    alone = [one for one in entries() if one.dataset == "x"]
    assert len(constants.sections(alone, SETS, EPSILONS)) == 2  # nothing to leave out
    assert DEFAULT_PLAIN not in constants.possible_rules(alone)
