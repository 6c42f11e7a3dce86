"""A record belongs to the job whose numbers left with it: in batches, in parts of batches and for standardised jobs."""

from dataclasses import replace

import numpy as np
import pytest
from every_private import NOT_STANDARDISED, PRIVATE, each_case, planned, rows_for

from dperm.engine import open_rows
from dperm.mechanisms import DPGD, RSGDAR, Auto, FrankWolfe, Job, Mechanism, NoisySGD, Outcome, Plan
from dperm.privacy import Budget, Gate, GaussianNoise, ReleaseRecord, SeededEntropy
from dperm.privacy.noisy_min import NoisyMin
from dperm_audit.gates import KeepingGate, SilentGate

# Those of a kind are not next to each other.
BUDGETS = [Budget(epsilon, 1e-6) for epsilon in (0.5, 0.15, 0.2, 0.5, 0.15)]
RELEASE_THEIR_WEIGHTS = {
    "rsgd-ar", "rsgd", "nsgd", "output-gd", "bolt-on", "output", "objective", "objective-kst", "amp", "noisy-sgd",
}  # fmt: skip


def alone(plan: Plan) -> Outcome:
    (outcome,) = plan.mechanism.run(
        [Job(plan=plan)], open_rows(*rows_for(plan.problem), plan.problem), SilentGate()
    )
    return outcome


def same_kind(left: ReleaseRecord, right: ReleaseRecord) -> bool:
    """A release of one name and size at one price; the noise itself may follow the weights of a run."""
    prices = [record.padded_sensitivity / record.noise_scale for record in (left, right)]
    return (left.name, left.dimension) == (right.name, right.dimension) and bool(
        np.isclose(*prices, rtol=1e-6)
    )


def check_together(plans: list[Plan]) -> list[Outcome]:
    facts = plans[0].problem
    jobs = [Job(plan=plan) for plan in plans]
    together = plans[0].mechanism.run(jobs, open_rows(*rows_for(facts), facts), SilentGate())
    for plan, outcome in zip(plans, together, strict=True):
        mine = alone(plan).records
        assert len(mine) == len(outcome.records) > 0
        assert all(map(same_kind, mine, outcome.records))
    assert not any(map(same_kind, together[0].records, together[1].records))
    return together


@pytest.mark.together
@each_case
def test_jobs_of_a_batch_have_the_records_that_they_have_alone(name: str, standardise: bool) -> None:
    usual = planned(name, standardise)
    check_together([usual.mechanism.plan(usual.problem, budget) for budget in BUDGETS])


@pytest.mark.parametrize(
    "mechanism", [DPGD(), FrankWolfe(), NoisySGD(batch_size=90), RSGDAR(), Auto()], ids=lambda m: m.name
)
def test_jobs_that_run_in_parts_keep_their_records(mechanism: Mechanism) -> None:
    """Where the budget decides how many steps there are, or which loss is trained with, a batch falls into parts."""
    facts = replace(planned("dp-gd").problem, n_rows=800, n_features=24, l2=1e-3)
    budgets = [Budget(epsilon, 1e-6) for epsilon in (50.0, 0.5, 8.0, 50.0, 0.5)]
    if isinstance(mechanism, Auto):
        facts = replace(facts, l2=0.05)
    for standardise in (False, True):
        chosen = replace(mechanism, standardise=standardise)
        plans = [chosen.plan(facts, budget) for budget in budgets]
        check_together(plans)
        parts = {(plan.problem.loss, plan.settings.get("epochs"), plan.releases) for plan in plans}
        assert len(parts) > 1


@pytest.mark.parametrize("name", [name for name in PRIVATE if name in RELEASE_THEIR_WEIGHTS])
def test_the_last_record_of_a_job_is_that_of_its_weights(name: str) -> None:
    usual = planned(name)
    facts, plans = usual.problem, [usual.mechanism.plan(usual.problem, budget) for budget in BUDGETS]
    gate = KeepingGate(SeededEntropy(0))
    jobs = [Job(plan=plan) for plan in plans]
    for outcome in plans[0].mechanism.run(jobs, open_rows(*rows_for(facts), facts), gate):
        assert all(gate.kept[id(record)].record is record for record in outcome.records)
        np.testing.assert_array_equal(gate.kept[id(outcome.record)].noisy, outcome.weights)


@pytest.mark.together
@pytest.mark.parametrize("name", [name for name in PRIVATE if name not in NOT_STANDARDISED])
def test_a_standardised_job_has_the_mean_of_its_own_rows_and_its_own_map(name: str) -> None:
    """Two models on other rows of one table, in turned order."""
    counts = (15, 19)
    plans = [planned(name, True, n_rows=count) for count in counts]
    X, y = rows_for(planned(name).problem)
    mask = np.zeros((len(X), 2), bool)
    mask[:15, 0] = mask[5:, 1] = True
    gate = SilentGate()
    jobs = [Job(plan=plans[k], model=k) for k in (1, 0)]
    outcomes = plans[0].mechanism.run(jobs, open_rows(X, y, plans[0].problem, mask), gate)
    for k, outcome in zip((1, 0), outcomes, strict=True):
        own = X[mask[:, k]]
        bounded = own * np.minimum(1, 1.5 / np.linalg.norm(own, axis=1))[:, None]
        assert outcome.row_map.centre is not None
        np.testing.assert_allclose(outcome.row_map.centre, bounded.mean(axis=0), rtol=1e-6)
        first, second, *others = outcome.records
        names = ["mean of the rows", "second moments of the columns"]
        assert [first.name, second.name] == names
        standardisation = plans[k].standardisation
        assert standardisation is not None
        assert (first.noise_scale, second.noise_scale) == tuple(
            noise.scale for noise in standardisation.noises
        )
        assert not {record.name for record in others} & set(names)
        assert len(others) >= 1
    assert outcomes[0].row_map != outcomes[1].row_map


def test_a_job_that_is_not_standardised_has_the_map_of_its_problem() -> None:
    plan = planned("output-gd")
    assert alone(plan).row_map == plan.problem.row_map


# The gate by itself.

NOISES = [GaussianNoise(1.0, scale, 2) for scale in (1.0, 2.0, 3.0)]


def scales(gate: Gate, job: int) -> list[float]:
    return [record.noise_scale for record in gate.records(job)]


def test_a_part_writes_into_the_jobs_that_it_was_given() -> None:
    gate = SilentGate().for_jobs(3)
    part = gate.part([2, 0])
    part.release(np.zeros((2, 2)), [NOISES[0], NOISES[1]], "part")
    gate.release(np.zeros((2, 3)), NOISES, "whole")
    gate.part([1]).release_one(np.zeros(2), NOISES[2], "one")
    part.part([1]).choose(np.zeros(4), NoisyMin(sensitivity=1.0, epsilon=1.0), "choice")
    assert [scales(gate, job)[:2] for job in range(3)] == [[2.0, 1.0], [2.0, 3.0], [1.0, 3.0]]
    assert [[record.name for record in gate.records(job)] for job in range(3)] == [
        ["part", "whole", "choice"],
        ["whole", "one"],
        ["part", "whole"],
    ]
    assert part.records(0) == gate.records(2)


def test_fresh_jobs_know_nothing_of_earlier_ones() -> None:
    gate = SilentGate()
    gate.release_one(np.zeros(2), NOISES[0], "before")
    fresh = gate.for_jobs(2)
    fresh.release(np.zeros((2, 2)), NOISES[:2], "after")
    assert [record.name for record in gate.records()] == ["before"]
    assert [[record.name for record in fresh.records(job)] for job in range(2)] == [["after"], ["after"]]


def test_what_stays_hidden_is_not_written_down_and_what_is_drawn_is() -> None:
    gate = Gate.seeded(0).for_jobs(2)
    hidden = gate.hide(np.zeros((2, 2)), NOISES[:2])
    drawn = gate.draw(NOISES[:2], "drawn")
    assert np.abs(hidden).min() > 0
    assert np.abs(drawn).min() > 0
    assert [[record.name for record in gate.records(job)] for job in range(2)] == [["drawn"], ["drawn"]]


def test_the_same_mechanism_is_asked_twice_and_records_do_not_pile_up() -> None:
    plan = planned("dp-gd")
    rows, gate = open_rows(*rows_for(plan.problem), plan.problem), Gate.seeded(0)
    counts = [len(plan.mechanism.run([Job(plan=plan)], rows, gate)[0].records) for _ in range(2)]
    assert counts == [plan.releases] * 2
    assert gate.records() == ()
