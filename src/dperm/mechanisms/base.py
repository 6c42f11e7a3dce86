"""What every private training mechanism is: a plan made before data, then a run of a batch of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from dperm.arithmetic import Arithmetic
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Loss
from dperm.mechanisms.inference import (
    ROWS_BOUNDED,
    Inference,
    WeightNoise,
    not_for_intervals,
    plan_inference,
    release_curvature,
)
from dperm.mechanisms.plan_words import plan_summary
from dperm.mechanisms.standardising import (
    LINEAR,
    Standardisation,
    check_variant,
    moments_stand_out,
    plan_standardisation,
    release_maps,
)
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.rules import AUTO, against_descent_noise, check_settings
from dperm.planning.sampling import FixedSizeSampling, PoissonSampling
from dperm.planning.sensitivity import rounds_alike
from dperm.privacy import Budget, Gate, GaussianProfile, ReleaseRecord
from dperm.privacy.cost import Cost
from dperm.problem import Problem
from dperm.row_map import RowMap
from dperm.typing import Floats
from dperm.unit import Neighbours

if TYPE_CHECKING:
    from dperm.engine import Rows


_NORMS_AT_ONCE = 2**26  # numbers of four bytes, one for each row and model


class Noise(Protocol):
    """What every kind of noise declares: how far the value can move and how widely the noise spreads."""

    @property
    def sensitivity(self) -> float: ...

    @property
    def scale(self) -> float: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """All that is decided without looking at a row, and all that the guarantee rests on.

    ``noise`` is that of each of the ``releases`` at the gate; None for the baselines, which carry no guarantee.
    ``profile`` is the exact price of all of them, standardisation included, where there is one. ``settings`` are the
    values really used, defaults filled in. ``not_certified`` gives the reason why a paper's own noise, kept for
    comparison, does not reach the budget. ``residual`` is the gradient norm that a computed minimiser must show
    before it may be released. ``inference`` is what is released after the weights, where intervals are asked for.
    ``sampling`` is how the rows of a step are drawn, where the price rests on it. A mechanism that fixes more derives a
    plan of its own from this one.
    """

    mechanism: Mechanism
    problem: Problem
    budget: Budget
    settings: Mapping[str, object]
    accountant: str
    noise: Noise | None = None
    releases: int = 1
    profile: GaussianProfile | None = None
    sensitivities: Floats | None = None
    standardisation: Standardisation | None = None
    assumptions: tuple[str, ...] = ()
    not_certified: str | None = None
    residual: float | None = None
    inference: Inference | None = None
    sampling: PoissonSampling | FixedSizeSampling | None = None

    def __str__(self) -> str:
        return plan_summary(self)

    @property
    def trained_by(self) -> Plan:
        """The plan that is really run: this one, unless it was made by a rule that chose another mechanism's."""
        return self

    @property
    def name_used(self) -> str:
        """The mechanism that trains, and in brackets the one that chose it: "objective (auto)"."""
        asked, used = self.mechanism.name, self.trained_by.mechanism.name
        return used if used == asked else f"{used} ({asked})"

    @property
    def noise_on(self) -> str | None:
        """What the noise is added to, in words."""
        return noise_on(self.trained_by.mechanism.family, self.problem.dimension, self.releases)

    @property
    def secret_batches(self) -> tuple[int, ...]:
        """Sizes of the batches among which a secret order hides a row, where the price rests on it."""
        return ()

    @property
    def hidden_noises(self) -> int:
        """How often noise is added that stays hidden, where the price rests on it."""
        return 0

    @property
    def private(self) -> bool:
        return self.noise is not None

    @property
    def allows(self) -> tuple[Arithmetic, ...]:
        """What passes over the rows may compute in; the sensitivities allow for each of these."""
        coarser = rounds_alike(self.problem) if self.trained_by.mechanism.whole_sums() else None
        return (self.problem.arithmetic,) if coarser is None else (self.problem.arithmetic, coarser)

    @property
    def cost(self) -> Cost:
        """What all releases cost, as exactly as is known; unbounded for a baseline and for noise without a proof."""
        if not self.private:
            return Cost.unbounded(f"mechanism {self.mechanism.name!r} is not private.")
        if self.profile is not None:
            return Cost.of_profile(self.profile, self.budget.epsilon)
        known = self.mechanism._cost(self)
        if known is not None:
            return known
        if self.not_certified is not None:
            return Cost.unbounded(self.not_certified)
        return Cost.point(self.budget.epsilon, self.budget.delta)


def noise_on(family: str, coefficients: int, releases: int) -> str | None:
    """What the noise is added to; None where there is none."""
    if releases == 0:
        return None
    return {
        "output": f"the {coefficients} coefficients, once",
        "objective": f"a linear term of the objective, {coefficients} numbers; a little on its minimiser",
        "gradient": f"{releases} steps, each of {coefficients} numbers",
        "statistics": "sums over the rows, once",
    }.get(family, f"{releases} releases")


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, eq=False, kw_only=True)
class Job(Generic[P]):
    """One model to release: a plan, and which column of the rows' mask says what rows it may see."""

    plan: P
    model: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """One model as released: weights (p,), or (p, C) for C outputs, and a record of every release.

    The weights are those of rows seen through ``row_map``. ``certified`` tells that the plan reaches its budget and
    that all passes over the rows were at least as precise as the plan allows for. ``curvature_release``
    has the numbers that intervals are made of (``curvature_from_release``), where the plan has such a release.
    """

    weights: Floats
    records: tuple[ReleaseRecord, ...]
    certified: bool
    row_map: RowMap
    curvature_release: Floats | None = None

    @property
    def record(self) -> ReleaseRecord | None:
        return self.records[-1] if self.records else None


@dataclass(frozen=True)
class Mechanism(ABC):
    """Base of the mechanisms. Subclasses are frozen dataclasses whose fields are the user's settings.

    ``accounting`` is "tight" or the "paper"'s own. ``standardise`` spends a part of the budget on
    the mean and the second moments of the columns and trains on standardised rows (docs/proofs/standardising.md):
    "linear", or True, predicts for rows as they came by X @ coef + intercept, "bounded" for rows mapped and bounded as
    in training. "auto" standardises linearly for classes, where the accounting is tight, delta above 0, no
    intervals are asked for and the moments stand out from their noise; the mechanism ``auto`` everywhere.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    private: ClassVar[bool] = True
    relations: ClassVar[tuple[Neighbours, ...]] = tuple(Neighbours)
    labels: ClassVar[tuple[str, ...]] = ("binary", "real", "classes")
    for_rows_alone: ClassVar[str | None] = None
    """Why it is not proved for persons with several rows; None where it is (docs/proofs/persons.md)."""
    in_order: ClassVar[bool] = False
    """Whether it goes through the rows in one order, secret or not; persons then cannot lie in shards."""
    needs_l2: ClassVar[bool] = False
    released: ClassVar[str] = ""
    """What leaves the gate, in the words of a catalogue."""
    route: ClassVar[str] = ""
    """The certificate's own formulas for it (certificate/routes); without them a verifier plans again."""
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(),)
    """What an audit tries; the first is meant to reach the claim."""
    no_intervals: ClassVar[str | None] = (
        "it releases nothing that intervals could be made of; use 'auto', 'objective', 'dp-gd' or for numbers 'adassp'"
    )
    """Why intervals cannot be had from it, None where they can (docs/proofs/intervals.md)."""
    side_by_side: ClassVar[bool] = True
    """Whether standardised jobs are faster in common passes than one after the other."""

    accounting: str = field(default="tight", kw_only=True)
    standardise: bool | str = field(default=AUTO, kw_only=True)

    def __post_init__(self) -> None:
        for name, value in self.settings.items():
            if isinstance(value, np.generic):  # a float32 would make later sums float32
                object.__setattr__(self, name, value.item())
        if not isinstance(self.accounting, str) or self.accounting not in ("tight", "paper"):
            raise InvalidInput(f"accounting must be 'tight' or 'paper'; got {self.accounting!r}.")
        object.__setattr__(self, "standardise", check_variant(self.standardise))
        check_settings(self)

    def misfit(self, problem: Problem) -> str | None:
        """Why the theorem does not cover this problem, or None when it does."""
        if problem.neighbours not in self.relations:
            return f"it is not proved for the {problem.neighbours.value} relation"
        if problem.loss.labels not in self.labels:
            return f"it does not cover the {problem.loss.name} loss"
        if problem.many_rows and self.for_rows_alone is not None:
            return (
                f"persons with several rows are not covered: {self.for_rows_alone}. Set max_rows_per_person to 1, or "
                "use another mechanism"
            )
        if self.needs_l2 and problem.l2 == 0:
            return "it needs l2 > 0"
        return None

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        """The l2 that ``l2="auto"`` stands for: a public rule of problem and budget, whatever l2 the problem has."""
        return against_descent_noise(problem, budget)

    def whole_sums(self) -> bool:
        """Whether it only needs sums over all rows at public weights, and allows for coarse ones."""
        return False

    def regularised(self, problem: Problem, budget: Budget, *, inference: bool = False) -> Problem:
        """The problem with the l2 of the rule."""
        return replace(problem, l2=self.l2_rule(problem, budget))

    def misfit_of_intervals(self, problem: Problem) -> str | None:
        """Why no intervals can be had for a problem that fits, or None when they can."""
        if self.no_intervals is not None:
            return self.no_intervals
        return not_for_intervals(problem, self.accounting, self.standardise not in (False, AUTO))

    def variant(self, problem: Problem, budget: Budget, *, inference: bool = False) -> bool | str:
        """How rows are standardised for a problem and a budget: False, or the name of the map."""
        if self.standardise != AUTO:
            return self.standardise
        tight = self.accounting == "tight" and budget.delta > 0 and not inference
        return LINEAR if tight and self.gains_by_standardising(problem, budget) else False

    def trained_loss(self, problem: Problem, budget: Budget) -> Loss:
        """The loss to train with in place of the one that was asked for, by public facts; given that loss, itself."""
        return problem.loss

    def as_planned(self, plan: Plan) -> Self:
        """This mechanism with all that depends on its accounting as the plan has it, to price one training by others.

        It plans for the problem of the plan, which has the loss that is trained with.
        """
        variant: Any = plan.settings["standardise"]
        return replace(self, standardise=variant)

    def gains_by_standardising(self, problem: Problem, budget: Budget) -> bool:
        """What ``standardise="auto"`` stands for; found on public tables."""
        return problem.loss.labels != "real" and moments_stand_out(problem, budget)

    def plan(self, problem: Problem, budget: Budget, *, inference: bool = False) -> Plan:
        """Check the theorem's conditions and fix schedule, sensitivity and noise. No data.

        With ``inference`` a share of the budget buys the release that intervals are made of.
        """
        reason = self.misfit(problem)
        if reason is not None:
            raise Unsupported(f"mechanism {self.name!r} cannot be used here: {reason}.")
        if inference:
            return self._plan_inferring(problem, budget)
        problem = replace(problem, loss=self.trained_loss(problem, budget))
        variant = self.variant(problem, budget)
        standardisation = plan_standardisation(problem, budget, variant) if isinstance(variant, str) else None
        plan = self._plan(problem, budget, 0.0 if standardisation is None else standardisation.mu)
        settings = {**plan.settings, "standardise": variant}
        return replace(plan, standardisation=standardisation, settings=settings)

    def run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Outcome]:
        """Train and release every job, each by the plan that this very mechanism made for these rows.

        Jobs of one loss run together, apart from those on standardised rows.
        """
        for job in jobs:
            rows.check_matches(job.plan.problem, job.model)
            if job.plan.mechanism != self:
                raise InvalidInput("the jobs of one run must have plans of this mechanism.")
        kinds = [(job.plan.problem.loss, job.plan.standardisation is not None) for job in jobs]
        outcomes: dict[int, Outcome] = {}
        for kind in dict.fromkeys(kinds):
            mine = [k for k, other in enumerate(kinds) if other == kind]
            outcomes.update(zip(mine, self._run_of_a_kind([jobs[k] for k in mine], rows, gate), strict=True))
        return [outcomes[k] for k in range(len(jobs))]

    def _run_of_a_kind(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Outcome]:
        rows.check_labels(jobs[0].plan.problem.loss)
        used: set[Arithmetic] = set()
        serving, noted = gate.for_jobs(len(jobs)), rows.noting(used)
        curvatures: list[Floats | None] = [None] * len(jobs)
        if jobs[0].plan.standardisation is not None:
            trained = self._run_all_standardised(jobs, noted, serving)
        else:
            weights, kept = self._run_keeping(jobs, noted, serving)
            trained = [(w, job.plan.problem.row_map) for w, job in zip(weights, jobs, strict=True)]
            curvatures = release_curvature(
                [(job.plan.inference, job.model) for job in jobs], weights, kept, noted, serving
            )
        return [
            Outcome(
                weights=w,
                records=serving.records(k),
                certified=certified(job.plan, used),
                row_map=row_map,
                curvature_release=curvatures[k],
            )
            for k, (job, (w, row_map)) in enumerate(zip(jobs, trained, strict=True))
        ]

    def _run_all_standardised(
        self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate
    ) -> list[tuple[Floats, RowMap]]:
        """As many jobs at once as there is memory for: a number for each row and model."""
        at_once = max(1, _NORMS_AT_ONCE // rows.n_rows) if self.side_by_side else 1
        batches = [range(len(jobs))[first : first + at_once] for first in range(0, len(jobs), at_once)]
        parts = [self._run_side_by_side([jobs[k] for k in some], rows, gate.part(some)) for some in batches]
        return [one for part in parts for one in part]

    def _run_standardised(self, job: Job[Any], rows: Rows, gate: Gate) -> tuple[Floats, RowMap]:
        """Release mean and moments and train on the rows seen through the map that they make."""
        standardisation = job.plan.standardisation
        assert standardisation is not None
        mine = rows.select([job.model])
        row_map = standardisation.row_map(mine, gate)
        return self._run_mapped(job, mine, row_map, gate), row_map

    def _run_mapped(self, job: Job[Any], mine: Rows, row_map: RowMap, gate: Gate) -> Floats:
        (weights,) = self._run([replace(job, model=0)], mine.mapped(row_map), gate)
        return weights

    def _run_side_by_side(
        self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate
    ) -> list[tuple[Floats, RowMap]]:
        """The same for several jobs, in common passes where the rows can be seen through all their maps at once."""
        if len(jobs) == 1:
            return [self._run_standardised(jobs[0], rows, gate)]
        mine = rows.select([job.model for job in jobs])
        maps = release_maps([job.plan.standardisation for job in jobs], mine, gate)
        together = mine.mapped_per_model(maps)
        if together is not None:
            weights = self._run([replace(job, model=k) for k, job in enumerate(jobs)], together, gate)
        else:
            weights = [
                self._run_mapped(job, mine.select([k]), row_map, gate.part([k]))
                for k, (job, row_map) in enumerate(zip(jobs, maps, strict=True))
            ]
        return list(zip(weights, maps, strict=True))

    def _plan_inferring(self, problem: Problem, budget: Budget) -> Plan:
        """The plan with a release for intervals in the same budget."""
        self._check_intervals(problem)
        inference = plan_inference(problem, budget)
        return with_intervals(self._plan(problem, budget, inference.mu), inference)

    def _check_intervals(self, problem: Problem) -> None:
        reason = self.misfit_of_intervals(problem)
        if reason is not None:
            raise Unsupported(f"mechanism {self.name!r} cannot be used with inference=True: {reason}.")

    def _run_keeping(
        self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate
    ) -> tuple[list[Floats], list[Floats]]:
        """``_run``, and what it released on the way that intervals need again."""
        weights = self._run(jobs, rows, gate)
        return weights, [np.empty(0)] * len(weights)

    @abstractmethod
    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        """The plan for a problem that fits, with a Gaussian release of parameter ``mu_spent`` in the same budget."""

    @abstractmethod
    def _run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Floats]:
        """The weights of each job, for jobs that match the rows. The gate serves them in their order.

        Jobs that differ in their budget only may share a training.
        """

    def _cost(self, plan: Any) -> Cost | None:
        """The price of a plan that has no profile, where more is known than the budget that it meets."""
        return None

    def weight_noise(
        self, problem: Problem, used: Mapping[str, Any], noise_scale: float
    ) -> WeightNoise | None:
        """How far the noise spreads what was released, by the settings really ``used``; None where rows must tell."""
        return None

    @property
    def settings(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def with_intervals(plan: P, inference: Inference) -> P:
    """The plan with a release after the weights that its profile has already paid for."""
    return replace(plan, inference=inference, assumptions=(*plan.assumptions, ROWS_BOUNDED))


def certified(plan: Plan, used: set[Arithmetic]) -> bool:
    """Whether what was run keeps the guarantee of its plan; the one place that decides it.

    A run that noted no pass over its rows is not believed.
    """
    kept = bool(used) and all(any(map(arithmetic.within, plan.allows)) for arithmetic in used)
    return plan.private and plan.not_certified is None and kept


def tolerant(jobs: Sequence[Job[Any]]) -> bool:
    """Whether all these plans allow for passes that are coarser than precise ones."""
    return all(len(job.plan.allows) > 1 for job in jobs)


def alike(keys: Sequence[Any]) -> list[list[int]]:
    """Positions in groups of equal keys, groups in the order of their keys: what can run side by side."""
    by_key = sorted(range(len(keys)), key=keys.__getitem__)
    return [list(group) for _, group in groupby(by_key, key=keys.__getitem__)]


def weights_shape(n_columns: int, plans: Sequence[Plan]) -> tuple[int, ...]:
    """Shape of the weights of a batch: (p, K), or (p, K, C) for a loss with C outputs."""
    outputs = plans[0].problem.loss.outputs
    return (n_columns, len(plans)) if outputs == 1 else (n_columns, len(plans), outputs)
