"""The cross-validated comparison: every mechanism at every epsilon on the same splits, in batches."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dperm.engine import Engine, Table
from dperm.errors import DpermError, InvalidInput
from dperm.estimators._base import INTERCEPT_SCALE
from dperm.experiments.results import NOT_PRIVATE, Skipped, Study, make_results
from dperm.experiments.splits import group_repeats, text_code, training_mask
from dperm.losses import HuberHinge, Logistic, Loss
from dperm.mechanisms import Job, Mechanism, Plan, resolve
from dperm.privacy import Budget, SeededEntropy, SystemEntropy
from dperm.problem import Problem

LOSSES: dict[str, Loss] = {"logistic": Logistic(), "svm": HuberHinge()}

PlanGrid = dict[float, dict[int, Plan]]
"""Plans by epsilon and number of training rows."""


def compare(
    X: ArrayLike,
    y: ArrayLike,
    *,
    dataset: str,
    loss: str = "logistic",
    mechanisms: Sequence[str | Mechanism],
    epsilons: Sequence[float],
    delta: float,
    folds: int = 5,
    repeats: int = 4,
    l2: float = 1e-3,
    x_norm: float = 1.0,
    seed: int | None = 0,
    progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Accuracy and objective of every mechanism at every epsilon, by repeated K-fold cross-validation.

    The result is an evaluation and NOT a private release: accuracies are measured on held-out rows without
    noise, and many models are trained on the same rows. Use public data, or keep the result to yourself.

    Parameters
    ----------
    X : array of shape (n, p)
        Rows beyond ``x_norm`` are scaled down to it, in training and in testing.
    y : array of shape (n,)
        Two labels; the larger one is the positive class.
    dataset : str
        A name. The splits follow it and the number of the repeat, nothing else.
    loss : {"logistic", "svm"}
    mechanisms : list of str or mechanism objects
        As for the estimators; ``"name:paper"`` selects the paper's accounting. The baselines are trained
        once per fold and listed at every epsilon.
    epsilons, delta
        The budgets. Each model is planned for its own number of training rows.
    folds, repeats : int
    l2, x_norm : float
    seed : int or None
        Noise and secret orders follow the seed, the mechanism's name and the batch; the two accountings of a
        mechanism thus differ in their noise scale alone. None draws from the operating system.
    progress : callable, optional
        Called with the number of finished training calls and their total.

    Returns
    -------
    pyarrow.Table
        One row per model. ``accuracy`` is on the held-out fold; ``objective`` is the regularised mean loss on
        the training rows; ``seconds`` is the time of the call that trained and released the model over the
        number of models it gave. ``Study.of(table)`` tells what was compared, and what was skipped and why.
    """
    X, signs = np.asarray(X), _signs(y)
    if X.ndim != 2 or len(X) != len(signs):
        raise InvalidInput(
            f"X must be a matrix with one row per label; got shapes {X.shape} and {signs.shape}."
        )
    if not 2 <= folds <= len(X):
        raise InvalidInput(f"folds must lie between 2 and the number of rows, {len(X)}; got {folds}.")
    if repeats < 1:
        raise InvalidInput(f"repeats must be at least 1; got {repeats}.")
    if loss not in LOSSES:
        raise InvalidInput(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}.")
    if not epsilons or not mechanisms:
        raise InvalidInput("at least one mechanism and one epsilon are needed.")
    budgets = [Budget(epsilon, delta) for epsilon in dict.fromkeys(epsilons)]
    contenders = _distinct([resolve(mechanism) for mechanism in mechanisms])
    study = Study(
        dataset=dataset,
        loss=loss,
        n_rows=len(X),
        n_features=X.shape[1],
        l2=float(l2),
        x_norm=float(x_norm),
        delta=float(delta),
        folds=folds,
        repeats=repeats,
        seed=seed,
    )
    skipped: list[Skipped] = []
    problems = _problems(study)
    grids = [_plan(mechanism, problems, budgets, skipped) for mechanism in contenders]
    _warm_up(contenders, X, signs, study)
    groups = group_repeats(repeats, folds)
    rows: list[dict[str, Any]] = []
    finished = 0
    for number, group in enumerate(groups):
        batch = _open(X, signs, study, group)
        for mechanism, grid in zip(contenders, grids, strict=True):
            entropy = SystemEntropy() if seed is None else _stream(seed, mechanism, number)
            try:
                rows += _train_and_judge(mechanism, grid, batch, entropy)
            except DpermError as error:
                skipped += [_skip(mechanism, epsilon, error) for epsilon in grid]
            finished += 1
            if progress is not None:
                progress(finished, len(groups) * len(contenders))
    return make_results(rows, replace(study, skipped=tuple(dict.fromkeys(skipped))))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Batch:
    """The models of a group of repeats: one column of the mask for each repeat and fold."""

    study: Study
    repeats: range
    n_training: list[int]
    table: Table
    referee: Engine


def _open(X: NDArray[Any], signs: NDArray[np.float64], study: Study, repeats: range) -> _Batch:
    mask = training_mask(study.dataset, repeats, study.n_rows, study.folds)
    table = Table(
        X,
        signs,
        x_norm=study.x_norm,
        intercept=INTERCEPT_SCALE * study.x_norm,
        n_rows=study.n_rows,
        mask=mask,
    )
    return _Batch(
        study=study,
        repeats=repeats,
        n_training=mask.sum(axis=0).tolist(),
        table=table,
        referee=table.open(storage=np.float32),
    )


def _warm_up(
    contenders: Sequence[Mechanism], X: NDArray[Any], signs: NDArray[np.float64], study: Study
) -> None:
    """Run every mechanism on a few rows, so that no compilation is timed."""
    n = min(len(X), 64)
    few = _open(X[:n], signs[:n], replace(study, n_rows=n, folds=2), range(1))
    for mechanism in contenders:
        with suppress(DpermError):
            plans = {
                problem.n_rows: mechanism.plan(problem, Budget(0.5, 1e-6)) for problem in _problems(few.study)
            }
            _train_and_judge(mechanism, {0.5: plans}, few, SeededEntropy(0))


def _train_and_judge(
    mechanism: Mechanism, grid: PlanGrid, batch: _Batch, entropy: SystemEntropy | SeededEntropy
) -> list[dict[str, Any]]:
    """Train all models of the batch at all epsilons in one call, then judge them, epsilon by epsilon."""
    n_models = len(batch.n_training)
    jobs = [
        Job(plan=plans[n_rows], model=model)
        for plans in grid.values()
        for model, n_rows in enumerate(batch.n_training)
    ]
    started = time.perf_counter()
    outcomes = mechanism.run(jobs, batch.table, entropy) if jobs else []
    seconds = (time.perf_counter() - started) / max(1, len(jobs))
    rows = []
    for first in range(0, len(jobs), n_models):
        weights = np.stack([outcome.weights for outcome in outcomes[first : first + n_models]], axis=1)
        accuracy, objective = _judge(batch, weights)
        for model, job in enumerate(jobs[first : first + n_models]):
            repeat, fold = divmod(model, batch.study.folds)
            rows.append(
                {
                    "dataset": batch.study.dataset,
                    "loss": batch.study.loss,
                    "mechanism": mechanism.name,
                    "accounting": _accounting(mechanism),
                    "epsilon": job.plan.budget.epsilon,
                    "delta": batch.study.delta,
                    "repeat": batch.repeats[repeat],
                    "fold": fold,
                    "accuracy": float(accuracy[model]),
                    "objective": float(objective[model]),
                    "noise_scale": None if job.plan.noise is None else job.plan.noise.scale,
                    "seconds": seconds,
                }
            )
    return rows


def _judge(batch: _Batch, weights: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Accuracy on the held-out rows and regularised mean loss on the training rows, per model."""
    found = batch.referee.evaluate(LOSSES[batch.study.loss], weights)
    penalty = batch.study.l2 / 2 * np.sum(weights * weights, axis=0)
    accuracy = found.held_out_correct / found.held_out_rows
    return accuracy, found.training_loss / found.training_rows + penalty


def _signs(y: ArrayLike) -> NDArray[np.float64]:
    labels, positive = np.unique(np.asarray(y), return_inverse=True)
    if len(labels) != 2:
        raise InvalidInput(f"y must hold exactly two labels; it holds {len(labels)}.")
    return np.where(positive.reshape(-1) == 1, 1.0, -1.0)


def _distinct(mechanisms: list[Mechanism]) -> list[Mechanism]:
    names = [(mechanism.name, mechanism.accounting) for mechanism in mechanisms]
    if len(set(names)) < len(names):
        raise InvalidInput(
            "two of the mechanisms have the same name and accounting; compare them one at a time."
        )
    return mechanisms


def _problems(study: Study) -> list[Problem]:
    """The task for each number of training rows that occurs: folds differ by one row at most."""
    n, folds = study.n_rows, study.folds
    return [
        Problem(
            loss=LOSSES[study.loss],
            l2=study.l2,
            x_norm=study.x_norm,
            n_rows=n_rows,
            n_features=study.n_features,
            intercept=INTERCEPT_SCALE * study.x_norm,
        )
        for n_rows in {n - n // folds, n - -(-n // folds)}
    ]


def _plan(
    mechanism: Mechanism, problems: Sequence[Problem], budgets: Sequence[Budget], skipped: list[Skipped]
) -> PlanGrid:
    """The plans that the mechanism does not refuse; the refusals are noted in ``skipped``."""
    grid: PlanGrid = {}
    for budget in budgets:
        try:
            grid[budget.epsilon] = {problem.n_rows: mechanism.plan(problem, budget) for problem in problems}
        except DpermError as error:
            skipped.append(_skip(mechanism, budget.epsilon, error))
    return grid


def _stream(seed: int, mechanism: Mechanism, group: int) -> SeededEntropy:
    return SeededEntropy(np.random.SeedSequence([seed, text_code(mechanism.name), group]))


def _accounting(mechanism: Mechanism) -> str:
    return mechanism.accounting if mechanism.private else NOT_PRIVATE


def _skip(mechanism: Mechanism, epsilon: float, error: DpermError) -> Skipped:
    return Skipped(
        mechanism=mechanism.name, accounting=_accounting(mechanism), epsilon=epsilon, reason=str(error)
    )
