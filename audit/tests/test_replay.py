"""Every registered mechanism is replayed on neighbours: to be registered is enough to be tested."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dperm.errors import NotCertified
from dperm.losses import ClippedSquared, Linear, Logistic, Softmax, Weighted, example_losses
from dperm.mechanisms import (
    DPCD,
    DPGD,
    DPSGD,
    NSGD,
    PSGD,
    RSGD,
    FrankWolfe,
    Job,
    Mechanism,
    NoisySGD,
    Objective,
    Outcome,
    OutputGD,
    Plan,
    mechanism_names,
    registry,
    resolve,
)
from dperm.mechanisms.standardising import MEAN, MOMENTS
from dperm.planning.pricing import gaussian_noise, mu_left, price_of
from dperm.planning.sensitivity import sum_error
from dperm.privacy import Budget, Gate, GaussianNoise, add_noise
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.coupling import names_without
from dperm_audit.neighbours import BEYOND, Pair, cancelling_pair, extreme_labels, pairs, table_of
from dperm_audit.price_check import has_recomputation
from dperm_audit.replay import replay, replay_all, require_replay
from dperm_audit.replay_cases import replay_cases
from dperm_audit.watch import Watch, WatchedEntropy

BUDGET = Budget(0.2, 1e-6)
FACTS = {"l2": 0.3, "x_norm": 1.5, "n_rows": 24, "n_features": 3, "intercept": 0.5}
LINEAR = Problem(loss=Linear(), **FACTS)
REMOVING = replace(LINEAR, neighbours=Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("share", [8, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", mechanism_names())
def test_registered_mechanisms_keep_what_they_declare(name: str, share: int) -> None:
    reports = list(replay_all([name], share=share))  # `dperm audit` replays all of them
    assert [str(report) for report in reports if not report.passed] == []
    if not resolve(name).private:
        return
    # Not a vacuous pass: somewhere the value before the noise moved by a good part of what was declared.
    own = [step for report in reports for step in report.events if step.name not in (MEAN, MOMENTS)]
    assert max(step.distance / step.declared for step in own) > 0.5
    assert all(report.events for report in reports)


def has_weights(problem: Problem) -> bool:
    return isinstance(problem.loss, Weighted)


@pytest.mark.parametrize("name", mechanism_names())
def test_every_declared_label_and_relation_is_replayed(name: str) -> None:
    mechanism = resolve(name)
    plans = list(replay_cases(mechanism))
    if (
        mechanism.private and name != "objective-pure"
    ):  # no certified sampler; pure epsilon leaves nothing for moments
        assert any(map(has_recomputation, plans))
        assert any(plan.standardisation is not None for plan in plans)
    if "clip" in mechanism.settings:
        assert {plan.mechanism.clip for plan in plans} == {"auto", 0.4, None}
    problems = [plan.problem for plan in plans if plan.inference is None]
    fitting = {
        (type(loss), relation)
        for loss in example_losses()
        for relation in Neighbours
        if mechanism.misfit(Problem(loss=loss, neighbours=relation, **FACTS)) is None
    }
    if name == "auto":  # which trains with a loss of its rule in place of the logistic one
        fitting = {(loss, relation) for loss, relation in fitting if loss is not Logistic}
    weighted = {
        (type(problem.loss.unweighted), problem.neighbours) for problem in problems if has_weights(problem)
    }
    plain = [problem for problem in problems if not has_weights(problem)]
    assert {(type(problem.loss), problem.neighbours) for problem in plain} == fitting
    assert bool(weighted) == (name not in ("ssp", "adassp"))  # which refuse them
    assert {problem.neighbours for problem in problems} == set(mechanism.relations)
    inferred = {plan.problem.neighbours for plan in plans if plan.inference is not None}
    assert inferred == (set(mechanism.relations) if mechanism.no_intervals is None else set())


# Registration is enough.


@dataclass(frozen=True)
class Toy(OutputGD):
    """Rounds the released weights towards the exact ones, which nobody would notice in a figure."""

    name: ClassVar[str] = "toy"

    def _run(self, jobs: Sequence[Job], rows, gate: Gate) -> list[np.ndarray]:
        exact = self._train([jobs[0].plan], rows.select([0]), gate)[:, 0]
        return [np.where(exact > 0, np.abs(found), found) for found in super()._run(jobs, rows, gate)]


def test_a_broken_mechanism_is_caught_once_it_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._MECHANISMS, "toy", Toy)
    assert "toy" in mechanism_names()
    with pytest.raises(NotCertified, match=r"toy, .* loss.*outcome: the same releases led to weights"):
        require_replay(["toy"], share=4)


def test_a_healthy_mechanism_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require_replay(["output-gd"], share=4) == len(list(replay_all(["output-gd"], share=4))) > 30


def test_a_mechanism_that_fits_nothing_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shy(OutputGD):
        name: ClassVar[str] = "shy"

        def misfit(self, problem: Problem) -> str:
            return "it fits nothing"

    monkeypatch.setitem(registry._MECHANISMS, "shy", Shy)
    with pytest.raises(NotCertified, match="fits no problem"):
        list(replay_all(["shy"]))


@dataclass(frozen=True)
class FromOutside(Mechanism):
    """Knows nothing of this library's families: one noisy sum of gradients, one step."""

    name: ClassVar[str] = "from outside"
    family: ClassVar[str] = "own"
    title: ClassVar[str] = "one noisy step"
    source: ClassVar[str] = "this test"
    labels: ClassVar[tuple[str, ...]] = ("binary",)

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        noise = gaussian_noise(
            problem.gradient_gap + sum_error(problem, 0.0), problem.dimension, mu_left(budget, mu_spent)
        )
        return Plan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings=self.settings,
            accountant="exact Gaussian profile",
            noise=noise,
            profile=price_of([noise], mu_spent),
        )

    def _run(self, jobs: Sequence[Job], rows, gate: Gate) -> list[np.ndarray]:
        engine = rows.select([job.model for job in jobs]).open(precise=True)
        sums = engine.gradient_sum(jobs[0].plan.problem.loss, np.zeros((engine.n_columns, len(jobs))))
        noisy = gate.release(sums, [job.plan.noise for job in jobs], "one step")
        return [-noisy[:, k] / job.plan.problem.n_rows for k, job in enumerate(jobs)]


def test_a_mechanism_of_no_known_family_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._MECHANISMS, "from outside", FromOutside)
    reports = list(replay_all(["from outside"]))
    assert [str(report) for report in reports if not report.passed] == []
    assert {step.name for report in reports for step in report.events} == {"one step", MEAN, MOMENTS}
    assert max(report.largest_share for report in reports) > 0.99


def test_a_refusal_is_a_finding() -> None:
    class Picky(OutputGD):
        name: ClassVar[str] = "picky"

        def _run(self, jobs: Sequence[Job], rows, gate: Gate) -> list[np.ndarray]:
            if np.abs(rows._X).max() > 100:
                raise NotCertified("these rows are not to my taste.")
            return super()._run(jobs, rows, gate)

    refused = {
        pair.name: [finding.check for finding in replay(Picky(), LINEAR, BUDGET, pair).findings]
        for pair in pairs(LINEAR)
    }
    assert {name: ["refused"] if "beyond" in name else [] for name in refused} == refused


# The watch.


def watched(mechanism: Mechanism, problem: Problem, pair: Pair) -> Watch:
    plan = mechanism.plan(problem, BUDGET)
    watch = Watch(WatchedEntropy(5))
    watch.run(mechanism, plan, table_of(problem, pair.left))
    return watch


def plain(mechanism: Mechanism, problem: Problem, pair: Pair) -> Outcome:
    plan: Plan = mechanism.plan(problem, BUDGET)
    return mechanism.run([Job(plan=plan)], table_of(problem, pair.left), Gate.seeded(5))[0]


WATCHED: list[Mechanism] = [
    RSGD(epochs=2, batch_size=7),
    DPSGD(steps=3, rate=0.5),
    PSGD(steps=3, batch_size=5),
    DPCD(passes=2),
    FrankWolfe(steps=3),
    NoisySGD(epochs=2, batch_size=7),
    Objective(),
]


@pytest.mark.parametrize("mechanism", WATCHED, ids=lambda mechanism: mechanism.name)
def test_to_be_watched_changes_nothing(mechanism: Mechanism) -> None:
    pair = pairs(LINEAR)[0]
    watch = watched(mechanism, LINEAR, pair)
    alone = plain(mechanism, LINEAR, pair)
    np.testing.assert_array_equal(watch.outcome.weights, alone.weights)
    assert watch.outcome.records == alone.records


@pytest.mark.together
@pytest.mark.parametrize(
    ("mechanism", "kinds", "drawn"),
    [
        (NSGD(epochs=2, batch_size=7), ["release"], [False]),
        (RSGD(epochs=2, batch_size=7), ["release"], [True]),
        (DPGD(steps=2), ["release"] * 2, [False] * 2),
        (DPSGD(steps=3, rate=0.5), ["release"] * 3, [True] * 3),
        (PSGD(steps=2, batch_size=5), ["release"] * 2, [True] * 2),
        (FrankWolfe(steps=2), ["choice"] * 2, [False] * 2),
        (NoisySGD(epochs=1, batch_size=12), ["hidden", "release"], [True, False]),
        (Objective(), ["release"] * 2, [False] * 2),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_meeting_of_rows_and_randomness_is_seen(
    mechanism: Mechanism, kinds: list[str], drawn: list[bool]
) -> None:
    watch = watched(replace(mechanism, standardise=False), LINEAR, pairs(LINEAR)[0])
    assert [event.kind for event in watch.events] == kinds
    assert [event.rows_drawn for event in watch.events] == drawn
    assert all(event.given for event in watch.events)
    assert not watch.source.free
    assert not watch.draws_anew()


def test_batches_of_all_rows_are_no_draw() -> None:
    """Nothing is secret about them, so what they release is priced in full."""
    everyone = {"steps": 2, "standardise": False}
    for mechanism in (DPSGD(rate=1.0, **everyone), PSGD(batch_size=24, **everyone)):
        watch = watched(mechanism, LINEAR, pairs(LINEAR)[0])
        assert [event.rows_drawn for event in watch.events] == [False, False]


@pytest.mark.together
@pytest.mark.parametrize("row", [0, 11, 23])
def test_what_was_drawn_for_rows_goes_with_them(row: int) -> None:
    """An order and both kinds of batches, in the table and in the one that lacks a row; columns stay as they are."""
    names = names_without(24, row)
    whole, lacking = Watch(WatchedEntropy(3)), Watch(WatchedEntropy(3), names=names)
    np.testing.assert_array_equal(names[whole.order().permutation(24)], lacking.order().permutation(24))
    for kind, size in (("fixed_size", 6), ("poisson", 0.4)):
        here, there = (getattr(watch, kind)(size).positions(24) for watch in (whole, lacking))
        assert set(names[here]) == set(there)
    np.testing.assert_array_equal(whole.permutation(4), lacking.permutation(4))
    assert whole.source.draws == lacking.source.draws
    assert whole.ordered == [4]


def test_draws_beside_the_gate_are_free() -> None:
    watch = Watch(WatchedEntropy(0))
    watch.permutation(3)
    watch.integer()
    watch.release_one(np.zeros(2), GaussianNoise(1.0, 1.0, 2), "any")
    assert watch.source.free == []
    for draw in (
        lambda source: source.words(1),
        lambda source: source.permutation(3),
        lambda source: source.subset(5, 2),
        lambda source: source.generator.normal(size=2),
        lambda source: source.spawn(1),
        lambda source: add_noise(np.zeros(2), GaussianNoise(1.0, 1.0, 2), source),
    ):
        source = WatchedEntropy(0)
        draw(source)
        assert source.free == source.draws != []


def test_jobs_are_kept_apart_whatever_the_gate_writes_down() -> None:
    watch = Watch(WatchedEntropy(0))
    jobs = watch.for_jobs(3)
    small, large = (GaussianNoise(1.0, scale, 1) for scale in (1.0, 2.0))
    jobs.release(np.zeros((1, 3)), [small, large, small], "all")
    jobs.part([2, 0]).hide(np.zeros((1, 2)), [large, small])
    jobs.part([1]).release_one(np.zeros(1), large, "one")
    assert [(p.job, p.noise.scale) for p in watch.events] == [
        *((0, 1.0), (1, 2.0), (2, 1.0)),
        *((2, 2.0), (0, 1.0)),
        (1, 2.0),
    ]


def test_rows_that_are_drawn_once_for_all_jobs_are_drawn_for_each() -> None:
    watch = Watch(WatchedEntropy(0))
    jobs = watch.for_jobs(2)
    jobs.poisson(0.5).positions(8)
    for _ in range(2):
        jobs.release(np.zeros((1, 2)), [GaussianNoise(1.0, 1.0, 1)] * 2, "any")
    assert [event.rows_drawn for event in watch.events] == [True, True, False, False]


# The neighbours.


@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("loss", example_losses(), ids=lambda loss: loss.name)
def test_pairs_are_neighbours_and_use_the_bounds_to_the_full(loss, relation: Neighbours) -> None:
    problem = Problem(loss=loss, neighbours=relation, **FACTS)
    rows = set()
    for pair in pairs(problem):
        (X, y), (other, labels) = pair.left, pair.right
        assert len(X) == (1 if pair.name == "only row" else problem.n_rows)
        if relation is Neighbours.ADD_REMOVE:
            np.testing.assert_array_equal(np.delete(X, pair.row, axis=0), other)
            np.testing.assert_array_equal(np.delete(y, pair.row), labels)
        else:
            different = (other != X).any(axis=1) | (labels != y)
            assert list(np.flatnonzero(different)) == [pair.row]
        table_of(problem, pair.left).check_labels(loss)
        assert np.linalg.norm(X, axis=1).max() >= problem.x_norm * (1 - 1e-12)
        rows.add(pair.row)
    assert rows == {0, 12, 23}
    names = [pair.name for pair in pairs(problem)]
    assert len(set(names)) == len(names)
    longest = max(np.linalg.norm(pair.left[0], axis=1).max() for pair in pairs(problem))
    assert longest == pytest.approx(BEYOND * problem.x_norm)


def test_labels_are_as_far_apart_as_the_loss_allows() -> None:
    assert extreme_labels(LINEAR) == (-1, 1, 1)
    assert extreme_labels(replace(LINEAR, loss=Softmax(4))) == (0, 1, 3)
    low, high, _ = extreme_labels(replace(LINEAR, loss=ClippedSquared(0.7)))
    assert low == -high < -ClippedSquared(0.7).lipschitz


def test_rows_cancel_but_for_the_surplus() -> None:
    for surplus in (0, 2, 4):
        X, y = cancelling_pair(LINEAR, 0, surplus).left
        assert (y @ X)[0] == pytest.approx(surplus * LINEAR.x_norm)


def test_the_linear_loss_attains_what_the_logistic_loss_cannot() -> None:
    """A clipped one comes close: at a margin of zero its slope is nearly at its bound."""
    shares = {}
    for loss, clip in ((Linear(), None), (Logistic(), None), (Logistic(), "auto")):
        problem = replace(LINEAR, loss=loss)
        mechanism = OutputGD(iterations=4, step_size=0.5, standardise=False, clip=clip)
        trained = mechanism.plan(problem, BUDGET).problem.loss
        reports = [replay(mechanism, problem, BUDGET, pair) for pair in pairs(problem)]
        assert all(report.passed for report in reports)
        shares[trained.name] = max(report.largest_share for report in reports)
    assert shares["linear"] == pytest.approx(1, rel=1e-6)
    assert shares["logistic"] < 0.7
    assert 0.9 < shares["soft-clipped-logistic"] < 1


@pytest.mark.together
@pytest.mark.parametrize("row", [0, 12, 23])
def test_a_missing_row_is_covered_by_the_secret_order(row: int) -> None:
    """Without the coupling every later row would come to lie elsewhere; the distance would be that of many rows."""
    mechanism = RSGD(epochs=2, batch_size=6, step_size=0.5, standardise=False)
    report = replay(mechanism, REMOVING, BUDGET, cancelling_pair(REMOVING, row))
    assert report.passed
    assert report.largest_share == pytest.approx(1, rel=1e-5)
