"""The cross-validated comparison: every mechanism at every epsilon on the same splits, in batches."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dperm.engine import Table, engine_for
from dperm.engine.sparse.rows import as_csr, is_sparse
from dperm.errors import InvalidInput
from dperm.estimators.labels import encode_labels, encode_numbers
from dperm.estimators.persons import GroupedRows
from dperm.experiments.batches import Rows, budgets_of, problems_of
from dperm.experiments.runner import Progress, run
from dperm.experiments.spec import Methods, Spec, configurations_of
from dperm.losses.registry import AUTO_LOSS, fitting_loss, form_of
from dperm.planning.rules import AUTO, L2, parse_l2
from dperm.unit import Neighbours

__all__ = ["compare", "specify"]


def compare(
    X: Any,
    y: ArrayLike,
    *,
    dataset: str,
    loss: str = AUTO_LOSS,
    mechanisms: Methods,
    epsilons: Sequence[float],
    delta: float,
    folds: int = 5,
    repeats: int = 4,
    held_out: ArrayLike | None = None,
    groups: Any = None,
    y_range: tuple[float, float] | None = None,
    l2: L2 = AUTO,
    x_norm: float = 1.0,
    neighbours: str | Neighbours = Neighbours.REPLACE_ONE,
    max_rows: int | None = None,
    seed: int | None = 0,
    folder: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> pa.Table:
    """How good every mechanism is at every epsilon, by repeated K-fold cross-validation.

    The result is an evaluation and NOT a private release: scores are measured on held-out rows without
    noise, and many models are trained on the same rows. Use public data, or keep the result to yourself.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, p)
        Rows beyond ``x_norm`` are scaled down to it in training, and in testing where a model's map is not linear.
    y : array of shape (n,)
        Labels; of two, the larger one is the positive class. With ``y_range`` numbers.
    dataset : str
        A name. The splits follow it and the number of the repeat, nothing else.
    loss : str
        A registered loss that goes with y, by its name, with settings as in "svm:width=0.25". "auto" is "squared" for
        numbers and "logistic" for labels; of more than two that is the softmax loss, and called so in the results.
    mechanisms : list, or dict from label, of str, mechanism objects or configurations
        As for the estimators; ``"name:paper"`` selects the paper's accounting. ``oracle`` and ``search`` of
        ``dperm.experiments.tuning`` make configurations whose settings are chosen from a grid. The baselines are
        trained once per fold and listed at every epsilon.
    epsilons, delta
        The budgets. Each model is planned for its own number of training rows.
    folds, repeats : int
    held_out : array of bool of shape (n,), optional
        Rows of a published test part. Every repeat then trains on the other rows and is judged on these, and
        ``folds`` is not used.
    groups : array-like of shape (n,), optional
        The id of the person of each row. Folds then hold persons with all rows, every model is trained by person, one
        at a time, and rows count by their share of the person, in training and in testing.
    y_range : (low, high), optional
        Makes y a target of numbers. It is public; numbers beyond it are moved to its ends, in training and in testing.
    l2 : float or "auto"
        "auto" is the rule of each mechanism; the column ``l2`` of the results has the numbers.
    x_norm : float
    neighbours : {"replace-one", "add-remove"}
    max_rows : int, optional
        For add-remove: the capacity that every model is planned for. By default its number of training rows, or of
        persons with ``groups``.
    seed : int or None
        Noise and secret orders follow the seed, the mechanism's name and settings and the batch; the two
        accountings of a mechanism thus differ in their noise scale alone, and no configuration changes another.
        None draws from the operating system.
    folder : path, optional
        Finished batches are kept there, in a folder named by the identity of what is compared. The same call after
        a kill goes on where it stopped; after the end it reads the results.
    fresh : bool
        Forget the batches that are finished and run all of them.
    progress : callable, optional
        Called with the number of finished batches and their total: at the start and after every batch.

    Returns
    -------
    pyarrow.Table
        One row per model. ``accuracy``, ``auc`` (of several classes the mean over each against the rest) and
        ``log_loss`` are on the held-out fold, with the probabilities of the loss that the model was really trained
        with; of numbers ``r2``, and ``rmse`` and ``mae`` in units of the target; ``objective`` is the regularised mean
        loss of the study on the training rows; ``seconds`` is the time of the call that trained and released the model
        over the number of models it gave. ``Study.of(table)`` tells what was compared, where, and what was skipped and
        why.
    """
    study = dict(locals())
    where = {name: study.pop(name) for name in ("folder", "fresh", "progress")}
    return run(*specify(**study), **where)


def specify(
    X: Any,
    y: ArrayLike,
    *,
    dataset: str,
    loss: str = AUTO_LOSS,
    mechanisms: Methods,
    epsilons: Sequence[float],
    delta: float,
    folds: int = 5,
    repeats: int = 4,
    held_out: ArrayLike | None = None,
    groups: Any = None,
    y_range: tuple[float, float] | None = None,
    l2: L2 = AUTO,
    x_norm: float = 1.0,
    neighbours: str | Neighbours = Neighbours.REPLACE_ONE,
    max_rows: int | None = None,
    seed: int | None = 0,
) -> tuple[Spec, Rows]:
    """Check what :func:`compare` was given and freeze it; the rows come back encoded."""
    matrix, (targets, n_classes) = _matrix(X), _encode(y) if y_range is None else (_moved(y, y_range), 0)
    if len(matrix.shape) != 2 or matrix.shape[0] != len(targets):
        raise InvalidInput(
            f"X must be a matrix with one row per label; got shapes {matrix.shape} and {targets.shape}."
        )
    name = fitting_loss(loss, n_classes or None)
    tested = None if held_out is None else _check_part(held_out, len(targets))
    rows = Rows(X=matrix, targets=targets, held_out=tested, persons=_persons(groups, len(targets), tested))
    unit = "row" if rows.persons is None else "person"
    if held_out is None and not 2 <= folds <= rows.n_units:
        raise InvalidInput(
            f"folds must lie between 2 and the number of {unit}s, {rows.n_units}; got {folds}."
        )
    if repeats < 1:
        raise InvalidInput(f"repeats must be at least 1; got {repeats}.")
    if max_rows is not None and Neighbours.parse(neighbours) is Neighbours.REPLACE_ONE:
        raise InvalidInput("max_rows belongs to neighbours='add-remove'.")
    if not epsilons or not mechanisms:
        raise InvalidInput("at least one mechanism and one epsilon are needed.")
    spec = Spec(
        dataset=dataset,
        rows=rows.digest,
        n_rows=rows.n_units,
        n_features=matrix.shape[1],
        n_classes=n_classes,
        loss=form_of(name, n_classes),
        y_range=None if y_range is None else (float(y_range[0]), float(y_range[1])),
        l2=parse_l2(l2),
        x_norm=float(x_norm),
        delta=float(delta),
        neighbours=Neighbours.parse(neighbours).value,
        max_rows=max_rows,
        published_split=rows.held_out is not None,
        folds=int(folds) if rows.held_out is None else 1,
        repeats=int(repeats),
        seed=None if seed is None else int(seed),
        epsilons=tuple(dict.fromkeys(float(epsilon) for epsilon in epsilons)),
        configurations=configurations_of(mechanisms),
        unit=unit,
    )
    if rows.persons is None:
        problems_of(spec, rows.held_out)  # refuse wrong numbers before any work
    budgets_of(spec)
    return spec, rows


def _matrix(X: Any) -> Any:
    if is_sparse(X):
        return as_csr(X)
    if engine_for(X) is not Table:
        return X
    found = np.asarray(X)
    return found if found.dtype.kind in "fiub" else found.astype(np.float64)


def _encode(y: ArrayLike) -> tuple[NDArray[np.float64], int]:
    """-1 and +1 for two labels, the place among all labels for more; and how many labels there are."""
    given = np.asarray(y).reshape(-1)
    labels = np.unique(given)
    if len(labels) < 2:
        raise InvalidInput(f"y must hold at least two labels; it holds {len(labels)}.")
    return encode_labels(given, labels), len(labels)


def _moved(y: ArrayLike, y_range: tuple[float, float]) -> NDArray[np.float64]:
    """The numbers as a loss takes them; texts and gaps are refused without being quoted."""
    low, high = y_range
    if not (np.isfinite([low, high]).all() and low < high):
        raise InvalidInput(f"y_range must be a pair of finite numbers, low < high; got {y_range!r}.")
    try:
        values = np.asarray(y, np.float64).reshape(-1)
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        raise InvalidInput("y must hold finite numbers where y_range is given.")
    return encode_numbers(values, low, high)


def _persons(groups: Any, n_rows: int, tested: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
    """The person of each row, where there are ids; nobody may train and be tested on."""
    if groups is None:
        return None
    grouped = GroupedRows.of(groups)
    grouped.check_rows(n_rows)
    person = grouped.person
    if tested is not None and np.isin(person[tested], person[~tested]).any():
        raise InvalidInput(
            "the published split has rows of one person in both parts; leave it out, for folds."
        )
    return person


def _check_part(held_out: ArrayLike, n_rows: int) -> NDArray[np.bool_]:
    tested = np.asarray(held_out)
    if tested.shape != (n_rows,) or tested.dtype != np.bool_ or not 0 < tested.sum() < n_rows:
        raise InvalidInput("held_out must say for every row whether it is held out: some rows, and not all.")
    return tested
