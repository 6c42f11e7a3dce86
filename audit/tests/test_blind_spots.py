"""Mistakes that replays and noise checks once passed over, each now found by the check that is meant for it.

All mutations are tried on all mechanisms by the slow self-test; here is the quickest of each kind.
"""

import numpy as np
import pytest

from dperm.privacy import Budget
from dperm_audit.attack import WEIGHTS
from dperm_audit.examination import attack_once
from dperm_audit.noise_check import check_noise, empty_problem
from dperm_audit.replay import replay_all
from dperm_audit.self_test import load_mutations
from dperm_audit.worst_cases import attacks_on

MUTATIONS = {mutation.name: mutation for mutation in load_mutations()}
BUDGET = Budget(1.0, 1e-2)


@pytest.mark.parametrize(
    ("mutation", "mechanism", "check"),
    [
        ("no log-determinant", "objective", "price"),
        ("half gap, vertices", "amp", "price"),
        ("noisy-sgd row in the first batch", "noisy-sgd", "price"),
        ("mixtures at the smallest branch", "noisy-sgd", "price"),
        ("standardisation not charged", "objective", "price"),
        ("standardisation not charged", "rsgd-ar", "price"),
        ("standardisation not charged", "noisy-sgd", "price"),
        ("standardisation not charged", "auto", "price"),
        ("second moments not charged", "output-gd", "price"),
        ("second moments not charged", "objective", "price"),
        ("second moments not charged", "dp-sgd", "price"),
        ("second moments not charged", "auto", "price"),
        ("accountant without the relation", "sgd-ma", "price"),
        ("minimiser taken as exact, output", "output", "price"),
        ("ridge weaker than priced", "objective", "minimiser"),
        ("clip ignored, one margin", "dp-gd", "distance"),
        ("clip ignored, softmax", "dp-gd", "distance"),
        ("standardisation sensitivity halved", "auto", "distance"),
        ("second moments' sensitivity halved", "output-gd", "distance"),
        ("second moments move as for one row", "output-gd", "distance"),
        ("scale past the gate", "output-gd", "map"),
        ("scale past the gate", "ssp", "outcome"),
        ("standardisation by the private count", "output-gd", "distance"),
        ("linear rows not bounded in training", "output-gd", "rows"),
        ("adaptive dp-gd at zero weights", "dp-gd", "distance"),
        ("standardised by the exact moments", "output-gd", "map"),
        ("iterates not projected", "noisy-sgd", "ball"),
        ("values off the grid", "rsgd", "grid"),
        ("hidden noise left out", "noisy-sgd", "plan"),
        ("hidden noise from a seed", "noisy-sgd", "plan"),
        ("hidden noise forgotten by the gate", "noisy-sgd", "entropy"),
        ("the gate's order is the public one", "rsgd", "price"),
        ("the gate's Poisson batches hold all rows", "dp-sgd", "price"),
        ("a gate of its own", "dp-gd", "entropy"),
        ("a gate of a seed", "ssp", "plan"),
        ("the source beside the gate", "output-gd", "entropy"),
        ("noise from another source", "nsgd", "entropy"),
        ("noise from another source", "frank-wolfe", "entropy"),
        ("secrets drawn whenever they are asked for", "rsgd", "entropy"),
        ("secrets drawn whenever they are asked for", "dp-svrg", "entropy"),
        ("records of another source", "frank-wolfe", "records"),
        ("records of another job", "output-gd", "records"),
        ("parts of a gate forget their records", "dp-gd", "records"),
        ("parts of a gate write for the first jobs", "adassp", "records"),
        ("exact moments told", "output-gd", "map"),
        ("no map told", "output-gd", "map"),
        ("rows not mapped", "output-gd", "rows"),
        ("centre left out", "output-gd", "rows"),
        ("rows moved before they are bounded", "output-gd", "rows"),
        ("moved rows not bounded again", "output-gd", "distance"),
        ("certified whatever the passes", "rsgd", "certified"),
        ("certified whatever the passes", "noisy-sgd", "certified"),
        ("float32 noted as float64", "rsgd", "precision"),
        ("one model in float32", "adassp", "precision"),
    ],
)
def test_a_replay_finds_it(mutation, mechanism, check):
    with MUTATIONS[mutation].apply():
        found = (finding.check for report in replay_all([mechanism]) for finding in report.findings)
        assert any(name == check for name in found)


@pytest.mark.parametrize(
    ("mutation", "mechanism", "fault"),
    [
        ("system noise halved", "output-gd", "declared scale"),
        ("system noise without tails", "output-gd", "declared scale"),
        ("system noise shared", "dp-gd", "share their noise"),
        ("system noise of the event before", "dp-gd", "noise"),
        ("system noise of one byte", "output-gd", "came twice"),
        ("system choice halved", "frank-wolfe", "declared proportions"),
        ("system Gamma noise halved", "objective-pure", "declared length"),
    ],
)
def test_a_check_of_the_noise_finds_it(mutation, mechanism, fault):
    attack = attacks_on(mechanism)[0]
    budget = Budget(1.0, 0.0) if attack.delta == 0 else BUDGET
    blank = empty_problem(attack.mechanism, attack.problem)
    assert check_noise(attack.mechanism, blank, budget).faults == ()
    with MUTATIONS[mutation].apply():
        assert any(fault in found for found in check_noise(attack.mechanism, blank, budget).faults)


def attack_on(mechanism, words):
    (attack,) = [attack for attack in attacks_on(mechanism) if words in attack.name]
    return attack


def proved(attack, runs, failure=1e-6):
    return attack_once(attack, BUDGET, runs, np.random.SeedSequence(0), failure)


@pytest.mark.slow
def test_an_attack_finds_that_the_hessian_is_not_paid_for():
    attack = attack_on("objective", "weak l2, exact likelihood")
    assert attack.sees == WEIGHTS
    assert not proved(attack, 15_000, 1e-3).refuted
    with MUTATIONS["no log-determinant"].apply():
        assert proved(attack, 15_000, 1e-3).refuted


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("mutation", "mechanism", "runs"),
    [
        ("system Poisson batch of all rows", "sgd-ma", 1200),
        ("system batch of the first rows", "psgd", 1200),
        ("system order is the public one", "rsgd", 2000),
    ],
)
def test_an_attack_finds_rows_that_the_system_does_not_draw(mutation, mechanism, runs):
    attack = attack_on(mechanism, "operating system")
    assert not proved(attack, runs).refuted
    with MUTATIONS[mutation].apply():
        assert proved(attack, runs).refuted
