"""Which scores of a classifier are counted in bins, and where the bins lie, by the public model alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from dperm.estimators.margin_bins import LEAST_SPREAD, Places, Scale, margin_scale, margins_about
from dperm.evaluation.subject import Subject

Vector = NDArray[np.float64]

SCORES, CONFIDENCE, AGAINST = "scores", "confidence", "one against the rest"
MOST_AGAINST = 16
"""Classes up to which each is also judged against all others: every one needs a histogram of its own."""
MARGIN_STRETCH = 3.0
"""Margins without a link, such as those of an SVM, are taken for log odds once they are this much longer."""

_FAR = 1e6  # a margin that overflowed is cut, so that what follows is a number whatever the row


@dataclass(frozen=True)
class ScoreBins:
    """So many bins of each score, and the scales of the scores by the names of their histograms."""

    count: int
    scales: Mapping[str, Scale]

    def place(self, name: str, scores: Vector) -> Places:
        return self.scales[name].place(scores, self.count)

    def limits(self, name: str) -> Vector:
        """Edges as probabilities, with 0 and 1 at the ends."""
        return np.concatenate([[0.0], expit(self.scales[name].edges(self.count)), [1.0]])

    def to_list(self) -> list[dict[str, float | str | None]]:
        """What the edges follow from, for a file."""
        return [
            {"name": name, "centre": scale.centre, "spread": scale.spread, "line": scale.line}
            for name, scale in self.scales.items()
        ]


def stated_scales(stated: Sequence[Mapping[str, Any]]) -> dict[str, Scale]:
    """From what a file lists."""
    return {one["name"]: Scale(float(one["centre"]), float(one["spread"]), one["line"]) for one in stated}


def scores_of(subject: Subject, margins: Vector) -> Vector:
    """Margins as log odds, up to a constant of each row where there are several."""
    odds = subject.loss.log_odds(margins) if subject.has_probabilities else MARGIN_STRETCH * margins
    return np.clip(np.nan_to_num(np.asarray(odds, np.float64)), -_FAR, _FAR)


def line_of(subject: Subject) -> float:
    """Where the model's own threshold lies among the scores of two classes."""
    threshold = getattr(subject.model, "threshold_", None)
    return 0.0 if threshold is None else float(scores_of(subject, np.array([threshold.margin]))[0])


def scales_of(subject: Subject) -> dict[str, Scale]:
    """The scales of all scores that are binned, from coefficients, intercept and row map.

    Of several classes the log odds of one against the rest are spread as its margin is that of the others, as they
    weigh at the centre of the rows, taken off.
    """
    model = subject.model
    if subject.task == "regression":
        return {}
    if subject.task == "binary":
        margins = margin_scale(model)
        points = np.array([margins.centre - margins.spread, margins.centre, margins.centre + margins.spread])
        low, centre, high = scores_of(subject, points)
        return {SCORES: Scale(float(centre), _spread(high - low), line_of(subject))}
    centre, spread = margins_about(model, model.coef_)
    low, high = (scores_of(subject, centre + sign * spread) for sign in (-1, 1))
    odds, weights = scores_of(subject, centre), model.coef_ * ((high - low) / (2 * spread))[:, None]
    against = {}
    for k in range(len(odds)):
        others = np.delete(np.arange(len(odds)), k)
        rest = float(logsumexp(odds[others]))
        moved = weights[k] - np.exp(odds[others] - rest) @ weights[others]
        (length,) = margins_about(model, moved[None])[1]
        against[f"{AGAINST} {k}"] = Scale(float(odds[k]) - rest, _spread(2 * length))
    found = against if len(odds) <= MOST_AGAINST else {}
    if subject.has_probabilities:
        centre, spread = (
            max(getattr(one, name) for one in against.values()) for name in ("centre", "spread")
        )
        found = found | {CONFIDENCE: Scale(centre, spread)}
    return found


def _spread(both_sides: float) -> float:
    return min(max(float(both_sides) / 2, LEAST_SPREAD), _FAR)
