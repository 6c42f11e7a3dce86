"""Frank-Wolfe by old slopes: its sensitivity, its price, and how near it comes to the descent by fresh ones."""

import json
from pathlib import Path

import numpy as np
import pytest
from purse_cases import BUDGET, N, P, data, fit, plain_slopes, problem, used_shares
from scipy import sparse
from scripted_gate import ScriptedGate

from dperm import PrivateLogisticRegression
from dperm.certificate import verify
from dperm.engine import SparseRows, open_rows
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import HuberHinge, Linear, Logistic, Loss
from dperm.mechanisms import FrankWolfe, Job
from dperm.mechanisms.gradient.frank_wolfe import grid_exponent
from dperm.models import save_model
from dperm.privacy import Gate
from dperm.unit import Neighbours

STEPS = 9


def sparse_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = data(seed)
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.5, X, 0.0), y


def trained(facts, X, y, gate, **settings):
    mechanism = FrankWolfe(steps=STEPS, radius=6.0, lazy=True, clip=None, **settings)
    rows = SparseRows(sparse.csr_array(X), y, row_map=facts.row_map, n_rows=facts.n_rows)
    (outcome,) = mechanism.run([Job(plan=mechanism.plan(facts, BUDGET))], rows, gate)
    return outcome


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=repr)
def test_without_noise_it_equals_a_plain_loop_of_old_slopes(loss: Loss) -> None:
    facts, (X, y) = problem(loss), sparse_data()
    gate = ScriptedGate()
    got = trained(facts, X, y, gate)
    rows = np.column_stack([X, np.full(N, facts.intercept)])
    rows[:, :P] /= np.maximum(1, np.linalg.norm(rows[:, :P], axis=1) / facts.x_norm)[:, None]
    c, w, slopes = 6.0 / facts.row_norm, np.zeros(P + 1), plain_slopes(loss, np.zeros(N), y)
    for t in range(1, STEPS + 1):
        scores = c * (rows.T @ slopes / N + facts.l2 * w)
        both = np.concatenate([scores, -scores])
        np.testing.assert_allclose(gate.scores[t - 1], both, rtol=1e-6, atol=1e-7)
        corner = gate.picked[t - 1]
        j = corner % (P + 1)
        w = (1 - 2 / (t + 2)) * w
        w[j] += 2 / (t + 2) * (c if corner <= P else -c)
        touched = (rows[:, j] != 0) | (t in (1, 2, 4, 8))
        slopes = np.where(touched, plain_slopes(loss, rows @ w, y), slopes)
    np.testing.assert_allclose(got.weights, w, rtol=1e-12)
    assert len(got.records) == STEPS


@pytest.mark.parametrize("loss", [Linear(), Logistic()], ids=repr)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_scores_of_neighbours_stay_within_the_sensitivity(loss: Loss, relation: Neighbours) -> None:
    _, ranged = used_shares(FrankWolfe(steps=STEPS, lazy=True), problem(loss, neighbours=relation))
    assert 0.1 < max(ranged) <= 1


def test_neighbours_of_sparse_rows_differ_by_what_one_row_adds() -> None:
    """In every step, and no column that neither of the two rows has is different by a single bit."""
    facts, (X, y) = problem(Linear(), l2=0.1), sparse_data()
    X[3] = facts.x_norm * np.eye(P)[1]
    here = ScriptedGate()
    trained(facts, X, y, here)
    other_X, other_y = X.copy(), y.copy()
    other_y[3] = -y[3]
    there = ScriptedGate(replay=here)
    trained(facts, other_X, other_y, there)
    declared = here.choices[0].sensitivity
    for one, two in zip(here.scores, there.scores, strict=True):
        change = two - one
        assert abs(change[1]) == pytest.approx(declared, rel=1e-6)
        assert np.abs(change).max() <= declared
        assert not change[[0, 2, 3]].any()


def test_no_allowance_for_sums_is_needed() -> None:
    """The largest change, a step of the grid for its rounding, and nothing that grows with the number of rows."""
    for relation in Neighbours:
        facts = problem(neighbours=relation)
        lazy, plain = (
            FrankWolfe(steps=9, lazy=kind, clip=None).plan(facts, BUDGET).noise.sensitivity
            for kind in (True, False)
        )
        radius = FrankWolfe().rule(facts, BUDGET)[1]
        exact = radius * facts.neighbours.rows_changed * facts.loss.lipschitz * facts.x_norm / N
        assert exact < lazy < exact * (1 + 2**-28)
        assert lazy < plain * (1 + 2**-28)
        assert 2.0 ** grid_exponent(facts) <= facts.loss.lipschitz * facts.x_norm * 2**-29


def test_the_price_is_that_of_fresh_slopes_and_the_certificate_verifies(tmp_path: Path) -> None:
    X, y = sparse_data()
    X /= np.linalg.norm(X, axis=1, keepdims=True) + 1e-9
    for rows in (sparse.csr_array(X), X):
        model = PrivateLogisticRegression(
            epsilon=1.0, delta=1e-6, mechanism=FrankWolfe(steps=6, lazy=True), x_norm=1.0, fit_intercept=False
        )
        model.fit(rows, y)
        assert model.privacy_.claim is not None
        path = tmp_path / "model.json"
        save_model(model, path)
        verdict = verify(json.loads(path.read_text(encoding="utf-8")))
        assert verdict.accepted, str(verdict)
    facts = problem()
    prices = [
        FrankWolfe(lazy=kind, standardise=False).plan(facts, BUDGET).noise.epsilon for kind in (True, False)
    ]
    assert prices[0] == prices[1]


def test_old_slopes_descend_nearly_as_far() -> None:
    facts, (X, y) = problem(l2=0.0), sparse_data()
    y = np.where(X @ np.array([3.0, -2.0, 0.0, 1.0]) > 0, 1.0, -1.0)
    engine = open_rows(X, y, facts).open(precise=True)
    losses = [
        engine.value_sum(facts.loss, fit(mechanism, facts, X, y, gate=ScriptedGate()).weights[:, None])[0]
        for mechanism in (
            FrankWolfe(steps=60, radius=6.0, lazy=kind, standardise=False) for kind in (True, False)
        )
    ]
    start = N * np.log(2)
    assert start - losses[0] > 0.9 * (start - losses[1])


def test_refusals_and_several_models() -> None:
    with pytest.raises(InvalidInput, match="lazy"):
        FrankWolfe(lazy=1)  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="standardise"):
        FrankWolfe(lazy=True, standardise=True)
    facts, (X, y) = problem(), data()
    steep = problem(l2=1e12)
    with pytest.raises(Unsupported, match="l2"):
        fit(FrankWolfe(steps=3, lazy=True), steep, X, y)
    mechanism = FrankWolfe(steps=3, lazy=True)
    plans = [mechanism.plan(facts, BUDGET)] * 2
    outcomes = mechanism.run([Job(plan=plan) for plan in plans], open_rows(X, y, facts), Gate.system())
    assert [len(outcome.records) for outcome in outcomes] == [3, 3]  # never standardised
    assert all(outcome.certified for outcome in outcomes)
