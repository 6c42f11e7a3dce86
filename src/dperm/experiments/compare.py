"""The cross-validated comparison: every mechanism at every epsilon on the same splits, in batches."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dperm.engine import Engine, Table
from dperm.errors import DpermError, InvalidInput
from dperm.estimators._base import INTERCEPT_SCALE
from dperm.experiments.splits import group_repeats, text_code, training_mask
from dperm.losses import HuberHinge, Logistic, Loss
from dperm.mechanisms import Job, Mechanism, Plan, resolve
from dperm.privacy import Budget, SeededEntropy, SystemEntropy
from dperm.problem import Problem

LOSSES: dict[str, Loss] = {"logistic": Logistic(), "svm": HuberHinge()}
NOT_PRIVATE = "not private"
METADATA_KEY = b"dperm"

COLUMNS = pa.schema(
    [
        ("dataset", pa.string()),
        ("loss", pa.string()),
        ("mechanism", pa.string()),
        ("accounting", pa.string()),
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("repeat", pa.int64()),
        ("fold", pa.int64()),
        ("accuracy", pa.float64()),
        ("objective", pa.float64()),
        ("noise_scale", pa.float64()),
        ("seconds", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Skipped:
    """A part of the grid without results, and why."""

    mechanism: str
    accounting: str
    epsilon: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """What was compared. It travels with the results as metadata of the table."""

    dataset: str
    loss: str
    n_rows: int
    n_features: int
    l2: float
    x_norm: float
    folds: int
    repeats: int
    seed: int | None
    skipped: tuple[Skipped, ...] = ()

    @classmethod
    def of(cls, results: pa.Table) -> "Study":
        """The study that a table of results came from."""
        stored = json.loads((results.schema.metadata or {}).get(METADATA_KEY, b"null"))
        if stored is None:
            raise InvalidInput("the table does not come from dperm's compare: its description is missing.")
        return cls(**{**stored, "skipped": tuple(Skipped(**skipped) for skipped in stored["skipped"])})


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

    The result is an evaluation and NOT a private release: accuracies are measured on held-out rows, and
    whole batches of models are trained on the same data. Use it on public data, or keep it to yourself.

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
        mechanism thus differ in their noise scale only. None draws from the operating system.
    progress : callable, optional
        Called with the number of finished training calls and their total.

    Returns
    -------
    pyarrow.Table
        One row per model, with the columns ``COLUMNS``; ``Study.of(table)`` describes the study and lists
        what was skipped and why. ``accuracy`` is on the held-out fold; ``objective`` is the regularised mean
        loss on the training rows; ``seconds`` is the time of the call that trained and released the model
        over the number of models it gave.
    """
    X, signs = _rows(X), _signs(y)
    if len(X) != len(signs):
        raise InvalidInput(f"X has {len(X)} rows and y has {len(signs)}.")
    if not 2 <= folds <= len(X) or repeats < 1:
        raise InvalidInput(f"folds must lie between 2 and the number of rows, repeats be at least 1; got {folds}, {repeats}.")
    if loss not in LOSSES:
        raise InvalidInput(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}.")
    if not epsilons or not mechanisms:
        raise InvalidInput("at least one mechanism and one epsilon are needed.")
    budgets = [Budget(epsilon, delta) for epsilon in dict.fromkeys(epsilons)]
    contenders = _distinct([resolve(mechanism) for mechanism in mechanisms])

    def problem(n_rows: int) -> Problem:
        return Problem(
            loss=LOSSES[loss],
            l2=l2,
            x_norm=x_norm,
            n_rows=n_rows,
            n_features=X.shape[1],
            intercept=INTERCEPT_SCALE * x_norm,
        )

    log = _Log(dataset=dataset, loss=loss, budgets=budgets)
    sizes = {len(X) - len(X) // folds, len(X) - -(-len(X) // folds)}
    plans = {
        mechanism: _plan(mechanism, [problem(n) for n in sorted(sizes)], budgets, log) for mechanism in contenders
    }
    groups = group_repeats(repeats, folds)
    for done, (g, group) in enumerate((g, group) for g, group in enumerate(groups)):
        mask = training_mask(dataset, group, len(X), folds)
        table = Table(X, signs, x_norm=x_norm, intercept=INTERCEPT_SCALE * x_norm, n_rows=len(X), mask=mask)
        ...
    raise NotImplementedError
