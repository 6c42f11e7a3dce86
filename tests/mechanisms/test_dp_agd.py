"""DP-AGD: the zCDP budget, the private choice of the step, and the errors of the published code."""

import math

import numpy as np
import pytest
from output_cases import plain_rows
from purse_cases import (
    BUDGET,
    N,
    P,
    data,
    fit,
    plain_gradient,
    plain_zcdp_epsilon,
    problem,
    used_shares,
)
from scipy.stats import chisquare
from scripted_gate import ScriptedGate

from dperm.engine import open_rows
from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic, Loss, Softmax
from dperm.mechanisms import Job
from dperm.mechanisms.gradient.dp_agd import DPAGD, step_budget_for, step_choice
from dperm.privacy import Budget, Gate, SeededEntropy
from dperm.privacy.noisy_min import noisy_min
from dperm.unit import Neighbours


def plain_value(loss: Loss, margin: np.ndarray, y: np.ndarray) -> float:
    z = y * margin
    if isinstance(loss, Logistic):
        return float(np.log(1 + np.exp(-z)).sum())
    h = loss.width  # type: ignore[attr-defined]
    middle = (1 + h - z) ** 2 / (4 * h)
    return float(np.where(z > 1 + h, 0, np.where(z < 1 - h, 1 - z, middle)).sum())


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=repr)
def test_without_noise_it_equals_a_plain_loop(loss: Loss) -> None:
    """Exact gradients, exact choices, the zCDP budget counted in rounds."""
    facts, (X, y) = problem(loss), data()
    gate = ScriptedGate()
    outcome = fit(
        DPAGD(splits=26, candidates=7, growth=0.5, standardise=False, clip=None), facts, X, y, gate=gate
    )
    rows = plain_rows(X, facts.x_norm, facts.intercept)
    w, longest, chosen = np.zeros(P + 1), 2.0 / facts.row_norm, []
    left, gradient_cost, choice_cost = 26.0, 0.8, 0.2
    while left >= gradient_cost - 1e-6:
        left -= gradient_cost
        precision = gradient_cost
        direction = plain_gradient(facts, X, y, w) / N + facts.l2 * w
        direction /= np.linalg.norm(direction)
        best = 0
        while best == 0:
            if left < choice_cost - 1e-6:
                break
            left -= choice_cost
            points = [w - longest * i / 7 * direction for i in range(8)]
            scores = [plain_value(loss, rows @ v, y) + N * facts.l2 / 2 * v @ v for v in points]
            best = int(np.argmin(scores))
            if best == 0:
                if left < 0.5 * precision - 1e-6:
                    break
                left -= 0.5 * precision
                precision *= 1.5
        if best == 0:
            break
        w = points[best]
        chosen.append(best)
    assert len(set(chosen)) >= 3
    assert 0 in gate.picked  # a better gradient was paid for, too
    np.testing.assert_allclose(outcome.weights, w, rtol=1e-8, atol=1e-10)
    assert len(outcome.records) == len(gate.values) + len(gate.picked)


def test_the_longest_step_is_reviewed_every_ten_rounds() -> None:
    gate = ScriptedGate(picks=[2, 5, 1, 1, 3, 1, 1, 1, 1, 1, *[20] * 10, *[4] * 10])
    fit(DPAGD(splits=31, standardise=False), problem(), *data(), gate=gate)
    lengths = np.array([choice.sensitivity for choice in gate.choices])
    lengths /= lengths[0]
    np.testing.assert_allclose(lengths[:10], 1, rtol=1e-6)
    np.testing.assert_allclose(lengths[10:20], 1.1 * 5 / 20, rtol=1e-6)
    np.testing.assert_allclose(lengths[20:30], 1.1 * 5 / 20, rtol=1e-6)  # never longer again
    np.testing.assert_allclose(lengths[30:], (1.1 * 5 / 20) * 1.1 * 4 / 20, rtol=1e-6)
    assert len(lengths) > 30


def spent(gate: ScriptedGate) -> float:
    """From what was declared at every passage, by the formulas of the proof page."""
    gradients = sum((noise.padded(noise.sensitivity) / noise.scale) ** 2 / 2 for noise in gate.noises)
    choices = sum((2 * choice.sensitivity / choice.scale) ** 2 / 8 for choice in gate.choices)
    return gradients + choices


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("picks", [[0], [3], [0, 0, 5], [20, 0, 1, 0, 0, 0, 7]], ids=str)
def test_whatever_is_chosen_the_purse_is_never_overdrawn(picks: list[int], relation: Neighbours) -> None:
    for standardise in (False, True):
        facts, mechanism = problem(neighbours=relation), DPAGD(splits=9, standardise=standardise)
        plan = mechanism.plan(facts, BUDGET)
        gate = ScriptedGate(strength=1.0, picks=picks)
        outcome = fit(mechanism, facts, *data(), gate=gate)
        if standardise:
            del gate.noises[:2]
        rho = spent(gate) + (plan.standardisation.mu**2 / 2 if standardise else 0.0)
        assert plain_zcdp_epsilon(rho, BUDGET.delta) <= BUDGET.epsilon
        assert spent(gate) >= 0.8 * plan.step_budget.rho
        assert len(outcome.records) - 2 * standardise <= plan.releases


def test_each_gradient_is_charged_once() -> None:
    """The published code charged twice, so that half of the rounds were lost."""
    gate = ScriptedGate(picks=[4])
    fit(DPAGD(splits=20, standardise=False), problem(), *data(), gate=gate)
    assert len(gate.values) == len(gate.picked) == 20


@pytest.mark.together
@pytest.mark.parametrize("pick", [1, 13, 20])
def test_the_chosen_candidate_is_taken_and_not_the_one_beside_it(pick: int) -> None:
    facts = problem()
    gate = ScriptedGate(picks=[pick])
    outcome = fit(DPAGD(splits=1, choice_share=0.4, standardise=False), facts, *data(), gate=gate)
    assert gate.picked == [pick]
    step = 2.0 / facts.row_norm * pick / 20
    direction = gate.released[0] / np.linalg.norm(gate.released[0])
    np.testing.assert_allclose(outcome.weights, -step * direction, rtol=1e-12)
    np.testing.assert_array_equal(np.flatnonzero(gate.scores[0] == gate.scores[0][pick]), [pick])


def test_a_payment_that_is_refused_ends_the_run_without_an_update() -> None:
    gate = ScriptedGate(picks=[0])
    outcome = fit(DPAGD(splits=3, standardise=False), problem(), *data(), gate=gate)
    assert len(gate.picked) > 1
    assert not outcome.weights.any()


def test_a_refined_gradient_is_the_running_mean_by_precision() -> None:
    """The published code averaged with the first estimate again and again."""
    facts = problem(l2=0.0)
    gate = ScriptedGate(strength=1.0, picks=[0, 0, 0, 10, 0])
    fit(DPAGD(splits=8, growth=0.6, standardise=False, clip=None), facts, *data(), gate=gate)
    first_four = gate.released[:4]
    precision = np.array([1 / noise.scale**2 for noise in gate.noises[:4]])
    np.testing.assert_allclose(precision / precision[0], [1, 0.6, 0.96, 1.536], rtol=1e-6)
    best = np.average(first_four, axis=0, weights=precision)
    rows = plain_rows(data()[0], facts.x_norm, facts.intercept)

    def scores(direction: np.ndarray) -> np.ndarray:
        steps = 2.0 / facts.row_norm * np.arange(21) / 20
        unit = direction / np.linalg.norm(direction)
        return np.array([plain_value(facts.loss, rows @ (-s * unit), data()[1]) for s in steps])

    np.testing.assert_allclose(gate.scores[3], scores(best), rtol=1e-9)
    wrong = (precision[:3].sum() * first_four[0] + precision[3] * first_four[3]) / precision.sum()
    assert (
        np.abs(gate.scores[3] - scores(wrong)).max() > 1e-3
    )  # the first estimate in place of the running one


@pytest.mark.cover(1)
@pytest.mark.parametrize("loss", [Linear(), Logistic(), HuberHinge(0.5)], ids=repr)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_neighbours_stay_within_the_sensitivities(loss: Loss, relation: Neighbours) -> None:
    facts = problem(loss, neighbours=relation)
    moved, ranged = used_shares(DPAGD(splits=6, standardise=False), facts, picks=[3, 0, 20, 11])
    assert 0.3 < max(moved) <= 1
    assert 0.1 < max(ranged) <= 1
    if isinstance(loss, Linear) and relation is Neighbours.REPLACE_ONE:
        assert max(moved) > 0.999


def test_a_row_along_the_step_attains_the_range_of_the_scores() -> None:
    """Linear loss, a row of full norm in the direction of the step, replaced by its opposite."""
    facts = problem(Linear(), intercept=0.0, l2=0.0)
    X, y = data()
    direction = np.eye(P)[0]
    points = np.outer(direction, -np.linspace(0, 0.8, 21))
    choice = step_choice(facts, points, 0.8, 0.1)
    X[0] = facts.x_norm * direction
    totals = []
    for label in (1.0, -1.0):
        y[0] = label
        totals.append(open_rows(X, y, facts).open(precise=True).select([0]).value_sum(facts.loss, points))
    assert np.ptp(totals[0] - totals[1]) / 2 == pytest.approx(choice.sensitivity, rel=1e-6)
    assert np.ptp(totals[0] - totals[1]) / 2 <= choice.sensitivity


def wrong_sign(scores: np.ndarray, scale: float, rng: np.random.Generator) -> int:
    """The published choice: exponential noise added before the minimum is taken."""
    return int(np.argmin(scores + rng.exponential(scale, size=scores.size)))


def test_the_choice_has_the_law_it_is_priced_for_and_the_wrong_sign_is_caught() -> None:
    facts, draws = problem(), 20_000
    points = np.outer(np.ones(P + 1), -np.linspace(0, 0.3, 21))
    choice = step_choice(facts, points, 1.0, 0.25)
    # Neighbours: scores move apart by twice the sensitivity. All equal against one that is worse.
    equal, other = np.zeros(21), np.append(2 * choice.sensitivity, np.zeros(20))
    law = [np.exp(-scores / choice.scale) for scores in (equal, other)]
    law = [weights / weights.sum() for weights in law]
    assert np.ptp(np.log(law[0] / law[1])) <= 0.25
    entropy, rng = SeededEntropy(0), np.random.default_rng(0)
    drawn = np.bincount([noisy_min(other, choice, entropy) for _ in range(draws)], minlength=21)
    assert chisquare(drawn, draws * law[1]).pvalue > 1e-9
    wrong = np.bincount([wrong_sign(other, choice.scale, rng) for _ in range(draws)], minlength=21)
    assert chisquare(wrong, draws * law[1]).pvalue < 1e-9
    # With the wrong sign the worse one wins only if all others jump over it: far more than the claimed loss.
    assert math.log((1 / 21) / (wrong[0] / draws + 1e-9)) > 3 * 0.25


def test_replacing_a_row_doubles_gradient_noise_and_score_noise() -> None:
    pairs = []
    for relation in (Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE):
        gate = ScriptedGate(picks=[5])
        fit(DPAGD(splits=2, standardise=False), problem(neighbours=relation), *data(), gate=gate)
        pairs.append((gate.noises[0].scale, gate.choices[0].scale))
    assert pairs[0][0] == pytest.approx(2 * pairs[1][0], rel=1e-6)
    assert pairs[0][1] == pytest.approx(2 * pairs[1][1], rel=1e-6)


def test_the_papers_prices_are_higher() -> None:
    facts, budget = problem(), Budget(0.1, 1e-8)
    tight, paper = (
        DPAGD(splits=10, accounting=kind, standardise=False).plan(facts, budget).step_budget
        for kind in ("tight", "paper")
    )
    assert tight.rho / paper.rho == pytest.approx(1.54, abs=0.01)
    assert tight.choice_epsilon / paper.choice_epsilon == pytest.approx(2 * math.sqrt(1.54), rel=0.01)
    assert paper.rho + 2 * math.sqrt(paper.rho * math.log(1e8)) <= 0.1


def test_refusals() -> None:
    for bad in (
        {"splits": 0},
        {"choice_share": 1.0},
        {"growth": 0.0},
        {"largest_step": -1.0},
        {"candidates": 0},
    ):
        with pytest.raises(InvalidInput):
            DPAGD(**bad)  # type: ignore[arg-type]
    for loss in (Softmax(3), ClippedSquared()):
        with pytest.raises(Unsupported, match=loss.name):
            DPAGD().plan(problem(loss), BUDGET)
    with pytest.raises(NotCertified, match="whole budget"):
        step_budget_for(BUDGET, 5.0)


def test_a_secure_run_is_certified_and_learns() -> None:
    facts, (X, y) = problem(), data()
    mechanism = DPAGD(splits=5)
    plan = mechanism.plan(facts, Budget(40.0, 1e-6))
    (outcome,) = mechanism.run([Job(plan=plan)], open_rows(X, y, facts), Gate.system())
    assert outcome.certified
    assert all(record.secure for record in outcome.records)
    coefficients, constant = outcome.row_map.coefficients(outcome.weights)
    margins = plain_rows(X, facts.x_norm, 0.0) @ coefficients + constant
    assert np.mean(margins * y > 0) > 0.7
