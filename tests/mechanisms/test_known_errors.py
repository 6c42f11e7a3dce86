"""One test for each error found in the papers of this family or in their authors' code.

Each fails if the error is made here. The proofs in docs/proofs say why each of them is one.
"""

from dataclasses import replace

import numpy as np
import pytest
from output_cases import BUDGET, Clip, FixedOrder, plain_descent, random_rows, train, trained

from dperm.engine import Rows, open_rows
from dperm.losses import HuberHinge, Linear, Logistic
from dperm.mechanisms import NSGD, RSGD, RSGDAR, BoltOn, Job, Output, OutputGD
from dperm.planning.schedule import Schedule, branch_sensitivities, default_step
from dperm.privacy import Gate, SystemEntropy, entropy
from dperm.problem import Problem
from dperm.unit import Neighbours

N, P = 103, 3
PROBLEM = Problem(loss=Logistic(), l2=0.02, x_norm=1.0, n_rows=N, n_features=P, intercept=0.5)
X, Y = random_rows(N, P, seed=1)
RAW = {"standardise": False}
ORDER = np.random.default_rng(0).permutation(N)
each_clip = pytest.mark.parametrize("clip", [None, "auto"])


def table(rows: np.ndarray = X, labels: np.ndarray = Y, facts: Problem = PROBLEM) -> Rows:
    return open_rows(rows, labels, facts)


@each_clip
def test_steps_start_again_after_an_average_in_descent_and_sensitivity_alike(clip: Clip) -> None:
    mechanism = RSGDAR(epochs=7, average_every=3, batch_size=11, step_size=1.2, clip=clip, **RAW)
    facts = trained(mechanism, PROBLEM)
    schedule = mechanism.plan(PROBLEM, BUDGET).schedule
    np.testing.assert_allclose(schedule.step_sizes[:, 0], 1.2 / np.array([1, 2, 3, 1, 2, 3, 1]))
    want = plain_descent(mechanism, facts, X, Y, ORDER)
    np.testing.assert_allclose(train(mechanism, PROBLEM, X, Y, ORDER), want, rtol=1e-5, atol=1e-6)
    # A recurrence that forgets the restart claims far too little.
    forgot = Schedule(
        batch_sizes=schedule.batch_sizes,
        step_sizes=np.repeat(1.2 / np.arange(1, 8)[:, None], 10, axis=1),
        averaged=schedule.averaged,
    )
    assert branch_sensitivities(forgot, facts).max() < 0.8 * branch_sensitivities(schedule, facts).max()


def test_the_regulariser_is_no_part_of_the_gradient_bound() -> None:
    """It is the same function of the weights for both neighbours, so it cancels."""
    heavy = replace(PROBLEM, loss=Linear(), l2=5.0)
    assert heavy.gradient_bound == PROBLEM.gradient_bound == PROBLEM.row_norm
    mechanism = OutputGD(iterations=4, step_size=0.1, **RAW)
    flipped = Y.copy()
    flipped[7] *= -1
    rows = X.copy()
    rows[7] = [0.5, 0.0, 0.0]
    moved = np.linalg.norm(
        train(mechanism, heavy, rows, Y, ORDER) - train(mechanism, heavy, rows, flipped, ORDER)
    )
    exact = branch_sensitivities(mechanism.schedule(heavy), heavy, rounding=False)[0]
    assert moved == pytest.approx(exact * np.hypot(0.5, 0.5) / heavy.row_norm, rel=1e-12)


@each_clip
def test_the_worst_batch_is_the_last_without_averages_and_the_first_with_them(clip: Clip) -> None:
    facts = replace(PROBLEM, n_rows=100)
    fixed = {"epochs": 6, "batch_size": 10, "step_size": 1.0, "clip": clip, **RAW}
    plain, averaged = RSGD(**fixed), RSGDAR(average_every=3, **fixed)
    for mechanism, worst in ((plain, 9), (averaged, 0), (NSGD(**fixed), 9)):
        plan = mechanism.plan(facts, BUDGET)
        moved = branch_sensitivities(mechanism.schedule(facts), trained(mechanism, facts))
        assert np.argmax(moved) == worst
        assert plan.noise is not None
        assert plan.noise.sensitivity == moved.max()


@pytest.mark.parametrize("clip", [None, 0.4, "auto"])
def test_batches_weigh_by_their_own_size_in_the_mixture_and_in_the_push(clip: Clip) -> None:
    mechanism = RSGD(epochs=1, batch_size=11, step_size=1.0, clip=clip, **RAW)
    plan, facts = mechanism.plan(PROBLEM, BUDGET), trained(mechanism, PROBLEM)
    sizes = np.array([11] * 3 + [10] * 7)
    assert plan.profile is not None
    np.testing.assert_allclose(plan.profile.probability, sizes / N, rtol=1e-12)
    steepest = 1.0 if clip is None else plan.settings["clip"]
    ratio = facts.contraction(1.0)
    want = 2 * steepest * PROBLEM.row_norm / sizes * ratio ** np.arange(9, -1, -1)
    np.testing.assert_allclose(branch_sensitivities(plan.schedule, facts, rounding=False), want, rtol=1e-12)
    np.testing.assert_allclose(plan.sensitivities, want, rtol=1e-6)


def test_gradients_are_not_normalised() -> None:
    """Mean gradients +x/(2b) and -x/(2b): a step parts the two by eta/b; normalised it would be 2 eta."""
    b, eta = 100, 0.5
    facts = Problem(loss=Linear(), l2=0.0, x_norm=1.0, n_rows=b, n_features=1)
    rows = np.zeros((b, 1))
    rows[0] = 0.5
    labels = np.ones(b)
    other = labels.copy()
    other[0] = -1.0
    fixed = {"step_size": eta, **RAW}
    for mechanism in (OutputGD(iterations=1, **fixed), RSGD(epochs=1, batch_size=b, **fixed)):
        order = np.arange(b)
        moved = abs(
            train(mechanism, facts, rows, labels, order) - train(mechanism, facts, rows, other, order)
        )[0]
        assert moved == pytest.approx(eta / b, rel=1e-12)
        assert moved <= 2 * eta / b


def test_the_intercept_counts_in_the_norm_of_a_row() -> None:
    """x of norm 1 and an intercept column of 1: a changed label moves the gradient by 2 sqrt(2), not 2."""
    facts = Problem(loss=HuberHinge(), l2=0.0, x_norm=1.0, n_rows=N, n_features=P, intercept=1.0)
    assert facts.gradient_gap >= 2 * np.sqrt(2) * (1 - 1e-15)
    rows, flipped = X.copy(), Y.copy()
    rows[0], flipped[0] = [1.0, 0.0, 0.0], -Y[0]
    mechanism = OutputGD(iterations=1, step_size=0.01, **RAW)
    moved = np.linalg.norm(
        train(mechanism, facts, rows, Y, ORDER) - train(mechanism, facts, rows, flipped, ORDER)
    )
    assert moved > 0.01 * 2.8 / N
    assert moved <= mechanism.plan(facts, BUDGET).sensitivities.max()


class Remembering(SystemEntropy):
    def __init__(self) -> None:
        self.orders: list[np.ndarray] = []

    def permutation(self, n: int) -> np.ndarray:
        self.orders.append(super().permutation(n))
        return self.orders[-1]


@each_clip
@pytest.mark.parametrize(
    "mechanism",
    [
        RSGD(epochs=2, batch_size=11, step_size=default_step(PROBLEM), **RAW),
        RSGDAR(epochs=2, batch_size=11, step_size=default_step(PROBLEM), average_every=10, **RAW),
        BoltOn(passes=2, batch_size=11, rule="strong-decreasing", **RAW),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_the_rows_are_really_permuted_and_differently_each_time(mechanism: RSGD, clip: Clip) -> None:
    entropy, mechanism = Remembering(), replace(mechanism, clip=clip)
    plan, facts = mechanism.plan(PROBLEM, BUDGET), trained(mechanism, PROBLEM)
    points = [mechanism._train([plan], table(), Gate(entropy))[:, 0] for _ in range(3)]
    assert len(entropy.orders) == 3
    for order, point in zip(entropy.orders, points, strict=True):
        assert sorted(order) == list(range(N))
        np.testing.assert_allclose(point, plain_descent(mechanism, facts, X, Y, order), rtol=1e-5, atol=1e-6)
    for a in range(3):
        for b in range(a):
            assert (entropy.orders[a] != entropy.orders[b]).sum() > N / 2
            assert np.linalg.norm(points[a] - points[b]) > 1e-6
    # Public order would have given something else.
    public = plain_descent(mechanism, facts, X, Y, np.arange(N))
    assert min(np.linalg.norm(point - public) for point in points) > 1e-6


def test_every_position_is_equally_likely() -> None:
    """Where row 0 of twelve lands in 6,000 draws: chi-square, and a control with a biased shuffle."""
    from scipy import stats

    entropy = SystemEntropy()
    places = [int(np.flatnonzero(entropy.permutation(12) == 0)[0]) for _ in range(6000)]
    counts = np.bincount(places, minlength=12)
    assert stats.chisquare(counts).pvalue > 1e-10
    biased = np.where(np.arange(6000) % 5 == 0, 0, places)
    assert stats.chisquare(np.bincount(biased, minlength=12)).pvalue < 1e-10


@pytest.mark.together
@pytest.mark.parametrize("every", [1, 2, 3, 4, 7, 20])
@each_clip
def test_the_restart_interval_is_the_one_asked_for(clip: Clip, every: int) -> None:
    mechanism = RSGDAR(epochs=7, average_every=every, batch_size=11, step_size=1.0, clip=clip, **RAW)
    averaged = mechanism.schedule(PROBLEM).averaged
    assert [epoch + 1 for epoch, here in enumerate(averaged) if here] == list(range(every, 8, every))
    np.testing.assert_allclose(
        train(mechanism, PROBLEM, X, Y, ORDER),
        plain_descent(mechanism, trained(mechanism, PROBLEM), X, Y, ORDER),
        rtol=1e-5,
        atol=1e-6,
    )


def test_an_average_takes_every_iterate_since_the_last_and_not_the_average_itself() -> None:
    """Two epochs of two updates by hand, on one row per batch."""
    facts = Problem(loss=Linear(), l2=0.0, x_norm=1.0, n_rows=2, n_features=1)
    mechanism = RSGDAR(epochs=3, average_every=2, batch_size=1, step_size=1.0, **RAW)
    rows, labels = np.array([[0.5], [0.25]]), np.ones(2)
    # Steps 1, 1/2, then 1 again: 0.5, 0.75, 1, 1.125; mean 0.84375; then +0.5 and +0.25.
    assert train(mechanism, facts, rows, labels, np.arange(2))[0] == pytest.approx(0.84375 + 0.75, rel=1e-12)


def test_unequal_batches_are_divided_by_their_own_size() -> None:
    facts = Problem(loss=Linear(), l2=0.0, x_norm=1.0, n_rows=3, n_features=1)
    mechanism = NSGD(epochs=1, batch_size=2, step_size=1.0, **RAW)
    rows = np.array([[0.5], [0.25], [0.125]])
    assert mechanism.schedule(facts).batch_sizes == (2, 1)
    assert train(mechanism, facts, rows, np.ones(3), np.arange(3))[0] == pytest.approx(
        0.375 + 0.125, rel=1e-12
    )


def test_no_row_changes_how_another_is_stored() -> None:
    """No minimum, maximum, mean or largest norm is taken from the data."""
    wild = X.copy()
    wild[50] = [1e9, -1e9, 3.0]
    one, other = (table(rows).open(Gate(FixedOrder(ORDER)).order())._rows for rows in (X, wild))
    moved = int(np.flatnonzero(ORDER == 50)[0])
    keep = np.arange(N) != moved
    np.testing.assert_array_equal(one.X[keep], other.X[keep])
    np.testing.assert_array_equal(one.y, other.y)
    norms = np.linalg.norm(other.X[:, :P].astype(np.longdouble), axis=1)
    assert norms.max() <= PROBLEM.x_norm
    assert norms[moved] > 0.999 * PROBLEM.x_norm


def test_the_residual_of_the_minimiser_is_paid_for_twice() -> None:
    """Both neighbours' minimisers are approximate."""
    here, there = Output(tolerance=1e-3), Output(tolerance=2e-3)
    step = there.minimiser_sensitivity(PROBLEM) - here.minimiser_sensitivity(PROBLEM)
    assert step == pytest.approx(2 * here.residual(PROBLEM) / PROBLEM.l2, rel=1e-9)


@pytest.mark.parametrize(
    "mechanism",
    [
        RSGDAR(epochs=2, batch_size=11),
        NSGD(epochs=2, batch_size=11),
        OutputGD(iterations=2),
        BoltOn(passes=1),
        Output(),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_no_numpy_randomness_enters_a_private_run(mechanism: RSGD, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order and noise come from the operating system: with numpy's generators broken, all still works."""

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("numpy randomness in a private run")

    for name in ("default_rng", "seed", "normal", "standard_normal", "permutation", "shuffle", "RandomState"):
        monkeypatch.setattr(np.random, name, forbidden)
    asked: list[int] = []
    real = entropy.os.urandom

    def counted(n: int) -> bytes:
        asked.append(n)
        return real(n)

    monkeypatch.setattr(entropy.os, "urandom", counted)
    plan = mechanism.plan(PROBLEM, BUDGET)
    outcomes = [mechanism.run([Job(plan=plan)], table(), Gate.system())[0] for _ in range(2)]
    assert np.abs(outcomes[0].weights - outcomes[1].weights).min() > 0
    assert all(outcome.record is not None and outcome.record.secure for outcome in outcomes)
    orders = [n for n in asked if n == 8 * N]  # 64 bits for every row, not one byte for the whole run
    assert len(orders) == (2 if mechanism.name in ("rsgd-ar", "bolt-on") else 0)
    noise = [n for n in asked if n != 8 * N]
    assert len(noise) >= 2
    assert min(noise) >= 16 * PROBLEM.n_columns  # some twenty bytes for every number


@each_clip
def test_one_relation_is_used_from_the_plan_to_the_record(clip: Clip) -> None:
    """With so few rows the clip is the least one for both relations."""
    replaced = replace(PROBLEM, l2=1e-3)
    for relation, share in ((Neighbours.REPLACE_ONE, 1.0), (Neighbours.ADD_REMOVE, 0.5)):
        facts = replace(replaced, neighbours=relation)
        mechanism = RSGD(epochs=3, batch_size=11, step_size=default_step(PROBLEM), clip=clip, **RAW)
        assert trained(mechanism, facts).loss == trained(mechanism, replaced).loss
        (outcome,) = mechanism.run(
            [Job(plan=mechanism.plan(facts, BUDGET))], table(facts=facts), Gate.system()
        )
        assert outcome.record is not None
        exact = branch_sensitivities(mechanism.schedule(replaced), trained(mechanism, replaced)).max()
        assert outcome.record.sensitivity == pytest.approx(share * exact, rel=1e-6)


def test_the_trained_point_itself_is_never_returned() -> None:
    """Every coordinate carries noise, the intercept too."""
    for mechanism in (OutputGD(iterations=3, **RAW), Output(**RAW)):
        plan = mechanism.plan(PROBLEM, BUDGET)
        point = mechanism._train([plan], table(), Gate(FixedOrder(ORDER)))[:, 0]
        for _ in range(5):
            (outcome,) = mechanism.run([Job(plan=plan)], table(), Gate.system())
            assert (outcome.weights != point).all()
