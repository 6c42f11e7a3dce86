"""One batch: all models of one configuration in a group of repeats, trained in as few passes as can be, and judged."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.engine import Rows as PrivateRows
from dperm.engine import engine_for
from dperm.errors import DpermError, InvalidInput
from dperm.experiments import splits
from dperm.experiments.judging import Model, Scores, judge
from dperm.experiments.results import Skipped
from dperm.experiments.spec import Configuration, Spec, canonical_json, digest_rows
from dperm.losses import Loss, resolve_loss
from dperm.mechanisms import Job, Mechanism, Plan
from dperm.mechanisms.baselines import Majority
from dperm.mechanisms.gradient.family import GradientMechanism
from dperm.mechanisms.output.family import DescentMechanism
from dperm.planning.rules import AUTO, L2
from dperm.privacy import Budget, Gate, SeededEntropy, SystemEntropy
from dperm.problem import INTERCEPT_SCALE, Problem
from dperm.row_map import RowMap
from dperm.unit import Neighbours

Entropy = SystemEntropy | SeededEntropy
PlanGrid = dict[float, dict[int, Plan]]
"""Plans by epsilon and number of training rows."""


def loss_of(spec: Spec) -> Loss:
    loss = resolve_loss(spec.loss)
    return loss if spec.y_range is not None else loss.for_classes(spec.n_classes)


def problems_of(spec: Spec, held_out: NDArray[np.bool_] | None) -> list[Problem]:
    """The task for each number of training rows that occurs: folds differ by one row at most.

    With a declared capacity there is one, for as many rows as that. l2 is 0 where a mechanism's rule sets it.
    """
    n, folds = spec.n_rows, spec.folds
    counts = {n - n // folds, n - -(-n // folds)} if held_out is None else {n - int(held_out.sum())}
    if spec.max_rows is not None:
        if max(counts) > spec.max_rows:
            raise InvalidInput("a model has more training rows than max_rows; declare a larger number.")
        counts = {spec.max_rows}
    return [
        Problem.for_table(
            n_rows,
            spec.n_features,
            loss=loss_of(spec),
            l2=spec.l2 if isinstance(spec.l2, float) else 0.0,
            x_norm=spec.x_norm,
            neighbours=Neighbours.parse(spec.neighbours),
        )
        for n_rows in sorted(counts)
    ]


def budgets_of(spec: Spec) -> list[Budget]:
    return [Budget(epsilon, spec.delta) for epsilon in spec.epsilons]


def plan_grid(
    configuration: Configuration,
    mechanism: Mechanism,
    problems: Sequence[Problem],
    budgets: Sequence[Budget],
    l2: L2,
) -> tuple[PlanGrid, list[Skipped]]:
    """The plans that the mechanism does not refuse, and the refusals."""
    grid: PlanGrid = {}
    skipped = []
    for budget in budgets:
        try:
            tasks = (
                problems if l2 != AUTO else [mechanism.regularised(problem, budget) for problem in problems]
            )
            grid[budget.epsilon] = {task.n_rows: mechanism.plan(task, budget) for task in tasks}
        except DpermError as error:
            skipped.append(skip(configuration, budget.epsilon, error))
    return grid, skipped


def skip(configuration: Configuration, epsilon: float, error: DpermError) -> Skipped:
    return Skipped(
        mechanism=configuration.mechanism,
        accounting=configuration.accounting,
        epsilon=epsilon,
        reason=str(error),
        label=configuration.label,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """The rows, dense or sparse, their encoded targets and, where told, the test part and whose rows they are.

    ``persons`` numbers the persons by their first rows. The units of the study are then persons, and no longer rows.
    """

    X: Any
    targets: NDArray[np.float64]
    held_out: NDArray[np.bool_] | None = None
    persons: NDArray[np.int64] | None = None

    @cached_property
    def digest(self) -> str:
        return digest_rows(self.X, self.targets, self.held_out, self.persons)

    def count(self, some: NDArray[np.bool_]) -> int:
        """How many units there are among some rows."""
        return int(some.sum()) if self.persons is None else len(np.unique(self.persons[some]))

    @cached_property
    def n_units(self) -> int:
        return self.count(np.ones(len(self.targets), bool))

    @cached_property
    def shares(self) -> NDArray[np.float64] | None:
        """What each row counts of its person; None where rows are on their own."""
        return None if self.persons is None else 1 / np.bincount(self.persons)[self.persons]

    def first(self, n: int) -> "Rows":
        """A few rows, every other one held out where a part is."""
        n = min(n, self.X.shape[0])
        return Rows(
            X=self.X[:n],
            targets=self.targets[:n],
            held_out=None if self.held_out is None else np.arange(n) % 2 == 1,
            persons=None if self.persons is None else np.arange(n),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """The models of a group of repeats: one column of the mask for each repeat and fold."""

    spec: Spec
    rows: Rows
    repeats: range

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        if self.rows.held_out is None:
            units = splits.training_mask(self.spec.dataset, self.repeats, self.spec.n_rows, self.spec.folds)
            return units if self.rows.persons is None else units[self.rows.persons]
        return np.repeat(~self.rows.held_out[:, None], len(self.repeats), axis=1)

    @cached_property
    def n_training(self) -> list[int]:
        counts: list[int] = self.mask.sum(axis=0).tolist()
        return counts

    @cached_property
    def n_declared(self) -> list[int]:
        """The public number of rows of each model: what it trains on, or the declared capacity."""
        return [self.spec.max_rows or count for count in self.n_training]

    @cached_property
    def table(self) -> PrivateRows:
        return self.repeated(1)

    def repeated(self, times: int) -> PrivateRows:
        """The rows with all their models several times over, each filled up with empty rows to its capacity."""
        missing = np.subtract(self.n_declared, self.n_training)
        empty = np.arange(missing.max())[:, None] < missing
        mask = np.tile(np.vstack([self.mask, empty]), times)
        return engine_for(self.rows.X).of(
            self.rows.X,
            self.rows.targets,
            row_map=RowMap(x_norm=self.spec.x_norm, intercept=INTERCEPT_SCALE * self.spec.x_norm),
            n_rows=len(mask),
            mask=mask,
        )

    def judge(self, models: Sequence[Model]) -> list[Scores]:
        """What the models of this batch are worth, in the order of the mask."""
        spec = self.spec
        unit = None if spec.y_range is None else (spec.y_range[1] - spec.y_range[0]) / 2
        return judge(models, self.rows.X, self.rows.targets, self.mask, loss_of(spec), unit, self.rows.shares)


def sharing(configuration: Configuration, columns: int) -> list[list[int]]:
    """The candidates in groups that train side by side: those that differ in their step size alone.

    The runs of these families take step sizes from the schedule in the plan. ``columns`` is the width of one
    candidate's batch; groups are not wider than batches are.
    """
    groups: dict[str, list[int]] = {}
    for k, mechanism in enumerate(configuration.candidates):
        ours = type(mechanism).__module__.partition(".")[0] == "dperm"
        settings = mechanism.settings
        plain = mechanism.standardise is False or (mechanism.standardise, mechanism.accounting) == (
            AUTO,
            "paper",
        )
        if ours and isinstance(mechanism, DescentMechanism | GradientMechanism) and plain:
            settings.pop("step_size", None)
        groups.setdefault(canonical_json(settings), []).append(k)
    most = max(1, splits.WIDEST_BATCH // columns)
    return [some[i : i + most] for some in groups.values() for i in range(0, len(some), most)]


def train(
    configuration: Configuration, grids: Mapping[int, PlanGrid], batch: Batch, entropy: Entropy
) -> tuple[list[dict[str, Any]], list[Skipped]]:
    """The rows of some candidates at all epsilons, trained in one call; or why there are none.

    Only the call that trains and releases is timed.
    """
    lead = configuration.candidates[next(iter(grids))]
    jobs: list[Job[Any]] = []
    cells = []
    for place, (candidate, grid) in enumerate(grids.items()):
        for epsilon, plans in grid.items():
            cells.append((candidate, epsilon))
            for model, n_rows in enumerate(batch.n_declared):
                plan = plans[n_rows] if place == 0 else replace(plans[n_rows], mechanism=lead)
                jobs.append(Job(plan=plan, model=place * len(batch.n_training) + model))
    if not jobs:
        return [], []
    try:
        table = batch.table if len(grids) == 1 else batch.repeated(len(grids))
        started = time.perf_counter()
        outcomes = lead.run(jobs, table, Gate(entropy))
        seconds = (time.perf_counter() - started) / len(jobs)
        models = [
            Model(
                weights=outcome.weights,
                row_map=outcome.row_map,
                loss=None if isinstance(lead, Majority) else job.plan.trained_by.problem.loss,
                settings=canonical_json(job.plan.settings),
                noise_scale=None if job.plan.noise is None else job.plan.noise.scale,
                seconds=seconds,
                l2=job.plan.problem.l2,
                certified=outcome.certified,
            )
            for job, outcome in zip(jobs, outcomes, strict=True)
        ]
    except DpermError as error:
        return [], [skip(configuration, epsilon, error) for _, epsilon in cells]
    rows, n = [], len(batch.n_training)
    for place, (candidate, epsilon) in enumerate(cells):
        rows += rows_of(configuration, candidate, epsilon, batch, models[place * n : (place + 1) * n])
    return rows, []


def rows_of(
    configuration: Configuration, candidate: int, epsilon: float, batch: Batch, models: Sequence[Model]
) -> list[dict[str, Any]]:
    """One row per model, the models of a batch in the order of its mask."""
    spec = batch.spec
    rows = []
    for k, (model, found) in enumerate(zip(models, batch.judge(models), strict=True)):
        repeat, fold = divmod(k, spec.folds)
        rows.append(
            {
                "dataset": spec.dataset,
                "loss": spec.loss,
                "mechanism": configuration.mechanism,
                "accounting": configuration.accounting,
                "epsilon": epsilon,
                "delta": spec.delta,
                "repeat": batch.repeats[repeat],
                "fold": fold,
                **found._asdict(),
                "noise_scale": model.noise_scale,
                "seconds": model.seconds,
                "label": configuration.label,
                "tuning": configuration.tuning,
                "settings": model.settings,
                "l2": model.l2,
                "certified": model.certified,
                "candidate": candidate,
            }
        )
    return rows
