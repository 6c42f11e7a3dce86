"""Every registered mechanism is replayed on neighbours: to be registered is enough to be tested."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from dperm.privacy.release import pass_gate

from dperm.audit.neighbours import BEYOND, Pair, cancelling_pair, extreme_labels, pairs, table_of
from dperm.audit.replay import replay, replay_all, require_replay
from dperm.audit.replay_cases import LOSSES, replay_cases
from dperm.audit.watch import Watch, WatchedEntropy
from dperm.errors import NotCertified
from dperm.losses import Linear, Logistic, Softmax
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
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, GaussianNoise, SeededEntropy
from dperm.privacy.gamma_norm import GammaNormNoise
from dperm.problem import Problem

BUDGET = Budget(0.2, 1e-6)
FACTS = {"l2": 0.3, "x_norm": 1.5, "n_rows": 24, "n_features": 3, "intercept": 0.5}
LINEAR = Problem(loss=Linear(), **FACTS)
REMOVING = replace(LINEAR, neighbours=Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("name", mechanism_names())
def test_registered_mechanisms_keep_what_they_declare(name: str) -> None:
    reports = list(replay_all([name]))
    assert [str(report) for report in reports if not report.passed] == []
    if not resolve(name).private:
        return
    # Not a vacuous pass: somewhere the value before the noise moved by a good part of what was declared.
    own = [step for report in reports for step in report.passages if step.name != "mean of the rows"]
    assert max(step.distance / step.declared for step in own) > 0.5
    assert all(report.passages for report in reports)


@pytest.mark.parametrize("name", mechanism_names())
def test_every_declared_label_and_relation_is_replayed(name: str) -> None:
    mechanism = resolve(name)
    problems = [plan.problem for plan in replay_cases(mechanism)]
    fitting = [
        (loss, relation)
        for loss in LOSSES
        for relation in Neighbours
        if mechanism.misfit(Problem(loss=loss, neighbours=relation, **FACTS)) is None
    ]
    assert {(problem.loss, problem.neighbours) for problem in problems} == set(fitting)
    assert {problem.neighbours for problem in problems} == set(mechanism.relations)


# Registration is enough.


@dataclass(frozen=True)
class Toy(OutputGD):
    """Rounds the released weights towards the exact ones, which nobody would notice in a figure."""

    name: ClassVar[str] = "toy"

    def _run(self, jobs: Sequence[Job], table, entropy) -> list[Outcome]:
        exact = self._train([jobs[0].plan], table, entropy)[0]
        outcomes = super()._run(jobs, table, entropy)
        return [
            replace(found, weights=np.where(exact[:, 0] > 0, np.abs(found.weights), found.weights))
            for found in outcomes
        ]


def test_a_broken_mechanism_is_caught_once_it_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._MECHANISMS, "toy", Toy)
    assert "toy" in mechanism_names()
    with pytest.raises(NotCertified, match=r"toy, linear loss.*outcome: the same releases led to weights"):
        require_replay(["toy"])


def test_a_healthy_mechanism_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require_replay(["output-gd"]) == len(list(replay_all(["output-gd"]))) > 30


def test_a_mechanism_that_fits_nothing_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shy(OutputGD):
        name: ClassVar[str] = "shy"

        def misfit(self, problem: Problem) -> str:
            return "it fits nothing"

    monkeypatch.setitem(registry._MECHANISMS, "shy", Shy)
    with pytest.raises(NotCertified, match="fits no problem"):
        list(replay_all(["shy"]))


class FromOutside(OutputGD):
    """Calls the gate by a name of its own module."""

    name: ClassVar[str] = "from outside"

    def _run(self, jobs: Sequence[Job], table, entropy) -> list[Outcome]:
        points = self._train([jobs[0].plan], table, entropy)[0]
        noise = jobs[0].plan.noise
        assert isinstance(noise, GaussianNoise)
        weights, record = pass_gate(points[:, 0], noise, entropy, "weights")
        return [Outcome(weights=weights, records=(record,), certified=True)]


def test_the_gate_is_watched_in_other_packages_too() -> None:
    for pair in pairs(LINEAR):
        report = replay(FromOutside(iterations=3), LINEAR, BUDGET, pair)
        assert report.passed, str(report)
        assert [step.name for step in report.passages] == ["weights"]


def test_a_refusal_is_a_finding() -> None:
    class Picky(OutputGD):
        name: ClassVar[str] = "picky"

        def _run(self, jobs: Sequence[Job], table, entropy) -> list[Outcome]:
            if np.abs(table._X).max() > 100:
                raise NotCertified("these rows are not to my taste.")
            return super()._run(jobs, table, entropy)

    refused = {
        pair.name: [finding.check for finding in replay(Picky(), LINEAR, BUDGET, pair).findings]
        for pair in pairs(LINEAR)
    }
    assert {name: ["refused"] if "beyond" in name else [] for name in refused} == refused


# The watch.


def watched(mechanism: Mechanism, problem: Problem, pair: Pair) -> Watch:
    plan = mechanism.plan(problem, BUDGET)
    watch = Watch(WatchedEntropy(5, problem.n_rows))
    watch.run(mechanism, plan, table_of(problem, pair.left))
    return watch


def plain(mechanism: Mechanism, problem: Problem, pair: Pair) -> Outcome:
    plan: Plan = mechanism.plan(problem, BUDGET)
    return mechanism.run([Job(plan=plan)], table_of(problem, pair.left), SeededEntropy(5))[0]


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
    assert watch.outcome is not None
    alone = plain(mechanism, LINEAR, pair)
    np.testing.assert_array_equal(watch.outcome.weights, alone.weights)
    assert watch.outcome.records == tuple(
        replace(record, entropy=watch.entropy.name) for record in alone.records
    )


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
    watch = watched(mechanism, LINEAR, pairs(LINEAR)[0])
    assert [passage.kind for passage in watch.passages] == kinds
    assert [passage.rows_drawn for passage in watch.passages] == drawn
    assert all(passage.given for passage in watch.passages)


def gates() -> list[object]:
    places = {"release": "pass_gate", "noisy_min": "noisy_min", "noise": "add_noise"}
    found: list[object] = [
        getattr(sys.modules[f"dperm.privacy.{part}"], function) for part, function in places.items()
    ]
    return [*found, GammaNormNoise.add, pass_gate]


def test_the_gate_is_put_back_after_an_error() -> None:
    before = gates()

    class Failing(OutputGD):
        def _run(self, jobs: Sequence[Job], table, entropy) -> list[Outcome]:
            assert all(now is not then for now, then in zip(gates(), before, strict=True))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        watched(Failing(), LINEAR, pairs(LINEAR)[0])
    assert gates() == before


@pytest.mark.parametrize("row", [0, 11, 23])
def test_what_was_drawn_for_rows_goes_with_them(row: int) -> None:
    """An order, a sample and one key for each row, in the table and in the one that lacks a row."""
    names = np.array([i - (i > row) for i in range(24)])
    names[row] = 23
    whole, lacking = WatchedEntropy(3, 24), WatchedEntropy(3, 24, names)
    np.testing.assert_array_equal(names[whole.permutation(24)], lacking.permutation(24))
    np.testing.assert_array_equal(names[whole.generator.choice(24, 6)], lacking.generator.choice(24, 6))
    np.testing.assert_array_equal(
        whole.generator.integers(0, 99, size=24), lacking.generator.integers(0, 99, size=24)[names]
    )
    np.testing.assert_array_equal(whole.permutation(4), lacking.permutation(4))  # columns stay as they are
    assert whole.draws == lacking.draws


# The neighbours.


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
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
    low, high, _ = extreme_labels(replace(LINEAR, loss=LOSSES[3]))
    assert low == -high < -LOSSES[3].lipschitz


def test_rows_cancel_but_for_the_surplus() -> None:
    for surplus in (0, 2, 4):
        X, y = cancelling_pair(LINEAR, 0, surplus).left
        assert (y @ X)[0] == pytest.approx(surplus * LINEAR.x_norm)


def test_the_linear_loss_attains_what_the_logistic_loss_cannot() -> None:
    shares = {}
    for loss in (Linear(), Logistic()):
        problem = replace(LINEAR, loss=loss)
        mechanism = OutputGD(iterations=4, step_size=0.5)
        shares[loss.name] = max(replay(mechanism, problem, BUDGET, p).largest_share for p in pairs(problem))
    assert shares["linear"] == pytest.approx(1, rel=1e-6)
    assert shares["logistic"] < 0.7


@pytest.mark.parametrize("row", [0, 12, 23])
def test_a_missing_row_is_covered_by_the_secret_order(row: int) -> None:
    """Without the coupling every later row would come to lie elsewhere; the distance would be that of many rows."""
    mechanism = RSGD(epochs=2, batch_size=6, step_size=0.5)
    report = replay(mechanism, REMOVING, BUDGET, cancelling_pair(REMOVING, row))
    assert report.passed
    assert report.largest_share == pytest.approx(1, rel=1e-5)
