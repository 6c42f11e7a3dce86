"""The release for intervals: how far it moves, what it costs, what it tells, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm

from dperm.codes import CodedTable, CodeLayout, Levels, Number
from dperm.engine import open_rows
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Logistic, SoftClippedSquared, Softmax, Weighted
from dperm.losses.squared import RAMP
from dperm.mechanisms import DPGD, RSGDAR, SSP, AdaSSP, Auto, Job, Objective, mechanism_names, resolve
from dperm.mechanisms.inference import (
    CURVATURE,
    LONGEST,
    SHARE,
    SQUARES,
    SQUARES_SHARE,
    WIDEST,
    Information,
    curvature_from_release,
    hessian_error,
    pack,
    plan_inference,
    shortened,
    squares_error,
    stretched,
    stretched_norm,
    triangle_size,
    unpack,
)
from dperm.privacy import Budget, Gate, gaussian_mu
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

BUDGET = Budget(1.0, 1e-6)
LOSSES = [Logistic(), ClippedSquared(0.7), SoftClippedSquared(0.5, 0.5)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
each_relation = pytest.mark.parametrize("relation", list(Neighbours))
OFFERING = {"auto", "objective", "dp-gd", "adassp"}


def task(loss=LOSSES[0], n=300, p=3, **facts):
    known = {"l2": 0.05, "x_norm": 2.0, "intercept": 0.6, **facts}
    return Problem(loss=loss, n_rows=n, n_features=p, **known)


def rows(loss, n=300, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, p)).astype(np.float32).astype(float)
    score = X[:, 0] + 0.3 * rng.normal(size=n)
    return X, np.where(score > 0, 1.0, -1.0) if loss.labels == "binary" else np.clip(score, -1, 1)


def z_of(problem, X):
    return np.column_stack([X, np.full(len(X), problem.intercept)])


def run(mechanism, problem, data, gate=None, budget=BUDGET):
    plan = mechanism.plan(problem, budget, inference=True)
    (outcome,) = mechanism.run([Job(plan=plan)], open_rows(*data, problem), gate or Gate.seeded(0))
    return plan, outcome


def released_value(problem, data, weights):
    """What meets the noise, for these released weights."""
    inference = plan_inference(problem, BUDGET)
    return inference, inference.release(weights, open_rows(*data, problem), SilentGate())


# The sensitivity.


def pair(problem, loss):
    """Rows at right angles, of full length and largest curvature; under add-remove the second row is not there."""
    X = np.zeros((problem.n_rows, problem.n_features))
    y = np.full(len(X), 1.0 if loss.labels == "binary" else 0.0)
    left, right = X.copy(), X.copy()
    left[0, 0] = right[0, 1] = problem.x_norm
    if problem.neighbours is Neighbours.ADD_REMOVE:
        return (left[:1], y[:1]), (left[:0], y[:0])
    return (left, y), (right, y)


@pytest.mark.cover(1)
@each_loss
@each_relation
def test_rows_at_right_angles_move_the_curvature_as_far_as_is_declared(loss, relation):
    """With a hardly visible intercept column; without the root of two the bound would be too small."""
    problem = task(loss, intercept=1e-9, neighbours=relation)
    one, other = pair(problem, loss)
    weights = np.zeros(problem.n_columns)
    size = triangle_size(problem.n_columns)
    inference, left = released_value(problem, one, weights)
    _, right = released_value(problem, other, weights)
    moved = float(np.linalg.norm((left - right)[:size]))
    changed = math.sqrt(relation.rows_changed)
    exact = changed * loss.smoothness * stretched_norm(problem) ** 2
    assert moved == pytest.approx(exact, rel=1e-6)
    assert moved <= inference.noise.sensitivity
    if relation is Neighbours.REPLACE_ONE:
        assert (
            moved > 1.4 * loss.smoothness * stretched_norm(problem) ** 2
        )  # control: without the root of two


@pytest.mark.parametrize("loss", LOSSES[1:], ids=lambda loss: loss.name)
@each_relation
def test_squared_slopes_move_the_release_as_far_as_the_curvature_does(loss, relation):
    """A row of full slope against one of none; the weight makes of it what the curvature moves by."""
    problem = task(loss, neighbours=relation)
    X = np.zeros((problem.n_rows, problem.n_features))
    y = np.zeros(len(X))
    steep = y.copy()
    steep[0] = 1e6  # as far from the margin of zero as it gets: the slope is at its bound
    ends = [(X, y), (X, steep)]
    if relation is Neighbours.ADD_REMOVE:
        ends = [(X[:0], y[:0]), (X[:1], steep[:1])]
    inference, left = released_value(problem, ends[0], np.zeros(problem.n_columns))
    _, right = released_value(problem, ends[1], np.zeros(problem.n_columns))
    moved = abs(float((left - right)[-1]))
    curvature = math.sqrt(relation.rows_changed) * loss.smoothness * stretched_norm(problem) ** 2
    assert moved == pytest.approx(curvature, rel=1e-6)
    assert inference.noise.sensitivity == pytest.approx(math.sqrt(2) * curvature, rel=1e-6)
    assert inference.noise.sensitivity > math.sqrt(2) * curvature  # rounding comes on top


@pytest.mark.cover(1)
@each_loss
@each_relation
def test_random_neighbours_stay_within_the_declared_distance(loss, relation):
    rng = np.random.default_rng(1)
    problem = task(loss, n=40, neighbours=relation)
    shares = []
    for _ in range(200):
        X, y = rows(loss, n=40, seed=int(rng.integers(2**31)))
        X *= rng.choice([0.3, 3.0])
        other, labels = X.copy(), y.copy()
        other[0] = rng.normal(size=3) * 3
        labels[0] = -labels[0]
        if relation is Neighbours.ADD_REMOVE:
            other, labels = X[1:], y[1:]
        weights = rng.normal(size=4) * rng.choice([0.01, 1.0, 10.0, 1e5])
        inference, left = released_value(problem, (X, y), weights)
        _, right = released_value(problem, (other, labels), weights)
        shares.append(float(np.linalg.norm(left - right)) / inference.noise.sensitivity)
    assert max(shares) <= 1
    assert max(shares) > 0.2  # control: the pairs move something


@each_loss
def test_the_curvature_that_is_summed_is_as_steep_as_is_said(loss):
    """And no larger than that of the loss; the ramp replaces a jump, which is steeper than any bound."""
    told, bound = Information(loss), loss.curvature_lipschitz
    margin = np.linspace(-8, 8, 400_001)
    y = np.ones_like(margin)
    found = told.curvature(margin, y)
    slope = np.abs(np.diff(found) / np.diff(margin)).max()
    assert slope <= bound * (1 + 1e-6)
    assert slope > 0.99 * bound
    assert found.min() >= 0
    assert found.max() <= loss.smoothness
    np.testing.assert_allclose(told.slope(margin, y), loss.slope(margin, y) ** 2, rtol=1e-15)
    if type(loss) is ClippedSquared:
        jumping = loss.curvature(margin, y)
        assert np.abs(np.diff(jumping) / np.diff(margin)).max() > 100 * bound
        far = np.abs(np.abs(margin - y) - loss.residual_bound) > RAMP * loss.residual_bound / 2
        np.testing.assert_array_equal(found[far], jumping[far])
        assert np.trapezoid(found - jumping, margin) == pytest.approx(0, abs=1e-4)  # the ramp is centred
    else:
        np.testing.assert_array_equal(found, loss.curvature(margin, y))


@pytest.mark.cover(1)
@each_loss
@pytest.mark.parametrize("length", [1e-3, 1e6], ids=["ordinary", "longest"])
def test_what_rounding_may_add_covers_what_it_adds(loss, length):
    """Against long doubles, at ordinary weights and at the longest that the curvature is taken at."""
    problem = task(loss, n=3000)
    X, y = rows(loss, n=3000)
    weights = shortened(length * np.array([900.0, -300.0, 50.0, 10.0]), problem.row_norm)
    inference, found = released_value(problem, (X, y), weights)
    Z, told = z_of(problem, X).astype(np.longdouble), Information(loss)
    margins = Z @ weights.astype(np.longdouble)
    matrix = (Z * told.curvature(margins, y.astype(np.longdouble))[:, None]).T @ Z
    size = triangle_size(problem.n_columns)
    exact = stretched(matrix, inference.constant)
    off = float(np.linalg.norm((unpack(found[:size], problem.n_columns) - exact).astype(float)))
    assert 0 < off <= hessian_error(problem)
    if inference.weight is not None:
        squares = np.sum(told.slope(margins, y.astype(np.longdouble)))
        assert abs(float(found[-1] / inference.weight - squares)) <= squares_error(problem)


@each_loss
def test_rows_in_another_order_stay_within_the_allowance(loss):
    problem = task(loss, n=3000)
    X, y = rows(loss, n=3000)
    weights = np.array([900.0, -300.0, 50.0, 10.0])
    inference, one = released_value(problem, (X, y), weights)
    _, other = released_value(problem, (X[::-1], y[::-1]), weights)
    exact = math.sqrt(2) * loss.smoothness * stretched_norm(problem) ** 2
    exact *= 1 if inference.weight is None else math.sqrt(2)
    assert 0 < np.linalg.norm(one - other) <= inference.noise.sensitivity - exact


@each_relation
def test_the_training_pays_with_about_a_twelfth_more_noise(relation):
    """As the proof page says: exactly 1 / sqrt(0.85) for noisy gradients, about that for a noisy objective."""
    problem = task(Logistic(), n=20_000, neighbours=relation, l2=1e-3)
    for mechanism, room in (
        (DPGD(steps=5, clip=None, adaptive=False, standardise=False), 1e-6),
        (Objective(standardise=False, clip=None), 0.02),
    ):
        more, less = (mechanism.plan(problem, BUDGET, inference=asked).noise.scale for asked in (True, False))
        assert more / less == pytest.approx(1 / math.sqrt(1 - SHARE), rel=room)


def test_weights_that_make_long_margins_are_shortened_by_a_public_rule():
    problem = task(Logistic())
    short = np.array([1.0, -2.0, 3.0, 0.5])
    np.testing.assert_array_equal(shortened(short, problem.row_norm), short)
    long = 1e6 * short
    cut = shortened(long, problem.row_norm)
    assert np.linalg.norm(cut) * problem.row_norm <= LONGEST
    np.testing.assert_allclose(cut / np.linalg.norm(cut), short / np.linalg.norm(short))
    data = rows(Logistic())
    _, far = released_value(problem, data, long)
    _, near = released_value(problem, data, cut)
    np.testing.assert_array_equal(far, near)


# The price.


def gaussian_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.cover(1)
@each_relation
@pytest.mark.parametrize(
    ("mechanism", "loss"),
    [(DPGD(steps=5), Logistic()), (DPGD(steps=5), ClippedSquared(0.7)), (AdaSSP(), ClippedSquared(0.7))],
    ids=["dp-gd, logistic", "dp-gd, squared", "adassp"],
)
def test_all_gaussian_releases_together_cost_the_budget(mechanism, loss, relation):
    """By the textbook formula, from the records alone; with the last release twice as precise they cost more."""
    problem = task(loss, neighbours=relation)
    _, outcome = run(mechanism, problem, rows(loss))
    mus = [record.padded_sensitivity / record.noise_scale for record in outcome.records]
    spent = gaussian_delta(math.hypot(*mus), BUDGET.epsilon)
    assert spent <= BUDGET.delta
    assert spent > 0.999 * BUDGET.delta
    assert gaussian_delta(math.hypot(*mus[:-1], 2 * mus[-1]), BUDGET.epsilon) > BUDGET.delta


@pytest.mark.cover(1)
@each_relation
@each_loss
def test_the_weights_are_those_of_a_plan_with_that_much_less_budget(loss, relation):
    """Same noise in the objective, same seed, same weights; and the profile is that of all releases."""
    problem = task(loss, neighbours=relation)
    data = rows(loss)
    plan, outcome = run(Objective(), problem, data)
    alone = Objective()._plan(problem, BUDGET, math.sqrt(SHARE) * gaussian_mu(BUDGET))
    (other,) = Objective().run([Job(plan=alone)], open_rows(*data, problem), Gate.seeded(0))
    np.testing.assert_array_equal(outcome.weights, other.weights)
    assert outcome.records[:-1] == other.records
    assert plan.noise == alone.noise
    assert plan.profile.delta(1.0) == alone.profile.delta(1.0) <= BUDGET.delta
    whole = Objective(standardise=False).plan(problem, BUDGET)
    assert whole.noise.scale < plan.noise.scale
    assert plan.cost.delta(1.0) == pytest.approx(BUDGET.delta, rel=1e-6)


def test_without_inference_nothing_is_released_and_nothing_is_set_aside():
    problem = task()
    plan = Objective().plan(problem, BUDGET)
    (outcome,) = Objective().run([Job(plan=plan)], open_rows(*rows(problem.loss), problem), Gate.seeded(0))
    assert plan.inference is None
    assert outcome.curvature_release is None
    assert CURVATURE not in [record.name for record in outcome.records]


# What is told.


@pytest.mark.cover(2)
@each_loss
@each_relation
@pytest.mark.parametrize("mechanism", [Objective(), DPGD(steps=9), Auto()], ids=lambda one: one.name)
def test_without_noise_it_is_the_curvature_at_the_weights(mechanism, loss, relation):
    problem = task(loss, n=320, neighbours=relation) if relation is Neighbours.ADD_REMOVE else task(loss)
    X, y = rows(loss)
    plan, outcome = run(mechanism, problem, (X, y), SilentGate())
    curvature = curvature_from_release(plan.inference.stated, problem.n_columns, outcome.curvature_release)
    Z, told = z_of(problem, X), Information(loss)
    weights = told.curvature(Z @ outcome.weights, y)
    np.testing.assert_allclose(curvature.hessian, (Z * weights[:, None]).T @ Z, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(curvature.hessian, curvature.hessian.T)
    if loss.labels == "real":
        squares = float(np.sum(loss.slope(Z @ outcome.weights, y) ** 2))
        assert curvature.score_square == pytest.approx(squares, rel=1e-6)
        assert curvature.score_noise == pytest.approx(plan.inference.noise.scale / plan.inference.weight)
    else:
        assert curvature.score_square is None
        assert curvature.score_noise is None


@each_relation
def test_adassp_tells_its_moments_and_the_squared_residuals(relation):
    loss = ClippedSquared(0.7)
    problem = task(loss, neighbours=relation)
    X, y = rows(loss)
    plan, outcome = run(AdaSSP(), problem, (X, y), SilentGate())
    curvature = curvature_from_release(plan.inference.stated, problem.n_columns, outcome.curvature_release)
    Z = z_of(problem, X)
    np.testing.assert_allclose(curvature.hessian, Z.T @ Z, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(curvature.cross, Z.T @ y, rtol=1e-6)
    assert (curvature.noise, curvature.cross_noise) == tuple(noise.scale for noise in plan.noises[1:])
    squares = float(np.sum(np.clip(Z @ outcome.weights - y, -0.7, 0.7) ** 2))
    assert curvature.score_square == pytest.approx(squares, rel=1e-6)
    assert plan.inference.share == SQUARES_SHARE
    assert outcome.records[-1].name == SQUARES


def test_the_noise_is_as_wide_as_is_told():
    """Diagonal entries have the scale, the others less by the root of two; 400 seeded runs."""
    problem, data = task(Logistic(), n=50), rows(Logistic(), n=50)
    inference = plan_inference(problem, BUDGET)
    weights = np.array([0.5, 0.0, -0.5, 0.1])
    _, exact = released_value(problem, data, weights)
    opened = open_rows(*data, problem)
    drawn = [
        unpack(inference.release(weights, opened, Gate.seeded(seed)) - exact, problem.n_columns)
        for seed in range(400)
    ]
    spread = np.std(drawn, axis=0) / inference.noise.scale
    diagonal = np.eye(problem.n_columns, dtype=bool)
    assert 0.9 < spread[diagonal].mean() < 1.1
    assert 0.9 < spread[~diagonal].mean() * math.sqrt(2) < 1.1


def test_rows_of_every_kind_tell_the_same():
    """Dense, sparse and coded rows that stand for the same numbers."""
    layout = CodeLayout(
        n_columns=4,
        levels=(Levels(first=0, count=3, zero=0.0, off=-0.125, on=0.375),),
        numbers=(Number(column=3, size=1.0),),
        splines=(),
        reach=2.0,
    )
    rng = np.random.default_rng(0)
    codes = rng.integers(4, size=(200, 1)).astype(layout.code_type)
    coded = CodedTable.from_rows(layout, codes, (rng.integers(-64, 65, (200, 1)) / 64).astype(np.float32))
    X, y = coded.toarray(), np.where(rng.random(200) < 0.5, 1.0, -1.0)
    for loss in (Logistic(), ClippedSquared(0.7)):
        problem = task(loss, n=200, p=4)
        inference, weights = plan_inference(problem, BUDGET), np.array([0.5, -1.0, 2.0, 0.3, 0.1])
        found = [
            inference.release(weights, open_rows(kind, y, problem), SilentGate())
            for kind in (X, sparse.csr_matrix(X), coded)
        ]
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("standardise", [False, "auto"])
def test_models_side_by_side_tell_what_each_tells_alone(standardise):
    """Jobs with and without it, of other budgets, on their own rows; by default those without it are standardised."""
    problem, (X, y) = task(Logistic(), n=100), rows(Logistic(), n=100)
    mechanism = Objective(standardise=standardise)
    plans = [
        mechanism.plan(problem, BUDGET, inference=True),
        mechanism.plan(problem, BUDGET),
        mechanism.plan(problem, Budget(3.0, 1e-6), inference=True),
    ]
    table = open_rows(X, y, problem)
    jobs = [Job(plan=plan) for plan in plans]
    outcomes = mechanism.run(jobs, table, SilentGate())
    assert [len(outcome.records) for outcome in outcomes] == [3, 4 if standardise else 2, 3]
    assert outcomes[1].curvature_release is None
    for k in (0, 2):
        (alone,) = mechanism.run([jobs[k]], table, SilentGate())
        np.testing.assert_allclose(outcomes[k].curvature_release, alone.curvature_release, rtol=1e-6)


# Auto, and what is refused.


def test_auto_trains_with_the_loss_that_was_asked_for_on_rows_as_they_came():
    problem = replace(task(Logistic(), n=20_000), l2=0.0)
    plan = Auto().plan(Auto().regularised(problem, BUDGET, inference=True), BUDGET, inference=True)
    assert plan.problem.loss == Logistic()
    assert plan.standardisation is None
    assert plan.trained_by.mechanism == Objective(standardise=False)
    assert plan.problem == Objective().regularised(problem, BUDGET, inference=True)
    assert "the loss that was asked for" in plan.settings["why"]
    assert CURVATURE in str(plan)
    usual = Auto().plan(Auto().regularised(problem, BUDGET), BUDGET)
    assert usual.problem.loss != Logistic()
    assert usual.standardisation is not None


def test_every_other_mechanism_refuses_with_a_reason():
    for name in mechanism_names():
        mechanism = resolve(name)
        loss = Logistic() if mechanism.misfit(task(Logistic())) is None else ClippedSquared()
        if name in OFFERING:
            assert mechanism.plan(task(loss), BUDGET, inference=True).inference is not None
        else:
            with pytest.raises(Unsupported, match="inference=True: .*use"):
                mechanism.plan(task(loss), BUDGET, inference=True)


@pytest.mark.together
@pytest.mark.parametrize(
    ("mechanism", "problem", "said"),
    [
        (Objective(), task(Softmax(3)), "several outputs"),
        (Auto(), task(Softmax(3)), "several outputs"),
        (Objective(), task(Weighted(Logistic(), 2.0)), "weigh more"),
        (Objective(), task(HuberHinge()), "not for huber-hinge"),
        (Objective(), task(ClippedSquared(), intercept=0.0), "fit_intercept=True"),
        (Objective(), task(Logistic(), p=WIDEST), f"at most {WIDEST} columns"),
        (Objective(standardise=True), task(), "standardise=False"),
        (Objective(accounting="paper"), task(neighbours=Neighbours.ADD_REMOVE), "accounting='tight'"),
        (DPGD(clip=0.5), task(), "clip=None"),
        (SSP(), task(), "not log odds"),
        (RSGDAR(), task(), "nothing that intervals could be made of"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_refused_says_why(mechanism, problem, said):
    with pytest.raises(Unsupported, match=said):
        mechanism.plan(problem, BUDGET, inference=True)


def test_pure_privacy_leaves_no_gaussian_release():
    with pytest.raises(InvalidInput, match="delta"):
        plan_inference(task(), Budget(1.0, 0.0))


def test_a_triangle_is_packed_in_the_frobenius_norm():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(5, 5))
    matrix = matrix + matrix.T
    assert np.linalg.norm(pack(matrix)) == pytest.approx(np.linalg.norm(matrix))
    np.testing.assert_allclose(unpack(pack(matrix), 5), matrix, rtol=1e-15)
