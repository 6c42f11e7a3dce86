"""How a candidate is judged: sums over the validation rows, with noise, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.counting.bins import margin_scale
from dperm.counting.metrics.base import Score, SearchFacts, registered_metrics
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.labels import encode_labels
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.rows import margins_apart
from dperm.planning.pricing import gaussian_noise
from dperm.privacy import Gate, GaussianNoise
from dperm.unit import Neighbours

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scorer:
    """A metric for the models of one search. ``in_shares`` leaves a mean error in units of the range: 1 minus it."""

    metric: Score
    facts: SearchFacts
    in_shares: bool = False

    @property
    def n_sums(self) -> int:
        return self.metric.n_sums(self.facts)

    def noise(self, mu: float, neighbours: Neighbours) -> GaussianNoise:
        """For sums over the public number of validation rows, at Gaussian parameter ``mu``."""
        sensitivity = self.metric.sensitivity(neighbours) / self.facts.n_validation
        return gaussian_noise(sensitivity, self.n_sums, mu)

    def sums(
        self, model: Any, rows: NDArray[Any], targets: NDArray[Any], shares: Integers | None = None
    ) -> Vector:
        """What the metric adds up over the rows, over the public number of validation rows, or of persons."""
        if rows.shape[0] == 0:
            return np.zeros(self.n_sums)
        with np.errstate(all="ignore"):  # a warning would tell of a row
            found = self.metric.sums(ScoredRows(model, rows, targets), self.facts, shares)
            return found / self.facts.n_validation

    def value(self, noisy: Vector, noise: float) -> float:
        """The score, of sums whose noise has this deviation."""
        return float(noisy[0]) if self.in_shares else self.metric.score(noisy, noise, self.facts)

    def released(self, exact: Vector, noise: GaussianNoise, gate: Gate) -> float:
        """The score as it may be looked at."""
        return self.value(gate.release_one(exact, noise, "score of a candidate"), noise.scale)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Validation rows and what a fitted candidate says of each, wherever it stands and whatever the others are."""

    model: Any
    rows: NDArray[Any]
    targets: NDArray[Any]

    @cached_property
    def margins(self) -> Vector:
        return margins_apart(self.model, self.rows, Neighbours.ADD_REMOVE)

    @property
    def labels(self) -> Integers:
        encoded = encode_labels(self.targets, self.model.classes_)
        return np.asarray(encoded > 0 if len(self.model.classes_) == 2 else encoded, np.int64)

    @property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.model._labels(self.margins) == self.targets)

    @property
    def log_chances(self) -> Vector:
        return np.asarray(self.model._log_chances(self.margins)[np.arange(len(self.targets)), self.labels])

    @property
    def errors(self) -> Vector:
        low, high = (float(end) for end in self.model.y_range)
        predicted = np.clip(np.nan_to_num(self.margins, nan=low), low, high)
        return np.asarray(np.abs(predicted - np.clip(self.targets, low, high)) / (high - low))

    def binned(self, bins: int) -> Integers:
        return margin_scale(self.model).place(self.margins, bins)


def scores_by_name() -> dict[str, Score]:
    """The metrics by which a search may compare candidates, by the names that scikit-learn has for them."""
    return {metric.scoring: metric for metric in registered_metrics().values() if isinstance(metric, Score)}


def scorer_for(name: Any, model: PrivateLinearModel, n_classes: int | None, n_validation: int = 1) -> Scorer:
    """By the metric of this name; None is accuracy, or closeness for regression."""
    classifies, known = isinstance(model, PrivateClassifier), scores_by_name()
    if name is not None and (not isinstance(name, str) or name not in known):
        raise InvalidInput(
            f"scoring must be None or one of {', '.join(known)}: those whose sensitivity is proved; got "
            f"{name if isinstance(name, str) else type(name).__name__!r}."
        )
    metric = known[name or ("accuracy" if classifies else "neg_mean_absolute_error")]
    if metric.classifies != classifies:  # type: ignore[attr-defined]
        kinds = "a regression" if classifies else "a classifier"
        raise Unsupported(f"scoring={name!r} is for {kinds}.")
    facts = SearchFacts(
        n_validation=n_validation,
        n_classes=n_classes,
        has_probabilities=hasattr(model, "predict_log_proba"),
        y_range=_range_of(model),
    )
    metric.check(facts)
    return Scorer(metric, facts, in_shares=name is None and not classifies)


def _range_of(model: PrivateLinearModel) -> tuple[float, float] | None:
    if not isinstance(model, PrivateLinearRegression) or model.y_range is None:
        return None
    low, high = model.y_range
    return float(low), float(high)
