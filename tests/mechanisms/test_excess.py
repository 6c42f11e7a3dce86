"""The public rule behind settings that are left open: what it predicts, and what it chooses."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from dperm.losses import ClippedSquared, HuberHinge, Logistic, Loss, Softmax
from dperm.mechanisms import NSGD, RSGD, RSGDAR, BoltOn, OutputGD
from dperm.mechanisms.output.family import DescentMechanism
from dperm.mechanisms.output.output_gd import ITERATIONS
from dperm.mechanisms.output.rsgd import EPOCHS, MOST_UPDATES
from dperm.planning.excess import (
    COLUMNS_POWER,
    FRACTIONS,
    HALVINGS,
    LARGEST_CURVATURE,
    LEAST_BATCH,
    MOST_BATCHES,
    MOST_COLUMNS,
    NEARLY,
    SIGNAL,
    Schedules,
)
from dperm.planning.schedule import Schedule, branch_sensitivities, split_rows
from dperm.problem import Problem
from dperm.unit import Neighbours

LOSSES = [Logistic(), HuberHinge(), ClippedSquared(), Softmax(3)]
DESCENTS: list[DescentMechanism] = [RSGDAR(), RSGD(), NSGD(), OutputGD(), BoltOn()]
each_descent = pytest.mark.parametrize("mechanism", DESCENTS, ids=lambda one: one.name)
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def problem(loss: Loss | None = None, n_rows: int = 40_000, **facts: object) -> Problem:
    facts = {"l2": 1e-4, "x_norm": 1.0, "n_features": 20, "intercept": 0.5, **facts}
    return Problem(loss=loss or Logistic(), n_rows=n_rows, **facts)  # type: ignore[arg-type]


def schedule(step: float, epochs: int, every: int, sizes: tuple[int, ...], *, decay: bool) -> Schedule:
    """Written out for every epoch, as the candidates are described."""
    since = [epoch % every + 1 for epoch in range(epochs)]
    steps = [[step / (count if decay else 1)] * len(sizes) for count in since]
    return Schedule(
        batch_sizes=sizes, step_sizes=np.array(steps), averaged=tuple(count == every for count in since)
    )


SHAPES = [(1, 2), (5, 6), (20, 21), (5, 1), (7, 3), (20, 10)]  # epochs, and how often averages are taken


# What is predicted.


@pytest.mark.together
@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("l2", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("batches", [1, 4, 50])
@pytest.mark.parametrize("decay", [True, False])
def test_the_distance_is_the_sensitivity_for_equal_batches(
    decay: bool, batches: int, l2: float, share: float, relation: Neighbours
) -> None:
    for loss in LOSSES[:2]:
        facts = problem(loss, 1000 * batches, l2=l2, neighbours=relation)
        tried = [(share * 2 / facts.smoothness, *shape) for shape in SHAPES]
        _, apart = Schedules.of(tried, batches, decay=decay)._outcome(facts)
        exact = [
            branch_sensitivities(schedule(*one, (1000,) * batches, decay=decay), facts, rounding=False).max()
            for one in tried
        ]
        np.testing.assert_allclose(apart, exact, rtol=1e-9)


@each_descent
@pytest.mark.parametrize("n_rows", [700, 10_301, 123_457])
def test_the_distance_is_nearly_the_sensitivity_for_what_is_chosen(
    mechanism: DescentMechanism, n_rows: int
) -> None:
    """Batches differ by a row."""
    facts = problem(n_rows=n_rows)
    for mu in (0.01, 1.0):
        chosen = mechanism.settled(facts, mu).schedule(facts)
        epochs = len(chosen.averaged)
        every = chosen.averaged.index(True) + 1 if any(chosen.averaged) else epochs + 1
        one = (float(chosen.step_sizes[0, 0]), epochs, every)
        decay = mechanism.name not in ("output-gd", "bolt-on")
        _, apart = Schedules.of([one], len(chosen.batch_sizes), decay=decay)._outcome(facts)
        assert apart[0] == pytest.approx(branch_sensitivities(chosen, facts, rounding=False).max(), rel=0.02)


def share_reached(curvature: float, l2: float, where: Schedule) -> float:
    """Descent on (curvature (w - 1)^2 + l2 w^2) / 2, one update at a time."""
    w, iterates = 0.0, []
    for steps, averaged in zip(where.step_sizes, where.averaged, strict=True):
        for step in steps:
            w -= step * (curvature * (w - 1) + l2 * w)
            iterates.append(w)
        if averaged:
            w, iterates = float(np.mean(iterates)), []
    return w


def curvatures(facts: Problem) -> list[float]:
    largest = LARGEST_CURVATURE * facts.loss.lipschitz * facts.row_norm**2
    return [largest / 2**k for k in range(HALVINGS)]


@pytest.mark.together
@each_loss
@pytest.mark.parametrize("l2", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("batches", [1, 20])
@pytest.mark.parametrize("decay", [True, False])
def test_the_share_reached_is_that_of_descent_on_a_parabola(
    decay: bool, batches: int, l2: float, loss: Loss
) -> None:
    facts = problem(loss, l2=l2)
    tried = [(0.7 / facts.smoothness, *shape) for shape in SHAPES]
    reached, _ = Schedules.of(tried, batches, decay=decay)._outcome(facts)
    want = [
        [share_reached(h, l2, schedule(*one, (1,) * batches, decay=decay)) for h in curvatures(facts)]
        for one in tried
    ]
    np.testing.assert_allclose(reached, want, rtol=1e-9, atol=1e-12)


@pytest.mark.together
@pytest.mark.parametrize("l2", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("mu", [0.01, 0.1, 1.0])
def test_full_descent_takes_the_least_predicted_excess(mu: float, l2: float) -> None:
    facts = problem(n_rows=5000, l2=l2)

    def excess(step: float, iterations: int) -> float:
        where = OutputGD(step_size=step, iterations=iterations).schedule(facts)
        missed = [(1 - share_reached(h, l2, where)) ** 2 for h in curvatures(facts)]
        noise = branch_sensitivities(where, facts, rounding=False)[0] / mu
        signal = SIGNAL["binary"] * facts.n_columns**COLUMNS_POWER
        return float(signal * np.mean(missed) + (noise * facts.row_norm) ** 2)

    steps = FRACTIONS * 2 / facts.smoothness
    by_iterations = {count: [excess(step, count) for step in steps] for count in ITERATIONS}
    chosen = OutputGD().settled(facts, mu)
    assert chosen.iterations in by_iterations
    least = min(min(values) for values in by_iterations.values())
    assert excess(chosen.step_size, chosen.iterations) <= NEARLY * least * (1 + 1e-9)
    soonest = min(count for count, values in by_iterations.items() if min(values) <= NEARLY * least)
    assert chosen.iterations == soonest
    for count, values in by_iterations.items():
        given = OutputGD(iterations=count).settled(facts, mu)
        assert given.step_size == pytest.approx(steps[int(np.argmin(values))])


# What is chosen.


@pytest.mark.together
@each_descent
@each_loss
@pytest.mark.parametrize("n_rows", [300, 40_000, 1_000_000])
@pytest.mark.parametrize("l2", [0.0, 1e-4])
def test_more_budget_never_leads_to_a_shorter_path(
    l2: float, n_rows: int, loss: Loss, mechanism: DescentMechanism
) -> None:
    """As long as l2 times the path is small: a minimiser is no further away for a longer path."""
    facts = problem(loss, n_rows, l2=l2)
    paths = np.array(
        [mechanism.settled(facts, mu).schedule(facts).step_sizes.sum() for mu in np.geomspace(1e-3, 30, 16)]
    )
    assert (np.diff(paths) >= -1e-9 * paths[1:]).all()
    assert paths[-1] > paths[0]


GIVEN: list[tuple[type[DescentMechanism], dict[str, object]]] = [
    *((kind, {"epochs": 3}) for kind in (RSGDAR, RSGD, NSGD)),
    *((kind, {"batch_size": 77}) for kind in (RSGDAR, RSGD, NSGD, BoltOn)),
    *((kind, {"step_size": 0.123}) for kind in (RSGDAR, RSGD, NSGD, OutputGD, BoltOn)),
    (RSGDAR, {"average_every": 3}),
    (RSGDAR, {"average_every": 50, "epochs": 7}),
    (OutputGD, {"iterations": 33}),
    (BoltOn, {"passes": 3}),
    (BoltOn, {"rule": "convex-sqrt"}),
    (BoltOn, {"rule": "strong-constant", "step_size": 0.05, "passes": 4}),
    (RSGDAR, {"epochs": 9, "batch_size": 123, "step_size": 0.5, "average_every": 4}),
]


@pytest.mark.together
@pytest.mark.parametrize(("kind", "given"), GIVEN, ids=lambda one: getattr(one, "name", str(one)))
def test_what_is_given_is_kept_and_the_rest_is_filled(
    kind: type[DescentMechanism], given: dict[str, object]
) -> None:
    facts = problem(n_rows=4000)
    for mu in (0.01, 1.0):
        settled = kind(**given).settled(facts, mu)
        assert {name: settled.settings[name] for name in given} == given
        open_still = {name for name, value in settled.settings.items() if value is None}
        assert open_still <= ({"step_size"} if kind is BoltOn and "rule" in given else set())
        assert settled.settled(facts, 7.0) == settled
        assert branch_sensitivities(settled.schedule(facts), facts).max() > 0


@each_descent
def test_the_choice_depends_on_public_facts_alone(mechanism: DescentMechanism) -> None:
    assert list(inspect.signature(mechanism.settled).parameters) == ["problem", "mu"]
    little, much = (mechanism.settled(problem(), mu) for mu in (1e-3, 1.0))
    assert little == mechanism.settled(problem(), 1e-3)
    assert much == mechanism.settled(problem(), 1.0)
    assert little != much
    assert mechanism.settled(problem(n_rows=400), 0.01) != mechanism.settled(problem(n_rows=40_000), 0.01)


@pytest.mark.together
@each_descent
@each_loss
@pytest.mark.parametrize("unit", [10.0, 0.01])
def test_the_choice_follows_the_units_of_the_features(
    unit: float, loss: Loss, mechanism: DescentMechanism
) -> None:
    for l2, mu in ((0.0, 0.1), (1e-4, 1.0), (1e-2, 0.01)):
        here, there = problem(loss, l2=l2), problem(loss, l2=l2 * unit**2, x_norm=unit, intercept=0.5 * unit)
        one, other = mechanism.settled(here, mu), mechanism.settled(there, mu)
        assert other.settings["step_size"] == pytest.approx(one.settings["step_size"] / unit**2, rel=1e-12)
        assert replace(other, step_size=None) == replace(one, step_size=None)  # type: ignore[call-arg]


@pytest.mark.together
@each_descent
@each_loss
def test_steps_are_never_longer_than_a_sensitivity_allows(loss: Loss, mechanism: DescentMechanism) -> None:
    for l2 in (0.0, 1e-3, 10.0):
        facts = problem(loss, 3000, l2=l2)
        for mu in (1e-3, 1e3):
            mechanism.settled(facts, mu).schedule(facts).check_steps(facts)


@pytest.mark.together
@pytest.mark.parametrize("mechanism", [RSGDAR(), RSGD(), NSGD(), BoltOn()], ids=lambda one: one.name)
@pytest.mark.parametrize("n_rows", [1, 499, 500, 501, 40_001, 10**7])
def test_batches_are_neither_tiny_nor_very_many(n_rows: int, mechanism: DescentMechanism) -> None:
    facts = problem(n_rows=n_rows)
    chosen = mechanism.settled(facts, 0.5)
    sizes = chosen.schedule(facts).batch_sizes
    assert len(sizes) <= MOST_BATCHES
    assert chosen.settings["batch_size"] >= LEAST_BATCH
    assert len(sizes) == 1 or min(sizes) >= LEAST_BATCH / 2


@each_descent
def test_more_columns_lead_to_longer_paths_up_to_a_limit(mechanism: DescentMechanism) -> None:
    def path(n_columns: int) -> float:
        facts = problem(n_features=n_columns - 1)
        return float(mechanism.settled(facts, 0.5).schedule(facts).step_sizes.sum())

    assert path(2) < path(MOST_COLUMNS)
    assert path(MOST_COLUMNS) == path(100 * MOST_COLUMNS)


@pytest.mark.parametrize("mechanism", [RSGDAR(), RSGD(), NSGD()], ids=lambda one: one.name)
def test_small_batches_take_few_epochs(mechanism: DescentMechanism) -> None:
    facts = problem()
    for batch_size in (5, 50, 500, 5000, 40_000):
        chosen = replace(mechanism, batch_size=batch_size).settled(facts, 30.0)  # type: ignore[call-arg]
        updates = chosen.settings["epochs"] * len(split_rows(facts.n_rows, batch_size))  # type: ignore[operator]
        assert updates <= MOST_UPDATES or chosen.settings["epochs"] == EPOCHS[0]
