"""Several jobs in one run: what they share, what they must not share, and what is refused."""

import dataclasses

import numpy as np
import pytest
from output_cases import BUDGET, FixedOrder, random_rows
from scipy import stats

from dperm.arithmetic import Arithmetic
from dperm.engine import Rows, open_rows
from dperm.errors import DpermError, NotCertified
from dperm.losses import ClippedSquared, HuberHinge, Logistic, SoftClippedLogistic, Softmax
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
    Plan,
)
from dperm.mechanisms import minimiser as minimiser_module
from dperm.mechanisms.base import certified
from dperm.mechanisms.output.family import DescentMechanism
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.solvers import Solution
from dperm_audit.gates import SilentGate

N, P = 120, 3
PROBLEM = Problem(loss=Logistic(), l2=0.02, x_norm=1.0, n_rows=N, n_features=P, intercept=0.5)
# With so little l2 a clip by rule is in force whatever the budget.
LIGHTLY = dataclasses.replace(PROBLEM, l2=1e-3)
X, Y = random_rows(N, P, seed=1)
RAW = {"standardise": False}
FIXED = {"step_size": 2.0, "clip": None, **RAW}
CLIPPED = {**FIXED, "clip": "auto"}
FULL = OutputGD(iterations=6, **FIXED)
MECHANISMS: list[Mechanism] = [
    RSGDAR(epochs=5, average_every=2, batch_size=25, **FIXED),
    RSGD(epochs=4, batch_size=25, **FIXED),
    NSGD(epochs=4, batch_size=25, **FIXED),
    FULL,
    BoltOn(passes=2, batch_size=25, rule="strong-decreasing", clip=None, **RAW),
    RSGDAR(epochs=5, average_every=2, batch_size=25, **CLIPPED),
    OutputGD(iterations=6, **CLIPPED),
    Output(**RAW),
]
IDS = [mechanism.name + (", clipped" if mechanism.settings.get("clip") else "") for mechanism in MECHANISMS]


def table(mask: np.ndarray | None = None) -> Rows:
    return open_rows(X, Y, PROBLEM, mask)


def clipped(plan: Plan) -> bool:
    return isinstance(plan.problem.loss, SoftClippedLogistic)


class Spy:
    """Counts trainings and keeps the points before noise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mechanism: Mechanism) -> None:
        self.points: list[np.ndarray] = []
        real = type(mechanism)._train  # type: ignore[attr-defined]

        def train(inner: Mechanism, plans: list, rows: Rows, gate: Gate) -> np.ndarray:
            self.points.append(real(inner, plans, rows, gate))
            return self.points[-1]

        monkeypatch.setattr(type(mechanism), "_train", train)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_budgets_share_one_training_and_get_noise_of_their_own(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch, mechanism)
    plans = [mechanism.plan(LIGHTLY, Budget(epsilon, 1e-6)) for epsilon in (0.1, 1.0, 1.0, 10.0)]
    assert {clipped(plan) for plan in plans} == {mechanism.settings.get("clip") == "auto"}
    outcomes = mechanism.run([Job(plan=plan) for plan in plans], table(), Gate.system())
    assert len(spy.points) == 1
    assert spy.points[0].shape == (P + 1, 1)
    point = spy.points[0][:, 0]
    draws = [
        (outcome.weights - point) / plan.noise.scale for outcome, plan in zip(outcomes, plans, strict=True)
    ]
    for k, outcome in enumerate(outcomes):
        assert outcome.certified
        assert outcome.record is not None
        assert outcome.record.secure
        assert outcome.record.noise_scale == plans[k].noise.scale
        assert outcome.record.sensitivity == plans[k].noise.sensitivity
        assert np.abs(draws[k]).max() < 10  # noise of the declared size: ten standard deviations
        assert all(np.abs(draws[k] - draws[i]).min() > 1e-9 for i in range(k))


@pytest.mark.parametrize("clip", [None, "auto"])
@pytest.mark.parametrize("kind", [RSGDAR, RSGD, NSGD, OutputGD, BoltOn])
def test_budgets_with_schedules_of_their_own_are_trained_apart(
    kind: type[DescentMechanism], clip: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings left open follow the budget; the noise of one plan must not cover the training of another.

    With the larger budget this l2 is far above its rule, so the loss is not clipped there.
    """
    mechanism = kind(clip=clip, **RAW)
    plans = [mechanism.plan(PROBLEM, Budget(epsilon, 1e-6)) for epsilon in (0.1, 10.0, 0.1)]
    assert plans[0].settings == plans[2].settings != plans[1].settings
    assert (plans[0].problem.loss == plans[1].problem.loss) == (clip is None)
    spy = Spy(monkeypatch, mechanism)
    together = mechanism.run([Job(plan=plan) for plan in plans], table(), SilentGate())
    widths = [(P + 1, 2)] if clip is None else [(P + 1, 1)] * 2
    assert [points.shape for points in spy.points] == widths
    for plan, outcome in zip(plans, together, strict=True):
        (alone,) = mechanism.run([Job(plan=plan)], table(), SilentGate())
        np.testing.assert_allclose(outcome.weights, alone.weights, rtol=1e-4, atol=1e-5)
    assert np.linalg.norm(together[0].weights - together[1].weights) > 1e-2


def z_scores(draws: np.ndarray) -> tuple[float, float]:
    """How far the mean and the mean square of unit normal draws are from 0 and 1, in standard errors."""
    return float(draws.mean() * np.sqrt(draws.size)), float((draws**2).mean() - 1) * float(
        np.sqrt(draws.size / 2)
    )


def test_the_noise_has_the_declared_size_on_every_coordinate_and_is_independent() -> None:
    mechanism = FULL
    plan = mechanism.plan(PROBLEM, BUDGET)
    point = mechanism._train([plan], table(), Gate(FixedOrder(range(N))))[:, 0]
    outcomes = mechanism.run([Job(plan=plan)] * 1000, table(), Gate.system())
    draws = np.array([outcome.weights - point for outcome in outcomes]) / plan.noise.scale
    assert draws.shape == (1000, P + 1)
    limit = stats.norm.isf(1e-11)
    for coordinate in range(P + 1):  # the intercept is one of them
        assert max(map(abs, z_scores(draws[:, coordinate]))) < limit
    products = [draws[:, a] * draws[:, b] for a in range(P + 1) for b in range(a)]
    products.append(draws[1:, 0] * draws[:-1, 0])
    assert max(abs(z_scores(product)[0]) for product in products) < limit
    # The control: noise a third too small or too large is told apart by the same numbers.
    for wrong in (0.67, 1.33):
        assert abs(z_scores(wrong * draws)[1]) > limit


def masks() -> np.ndarray:
    """Four models: three folds without another third each, and all rows."""
    folds = [np.arange(N) % 3 != k for k in range(3)]
    return np.column_stack([*folds, np.ones(N, bool)])


def plans_for(mechanism: Mechanism, mask: np.ndarray) -> list:
    return [
        mechanism.plan(dataclasses.replace(PROBLEM, n_rows=int(mask[:, k].sum())), BUDGET)
        for k in range(mask.shape[1])
    ]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_masked_models_in_a_batch_equal_separate_runs(mechanism: Mechanism) -> None:
    mask = masks()
    order = np.random.default_rng(4).permutation(N)
    plans = plans_for(mechanism, mask)
    used: set[Arithmetic] = set()
    together = mechanism._train(plans, table(mask).noting(used), Gate(FixedOrder(order)))  # type: ignore[attr-defined]
    # Several models at once multiply in float32, which the plan does not account for.
    assert all(certified(plan, used) for plan in plans) == isinstance(mechanism, Output)
    for k, plan in enumerate(plans):
        used.clear()
        own = table(mask).select([k]).noting(used)
        alone = mechanism._train([plan], own, Gate(FixedOrder(order)))  # type: ignore[attr-defined]
        assert certified(plan, used)
        np.testing.assert_allclose(together[:, k], alone[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_a_masked_model_equals_a_run_on_its_rows_alone(mechanism: Mechanism) -> None:
    """Nothing outside its rows can matter: the rest is replaced by rows that would spoil everything."""
    mask = masks()[:, :1]
    own = np.flatnonzero(mask[:, 0])
    order = np.random.default_rng(4).permutation(N)
    (plan,) = plans_for(mechanism, mask)
    spoiled, labels = np.where(mask, X, 50.0), np.where(mask[:, 0], Y, -1.0)
    elsewhere = open_rows(spoiled, labels, PROBLEM, mask)
    masked = mechanism._train([plan], elsewhere, Gate(FixedOrder(order)))  # type: ignore[attr-defined]
    rank = {int(row): i for i, row in enumerate(own)}
    own_order = [rank[int(row)] for row in order if int(row) in rank]
    subset = open_rows(X[own], Y[own], plan.problem)
    alone = mechanism._train([plan], subset, Gate(FixedOrder(own_order)))  # type: ignore[attr-defined]
    np.testing.assert_allclose(masked, alone, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("baseline", [NoPrivacy(tolerance=1e-9), Majority()], ids=repr)
def test_baselines_train_on_their_rows_only(baseline: Mechanism) -> None:
    mask = masks()
    plans = plans_for(baseline, mask)
    jobs = [Job(plan=plan, model=k) for k, plan in enumerate(plans)]
    together = baseline.run(jobs, table(mask), Gate.seeded(0))
    for k, plan in enumerate(plans):
        own = mask[:, k]
        rows = open_rows(X[own], Y[own], plan.problem)
        (alone,) = baseline.run([Job(plan=plan)], rows, Gate.seeded(0))
        np.testing.assert_allclose(together[k].weights, alone.weights, rtol=1e-5, atol=1e-6)


def test_jobs_come_back_in_their_own_order() -> None:
    mechanism, mask = FULL, masks()
    plans = plans_for(mechanism, mask)
    wanted = [2, 0, 2, 3]
    outcomes = mechanism.run([Job(plan=plans[k], model=k) for k in wanted], table(mask), SilentGate())
    for outcome, k in zip(outcomes, wanted, strict=True):
        alone = mechanism._train([plans[k]], table(mask).select([k]), Gate(FixedOrder(range(N))))
        np.testing.assert_allclose(outcome.weights, alone[:, 0], rtol=1e-4, atol=1e-5)
        assert outcome.record is not None
        assert outcome.record.noise_scale == plans[k].noise.scale


def test_schedules_of_different_shape_run_in_one_batch() -> None:
    """Models with other row counts have other numbers of batches; each must follow its own schedule."""
    mechanism = RSGDAR(epochs=5, average_every=2, batch_size=25, **FIXED)
    mask = np.column_stack([np.arange(N) < size for size in (120, 30, 119, 31)])
    plans = plans_for(mechanism, mask)
    assert len({plan.schedule.shape for plan in plans}) > 1
    order = np.random.default_rng(4).permutation(N)
    together = mechanism._train(plans, table(mask), Gate(FixedOrder(order)))
    for k, plan in enumerate(plans):
        alone = mechanism._train([plan], table(mask).select([k]), Gate(FixedOrder(order)))
        np.testing.assert_allclose(together[:, k], alone[:, 0], rtol=1e-4, atol=1e-5)


# A run that would train one thing and price another is refused.


def test_jobs_on_one_model_with_different_trainings_are_refused() -> None:
    """They would share one training, and the noise of one plan would cover the schedule of the other."""
    careful = RSGD(epochs=1, batch_size=25, step_size=0.01, **RAW)
    bold = RSGD(epochs=20, batch_size=25, **FIXED)
    jobs = [Job(plan=careful.plan(PROBLEM, BUDGET)), Job(plan=bold.plan(PROBLEM, BUDGET))]
    with pytest.raises(DpermError):
        bold.run(jobs, table(), Gate.system())


def test_jobs_on_one_model_with_another_l2_are_trained_apart() -> None:
    mechanism = RSGD(epochs=4, batch_size=25, **FIXED)
    plans = [
        mechanism.plan(dataclasses.replace(PROBLEM, l2=l2), budget)
        for l2, budget in ((0.5, BUDGET), (0.1, BUDGET), (0.5, Budget(1.0, 1e-6)))
    ]
    together = mechanism.run([Job(plan=plan) for plan in plans], table(), SilentGate())
    alone = [mechanism.run([Job(plan=plan)], table(), SilentGate())[0] for plan in plans]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-6)
    np.testing.assert_array_equal(together[0].weights, together[2].weights)
    assert np.linalg.norm(together[0].weights) < 0.9 * np.linalg.norm(together[1].weights)


def test_a_plan_of_another_mechanism_is_refused() -> None:
    """A plan priced for a secret order must not run in the public one."""
    plan = RSGD(epochs=4, batch_size=25).plan(PROBLEM, BUDGET)
    with pytest.raises(DpermError):
        NSGD(epochs=4, batch_size=25).run([Job(plan=plan)], table(), Gate.system())


ONE_ORDER = np.random.default_rng(4).permutation(N)


def silent() -> SilentGate:
    """Without noise, and with the same order for every training."""
    gate = SilentGate()
    gate.source = FixedOrder(ONE_ORDER)
    return gate


def jobs_of_two_losses(mechanism: Mechanism) -> list[Job]:
    """In turn, two of each, on the same rows."""
    plans = [
        mechanism.plan(dataclasses.replace(LIGHTLY, loss=loss), Budget(epsilon, 1e-6))
        for epsilon in (20.0, 5.0)
        for loss in (Logistic(), HuberHinge(1.0))
    ]
    assert clipped(plans[0]) == clipped(plans[2]) == (mechanism.settings.get("clip") == "auto")
    return [Job(plan=plan) for plan in plans]


@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_jobs_of_different_losses_each_come_out_as_if_run_alone(
    mechanism: Mechanism, standardise: bool
) -> None:
    mechanism = dataclasses.replace(mechanism, standardise=standardise)
    jobs = jobs_of_two_losses(mechanism)
    together = mechanism.run(jobs, table(), silent())
    for job, outcome in zip(jobs, together, strict=True):
        (alone,) = mechanism.run([job], table(), silent())
        np.testing.assert_allclose(outcome.weights, alone.weights, rtol=1e-4, atol=1e-5)
        assert outcome.row_map == alone.row_map
        assert outcome.records == alone.records
        assert outcome.record is not None
        assert outcome.record.noise_scale == job.plan.noise.scale
    assert len({outcome.record.noise_scale for outcome in together}) == len(jobs)
    assert np.linalg.norm(together[0].weights - together[1].weights) > 1e-2


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_jobs_of_different_losses_get_noise_of_their_own(mechanism: Mechanism) -> None:
    jobs = jobs_of_two_losses(mechanism)
    exact, noisy = (mechanism.run(jobs, table(), gate) for gate in (silent(), Gate(FixedOrder(ONE_ORDER))))
    draws = [
        (there.weights - here.weights) / job.plan.noise.scale
        for here, there, job in zip(exact, noisy, jobs, strict=True)
    ]
    for k, draw in enumerate(draws):
        assert np.abs(draw).max() < 10
        assert all(np.abs(draw - other).min() > 1e-4 for other in draws[:k])


def test_labels_that_one_loss_of_several_does_not_know_are_refused() -> None:
    mechanism = dataclasses.replace(FULL, step_size=1.0)
    plans = [
        mechanism.plan(dataclasses.replace(PROBLEM, loss=loss), BUDGET)
        for loss in (ClippedSquared(), Logistic())
    ]
    numbers = open_rows(X, np.where(Y > 0, 3.0, 0.5), PROBLEM)
    mechanism.run([Job(plan=plans[0])], numbers, Gate.system())
    for order in (plans, plans[::-1]):
        with pytest.raises(DpermError, match="labels"):
            mechanism.run([Job(plan=plan) for plan in order], numbers, Gate.system())


@pytest.mark.cover(1)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
@pytest.mark.parametrize("wrong", [{"x_norm": 2.0}, {"intercept": 1.0}, {"intercept": 0.0}], ids=str)
def test_a_table_with_other_bounds_than_the_plan_is_refused(mechanism: Mechanism, wrong: dict) -> None:
    rows = open_rows(X, Y, dataclasses.replace(PROBLEM, **wrong))
    with pytest.raises(DpermError):
        mechanism.run([Job(plan=mechanism.plan(PROBLEM, BUDGET))], rows, Gate.system())


@pytest.mark.together
@pytest.mark.parametrize("mechanism", MECHANISMS[:-1], ids=IDS[:-1])
def test_a_table_with_other_rows_than_the_plan_is_refused(mechanism: Mechanism) -> None:
    rows = open_rows(X[:100], Y[:100], dataclasses.replace(PROBLEM, n_rows=100))
    with pytest.raises(DpermError):
        mechanism.run([Job(plan=mechanism.plan(PROBLEM, BUDGET))], rows, Gate.system())


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_several_outputs_are_trained_and_released_together(mechanism: Mechanism) -> None:
    """Two classes of softmax at +-w/2 are logistic regression at w, with rows and l2 to match."""
    facts = dataclasses.replace(PROBLEM, loss=Softmax(3))
    plan = mechanism.plan(facts, BUDGET)
    assert plan.noise.dimension == 3 * (P + 1)
    labels = (np.arange(N) % 3).astype(float)
    rows = open_rows(X, labels, facts)
    (outcome,) = mechanism.run([Job(plan=plan)], rows, Gate.system())
    assert outcome.weights.shape == (P + 1, 3)
    assert outcome.certified
    point = mechanism._train([plan], rows, Gate(FixedOrder(range(N))))  # type: ignore[attr-defined]
    assert point.shape == (P + 1, 1, 3)
    np.testing.assert_allclose(point.sum(axis=-1), 0, atol=1e-6)  # slopes of softmax sum to zero
    assert np.abs(point).max() > 1e-3


@pytest.mark.together
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_labels_that_the_loss_does_not_know_are_refused(mechanism: Mechanism) -> None:
    """A binary slope is multiplied by the label, so a label of 1000 would move the weights a thousandfold."""
    labels = Y.copy()
    labels[5] = 1000.0
    rows = open_rows(X, labels, PROBLEM)
    with pytest.raises(DpermError):
        mechanism.run([Job(plan=mechanism.plan(PROBLEM, BUDGET))], rows, Gate.system())


def test_output_releases_nothing_when_the_solver_falls_short(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Output()
    plan = mechanism.plan(PROBLEM, BUDGET)
    for norm in (1.001 * mechanism.residual(PROBLEM), np.inf, np.nan):
        solution = Solution(points=np.zeros((P + 1, 1)), gradient_norms=np.array([norm]))
        for solver in ("minimise", "certain"):
            monkeypatch.setattr(minimiser_module, solver, lambda *_, found=solution: found)
        with pytest.raises(NotCertified):
            mechanism.run([Job(plan=plan)], table(), Gate.system())
