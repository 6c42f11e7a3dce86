"""Log loss and Brier score of the predicted probabilities."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dperm.counting.classification import (
    CONFUSION,
    LOSS_WEIGHTS,
    LOSSES,
    ClassCounts,
    LabelledScores,
    loss_cap,
)
from dperm.counting.design import Owners
from dperm.counting.estimates import Estimate, mean
from dperm.counting.metrics.base import (
    MeanScore,
    Metric,
    SearchFacts,
    ValidationRows,
    exact_mean,
    register_metric,
)
from dperm.errors import Unsupported

Vector = NDArray[np.float64]

MOST_LOG_LOSS = 5.0
"""Of one row in a search: its label had a probability of e^-5, or less."""


@register_metric
class LogLoss(MeanScore, Metric):
    """Minus the log of the probability of the true label, on average and cut off at ``loss_cap``.

    In a search that of a row is cut off at ``MOST_LOG_LOSS``, and an absent row counts as the largest.
    """

    name, title, scoring = "log_loss", "log loss", "neg_log_loss"
    share = False

    def estimate(self, counts: ClassCounts) -> Estimate | None:
        found = _mean_loss(counts, 0)
        return None if found is None else found.times(loss_cap(counts.n_classes))

    def exact(self, rows: LabelledScores, owners: Owners) -> Estimate | None:
        """Without a cap."""
        return exact_mean(rows.losses, owners, (0.0, math.inf)) if rows.has_probabilities else None

    def check(self, facts: SearchFacts) -> None:
        if not facts.has_probabilities:
            raise Unsupported("scoring='neg_log_loss' needs probabilities, which this loss does not give.")

    def numbers(self, rows: ValidationRows) -> Vector:
        losses = np.clip(np.nan_to_num(-rows.log_chances, nan=MOST_LOG_LOSS), 0.0, MOST_LOG_LOSS)
        return np.asarray(1 - losses / MOST_LOG_LOSS)

    def worst(self, facts: SearchFacts) -> float:
        return MOST_LOG_LOSS


@register_metric
class BrierScore(Metric):
    """Half the squared distance of the probabilities from the label, on average."""

    name, title = "brier", "Brier score"

    def estimate(self, counts: ClassCounts) -> Estimate | None:
        return _mean_loss(counts, 2)

    def exact(self, rows: LabelledScores, owners: Owners) -> Estimate | None:
        return exact_mean(rows.brier, owners) if rows.has_probabilities else None


def _mean_loss(counts: ClassCounts, place: int) -> Estimate | None:
    """The sum at this place of ``LOSS_WEIGHTS``, after which its squares come, over the number of rows."""
    estimates = counts.counts
    if not estimates.design.has(LOSSES):
        return None
    first = estimates.design.place(LOSSES).start + place
    everyone = estimates.among(CONFUSION, np.ones((1, counts.n_classes**2)))[0]
    n = max(1.0, float(everyone @ estimates.mean))
    total, squares = estimates.mean[first : first + 2]
    # Numbers from 0 to 1 have squares that sum to no more than they do, and no less than their mean allows.
    held = min(max(float(squares), max(0.0, float(total)) ** 2 / n), max(0.0, float(total)))
    return mean(
        estimates, estimates.among(LOSSES, np.eye(len(LOSS_WEIGHTS))[place : place + 1])[0], everyone, held
    )
