"""Settings chosen beyond the public rule, privately or on the test rows, and models that are fitted one at a time."""

import itertools
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dperm.certificate.statement import loss_of as stated_loss
from dperm.errors import DpermError, InvalidInput, PrivacyWarning, UtilityWarning
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.linear_classifier import PrivateLinearClassifier
from dperm.estimators.search import PrivateSearchCV
from dperm.experiments.batches import Batch, Entropy, loss_of, rows_of, skip
from dperm.experiments.judging import Model
from dperm.experiments.metrics import SCORES
from dperm.experiments.results import Skipped, label
from dperm.experiments.spec import Configuration, canonical_json
from dperm.mechanisms import Mechanism, resolve
from dperm.mechanisms.baselines import Majority
from dperm.privacy import SeededEntropy


def oracle(mechanism: str | Mechanism, *, label: str | None = None, **grid: Iterable[Any]) -> Configuration:
    """The settings of a grid that are best on the test rows, for every epsilon: what tuning could give at most.

    NOT private, and no estimate of what a user would get: the choice looks at the rows that judge it. Its label
    always says so.

    Parameters
    ----------
    mechanism : str or mechanism
    label : str, optional
    **grid
        Values to try for each setting, for example ``step_size=[0.1, 1, 10]``.
    """
    return tuned("oracle", mechanism, grid, label)


def search(mechanism: str | Mechanism, *, label: str | None = None, **grid: Iterable[Any]) -> Configuration:
    """The settings of a grid chosen by ``PrivateSearchCV``, which pays for the choice from the same budget.

    Every model is a search of its own on the training rows of its fold, so this is slow.
    """
    return tuned("search", mechanism, grid, label)


def tuned(
    tuning: str, mechanism: str | Mechanism, grid: Mapping[str, Iterable[Any]], name: str | None = None
) -> Configuration:
    """A configuration with one candidate for every combination of values in the grid."""
    base = resolve(mechanism)
    unknown = sorted(set(grid) - {f.name for f in fields(base)} | set(grid) & {"accounting"})
    if unknown or not grid:
        known = ", ".join(f.name for f in fields(base) if f.name != "accounting")
        raise InvalidInput(
            f"the grid of {base.name!r} must name settings of it: {known}; got {', '.join(unknown) or 'none'}."
        )
    candidates = [
        replace(base, **dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())
    ]
    usual = label(base.name, base.accounting)
    if tuning == "search":
        usual += " (search)"
    return Configuration(label=name or usual, candidates=tuple(candidates), tuning=tuning)


def best_on_test(configuration: Configuration, rows: pa.Table) -> pa.Table:
    """The rows of the candidate with the highest mean accuracy, or R², at each epsilon; of equals, the first.

    A candidate that failed in some repeats comes after those that did not.
    """
    score = next((name for name in SCORES if rows[name].null_count < len(rows)), SCORES[0])
    candidate, epsilon, reached = (rows[name].to_numpy() for name in ("candidate", "epsilon", score))
    keep = np.zeros(len(rows), bool)
    for some in np.unique(epsilon):
        runs = [(epsilon == some) & (candidate == c) for c in range(len(configuration.candidates))]
        found = [(int(run.sum()), float(reached[run].mean()) if run.any() else -np.inf) for run in runs]
        keep |= runs[found.index(max(found))]
    return rows.filter(pa.array(keep))


def train_singly(
    configuration: Configuration, batch: Batch, epsilons: Sequence[float], entropy: Entropy
) -> tuple[list[dict[str, Any]], list[Skipped]]:
    """One fit per epsilon, repeat and fold: a private search, or every candidate by itself. Only ``fit`` is timed.

    Where rows are of persons, a model is trained on all rows of those that train there.
    """
    rows: list[dict[str, Any]] = []
    skipped = []
    for candidate, mechanism in enumerate(configuration.candidates):
        for epsilon in epsilons:
            try:
                models = [
                    _fitted(configuration, mechanism, batch, column, epsilon, entropy)
                    for column in batch.mask.T
                ]
            except DpermError as error:
                skipped.append(skip(configuration, epsilon, error))
            else:
                rows += rows_of(configuration, candidate, epsilon, batch, models)
        if configuration.tuning == "search":
            break  # its fits have tried all candidates
    return rows, skipped


def _fitted(
    configuration: Configuration,
    mechanism: Mechanism,
    batch: Batch,
    training: Any,
    epsilon: float,
    entropy: Entropy,
) -> Model:
    rows, searched = batch.rows, configuration.tuning == "search"
    stream = entropy.generator if isinstance(entropy, SeededEntropy) else None
    model: Any = _estimator(batch, training, epsilon)
    if searched:
        candidates = {"mechanism": list(configuration.candidates)}
        model = PrivateSearchCV(
            model, candidates, epsilon=epsilon, delta=batch.spec.delta, random_state=stream
        )
    else:
        model.set_params(mechanism=mechanism, random_state=stream)
    ids = {} if rows.persons is None else {"groups": rows.persons[training]}
    X, targets = rows.X[training], rows.targets[training]
    with measured_only():
        started = time.perf_counter()
        model.fit(X, targets, **ids)
        seconds = time.perf_counter() - started
    settings, fitted = model.privacy_.settings, model
    if searched:
        mechanism, fitted = model.best_params_["mechanism"], model.best_estimator_
        settings = {**settings, "chosen": mechanism.settings}
    weights = fitted.row_map_.weights(np.atleast_2d(fitted.coef_).T, np.atleast_1d(fitted.intercept_))
    has_odds = not isinstance(mechanism, Majority)
    return Model(
        weights=weights[:, 0] if weights.shape[1] == 1 else weights,
        row_map=fitted.row_map_,
        loss=stated_loss(fitted.privacy_.statement["problem"]) if has_odds else None,
        settings=canonical_json(settings),
        noise_scale=model.privacy_.noise_scale,
        seconds=seconds,
        l2=fitted.privacy_.l2,
    )


def _estimator(batch: Batch, training: Any, epsilon: float) -> PrivateLinearModel:
    """An estimator for the rows of a column of the mask, as the study declares it."""
    spec = batch.spec
    hidden = spec.neighbours == "add-remove"
    settings: dict[str, Any] = {
        "loss": loss_of(spec),
        "epsilon": epsilon,
        "delta": spec.delta,
        "l2": spec.l2,
        "x_norm": spec.x_norm,
        "neighbours": spec.neighbours,
        "max_rows": (spec.max_rows or batch.rows.count(training)) if hidden else None,
    }
    if spec.y_range is None:
        labels = np.unique(batch.rows.targets).tolist()
        return PrivateLinearClassifier(classes=labels, **settings)
    return PrivateLinearRegression(y_range=(-1.0, 1.0), **settings)


@contextmanager
def measured_only() -> Iterator[None]:
    """Without dperm's own warnings; reports that are made inside still hold what they would say."""
    with warnings.catch_warnings():
        for kind in (PrivacyWarning, UtilityWarning):
            warnings.simplefilter("ignore", kind)
        yield
