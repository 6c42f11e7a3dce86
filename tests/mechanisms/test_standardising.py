"""Private standardisation: what its releases cost, what they do to rows and weights, and what it refuses."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dperm.engine import open_rows
from dperm.errors import DpermError, InvalidInput
from dperm.losses import ClippedSquared, Logistic, Softmax
from dperm.mechanisms import DPGD, PSGD, RSGDAR, SSP, Auto, FrankWolfe, Job, Objective, Output, OutputGD
from dperm.mechanisms import standardising as rules
from dperm.mechanisms.baselines import NoPrivacy
from dperm.mechanisms.standardising import (
    COUNT_COLUMN,
    FIRST_BOUND,
    POWER,
    SHARE,
    moments_stand_out,
    plan_standardisation,
    scale_by,
    typical_norm,
)
from dperm.privacy import Budget, Gate, gaussian_mu
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

BUDGET = Budget(0.5, 1e-8)
RELATIONS = list(Neighbours)
each_relation = pytest.mark.parametrize("relation", RELATIONS)
with_and_without = pytest.mark.parametrize("intercept", [0.6, 0.0], ids=["intercept", "no intercept"])


def task(n=200, p=3, **facts):
    known = {"loss": Logistic(), "l2": 1e-2, "x_norm": 2.0, "intercept": 0.6, **facts}
    return Problem(n_rows=n, n_features=p, **known)


def rows(n=200, p=3, seed=0):
    """Rows around a common mean, of unequal spread, some beyond the norm of 2."""
    rng = np.random.default_rng(seed)
    X = 0.8 + np.array([0.9, 0.3, 0.05])[:p] * rng.normal(size=(n, p))
    return X, np.where(X[:, 0] - 0.8 + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def bounded(X, bound):
    return X * np.minimum(1, bound / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]


class Told(SilentGate):
    """Adds no noise; the first release is answered by what it is told."""

    def __init__(self, first=None):
        super().__init__()
        self.first, self.values = first, []

    def release_one(self, values, noise, name):
        self.values.append(np.array(values))
        exact = super().release_one(values, noise, name)
        return exact if self.first is None or len(self.values) > 1 else self.first


def values_of(problem, data, first=None):
    """What meets noise before training, and the noise."""
    gate = Told(first)
    standardisation = plan_standardisation(problem, BUDGET, "linear")
    standardisation.row_map(open_rows(*data, problem), gate)
    return gate.values, standardisation.noises


def neighbours(problem, one, other):
    """Empty rows, but for one; under add-remove the second table lacks it."""
    left = np.zeros((problem.n_rows, problem.n_features))
    left[0], right = one, left.copy()
    right[0] = other
    if problem.neighbours is Neighbours.ADD_REMOVE:
        left, right = left[:1], left[:0]
    return [(X, np.ones(len(X))) for X in (left, right)]


@pytest.mark.together
@with_and_without
@each_relation
def test_no_pair_of_neighbours_moves_a_release_further_than_declared(relation, intercept):
    problem = task(neighbours=relation, intercept=intercept)
    rng = np.random.default_rng(1)
    X, y = rows()
    for _ in range(30):
        one, other = 9 * rng.normal(size=(2, 3)) * rng.random((2, 1)) ** 3
        tables = [np.vstack([X[1:], one]), np.vstack([X[1:], other])]
        tables = [(table, y) for table in tables]
        if relation is Neighbours.ADD_REMOVE:
            tables[1] = (X[1:], y[1:])
        told = rng.normal(size=3 + (relation is Neighbours.ADD_REMOVE)) if intercept else None
        (left, noises), (right, _) = (values_of(problem, table, told) for table in tables)
        for a, b, noise in zip(left, right, noises, strict=True):
            assert np.linalg.norm(a - b) <= noise.sensitivity


@with_and_without
def test_replaced_rows_attain_both_sensitivities(intercept):
    """Opposite rows the mean; rows along two axes the moments, by the root of 2 and not by 2."""
    problem = task(intercept=intercept)
    first = np.zeros(3) if intercept else None
    along, across = 2.0 * np.eye(3)[:2]
    for one, other, k in ((along, -along, 0), (along, across, -1)):
        if k == 0 and not intercept:
            continue
        (left, noises), (right, _) = (
            values_of(problem, table, first) for table in neighbours(problem, one, other)
        )
        assert np.linalg.norm(left[k] - right[k]) == pytest.approx(noises[k].sensitivity, rel=1e-9)
    assert noises[-1].sensitivity == pytest.approx(math.sqrt(2) * 4 / 200, rel=1e-9)


@with_and_without
def test_a_removed_row_attains_both_sensitivities(intercept):
    problem = task(neighbours=Neighbours.ADD_REMOVE, intercept=intercept)
    tables = neighbours(problem, np.array([2.0, 0, 0]), None)
    (left, noises), (right, _) = (
        values_of(problem, table, np.zeros(4) if intercept else None) for table in tables
    )
    for a, b, noise in zip(left, right, noises, strict=True):
        assert np.linalg.norm(a - b) == pytest.approx(noise.sensitivity, rel=1e-9)
        assert not b.any()  # a table without rows adds nothing, in the column that counts neither
    expected = [2 * math.hypot(1, COUNT_COLUMN), 4.0] if intercept else [4 * math.hypot(1, COUNT_COLUMN**2)]
    assert [noise.sensitivity * 200 for noise in noises] == pytest.approx(expected, rel=1e-9)


def delta_of(mu, epsilon):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


@pytest.mark.together
@pytest.mark.cover(2)
@with_and_without
@each_relation
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_all_releases_together_meet_the_budget(epsilon, relation, intercept):
    budget = Budget(epsilon, 1e-8)
    problem = task(neighbours=relation, intercept=intercept)
    plan = OutputGD(iterations=3, standardise=True).plan(problem, budget)
    parts = [noise.padded(noise.sensitivity) / noise.scale for noise in plan.standardisation.noises]
    assert len(parts) == (2 if intercept else 1)
    assert np.ptp(parts) <= 1e-9 * parts[0]
    assert math.hypot(*parts) <= plan.standardisation.mu
    assert math.hypot(*parts) ** 2 == pytest.approx(SHARE * gaussian_mu(budget) ** 2, rel=1e-6)
    both = math.hypot(*parts, plan.noise.sensitivity / plan.noise.scale)
    assert delta_of(both, epsilon) <= 1e-8 * (1 + 1e-6)
    assert plan.profile.delta(epsilon) <= 1e-8
    assert both == pytest.approx(gaussian_mu(budget), rel=1e-5)  # nothing is wasted
    assert delta_of(both / math.sqrt(1 - SHARE), epsilon) > 1.05e-8  # and nothing is free


def test_a_hidden_branch_that_costs_nothing_pays_for_the_releases_too():
    plan = RSGDAR(epochs=2, batch_size=20, standardise=True).plan(task(), BUDGET)
    assert plan.profile.delta(BUDGET.epsilon) <= BUDGET.delta
    assert (plan.profile.mu >= plan.standardisation.mu).all()


def by_hand(X, problem, rho, noise_scale):
    """Centre and scale without noise, in plain NumPy."""
    x = bounded(X, problem.x_norm)
    centre = x.mean(axis=0) if problem.intercept else np.zeros(3)
    v = (bounded(x - centre, (0.8 if problem.intercept else 1.0) * problem.x_norm) ** 2).mean(axis=0)
    v = np.maximum(v, max(0.05 * v.mean(), 2 * noise_scale))
    scale = v ** (POWER / 2)
    return centre, scale * math.sqrt((v / scale**2).sum()) / (rho * problem.x_norm)


@pytest.mark.cover(2)
@with_and_without
@pytest.mark.parametrize("variant", ["linear", "bounded"])
@each_relation
def test_a_run_is_moments_then_training_on_the_rows_seen_through_them(relation, variant, intercept):
    removable = relation is Neighbours.ADD_REMOVE
    problem = task(20_000 + 5000 * removable, neighbours=relation, intercept=intercept)
    X, y = rows(20_000)
    mechanism = Output(standardise=variant, tolerance=1e-8)
    plan = mechanism.plan(problem, BUDGET)
    silent = SilentGate()
    (outcome,) = mechanism.run([Job(plan=plan)], open_rows(X, y, problem), silent)
    names = ["mean of the rows"] * (intercept > 0) + ["second moments of the columns", "output weights"]
    assert [record.name for record in outcome.records] == names
    assert outcome.certified
    found, unit = outcome.row_map, (FIRST_BOUND if intercept else 1.0) ** 2 * (1.25 if removable else 1.0)
    rho = plan.standardisation.rho
    assert rho == (2.5 if variant == "bounded" else typical_norm(problem, BUDGET, variant))
    centre, scale = by_hand(X, problem, rho, unit * plan.standardisation.noises[-1].scale)
    np.testing.assert_allclose(found.scale, scale, rtol=1e-6)
    if intercept:
        np.testing.assert_allclose(found.centre, centre, rtol=1e-6)
    else:
        assert found.centre is None
    assert found.linear is (variant == "linear")
    seen = bounded((bounded(X, 2.0) - centre) / scale, 2.0)
    lengths = np.sqrt((((bounded(X, 2.0) - centre) / scale) ** 2).sum(axis=1))
    assert np.sqrt((lengths**2).mean()) == pytest.approx(2.0 * rho, rel=0.3)
    plain = replace(mechanism, standardise=False)
    left = replace(plain.plan(problem, BUDGET), noise=plan.noise)
    (expected,) = plain.run([Job(plan=left)], open_rows(seen, y, problem), SilentGate())
    np.testing.assert_allclose(outcome.weights, expected.weights, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_way_back_is_exact(outputs):
    """Weights said in the rows as they came give the margins of the moved and scaled rows, bounds apart."""
    problem = task()
    rng = np.random.default_rng(2)
    row_map = plan_standardisation(problem, BUDGET, "linear").map_by([rng.normal(size=3), rng.random(3)])
    weights = rng.normal(size=(4,) if outputs == 1 else (4, outputs))
    before = weights.copy()
    X = rng.normal(size=(50, 3))
    b = np.full((50, 1), problem.intercept)
    moved = np.hstack([(X - row_map.centre) / row_map.scale, b]) @ weights
    coefficients, constant = row_map.coefficients(weights)
    np.testing.assert_allclose(row_map.margins(X, coefficients, constant), moved, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(weights, before)
    assert np.abs(np.hstack([X, b]) @ weights - moved).max() > 0.1  # it does change something


@pytest.mark.parametrize("variant", ["linear", "bounded"])
@each_relation
def test_training_rows_keep_the_bound_and_empty_rows_stay_empty(relation, variant):
    problem = task(230 if relation is Neighbours.ADD_REMOVE else 200, neighbours=relation)
    X, y = rows()
    X[0] = 1e200
    row_map = plan_standardisation(problem, Budget(20.0, 1e-2), variant).row_map(
        open_rows(X, y, problem), Gate.seeded(0)
    )
    stored = open_rows(X, y, problem).mapped(row_map).open(precise=True)._rows.X
    unbounded = (bounded(X[1:], 2.0) - row_map.centre) / row_map.scale
    assert (np.linalg.norm(unbounded, axis=1) > 2.1).sum() > 5  # the bound acts
    assert np.linalg.norm(stored[:, :-1].astype(float), axis=1).max() <= 2.0
    np.testing.assert_allclose(stored[1:200, :-1], bounded(unbounded, 2.0), rtol=1e-6)
    assert (stored[200:] == 0).all()


@pytest.mark.parametrize("intercept", [0.6, 0.0])
def test_the_number_of_rows_is_not_taken_for_the_capacity(intercept):
    """A table that fills a fifth of its capacity is standardised as a full one."""
    X, y = rows(20_000)
    maps = []
    for capacity in (20_000, 100_000):
        problem = task(capacity, neighbours=Neighbours.ADD_REMOVE, intercept=intercept)
        maps.append(
            plan_standardisation(problem, BUDGET, "linear").row_map(open_rows(X, y, problem), SilentGate())
        )
    np.testing.assert_allclose(maps[0].scale, maps[1].scale, rtol=1e-4)
    if intercept:
        np.testing.assert_allclose(maps[0].centre, maps[1].centre, rtol=1e-4)
    untouched = [released[:3] for row_map in maps for released in row_map.released]
    assert np.linalg.norm(untouched[0]) > 4 * np.linalg.norm(untouched[len(untouched) // 2])


@with_and_without
def test_an_empty_table_gives_a_map(intercept):
    problem = task(neighbours=Neighbours.ADD_REMOVE, intercept=intercept)
    nothing = open_rows(np.zeros((0, 3)), np.zeros(0), problem)
    standardisation = plan_standardisation(problem, BUDGET, "linear")
    for seed in range(20):
        row_map = standardisation.row_map(nothing, Gate.seeded(seed))
        assert np.isfinite(row_map.scale).all()
        assert (row_map.scale > 0).all()


def test_floors_and_length_of_the_scale():
    moments = np.array([1.0, 0.2, 0.0, -3.0])
    scale = scale_by(moments, 1e-4, 2.0)
    floored = np.array([1.0, 0.2, 0.015, 0.015])  # a twentieth of the mean of the positive parts
    np.testing.assert_allclose(scale / scale[0], floored ** (POWER / 2), rtol=1e-12)
    assert math.sqrt((floored / scale**2).sum()) == pytest.approx(2.0, rel=1e-12)
    noisy = scale_by(moments, 0.5, 2.0)  # twice the noise is above all of them
    np.testing.assert_allclose(noisy, noisy[0], rtol=1e-12)


@pytest.mark.together
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_every_power_keeps_the_length_of_a_typical_row(power, monkeypatch):
    monkeypatch.setattr(rules, "POWER", power)
    moments = np.array([1.0, 0.3, 0.1])
    scale = scale_by(moments, 1e-9, 3.0)
    np.testing.assert_allclose(scale / scale[0], moments ** (power / 2), rtol=1e-12)
    assert (moments / scale**2).sum() == pytest.approx(9.0, rel=1e-12)


def test_no_two_copies_of_the_rows_are_held_at_once():
    """Every engine is let go before the rows are opened again."""
    import weakref

    problem = task(l2=0.5)
    held = []

    class Counting(type(open_rows(*rows(), problem))):
        def open(self, *args, **how):
            assert [engine for engine in held if engine() is not None] == []
            engine = super().open(*args, **how)
            held.append(weakref.ref(engine))
            return engine

    table = Counting(*rows(), row_map=problem.row_map, n_rows=200)
    mechanism = Objective(standardise=True)
    mechanism.run([Job(plan=mechanism.plan(problem, BUDGET))], table, SilentGate())
    assert len(held) == 3


# Where it is done by default.


def sizes_around(relation, p, intercept, budget):
    """Numbers of rows just below and at n mu = 2 p, with the intercept counted; p is enough under add-remove."""
    columns = p + (intercept > 0)
    least = math.ceil(relation.rows_changed * columns / gaussian_mu(budget) * (1 + 1e-9))
    return least - 1, least


@with_and_without
@each_relation
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("budget", [Budget(0.1, 1e-6), Budget(1.0, 1e-9)], ids=["small", "large"])
def test_moments_stand_out_where_there_are_rows_enough_for_the_columns(budget, loss, relation, intercept):
    """However many outputs there are: rows and columns count."""
    facts = {"loss": loss, "neighbours": relation, "intercept": intercept}
    few, enough = (task(n, 40, **facts) for n in sizes_around(relation, 40, intercept, budget))
    assert not moments_stand_out(few, budget)
    assert moments_stand_out(enough, budget)


@each_relation
@pytest.mark.parametrize(
    "mechanism", [Output(), RSGDAR(), DPGD(), PSGD(steps=3), Objective(), SSP()], ids=lambda one: one.name
)
def test_by_default_rows_are_standardised_where_moments_stand_out(mechanism, relation):
    budget = Budget(1.0, 1e-6)
    few, enough = sizes_around(relation, 40, 0.6, budget)
    for n, variant in ((few, False), (enough, "linear")):
        plan = mechanism.plan(task(n, 40, l2=1.0, neighbours=relation), budget)
        assert plan.settings["standardise"] == variant
        assert (plan.standardisation is not None) == (variant == "linear")
        assert mechanism.as_planned(plan).standardise == variant
        for asked in (False, "linear", "bounded"):  # what was asked for is done
            given = replace(mechanism, standardise=asked)
            assert (
                given.plan(task(n, 40, l2=1.0, neighbours=relation), budget).settings["standardise"] == asked
            )


@each_relation
def test_numbers_pure_budgets_and_papers_are_as_they_came_by_default(relation):
    _, enough = sizes_around(relation, 40, 0.6, Budget(1.0, 1e-6))
    problem = task(100 * enough, 40, neighbours=relation)
    numbers = replace(problem, loss=ClippedSquared())
    assert moments_stand_out(numbers, Budget(1.0, 1e-6))
    for mechanism, facts, budget in (
        (DPGD(), numbers, Budget(1.0, 1e-6)),
        (FrankWolfe(steps=5), problem, Budget(1.0, 0.0)),
        (DPGD(accounting="paper"), problem, Budget(1.0, 1e-6)),
    ):
        plan = mechanism.plan(facts, budget)
        assert plan.settings["standardise"] is False
        assert plan.standardisation is None
    assert DPGD().plan(problem, Budget(1.0, 1e-6)).standardisation is not None
    assert DPGD().plan(problem, Budget(1.0, 1e-6), inference=True).standardisation is None


@each_relation
@pytest.mark.parametrize("loss", [Logistic(), ClippedSquared(), Softmax(3)], ids=lambda loss: loss.name)
def test_auto_standardises_wherever_moments_lie(loss, relation):
    budget = Budget(1.0, 1e-6)
    for n in sizes_around(relation, 40, 0.6, budget):
        plan = Auto().plan(task(n, 40, loss=loss, neighbours=relation), budget)
        assert plan.settings["standardise"] == "linear"
        assert plan.standardisation is not None


def test_what_is_refused():
    for bad in ("yes", 1, None, 1.0, "Linear"):
        with pytest.raises(InvalidInput, match="standardise must be"):
            Output(standardise=bad)
    assert Output(standardise=True) == Output(standardise="linear") != Output(standardise="bounded")
    assert Output(standardise=np.True_).standardise == "linear"
    with pytest.raises(InvalidInput, match="standardisation"):
        NoPrivacy(standardise=True)
    with pytest.raises(DpermError, match="delta"):
        Output(standardise=True).plan(task(), Budget(1.0, 0.0))
