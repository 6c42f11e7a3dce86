"""DP-SVRG: full gradients and corrections, in one price."""

import numpy as np
import pytest
from output_cases import plain_rows
from purse_cases import BUDGET, N, P, data, fit, plain_gradient, plain_slopes, problem
from scripted_gate import ScriptedGate

from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Loss, Softmax
from dperm.mechanisms.gradient.dp_svrg import DPSVRG, correction_bound
from dperm.planning.sampling import PoissonSampling
from dperm.privacy import Gate, SeededEntropy
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

SMALL = DPSVRG(outer=3, inner=3, rate=0.3, standardise=False)


class Joining(SeededEntropy):
    """A source with which this row joins every batch."""

    def __init__(self, row: int) -> None:
        super().__init__(4)
        self.row = row

    def words(self, n: int) -> np.ndarray:
        words = super().words(n)
        words[self.row] = 0
        return words


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5), ClippedSquared(0.5)], ids=repr)
def test_without_noise_it_equals_a_plain_loop(loss: Loss) -> None:
    facts, (X, y) = problem(loss), data()
    silent, same = SilentGate(4), Gate.seeded(4)
    got = fit(
        DPSVRG(outer=3, inner=3, rate=0.3, step_size=0.9, standardise=False, clip=None),
        facts,
        X,
        y,
        gate=silent,
    )
    batches = iter([PoissonSampling(0.3).batch(same).positions(N) for _ in range(6)])
    rows = plain_rows(X, facts.x_norm, facts.intercept)
    anchor = np.zeros(P + 1)
    for _ in range(3):
        v, w, inside = plain_gradient(facts, X, y, anchor) / N, anchor, []
        for t in range(3):
            u = np.zeros(P + 1)
            if t > 0:
                chosen = next(batches)
                slopes = [plain_slopes(loss, rows[chosen] @ point, y[chosen]) for point in (w, anchor)]
                u = rows[chosen].T @ (slopes[0] - slopes[1]) / (0.3 * N)  # a public divisor
            w = w - 0.9 * (u + v + facts.l2 * w)
            inside.append(w)
        anchor = np.mean(inside, axis=0)
    np.testing.assert_allclose(got.weights, anchor, rtol=1e-8, atol=1e-10)
    assert next(batches, None) is None
    assert silent.integer() == same.integer()  # and nothing else was drawn
    assert len(got.records) == 3 + 6 == SMALL.plan(facts, BUDGET).releases


@pytest.mark.parametrize(
    ("relation", "standardise"), [(Neighbours.REPLACE_ONE, False), (Neighbours.ADD_REMOVE, True)]
)
def test_the_accountant_of_another_library_finds_the_same_price(
    relation: Neighbours, standardise: bool
) -> None:
    """From the declared noise of a run, as events of dp-accounting's own composition."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    facts, mechanism = (
        problem(neighbours=relation),
        DPSVRG(outer=2, inner=2, rate=0.3, standardise=standardise),
    )
    plan, outcome = mechanism.plan(facts, BUDGET), fit(mechanism, facts, *data())
    changed = 2 if relation is Neighbours.REPLACE_ONE else 1
    kind = NeighboringRelation.REPLACE_ONE if changed == 2 else NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = PLDAccountant(kind, value_discretization_interval=1e-4)
    for record in outcome.records:
        event = GaussianDpEvent(changed * record.noise_scale / record.padded_sensitivity)
        correction = record.name == "dp-svrg correction"
        accountant.compose(PoissonSampledDpEvent(0.3, event) if correction else event)
    reached = accountant.get_epsilon(BUDGET.delta)
    assert 0.97 * BUDGET.epsilon <= reached <= 1.002 * BUDGET.epsilon  # that grid is coarse and rounds up
    assert plan.releases + 2 * standardise == len(outcome.records)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=repr)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_neighbours_stay_within_the_sensitivity_when_the_row_is_drawn(
    loss: Loss, relation: Neighbours
) -> None:
    facts, (X, y) = problem(loss, neighbours=relation), data()
    moved = []
    row = N - 1
    X[row] *= 5
    here = ScriptedGate(Joining(row), strength=1.0)
    fit(SMALL, facts, X, y, gate=here)
    others = [(X[:row], y[:row])]
    if relation is Neighbours.REPLACE_ONE:
        others = [(X, np.append(y[:row], -y[row])), (np.vstack([X[:row], -X[row] + 1]), y)]
    for other_X, other_y in others:
        there = ScriptedGate(Joining(row), replay=here)
        fit(SMALL, facts, other_X, other_y, gate=there)
        for one, two, noise in zip(here.values, there.values, here.noises, strict=True):
            moved.append(float(np.linalg.norm(one - two)) / noise.sensitivity)
    assert 0.2 < max(moved) <= 1


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.3), ClippedSquared(0.5)], ids=repr)
def test_no_row_exceeds_the_bound_of_a_correction(loss: Loss) -> None:
    facts: Problem = problem(loss, intercept=0.0)
    rng = np.random.default_rng(0)
    used = []
    for _ in range(400):
        w, anchor = rng.normal(size=(2, P)) * rng.choice([0.1, 1, 10])
        x = w - anchor if rng.random() < 0.5 else rng.normal(size=P)
        x *= facts.x_norm / np.linalg.norm(x)
        y = np.array(rng.choice([-1.0, 1.0]))
        difference = loss.slope(x @ w, y) - loss.slope(x @ anchor, y)
        used.append(abs(float(difference)) * facts.x_norm / correction_bound(facts, w, anchor))
    assert 0.8 < max(used) <= 1 + 1e-12


def test_the_first_inner_step_is_free() -> None:
    facts = problem()
    mechanism = DPSVRG(outer=4, inner=1, standardise=False)
    one = mechanism.plan(facts, BUDGET)
    assert one.releases == 4
    assert one.noise_multiplier == 0
    assert len(fit(mechanism, facts, *data()).records) == 4


def test_refusals() -> None:
    for bad in (
        {"outer": 0},
        {"inner": 0},
        {"rate": 0.0},
        {"rate": 1.5},
        {"full_share": 1.0},
        {"step_size": 0.0},
    ):
        with pytest.raises(InvalidInput):
            DPSVRG(**bad)  # type: ignore[arg-type]
    with pytest.raises(NotCertified, match="constants"):
        DPSVRG(accounting="paper").plan(problem(), BUDGET)
    with pytest.raises(Unsupported, match="softmax"):
        DPSVRG().plan(problem(Softmax(3)), BUDGET)


def test_a_secure_run_is_certified() -> None:
    outcome = fit(DPSVRG(outer=3, inner=3, rate=0.3), problem(), *data(), gate=Gate.system())
    assert outcome.certified
    assert all(record.secure for record in outcome.records)
