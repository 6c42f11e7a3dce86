"""Noise off: each mechanism finds the point that plain NumPy, scipy or scikit-learn finds."""

import dataclasses

import numpy as np
import pytest
from output_cases import (
    BUDGET,
    Clip,
    FixedOrder,
    descents,
    plain_batches,
    plain_descent,
    plain_rows,
    plain_slope,
    random_rows,
    short,
    stepped,
    train,
    trained,
)
from sklearn.linear_model import LogisticRegression

from dperm.engine import Table, open_rows
from dperm.losses import HuberHinge, Logistic, Loss, SoftClippedLogistic, Softmax
from dperm.mechanisms import (
    NSGD,
    RSGD,
    RSGDAR,
    BoltOn,
    Job,
    Majority,
    Mechanism,
    NoPrivacy,
    Output,
    OutputGD,
)
from dperm.mechanisms.output.family import DescentMechanism, DescentPlan, descend
from dperm.mechanisms.output.output import gradient_error
from dperm.planning.schedule import branch_sensitivities
from dperm.privacy import Gate
from dperm.problem import Problem
from dperm.unit import Neighbours

N, P = 103, 4
ORDER = np.random.default_rng(3).permutation(N)


def problem(loss: Loss, **facts: object) -> Problem:
    defaults = {"l2": 0.02, "x_norm": 1.3, "n_rows": N, "n_features": P, "intercept": 0.7}
    return Problem(loss=loss, **{**defaults, **facts})  # type: ignore[arg-type]


LOSSES = [Logistic(), HuberHinge(0.5)]
TRAINED = {
    "logistic": (Logistic(), None),
    "logistic, clipped by rule": (Logistic(), "auto"),
    "hinge": (HuberHinge(0.5), "auto"),
}
each_trained = pytest.mark.parametrize(("loss", "clip"), TRAINED.values(), ids=TRAINED)


@pytest.mark.cover(1)
@pytest.mark.parametrize("mechanism", descents(N, step=None), ids=short)
@each_trained
def test_training_agrees_with_plain_numpy(loss: Loss, clip: Clip, mechanism: DescentMechanism) -> None:
    facts = problem(loss)
    mechanism = stepped(dataclasses.replace(mechanism, clip=clip), facts)
    X, y = random_rows(N, P, seed=1)
    assert (np.linalg.norm(X, axis=1) > facts.x_norm).any()  # some rows must be scaled down
    want = plain_descent(mechanism, trained(mechanism, facts), X, y, ORDER)
    got = train(mechanism, facts, X, y, ORDER)
    assert np.linalg.norm(got - want) <= 1e-6 * np.linalg.norm(want)
    assert np.linalg.norm(want) > 0.1


@pytest.mark.cover(2)
@pytest.mark.parametrize("engine", ["dense", "reference"])
@pytest.mark.parametrize("mechanism", descents(N, step=0.5)[::2], ids=short)
@each_trained
def test_descent_on_float64_rows_agrees_closely(
    loss: Loss, clip: Clip, mechanism: DescentMechanism, engine: str
) -> None:
    facts = problem(loss, intercept=0.0)
    mechanism = dataclasses.replace(mechanism, clip=clip)
    X, y = random_rows(N, P, seed=2)
    order = Gate(FixedOrder(ORDER)).order() if mechanism.permuted else None
    opened = Table(X, y, row_map=facts.row_map, n_rows=N).open(order, precise=True, engine=engine)
    got = descend(opened, [mechanism.plan(facts, BUDGET)])[:, 0]
    want = plain_descent(mechanism, trained(mechanism, facts), X, y, ORDER)
    assert np.linalg.norm(got - want) <= 1e-10 * np.linalg.norm(want)


@pytest.mark.together
@pytest.mark.parametrize("kind", [RSGDAR, RSGD, NSGD, OutputGD, BoltOn])
@each_trained
def test_settings_left_open_are_trained_with_as_the_plan_names_them(
    loss: Loss, clip: Clip, kind: type[DescentMechanism]
) -> None:
    facts, mechanism = problem(loss), kind(standardise=False, clip=clip)
    X, y = random_rows(N, P, seed=1)
    plan = mechanism.plan(facts, BUDGET)
    named = {name: plan.settings[name] for name in mechanism.settings}
    clipped = trained(mechanism, facts)
    assert {name for name, value in named.items() if value is None} == (
        {"clip"} if clipped == facts else set()
    )
    want = plain_descent(dataclasses.replace(mechanism, **named), clipped, X, y, ORDER)
    assert np.linalg.norm(train(mechanism, facts, X, y, ORDER) - want) <= 1e-6 * np.linalg.norm(want)


@pytest.mark.parametrize("clip", [None, "auto"])
@pytest.mark.parametrize("mechanism", [m for m in descents(N, step=None) if m.name != "nsgd"][::3], ids=short)
def test_a_table_below_capacity_is_filled_with_rows_that_do_nothing(
    mechanism: DescentMechanism, clip: Clip
) -> None:
    """Under add-remove every mean is divided by the capacity's batch, never by the rows that are there."""
    facts = problem(Logistic(), neighbours=Neighbours.ADD_REMOVE)
    mechanism = stepped(dataclasses.replace(mechanism, clip=clip), facts)
    X, y = random_rows(80, P, seed=4)
    want = plain_descent(mechanism, trained(mechanism, facts), X, y, ORDER)
    got = train(mechanism, facts, X, y, ORDER)
    assert np.linalg.norm(got - want) <= 1e-6 * np.linalg.norm(want)


# Several classes: one weight vector each, one loss for all.


def plain_softmax_gradient(rows: np.ndarray, classes: np.ndarray, W: np.ndarray) -> np.ndarray:
    total = np.zeros_like(W)
    for row, label in zip(rows, classes.astype(int), strict=True):
        shares = np.exp(row @ W)
        shares /= shares.sum()
        shares[label] -= 1
        total += np.outer(row, shares)
    return total


def softmax_problem() -> tuple[Problem, np.ndarray, np.ndarray]:
    X, _ = random_rows(N, P, seed=12)
    classes = np.argmax(X @ np.random.default_rng(0).normal(size=(P, 3)), axis=1).astype(float)
    return problem(Softmax(3)), X, classes


def test_descent_for_three_classes_agrees_with_plain_numpy() -> None:
    facts, X, classes = softmax_problem()
    mechanism = RSGDAR(epochs=5, average_every=2, batch_size=11, step_size=0.6, standardise=False)
    rows, labels = plain_rows(X, facts.x_norm, facts.intercept)[ORDER], classes[ORDER]
    W, iterates, h = np.zeros((P + 1, 3)), [], 0
    for epoch in range(1, 6):
        h += 1
        for batch in plain_batches(N, 11):
            gradient = plain_softmax_gradient(rows[batch], labels[batch], W) / len(batch)
            W = W - 0.6 / h * (gradient + facts.l2 * W)
            iterates.append(W)
        if epoch % 2 == 0:
            W, iterates, h = np.mean(iterates, axis=0), [], 0
    np.testing.assert_allclose(train(mechanism, facts, X, classes, ORDER), W, rtol=1e-5, atol=1e-6)


def test_the_minimiser_for_three_classes_agrees_with_scikit_learn() -> None:
    facts, X, classes = softmax_problem()
    rows = plain_rows(X, facts.x_norm, facts.intercept)
    model = LogisticRegression(C=1 / (N * facts.l2), fit_intercept=False, tol=1e-12, max_iter=10_000)
    want = model.fit(rows, classes).coef_.T
    got = train(Output(tolerance=1e-5, standardise=False), facts, X, classes, ORDER, np.float64)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    gradient = plain_softmax_gradient(rows, classes, got) / N + facts.l2 * got
    assert np.linalg.norm(gradient) <= Output(tolerance=1e-5).residual(facts) + gradient_error(facts)


@pytest.mark.parametrize(
    "mechanism",
    [
        RSGDAR(epochs=4, average_every=2, batch_size=11, standardise=False),
        OutputGD(iterations=20, standardise=False),
        Output(standardise=False),
    ],
    ids=short,
)
def test_neighbours_with_three_classes_stay_within_the_sensitivity(mechanism: Mechanism) -> None:
    facts, X, classes = softmax_problem()
    if isinstance(mechanism, DescentMechanism):
        mechanism = stepped(mechanism, facts)
    declared = mechanism.plan(facts, BUDGET).sensitivities
    assert declared is not None
    here = train(mechanism, facts, X, classes, ORDER)
    used = []
    for row in range(0, N, 9):
        batch = 0
        if isinstance(mechanism, DescentMechanism) and len(declared) > 1:
            position = int(np.flatnonzero(row == ORDER)[0])
            batch = int(
                np.searchsorted(np.cumsum(mechanism.schedule(facts).batch_sizes), position, side="right")
            )
        for label in range(3):
            other_X, other = X.copy(), classes.copy()
            other_X[row], other[row] = -3 * X[row], label
            used.append(
                np.linalg.norm(here - train(mechanism, facts, other_X, other, ORDER)) / declared[batch]
            )
    assert 0.1 < max(used) <= 1


# Minimisers.


def sklearn_point(X: np.ndarray, y: np.ndarray, facts: Problem) -> np.ndarray:
    rows = plain_rows(X, facts.x_norm, facts.intercept)
    model = LogisticRegression(
        C=1 / (facts.n_rows * facts.l2),
        fit_intercept=False,
        solver="newton-cholesky",
        tol=1e-12,
        max_iter=1000,
    )
    return model.fit(rows, y).coef_[0]


@pytest.mark.together
@pytest.mark.parametrize("l2", [1e-3, 0.1])
@pytest.mark.parametrize("intercept", [0.0, 0.7])
def test_the_minimisers_agree_with_scikit_learn(intercept: float, l2: float) -> None:
    facts = problem(Logistic(), l2=l2, intercept=intercept)
    X, y = random_rows(N, P, seed=5)
    want = sklearn_point(X, y, facts)
    baseline = NoPrivacy(tolerance=1e-10)
    (outcome,) = baseline.run(
        [Job(plan=baseline.plan(facts, BUDGET))], open_rows(X, y, facts), Gate.seeded(0)
    )
    assert outcome.record is None
    assert not outcome.certified
    np.testing.assert_allclose(outcome.weights, want, rtol=1e-6, atol=1e-8)
    output = train(Output(tolerance=1e-8, standardise=False, clip=None), facts, X, y, ORDER, np.float64)
    np.testing.assert_allclose(output, want, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(output, outcome.weights, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", [*LOSSES, HuberHinge(0.05)], ids=repr)
def test_output_and_none_find_the_same_minimiser(loss: Loss) -> None:
    facts = problem(loss, l2=1e-3)
    X, y = random_rows(N, P, seed=6)
    baseline = NoPrivacy(tolerance=1e-9)
    (outcome,) = baseline.run(
        [Job(plan=baseline.plan(facts, BUDGET))], open_rows(X, y, facts), Gate.seeded(0)
    )
    point = train(Output(tolerance=1e-7, standardise=False, clip=None), facts, X, y, ORDER, np.float64)
    # Two points with gradients below 1e-7 and 1e-9 are this close by strong convexity.
    assert np.linalg.norm(point - outcome.weights) <= (1e-7 + 1e-7) / facts.l2
    rows = plain_rows(X, facts.x_norm, facts.intercept)
    gradient = rows.T @ plain_slope(loss, rows @ point, y) / N + facts.l2 * point
    assert np.linalg.norm(gradient) <= Output(tolerance=1e-7).residual(facts) + gradient_error(facts)


def test_none_agrees_with_scikit_learn_through_the_estimator() -> None:
    from dperm import PrivateLogisticRegression
    from dperm.problem import INTERCEPT_SCALE

    X, y = random_rows(300, P, seed=7, spread=0.3)
    model = PrivateLogisticRegression(
        mechanism=NoPrivacy(tolerance=1e-10), l2=0.01, x_norm=1.0, fit_intercept=False, classes=(-1, 1)
    ).fit(X, y)
    facts = problem(Logistic(), l2=0.01, x_norm=1.0, intercept=0.0, n_rows=300)
    np.testing.assert_allclose(model.coef_[0], sklearn_point(X, y, facts), rtol=1e-6, atol=1e-8)
    assert model.privacy_.guarantee is None
    with_intercept = PrivateLogisticRegression(
        mechanism=NoPrivacy(tolerance=1e-10), l2=0.01, x_norm=1.0, classes=(-1, 1)
    ).fit(X, y)
    # The released column is b times its weight; scikit-learn sees the column b and gives the weight.
    want = sklearn_point(X, y, dataclasses.replace(facts, intercept=INTERCEPT_SCALE))
    np.testing.assert_allclose(with_intercept.coef_[0], want[:-1], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(with_intercept.intercept_, INTERCEPT_SCALE * want[-1:], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("positive", "sign"), [(60, 1.0), (40, -1.0)])
def test_majority_is_the_sign_of_the_labels(positive: int, sign: float) -> None:
    facts = problem(Logistic())
    X, _ = random_rows(N, P, seed=8)
    y = np.where(np.arange(N) < positive, 1.0, -1.0)
    baseline = Majority()
    (outcome,) = baseline.run(
        [Job(plan=baseline.plan(facts, BUDGET))], open_rows(X, y, facts), Gate.seeded(0)
    )
    assert np.sign(outcome.weights).tolist() == [0.0] * P + [sign]
    assert np.abs(outcome.weights).max() < 1e-6  # the loss is that of zero weights


# Rounding: what float64 really loses stays inside what the sensitivity has paid for.

WIDER = np.longdouble


def exact_descent(plan: DescentPlan, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same schedule in 64-bit mantissas on the stored rows."""
    schedule, loss = plan.schedule, plan.problem.loss
    X, labels, l2 = rows.astype(WIDER), y.astype(WIDER), WIDER(plan.problem.l2)
    w, total, count = np.zeros(X.shape[1], WIDER), np.zeros(X.shape[1], WIDER), 0
    edges = np.concatenate([[0], np.cumsum(schedule.batch_sizes)])
    for steps, averaged in zip(schedule.step_sizes, schedule.averaged, strict=True):
        for j, step in enumerate(steps.astype(WIDER)):
            here = slice(edges[j], edges[j + 1])
            slope = plain_slope(loss, X[here] @ w, labels[here])
            assert slope.dtype == WIDER
            w = w - step * (slope @ X[here] / WIDER(edges[j + 1] - edges[j]) + l2 * w)
            total, count = total + w, count + 1
        if averaged:
            w, total, count = total / WIDER(count), np.zeros_like(w), 0
    return w


@pytest.mark.cover(2)
@pytest.mark.skipif(np.finfo(WIDER).eps > 1e-18, reason="this machine has no wider floats to compare with")
@pytest.mark.parametrize("engine", ["dense", "reference"])
@pytest.mark.parametrize("mechanism", [descents(2000, None)[i] for i in (0, 9, 15, 17, 21)], ids=short)
@each_trained
def test_rounding_of_the_descent_is_within_what_was_added(
    loss: Loss, clip: Clip, mechanism: DescentMechanism, engine: str
) -> None:
    facts = problem(loss, n_rows=2000, n_features=40, l2=1e-4, x_norm=1.0)
    mechanism = stepped(dataclasses.replace(mechanism, clip=clip), facts)
    X, y = random_rows(2000, 40, seed=9)
    plan, clipped = mechanism.plan(facts, BUDGET), trained(mechanism, facts)
    opened = Table(X, y, row_map=facts.row_map, n_rows=2000).open(precise=True, engine=engine)
    stored = opened._rows.X
    error = np.linalg.norm(descend(opened, [plan])[:, 0] - exact_descent(plan, stored, y))
    exact, rounded = (branch_sensitivities(plan.schedule, clipped, rounding=flag) for flag in (False, True))
    np.testing.assert_array_equal(plan.sensitivities, rounded)
    paid_for_each_run = (rounded - exact).min() / 2
    assert 0 < error <= paid_for_each_run


@pytest.mark.cover(1)
@pytest.mark.skipif(np.finfo(WIDER).eps > 1e-18, reason="this machine has no wider floats to compare with")
@pytest.mark.parametrize("engine", ["dense", "reference"])
@pytest.mark.parametrize("loss", [*LOSSES, HuberHinge(0.01), SoftClippedLogistic()], ids=repr)
def test_rounding_of_the_gradient_is_within_its_bound(loss: Loss, engine: str) -> None:
    facts = problem(loss, n_rows=5000, n_features=60, l2=1e-3, x_norm=1.0)
    X, y = random_rows(5000, 60, seed=10)
    opened = Table(X, y, row_map=facts.row_map, n_rows=5000).open(precise=True, engine=engine)
    rng = np.random.default_rng(0)
    for size in (0.1, 10.0, 2 * facts.gradient_bound / facts.l2):
        w = rng.normal(size=61)
        w *= size / np.linalg.norm(w)
        got = opened.value_and_gradient_sum(loss, w[:, None])[1][:, 0] / 5000 + facts.l2 * w
        Z, labels = opened._rows.X.astype(WIDER), y.astype(WIDER)
        slope = plain_slope(loss, Z @ w.astype(WIDER), labels)
        assert slope.dtype == WIDER
        want = slope @ Z / WIDER(5000) + WIDER(facts.l2) * w.astype(WIDER)
        assert 0 < np.linalg.norm(got - want) <= gradient_error(facts)


def test_entropy_is_not_needed_to_train_in_public_order() -> None:
    facts = problem(Logistic())
    X, y = random_rows(N, P, seed=1)
    entropy = FixedOrder(ORDER)
    for mechanism in descents(N, step=None):
        if not mechanism.permuted:
            mechanism._train([mechanism.plan(facts, BUDGET)], open_rows(X, y, facts), Gate(entropy))
    assert entropy.asked == []
