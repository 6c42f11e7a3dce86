"""What every private training mechanism is: a plan made before data, then a run of a batch of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, Unsupported
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, GaussianNoise, GaussianProfile, ReleaseRecord
from dperm.privacy.entropy import Entropy
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Table

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """All that is decided without looking at a row, and all that the guarantee rests on.

    ``noise`` and ``profile`` are None for the baselines, which carry no guarantee. ``settings`` are the
    values really used, defaults filled in. ``detail`` is the mechanism's own business (its schedule).
    """

    mechanism: Mechanism
    problem: Problem
    budget: Budget
    settings: Mapping[str, object]
    accountant: str
    noise: GaussianNoise | None = None
    profile: GaussianProfile | None = None
    sensitivities: Vector | None = None
    assumptions: tuple[str, ...] = ()
    detail: Any = None

    @property
    def private(self) -> bool:
        return self.noise is not None


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """One model to release: a plan, and which column of the table's mask says what rows it may see."""

    plan: Plan
    model: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """One model as released. ``certified`` tells that the arithmetic was the one the plan accounts for."""

    weights: Vector
    record: ReleaseRecord | None
    certified: bool


@dataclass(frozen=True)
class Mechanism(ABC):
    """Base of the mechanisms. Subclasses are frozen dataclasses whose fields are the user's settings."""

    name: ClassVar[str]
    family: ClassVar[str] = "output"
    title: ClassVar[str]
    source: ClassVar[str]
    private: ClassVar[bool] = True
    relations: ClassVar[tuple[Neighbours, ...]] = tuple(Neighbours)
    needs_l2: ClassVar[bool] = False

    accounting: str = field(default="tight", kw_only=True)

    def __post_init__(self) -> None:
        if self.accounting not in ("tight", "paper"):
            raise InvalidInput(f"accounting must be 'tight' or 'paper'; got {self.accounting!r}.")

    def misfit(self, problem: Problem) -> str | None:
        """Why the theorem does not cover this problem, or None when it does."""
        if problem.neighbours not in self.relations:
            return f"it is not proved for the {problem.neighbours.value} relation"
        if self.needs_l2 and problem.l2 == 0:
            return "it needs l2 > 0"
        if problem.loss.outputs > 1:
            return "it is written for one margin per row"
        return None

    def check_fits(self, problem: Problem) -> None:
        reason = self.misfit(problem)
        if reason is not None:
            raise Unsupported(f"mechanism {self.name!r} cannot be used here: {reason}.")

    def plan(self, problem: Problem, budget: Budget) -> Plan:
        """Check the theorem's conditions and fix schedule, sensitivity and noise. No data."""
        self.check_fits(problem)
        return self._plan(problem, budget)

    def run(self, jobs: Sequence[Job], table: Table, entropy: Entropy) -> list[Outcome]:
        """Train and release every job, each by the plan that this very mechanism made for this table."""
        for job in jobs:
            table.check_matches(job.plan.problem, job.model)
            if job.plan.mechanism != self or job.plan.problem.loss != jobs[0].plan.problem.loss:
                raise InvalidInput("the jobs of one run must have plans of this mechanism, for one loss.")
        return self._run(jobs, table, entropy)

    @abstractmethod
    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        """The plan, for a problem that fits."""

    @abstractmethod
    def _run(self, jobs: Sequence[Job], table: Table, entropy: Entropy) -> list[Outcome]:
        """The run, for jobs that match the table. Jobs that differ in their budget only may share a training."""

    @property
    def settings(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInput(f"{name} must be a whole number of at least 1; got {value!r}.")


def check_positive(name: str, value: object) -> None:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (number and np.isfinite(value) and value > 0):  # type: ignore[call-overload, operator]
        raise InvalidInput(f"{name} must be a positive finite number; got {value!r}.")
