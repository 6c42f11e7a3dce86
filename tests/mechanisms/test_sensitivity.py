"""The sensitivity recurrence against slow independent code, closed forms and printed numbers."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.errors import InvalidInput, NotCertified
from dperm.losses import HuberHinge, Linear, Logistic, Loss
from dperm.mechanisms import NSGD, RSGD, RSGDAR, BoltOn, Output, OutputGD
from dperm.mechanisms.output.bolt_on import RULES
from dperm.mechanisms.output.output_gd import closed_form_limit
from dperm.planning.schedule import Schedule, branch_sensitivities, default_step, split_rows
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.unit import Neighbours


def problem(loss: Loss | None = None, **settings: object) -> Problem:
    facts = {"l2": 1e-3, "x_norm": 1.0, "n_rows": 40_000, "n_features": 50, **settings}
    return Problem(loss=loss or Logistic(), **facts)  # type: ignore[arg-type]


def naive_sensitivity(schedule: Schedule, facts: Problem, j: int) -> float:
    """The distance of two runs whose rows differ in batch j, one update at a time, history kept."""
    smooth = facts.loss.smoothness * facts.row_norm**2 + facts.l2
    gap = {"replace-one": 2, "add-remove": 1}[facts.neighbours.value] * facts.loss.lipschitz * facts.row_norm
    distance, history = 0.0, []
    for epoch, averaged in enumerate(schedule.averaged):
        for i, size in enumerate(schedule.batch_sizes):
            step = float(schedule.step_sizes[epoch, i])
            distance *= max(abs(1 - step * facts.l2), abs(1 - step * smooth))
            if i == j:
                distance += step * gap / size
            history.append(distance)
        if averaged:
            distance, history = math.fsum(history) / len(history), []
    return distance


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Schedule, Problem]:
    """Unequal batches, averages at any epoch, steps up to 2/L."""
    loss = draw(st.sampled_from([Logistic(), HuberHinge(0.5), HuberHinge(0.1), Linear()]))
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=6))
    facts = Problem(
        loss=loss,
        l2=draw(st.sampled_from([1e-4, 1e-2, 0.5])),
        x_norm=draw(st.sampled_from([0.3, 1.0, 7.0])),
        n_rows=sum(sizes),
        n_features=5,
        intercept=draw(st.sampled_from([0.0, 1.0])),
        neighbours=draw(st.sampled_from(list(Neighbours))),
    )
    epochs = draw(st.integers(1, 7))
    averaged = tuple(draw(st.lists(st.booleans(), min_size=epochs, max_size=epochs)))
    share = st.floats(0.01, 1.0)
    shares = draw(st.lists(share, min_size=epochs * len(sizes), max_size=epochs * len(sizes)))
    steps = np.reshape(shares, (epochs, len(sizes))) * 2 / facts.smoothness
    return Schedule(batch_sizes=tuple(sizes), step_sizes=steps, averaged=averaged), facts


@settings(max_examples=300, deadline=None)
@given(schedules())
def test_recurrence_equals_the_naive_one(case: tuple[Schedule, Problem]) -> None:
    schedule, facts = case
    got = branch_sensitivities(schedule, facts, rounding=False)
    want = [naive_sensitivity(schedule, facts, j) for j in range(len(schedule.batch_sizes))]
    np.testing.assert_allclose(got, want, rtol=1e-13)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 2000), st.integers(1, 300), st.integers(1, 15), st.integers(1, 15))
def test_the_schedule_of_rsgd_ar_equals_the_naive_recurrence(n: int, b: int, epochs: int, every: int) -> None:
    """``average_every`` need not divide ``epochs``, nor the batch size the rows."""
    facts = problem(n_rows=n)
    schedule = RSGDAR(epochs=epochs, batch_size=b, average_every=every, step_size=1.7).schedule(facts)
    assert schedule.averaged == tuple((epoch + 1) % every == 0 for epoch in range(epochs))
    for epoch in range(epochs):
        np.testing.assert_array_equal(schedule.step_sizes[epoch], 1.7 / (epoch % every + 1))
    got = branch_sensitivities(schedule, facts, rounding=False)
    for j in {0, len(got) // 2, len(got) - 1}:
        assert got[j] == pytest.approx(naive_sensitivity(schedule, facts, j), rel=1e-13)


@settings(max_examples=100, deadline=None)
@given(schedules())
def test_rounding_only_adds(case: tuple[Schedule, Problem]) -> None:
    schedule, facts = case
    exact, rounded = (branch_sensitivities(schedule, facts, rounding=flag) for flag in (False, True))
    assert (rounded > exact).all()
    assert (rounded <= exact + 1e-8 * exact.max()).all()  # a few hundred rows


@settings(max_examples=60, deadline=None)
@given(schedules())
def test_rounding_covers_the_float64_errors_of_the_recurrence_itself(case: tuple[Schedule, Problem]) -> None:
    """The recurrence in exact fractions, from the same floats, is not above the declared one."""
    schedule, facts = case
    declared = branch_sensitivities(schedule, facts)
    l2, row_norm = Fraction(facts.l2), Fraction(facts.row_norm)
    smooth = Fraction(facts.loss.smoothness) * row_norm**2 + l2
    gap = facts.neighbours.rows_changed * Fraction(facts.loss.lipschitz) * row_norm
    bits = 2**200  # enough digits to call it exact, few enough to be quick
    for j in range(len(declared)):
        distance, window, count = Fraction(0), Fraction(0), 0
        for steps, averaged in zip(schedule.step_sizes, schedule.averaged, strict=True):
            for i, step in enumerate(map(Fraction, steps)):
                distance *= max(abs(1 - step * l2), abs(1 - step * smooth))
                distance += step * gap / schedule.batch_sizes[i] if i == j else 0
                distance = Fraction(math.ceil(distance * bits), bits)
                window, count = window + distance, count + 1
            if averaged:
                distance, window, count = window / count, Fraction(0), 0
        assert distance <= Fraction(float(declared[j]))


def naive_with_rounding(schedule: Schedule, facts: Problem, j: int) -> float:
    """The recurrence with the errors of docs/proofs/descent.md, Lemma 6, written out once more."""
    u, r, R, p = 2.0**-53, facts.row_norm, facts.loss.lipschitz * facts.row_norm, facts.n_columns
    steps, kappa = schedule.step_sizes, facts.loss.smoothness
    bounded = facts.l2 > 0 and steps.max() * facts.l2 <= 1
    W = min(R * steps.sum(), R / facts.l2) if bounded else R * steps.sum()
    slope = 1e-14 * facts.loss.lipschitz
    distance, window, count = 0.0, 0.0, 0
    for epoch, averaged in enumerate(schedule.averaged):
        for i, b in enumerate(schedule.batch_sizes):
            eta = float(steps[epoch, i])
            summed = 2 * (min(b, 1024) + b / 64 + 1024) * u * R
            error = eta * (r * (2 * p * u * kappa * r * W + slope) + summed) + 8 * u * (W + eta * R)
            distance *= max(abs(1 - eta * facts.l2), abs(1 - eta * (kappa * r * r + facts.l2)))
            distance += 2 * error + (eta * facts.gradient_gap / b if i == j else 0.0)
            window, count = window + distance, count + 1
        if averaged:
            distance, window, count = window / count + 2 * (count + 1) * u * W, 0.0, 0
    return distance


@pytest.mark.together
@pytest.mark.parametrize("width", [0.5, 0.1, 1e-3, 1e-6])
def test_rounding_allows_for_the_slopes_of_narrow_hinges(width: float) -> None:
    """The engine promises slopes to 1e-14 max(1, 0.1 / width): 1 + width - z is divided by the width."""
    facts = problem(HuberHinge(width))
    slope = 1e-14 * max(1.0, 0.1 / width)
    assert facts.gradient_error(1, 0.0) >= facts.row_norm * slope
    assert facts.gradient_error(1, 0.0) <= facts.row_norm * slope * 1.1


@pytest.mark.parametrize("l2", [0.0, 1e-3])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)], ids=repr)
def test_rounding_is_what_the_proof_says(loss: Loss, l2: float) -> None:
    """Batches so large and rows so wide that every term of the bound can be seen."""
    facts = problem(loss, l2=l2, n_rows=103 * 10**6 + 3, n_features=10**6, intercept=1.0)
    step = default_step(facts)
    schedule = RSGDAR(epochs=7, batch_size=11 * 10**6, average_every=3, step_size=step).schedule(facts)
    assert len(set(schedule.batch_sizes)) > 1
    got = branch_sensitivities(schedule, facts)
    want = [naive_with_rounding(schedule, facts, j) for j in range(len(got))]
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert (got > 1.01 * branch_sensitivities(schedule, facts, rounding=False)).all()


USUAL = {"epochs": 20, "batch_size": 4000}
AVERAGED, PLAIN = RSGDAR(**USUAL, average_every=10), RSGD(**USUAL)
PUBLIC, FULL = NSGD(**USUAL), OutputGD(iterations=20)
BOLT_ON = BoltOn(passes=10, batch_size=50, rule="strong-decreasing")
MECHANISMS = [
    AVERAGED,
    PLAIN,
    PUBLIC,
    FULL,
    BOLT_ON,
    dataclasses.replace(BOLT_ON, rule="convex-sqrt"),
    dataclasses.replace(AVERAGED, batch_size=50),
]


def schedule_of(mechanism: RSGD, facts: Problem) -> Schedule:
    """With the usual step where none is given."""
    if mechanism.step_size is None and not isinstance(mechanism, BoltOn):
        mechanism = dataclasses.replace(mechanism, step_size=default_step(facts))
    return mechanism.schedule(facts)


@pytest.mark.cover(1)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()], ids=repr)
def test_rounding_costs_next_to_nothing_at_ordinary_sizes(mechanism: RSGD, loss: Loss) -> None:
    facts = problem(loss, n_features=120, intercept=1.0)
    schedule = schedule_of(mechanism, facts)
    exact, rounded = (branch_sensitivities(schedule, facts, rounding=flag) for flag in (False, True))
    assert (exact < rounded).all()
    assert (rounded <= exact * (1 + 5e-6)).all()
    if mechanism in (AVERAGED, PLAIN, PUBLIC, FULL):
        assert (rounded <= exact * (1 + 1e-6)).all()


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_rows_are_split_into_the_fewest_even_batches(n: int, b: int) -> None:
    n_batches = -(-n // b)
    if n_batches > 10**5:
        n, n_batches = n // 1000 + 1, -(-(n // 1000 + 1) // b)
    sizes = split_rows(n, b)
    assert sum(sizes) == n
    assert len(sizes) == n_batches
    assert max(sizes) <= b
    assert max(sizes) - min(sizes) <= 1
    assert sorted(sizes, reverse=True) == list(sizes)


def test_known_splits() -> None:
    assert split_rows(103, 11) == (11, 11, 11) + (10,) * 7
    assert split_rows(10, 100) == (10,)
    assert split_rows(12, 4) == (4, 4, 4)


# Numbers printed with the theory, so that a change of convention cannot pass unseen.


def test_known_sensitivities_of_rsgd_and_rsgd_ar() -> None:
    facts = problem()
    settings = {"epochs": 20, "batch_size": 4000, "step_size": 0.5}
    plain = branch_sensitivities(RSGD(**settings).schedule(facts), facts)
    averaged = branch_sensitivities(RSGDAR(**settings, average_every=10).schedule(facts), facts)
    assert plain.max() == pytest.approx(8.92e-4, rel=1e-3)
    assert averaged.max() == pytest.approx(1.098e-3, rel=1e-3)
    assert averaged.min() == pytest.approx(9.70e-4, rel=1e-3)


@pytest.mark.together
@pytest.mark.parametrize(("passes", "want"), [(1, 1.98), (5, 3.67), (20, 3.92)])
def test_known_sensitivities_of_bolt_on(passes: int, want: float) -> None:
    """n/b = 50, l2 = 0.01, data smoothness 1: in units of R/b; the printed bound is 2R/(l2 n) = 4."""
    facts = problem(HuberHinge(0.5), l2=0.01, n_rows=5000)
    assert facts.smoothness == 1.01
    mechanism = BoltOn(passes=passes, batch_size=100, rule="strong-decreasing")
    reached = branch_sensitivities(mechanism.schedule(facts), facts).max() * 100
    assert reached == pytest.approx(want, abs=6e-3)
    assert mechanism.paper_sensitivity(facts) * 100 == pytest.approx(4.0)


def test_printed_constants_of_full_gradient_descent() -> None:
    """Five and three halves of what the recurrence gives: 5R(L + l2)/(n l2 L), and 3RT step/n without l2."""
    facts = problem(HuberHinge(0.5), x_norm=2.0, l2=0.5, n_rows=1000)  # R = 2, L = 4.5
    assert OutputGD().paper_sensitivity(facts) == pytest.approx(5 * 2 * (4.5 + 0.5) / (1000 * 0.5 * 4.5))
    flat = dataclasses.replace(facts, l2=0.0)
    assert OutputGD(iterations=7, step_size=0.1).paper_sensitivity(flat) == pytest.approx(
        3 * 2 * 7 * 0.1 / 1000
    )
    for facts_here in (facts, flat):
        mechanism = OutputGD(iterations=7, step_size=default_step(facts_here))
        exact = branch_sensitivities(mechanism.schedule(facts_here), facts_here).max()
        assert exact < mechanism.paper_sensitivity(facts_here)


def test_printed_constants_of_bolt_on() -> None:
    """R = 2, L = 4.5, ten batches of a hundred rows, three passes."""
    facts = problem(HuberHinge(0.5), x_norm=2.0, l2=0.5, n_rows=1000)
    n_half = math.sqrt(1000)
    want = {
        "convex-constant": 2 * 3 * 2 * 0.1 / 100,
        "convex-decreasing": 4 * 2 / (4.5 * 100) * sum(1 / (10 * s + 1 + n_half) for s in range(3)),
        "convex-sqrt": 4 * 2 / (4.5 * 100) * sum(1 / (math.sqrt(10 * s + 1) + n_half) for s in range(3)),
        "strong-constant": 2 * 0.1 * 2 / (100 * (1 - (1 - 0.1 * 0.5) ** 10)),
        "strong-decreasing": 2 * 2 / (0.5 * 1000),
    }
    for rule, value in want.items():
        step = 0.1 if rule.endswith("constant") else None
        mechanism = BoltOn(passes=3, batch_size=100, rule=rule, step_size=step)
        assert mechanism.paper_sensitivity(facts) == pytest.approx(value, rel=1e-12)


CLOSED_FORM_CASES = [
    {"n_rows": 1000, "l2": 0.01},
    {"n_rows": 103, "l2": 0.05, "x_norm": 2.0},
    {"n_rows": 997, "l2": 1e-4, "intercept": 1.0},
    {"n_rows": 500, "l2": 0.3, "neighbours": Neighbours.ADD_REMOVE},
]


@pytest.mark.together
@pytest.mark.cover(2)
@pytest.mark.parametrize("facts", CLOSED_FORM_CASES, ids=str)
@pytest.mark.parametrize("passes", [1, 3, 40])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()], ids=repr)
def test_closed_forms_of_bolt_on_are_never_below(loss: Loss, rule: str, passes: int, facts: dict) -> None:
    mechanism, where = BoltOn(passes=passes, batch_size=10, rule=rule), problem(loss, **facts)
    exact = branch_sensitivities(mechanism.schedule(where), where, rounding=False).max()
    assert exact <= mechanism.paper_sensitivity(where) * (1 + 1e-12)


def test_closed_form_of_the_convex_constant_rule_is_exact_without_l2() -> None:
    facts = problem(l2=0.0, n_rows=1000)
    mechanism = BoltOn(passes=7, batch_size=10, rule="convex-constant", step_size=8.0)  # 2/L
    exact = branch_sensitivities(mechanism.schedule(facts), facts, rounding=False)
    np.testing.assert_allclose(exact, mechanism.paper_sensitivity(facts), rtol=1e-12)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99, 1.0, 1.5, 1.99])
def test_closed_form_of_a_fixed_step_is_the_limit_of_the_recurrence(share: float) -> None:
    facts = problem(n_rows=1000, l2=0.05)
    step = share / facts.smoothness
    limit = closed_form_limit(facts, step)
    reached = [
        branch_sensitivities(OutputGD(iterations=t, step_size=step).schedule(facts), facts, rounding=False)[0]
        for t in (1, 10, 10_000)
    ]
    assert reached[0] < reached[1] < reached[2] * (1 + 1e-12)
    assert reached[2] <= limit * (1 + 1e-12)
    assert reached[2] >= 0.999 * limit
    if step <= 2 / (facts.smoothness + facts.l2):
        assert limit == pytest.approx(facts.gradient_gap / (facts.n_rows * facts.l2))


@pytest.mark.together
@pytest.mark.parametrize("batch_size", [10, 50, 1000])
def test_closed_form_for_batches_of_equal_size(batch_size: int) -> None:
    """A fixed step over m batches: at most step * gap / (b (1 - ratio^m)) after any number of epochs."""
    facts = problem(n_rows=1000, l2=0.05)
    mechanism = BoltOn(passes=300, batch_size=batch_size, rule="convex-constant")
    m, step = 1000 // batch_size, 1 / facts.smoothness
    ratio = facts.contraction(step)
    limit = step * facts.gradient_gap / (batch_size * (1 - ratio**m)) * ratio ** np.arange(m - 1, -1, -1)
    exact = branch_sensitivities(mechanism.schedule(facts), facts, rounding=False)
    assert (exact <= limit * (1 + 1e-12)).all()
    np.testing.assert_allclose(exact, limit, rtol=1e-4)


@pytest.mark.parametrize("mechanism", [AVERAGED, PLAIN, PUBLIC, FULL, BOLT_ON], ids=repr)
def test_sensitivity_grows_with_steps_and_bounds_and_falls_with_rows(mechanism: RSGD) -> None:
    def worst(mechanism: RSGD, **facts: object) -> float:
        where = problem(**facts)
        return float(branch_sensitivities(schedule_of(mechanism, where), where).max())

    here = worst(mechanism)
    assert worst(mechanism, n_rows=80_000) < here
    assert worst(mechanism, neighbours=Neighbours.ADD_REMOVE) == pytest.approx(here / 2, rel=1e-6)
    if isinstance(mechanism, BoltOn):
        return
    longer = {"iterations": 40} if isinstance(mechanism, OutputGD) else {"epochs": 40}
    assert worst(dataclasses.replace(mechanism, **longer)) > here
    fixed = dataclasses.replace(mechanism, step_size=1.0)
    assert worst(dataclasses.replace(mechanism, step_size=2.0)) > worst(fixed)
    assert worst(fixed, x_norm=1.2) > worst(fixed)


def test_output_sensitivity_is_the_textbook_one_plus_its_residual() -> None:
    facts = problem()
    exact = 2 * 1.0 / (40_000 * 1e-3)
    got = Output(tolerance=1e-4).minimiser_sensitivity(facts)
    assert exact < got <= exact * (1 + 1.01e-4)
    assert Output(tolerance=1e-2).minimiser_sensitivity(facts) > got


# Guards.


@pytest.mark.cover(1)
@pytest.mark.parametrize("share", [1.0 + 1e-6, 1.5, 100.0])
@pytest.mark.parametrize(
    "make", [RSGDAR, RSGD, NSGD, OutputGD, lambda **k: BoltOn(rule="convex-constant", **k)]
)
def test_steps_above_two_over_l_are_refused(make: type, share: float) -> None:
    facts = problem()
    allowed = make(step_size=2 / facts.smoothness)
    assert allowed.plan(facts, Budget(1.0, 1e-8)).noise is not None
    with pytest.raises(NotCertified, match="2/L"):
        make(step_size=share * 2 / facts.smoothness).plan(facts, Budget(1.0, 1e-8))


def test_strong_constant_needs_steps_of_at_most_one_over_l() -> None:
    facts = problem()
    with pytest.raises(NotCertified, match="1/L"):
        BoltOn(rule="strong-constant", step_size=1.5 / facts.smoothness).plan(facts, Budget(1.0, 1e-8))


@pytest.mark.together
@pytest.mark.parametrize(
    "steps", [[[0.0]], [[-1.0]], [[math.nan]], [[math.inf]], [[1.0, 1.0]], [[1.0], [1.0]]]
)
def test_broken_schedules_are_refused(steps: list[list[float]]) -> None:
    with pytest.raises(InvalidInput):
        Schedule(batch_sizes=(5,), step_sizes=np.array(steps), averaged=(False,))


# The constants of the problem that everything above rests on.


def test_the_row_norm_holds_the_intercept() -> None:
    assert problem(x_norm=3.0, intercept=0.0).row_norm == 3.0
    assert problem(x_norm=3.0, intercept=4.0).row_norm >= 5.0
    assert problem(x_norm=3.0, intercept=4.0).row_norm == pytest.approx(5.0, rel=1e-15)
    assert problem(x_norm=1.0, intercept=1.0).gradient_bound == pytest.approx(math.sqrt(2), rel=1e-15)
    assert problem(x_norm=1.0, intercept=1.0).row_norm ** 2 >= 2


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_the_row_norm_is_rounded_up(x_norm: float, intercept: float) -> None:
    square = Fraction(problem(x_norm=x_norm, intercept=intercept).row_norm) ** 2
    assert square >= Fraction(x_norm) ** 2 + Fraction(intercept) ** 2


def test_the_contraction_is_that_of_the_eigenvalues() -> None:
    facts = problem(l2=0.1)
    for step in np.linspace(0.01, 2, 50) / facts.smoothness:
        eigenvalues = np.linspace(facts.l2, facts.smoothness, 101)
        assert facts.contraction(step) == pytest.approx(np.abs(1 - step * eigenvalues).max(), rel=1e-12)


def test_the_gradient_gap_follows_the_relation() -> None:
    facts = problem(HuberHinge(), x_norm=2.0, l2=5.0)
    assert facts.gradient_bound == 2.0  # nothing of l2: the regulariser cancels between neighbours
    assert facts.gradient_gap == 4.0
    assert dataclasses.replace(facts, neighbours=Neighbours.ADD_REMOVE).gradient_gap == 2.0


@pytest.mark.together
@pytest.mark.parametrize(
    "wrong",
    [
        {"l2": -1e-9},
        {"l2": math.nan},
        {"x_norm": 0.0},
        {"x_norm": math.inf},
        {"intercept": -1.0},
        {"n_rows": 0},
        {"n_features": 0},
    ],
    ids=str,
)
def test_impossible_problems_are_refused(wrong: dict) -> None:
    with pytest.raises(InvalidInput):
        problem(**wrong)
