"""Models that are trained one at a time by an estimator: those of persons, who may have several rows, and searches."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dperm.certificate.statement import loss_of as stated_loss
from dperm.errors import DpermError
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.linear_classifier import PrivateLinearClassifier
from dperm.experiments.batches import Batch, Entropy, rows_of
from dperm.experiments.grid import loss_of, skip
from dperm.experiments.judging import Model
from dperm.experiments.quiet import measured_only
from dperm.experiments.results import Skipped
from dperm.experiments.spec import Contender, canonical_json
from dperm.mechanisms import Mechanism
from dperm.mechanisms.baselines import Majority
from dperm.privacy import SeededEntropy


def train_by_person(
    contender: Contender, batch: Batch, epsilons: Sequence[float], entropy: Entropy
) -> tuple[list[dict[str, Any]], list[Skipped]]:
    """One fit per candidate, epsilon, repeat and fold, on the rows of the persons that train there."""
    rows: list[dict[str, Any]] = []
    skipped = []
    for candidate, mechanism in enumerate(contender.candidates):
        for epsilon in epsilons:
            try:
                models = [_fitted(mechanism, batch, column, epsilon, entropy) for column in batch.mask.T]
            except DpermError as error:
                skipped.append(skip(contender, epsilon, error))
            else:
                rows += rows_of(contender, candidate, epsilon, batch, models)
    return rows, skipped


def _fitted(mechanism: Mechanism, batch: Batch, training: Any, epsilon: float, entropy: Entropy) -> Model:
    estimator = estimator_of(batch, training, epsilon)
    estimator.set_params(mechanism=mechanism, random_state=stream_of(entropy))
    seconds = timed_fit(estimator, batch, training)
    settings = canonical_json(estimator.privacy_.settings)
    return model_of(
        estimator,
        settings=settings,
        noise_scale=estimator.privacy_.noise_scale,
        seconds=seconds,
        has_odds=not isinstance(mechanism, Majority),
    )


def estimator_of(batch: Batch, training: Any, epsilon: float) -> PrivateLinearModel:
    """An estimator for the rows of a column of the mask, as the study declares it."""
    spec = batch.spec
    settings: dict[str, Any] = {
        "loss": loss_of(spec),
        "epsilon": epsilon,
        "delta": spec.delta,
        "l2": spec.l2,
        "x_norm": spec.x_norm,
        "neighbours": spec.neighbours,
        "max_rows": (spec.max_rows or batch.rows.count(training))
        if spec.neighbours == "add-remove"
        else None,
    }
    if spec.y_range is None:
        labels = np.unique(batch.rows.targets).tolist()
        return PrivateLinearClassifier(classes=labels, **settings)
    return PrivateLinearRegression(y_range=(-1.0, 1.0), **settings)


def timed_fit(model: Any, batch: Batch, training: Any) -> float:
    """Fit on the rows that train, by person where the study is; the seconds that it took."""
    rows = batch.rows
    ids = {} if rows.persons is None else {"groups": rows.persons[training]}
    X, targets = rows.X[training], rows.targets[training]
    with measured_only():
        started = time.perf_counter()
        model.fit(X, targets, **ids)
        return time.perf_counter() - started


def stream_of(entropy: Entropy) -> Any:
    return entropy.generator if isinstance(entropy, SeededEntropy) else None


def model_of(
    fitted: PrivateLinearModel,
    *,
    settings: str,
    noise_scale: float | None,
    seconds: float,
    has_odds: bool = True,
) -> Model:
    """What is judged of a fitted estimator."""
    weights = fitted.row_map_.weights(np.atleast_2d(fitted.coef_).T, np.atleast_1d(fitted.intercept_))
    return Model(
        weights=weights[:, 0] if weights.shape[1] == 1 else weights,
        row_map=fitted.row_map_,
        loss=stated_loss(fitted.privacy_.statement["problem"]) if has_odds else None,
        settings=settings,
        noise_scale=noise_scale,
        seconds=seconds,
        l2=fitted.privacy_.l2,
    )
