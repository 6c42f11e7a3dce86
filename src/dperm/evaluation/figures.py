"""All figures of an evaluation from the released vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.class_figures import class_figures, confusion, rates
from dperm.evaluation.classifying import CONFUSION, class_constraints
from dperm.evaluation.curves import calibration, roc
from dperm.evaluation.design import Design
from dperm.evaluation.estimates import Estimates
from dperm.evaluation.intervals import Figure, Z
from dperm.evaluation.regressing import ROWS, no_constraints
from dperm.evaluation.regression_figures import regression_figures
from dperm.evaluation.scales import ScoreBins
from dperm.evaluation.subject import Public

Vector = NDArray[np.float64]


def figures(
    subject: Public,
    design: Design,
    released: Vector,
    noise_scale: float,
    n_rows: int | None,
    bins: ScoreBins | None,
    error_bound: float | None = None,
) -> dict[str, Any]:
    """Metrics and curves by the names that ``Evaluation`` has for them. ``n_rows`` is None where it is private.

    It is the number of persons where they are counted, as in all that follows.
    """
    if subject.task == "regression":
        counts = Estimates.of(design, released, noise_scale, no_constraints(design))
        low, high = subject.y_range
        found: dict[str, Any] = {"metrics": regression_figures(counts, n_rows, high - low, error_bound)}
        total = np.ones(1) if design.has(ROWS) else np.zeros(0)
        return found | _row_count(counts, ROWS, total, n_rows)
    n_classes = len(subject.classes)
    assert bins is not None
    constraints = class_constraints(design, n_classes, bins, n_rows)
    counts = Estimates.of(design, released, noise_scale, constraints)
    found = {
        "metrics": class_figures(counts, n_classes, bins.count),
        "confusion": confusion(counts, n_classes),
        "rates": rates(counts, n_classes),
        "roc": roc(counts, bins) if n_classes == 2 else [],
        "calibration": calibration(counts, bins, n_classes) if subject.has_probabilities else [],
    }
    return found | _row_count(counts, CONFUSION, np.ones(n_classes**2), n_rows)


def _row_count(counts: Estimates, name: str, total: Vector, n_rows: int | None) -> dict[str, Any]:
    """The number of rows, where it is private."""
    if n_rows is not None:
        return {}
    estimate = max(0.0, float(counts.part(name) @ total))
    noise = Z * math.sqrt(float(counts.covariance(counts.among(name, total[None]))[0, 0]))
    low = max(0.0, estimate - noise)
    return {"row_count": Figure(estimate=estimate, low=low, high=estimate + noise, noise=noise)}
