"""Jobs that run side by side come to what each comes to alone, with the same noise."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from job_gate import JobGate

from dperm.engine import Table, open_rows
from dperm.losses import Logistic
from dperm.mechanisms import Job, Mechanism, Outcome, resolve
from dperm.mechanisms import base as mechanisms_base
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.row_map import RowMap
from dperm.unit import Neighbours
from dperm_audit.gates import SilentGate

N, P = 500, 30
EPSILONS = (30.0, 8.0, 30.0)
SETTINGS = {
    "dp-agd": {"splits": 12},
    "dp-gd": {"steps": 12},
    "dp-cd": {"passes": 2},
    "frank-wolfe": {"steps": 8},
    "objective": {},
    "output": {},
    "output-gd": {"iterations": 6},
    "rsgd-ar": {"epochs": 2, "batch_size": 50},
    "noisy-sgd": {"epochs": 2, "batch_size": 50, "secret_order": True},
    "ssp": {},
}


def rows_of() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = 0.05 + 0.2 * rng.normal(size=(N, P)) * rng.uniform(0.2, 1.5, size=P)
    y = np.where(X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=N) > 0, 1.0, -1.0)
    return X, y, rng.random((N, 2)) < 0.8


def made(name: str, **settings: object) -> Mechanism:
    mechanism = resolve(name)
    fields = {**SETTINGS[name], **settings}
    return replace(mechanism, **{key: value for key, value in fields.items() if hasattr(mechanism, key)})


def jobs_of(mechanism: Mechanism, mask: np.ndarray, epsilons=EPSILONS, **facts: object) -> list[Job]:
    """Two on the same rows with other budgets, one on other rows."""
    jobs = []
    for epsilon, model in zip(epsilons, (0, 0, 1), strict=True):
        known = {"l2": 0.05, "x_norm": 1.0, "intercept": 0.3, "loss": Logistic(), **facts}
        problem = Problem(n_rows=int(mask[:, model].sum()), n_features=P, **known)  # type: ignore[arg-type]
        jobs.append(Job(plan=mechanism.plan(problem, Budget(epsilon, 1e-6)), model=model))
    return jobs


def table(jobs: list[Job], kind: type[Table] = Table) -> Table:
    X, y, mask = rows_of()
    problem = jobs[0].plan.problem
    return kind(X, y, row_map=problem.row_map, n_rows=N, mask=mask)


def compare(mechanism: Mechanism, jobs: list[Job], rtol: float, kind: type[Table] = Table) -> list[Outcome]:
    together = mechanism.run(jobs, table(jobs, kind), JobGate())
    for k, (job, found) in enumerate(zip(jobs, together, strict=True)):
        (alone,) = mechanism.run([job], table(jobs, kind), JobGate(k))
        size = float(np.linalg.norm(alone.weights))
        np.testing.assert_allclose(found.weights, alone.weights, rtol=0, atol=rtol * size)
        assert [record.name for record in found.records] == [record.name for record in alone.records]
        assert found.certified == alone.certified
        assert size > 0
    assert np.linalg.norm(together[0].weights - together[1].weights) > 1e-3  # noise of their own
    return together


@pytest.mark.parametrize("name", ["dp-agd", "dp-cd"])
def test_lock_step_and_walk_change_nothing(name: str) -> None:
    mechanism = made(name)
    outcomes = compare(mechanism, jobs_of(mechanism, rows_of()[2]), 1e-6)
    assert all(outcome.certified for outcome in outcomes)


class Watched(Table):
    """Tells whether it was asked for several maps at once, and got them."""

    seen: ClassVar[list[bool]] = []

    def mapped_per_model(self, maps):  # type: ignore[no-untyped-def]
        found = super().mapped_per_model(maps)
        self.seen.append(found is not None)
        return found


@pytest.mark.cover(1)
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("name", SETTINGS)
def test_standardised_jobs_side_by_side(name: str, relation: Neighbours) -> None:
    Watched.seen.clear()
    mechanism = made(name, standardise=True)
    outcomes = compare(mechanism, jobs_of(mechanism, rows_of()[2], neighbours=relation), 2e-5, Watched)
    assert Watched.seen == ([True, True] if mechanism.side_by_side else [])
    assert outcomes[0].row_map != outcomes[1].row_map  # the same rows, other noise


class NoCommonPasses(Table):
    def mapped_per_model(self, maps):  # type: ignore[no-untyped-def]
        return None


@pytest.mark.parametrize("name", ["dp-gd", "objective"])
def test_rows_without_common_passes_are_taken_one_after_the_other(name: str) -> None:
    mechanism = made(name, standardise=True)
    compare(mechanism, jobs_of(mechanism, rows_of()[2]), 1e-9, NoCommonPasses)


def test_many_jobs_run_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is for two models at once: the third has a group of its own."""
    mechanism = made("dp-gd", standardise=True)
    jobs = jobs_of(mechanism, rows_of()[2])
    whole = mechanism.run(jobs, table(jobs), JobGate())
    monkeypatch.setattr(mechanisms_base, "_NORMS_AT_ONCE", 2 * N)
    Watched.seen.clear()
    parts = mechanism.run(jobs, table(jobs, Watched), JobGate())
    assert Watched.seen == [True, True]
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-4, atol=1e-6)


def test_models_without_a_mask_share_all_rows() -> None:
    mechanism = made("dp-gd", standardise=True)
    X, y, _ = rows_of()
    problem = Problem(loss=Logistic(), l2=0.05, x_norm=1.0, n_rows=N, n_features=P, intercept=0.3)
    jobs = [Job(plan=mechanism.plan(problem, Budget(epsilon, 1e-6))) for epsilon in EPSILONS]
    together = mechanism.run(jobs, open_rows(X, y, problem), JobGate())
    for k, (job, found) in enumerate(zip(jobs, together, strict=True)):
        (alone,) = mechanism.run([job], open_rows(X, y, problem), JobGate(k))
        np.testing.assert_allclose(found.weights, alone.weights, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("standardise", [False, True])
def test_a_course_that_ends_early_leaves_the_others_alone(standardise: bool) -> None:
    """Purses of other sizes: the jobs of a run do not make the same number of releases."""
    mechanism = made("dp-agd", splits=None, standardise=standardise)
    jobs = jobs_of(mechanism, rows_of()[2], (1.0, 8.0, 0.3))
    outcomes = mechanism.run(jobs, table(jobs), SilentGate())
    assert len({len(outcome.records) for outcome in outcomes}) > 1
    compare(mechanism, jobs, 1e-6)


def test_the_map_of_a_job_is_made_of_its_own_rows() -> None:
    mechanism = made("dp-gd", standardise=True)
    X, _, mask = rows_of()
    jobs = jobs_of(mechanism, mask)
    for job, outcome in zip(jobs, mechanism.run(jobs, table(jobs), SilentGate()), strict=True):
        own = RowMap(x_norm=1.0).features(X[mask[:, job.model]])
        assert outcome.row_map.centre is not None
        np.testing.assert_allclose(outcome.row_map.centre, own.mean(axis=0), rtol=1e-9)
