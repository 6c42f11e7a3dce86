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
from dperm.losses import HuberHinge, Logistic, Loss, Softmax
from dperm.mechanisms import Job, Mechanism, Plan, resolve
from dperm.privacy import Budget, SeededEntropy, SystemEntropy
from dperm.problem import Problem

LOSSES: dict[str, Loss] = {"logistic": Logistic(), "svm": HuberHinge()}
"""For two classes. More take the softmax loss, which is the logistic one for many classes."""

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
    held_out: ArrayLike | None = None,
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
        Labels; of two, the larger one is the positive class.
    dataset : str
        A name. The splits follow it and the number of the repeat, nothing else.
    loss : {"logistic", "svm"}
        With more than two labels "logistic" is the softmax loss, and called that in the results.
    mechanisms : list of str or mechanism objects
        As for the estimators; ``"name:paper"`` selects the paper's accounting. The baselines are trained
        once per fold and listed at every epsilon.
    epsilons, delta
        The budgets. Each model is planned for its own number of training rows.
    folds, repeats : int
    held_out : array of bool of shape (n,), optional
        Rows of a published test part. Every repeat then trains on the other rows and is judged on these, and
        ``folds`` is not used.
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
    if loss not in LOSSES:
        raise InvalidInput(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}.")
    X, (targets, n_classes) = np.asarray(X), _encode(y)
    if X.ndim != 2 or len(X) != len(targets):
        raise InvalidInput(
            f"X must be a matrix with one row per label; got shapes {X.shape} and {targets.shape}."
        )
    if n_classes > 2 and loss != "logistic":
        raise InvalidInput(f"loss {loss!r} is for two classes and y holds {n_classes}; use 'logistic'.")
    if held_out is None and not 2 <= folds <= len(X):
        raise InvalidInput(f"folds must lie between 2 and the number of rows, {len(X)}; got {folds}.")
    tested = None if held_out is None else _check_part(held_out, len(X))
    if repeats < 1:
        raise InvalidInput(f"repeats must be at least 1; got {repeats}.")
    if not epsilons or not mechanisms:
        raise InvalidInput("at least one mechanism and one epsilon are needed.")
    budgets = [Budget(epsilon, delta) for epsilon in dict.fromkeys(epsilons)]
    contenders = _distinct([resolve(mechanism) for mechanism in mechanisms])
    study = Study(
        dataset=dataset,
        loss="softmax" if n_classes > 2 else loss,
        n_rows=len(X),
        n_features=X.shape[1],
        l2=float(l2),
        x_norm=float(x_norm),
        delta=float(delta),
        folds=folds if tested is None else 1,
        repeats=repeats,
        seed=seed,
        n_classes=n_classes,
    )
    skipped: list[Skipped] = []
    problems = _problems(study, tested)
    grids = [_plan(mechanism, problems, budgets, skipped) for mechanism in contenders]
    _warm_up(contenders, X, targets, study, tested is not None)
    groups = group_repeats(repeats, study.folds, _loss(study).outputs)
    rows: list[dict[str, Any]] = []
    finished = 0
    for number, group in enumerate(groups):
        batch = _open(X, targets, study, group, tested)
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


def _open(
    X: NDArray[Any],
    targets: NDArray[np.float64],
    study: Study,
    repeats: range,
    tested: NDArray[np.bool_] | None = None,
) -> _Batch:
    if tested is None:
        mask = training_mask(study.dataset, repeats, study.n_rows, study.folds)
    else:
        mask = np.repeat(~tested[:, None], len(repeats), axis=1)
    table = Table(
        X,
        targets,
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
    contenders: Sequence[Mechanism],
    X: NDArray[Any],
    targets: NDArray[np.float64],
    study: Study,
    one_split: bool,
) -> None:
    """Run every mechanism on a few rows, so that no compilation is timed."""
    n = min(len(X), 64)
    tested = np.arange(n) % 2 == 1 if one_split else None
    repeats = range(min(2, study.repeats) if one_split else 1)
    few_rows = replace(study, n_rows=n, folds=min(2, study.folds))
    few = _open(X[:n], targets[:n], few_rows, repeats, tested)
    for mechanism in contenders:
        with suppress(DpermError):
            plans = {
                problem.n_rows: mechanism.plan(problem, Budget(0.5, 1e-6))
                for problem in _problems(few_rows, tested)
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
    found = batch.referee.evaluate(_loss(batch.study), weights)
    penalty = batch.study.l2 / 2 * np.sum(weights * weights, axis=(0, *range(2, weights.ndim)))
    accuracy = found.held_out_correct / found.held_out_rows
    return accuracy, found.training_loss / found.training_rows + penalty


def _loss(study: Study) -> Loss:
    return Softmax(study.n_classes) if study.loss == "softmax" else LOSSES[study.loss]


def _encode(y: ArrayLike) -> tuple[NDArray[np.float64], int]:
    """-1 and +1 for two labels, the place among all labels for more; and how many labels there are."""
    labels, places = np.unique(np.asarray(y), return_inverse=True)
    if len(labels) < 2:
        raise InvalidInput(f"y must hold at least two labels; it holds {len(labels)}.")
    targets = places.reshape(-1).astype(np.float64)
    return (2 * targets - 1 if len(labels) == 2 else targets), len(labels)


def _check_part(held_out: ArrayLike, n_rows: int) -> NDArray[np.bool_]:
    tested = np.asarray(held_out)
    if tested.shape != (n_rows,) or tested.dtype != np.bool_ or not 0 < tested.sum() < n_rows:
        raise InvalidInput("held_out must say for every row whether it is held out: some rows, and not all.")
    return tested


def _distinct(mechanisms: list[Mechanism]) -> list[Mechanism]:
    names = [(mechanism.name, mechanism.accounting) for mechanism in mechanisms]
    if len(set(names)) < len(names):
        raise InvalidInput(
            "two of the mechanisms have the same name and accounting; compare them one at a time."
        )
    return mechanisms


def _problems(study: Study, tested: NDArray[np.bool_] | None = None) -> list[Problem]:
    """The task for each number of training rows that occurs: folds differ by one row at most."""
    n, folds = study.n_rows, study.folds
    counts = {n - n // folds, n - -(-n // folds)} if tested is None else {n - int(tested.sum())}
    return [
        Problem(
            loss=_loss(study),
            l2=study.l2,
            x_norm=study.x_norm,
            n_rows=n_rows,
            n_features=study.n_features,
            intercept=INTERCEPT_SCALE * study.x_norm,
        )
        for n_rows in counts
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
