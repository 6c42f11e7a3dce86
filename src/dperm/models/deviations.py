"""How far the noise of privacy may have moved a number that is read off a model (docs/proofs/summary.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from dperm.certificate.statement import mechanism_of, problem_of
from dperm.errors import DpermError
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.linear import half_range
from dperm.mechanisms.inference import Inside, WeightNoise
from dperm.models.synthetic_rows import curvature
from dperm.row_map import RowMap
from dperm.schema import Schema

Floats = NDArray[np.float64]

EXACT, AT_LEAST, AT_MOST, UNKNOWN = "exact", "at least", "at most", "not known"
ESTIMATED = "estimated"  # by what a model released for intervals
STANDS_OUT = 2.0  # standard deviations: unless some change is as large as that, a bound is not worth showing

_WORDS = {
    EXACT: "The noise was added to the coefficients, so its standard deviation is exact.",
    AT_MOST: "The standard deviation of the noise is at most what is shown.",
}
_NOT_PRIVATE = "No noise was added: this model is not private."
_ROWS_TELL = (
    "How far the noise of this mechanism moved the coefficients depends on the rows, and is not known without looking "
    "at them."
)
_USELESS = (
    "How far the noise moved the coefficients depends on the curvature at the rows; what is known without them, at "
    "most {:.2g} on a weight, is too wide for any change to stand out."
)
_STABLE = " It is a bound to first order, for descent that does not run away."


@dataclass(frozen=True, eq=False, kw_only=True)
class Deviations:
    """Standard deviations of combinations of coefficients over the noise alone; None where they are not known.

    ``sure`` says how they are meant: ``exact``, ``at least``, ``at most``, ``estimated`` or ``not known``, and
    ``words`` in a sentence.
    """

    values: Floats | None
    sure: str
    words: str


def deviations(
    model: PrivateLinearModel, combinations: Any, changes: Floats, schema: Schema | None
) -> Deviations:
    """Of combinations of ``coef_``, one row each, whose values are ``changes``; and, as the last one, of the intercept.

    For several classes they are those of a class less the mean of all.
    """
    noise = weight_noise(model)
    if noise is None:
        return Deviations(values=None, sure=UNKNOWN, words=_ROWS_TELL)
    if noise.exact and noise.deviation == 0:
        return Deviations(values=np.zeros(combinations.shape[0] + 1), sure=EXACT, words=_NOT_PRIVATE)
    rows = on_weights(model.row_map_, combinations)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    bounds = unit_of(model) * noise.deviation * lengths
    if noise.exact:
        return Deviations(values=bounds, sure=EXACT, words=_WORDS[EXACT])
    curved = None if noise.inside is None else curvature(model, noise.inside, schema)
    if noise.inside is not None and curved is not None:
        # No more than the bound, which holds whatever the rows.
        values = np.minimum(unit_of(model) * spread(rows, noise.inside, curved.hessian), bounds)
        return Deviations(values=values, sure=AT_LEAST, words=curved.words)
    if (np.abs(changes) <= STANDS_OUT * bounds[:-1, None]).all():
        return Deviations(values=None, sure=UNKNOWN, words=_USELESS.format(noise.deviation))
    words = _WORDS[AT_MOST] + (_STABLE if noise.if_stable else "")
    return Deviations(values=bounds, sure=AT_MOST, words=words)


def weight_noise(model: PrivateLinearModel) -> WeightNoise | None:
    """What the constants of the certificate tell of the noise on the weights of mapped rows."""
    statement = model.privacy_.statement
    stated, scale = statement["mechanism"], statement["planned"]["noise_scale"]
    if scale is None:
        return WeightNoise(deviation=0.0, exact=True)
    try:
        return mechanism_of(stated["chosen"]).weight_noise(problem_of(statement), stated["used"], scale)
    except (DpermError, KeyError):  # another release of the library had other settings
        return None


def on_weights(row_map: RowMap, combinations: Any) -> Any:
    """The same combinations and the intercept, of the weights that mapped rows are multiplied by."""
    scaled = combinations if row_map.scale is None else combinations.multiply(1 / row_map.scale[None, :])
    scaled = sparse.csr_array(scaled)
    if not row_map.intercept:
        return sparse.vstack([scaled, sparse.csr_array((1, scaled.shape[1]))], format="csr")
    centre = np.zeros(scaled.shape[1]) if row_map.centre is None else row_map.centre
    last = -centre if row_map.scale is None else -centre / row_map.scale
    features = sparse.vstack([scaled, sparse.csr_array(last[None, :])])
    constant = np.zeros((features.shape[0], 1))
    constant[-1] = row_map.intercept
    return sparse.hstack([features, sparse.csr_array(constant)], format="csr")


def spread(rows: Any, inside: Inside, hessian: Floats) -> Floats:
    """First order: the minimiser moves by the inverse Hessian times the noise in the objective."""
    moved = cho_solve(cho_factor(hessian), rows.toarray().T)
    squares = inside.noise**2 * np.einsum("ij,ij->j", moved, moved)
    added = inside.output**2 * np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.asarray(np.sqrt(squares + added))


def unit_of(model: PrivateLinearModel) -> float:
    """From a margin to what is shown: the unit of the target, or a class against the mean of all."""
    targets, problem = (model.privacy_.statement[name] for name in ("targets", "problem"))
    if targets["kind"] == "range":
        return half_range(targets["low"], targets["high"], problem["intercept"] > 0)
    outputs = problem["outputs"]
    return 1.0 if outputs == 1 else float(np.sqrt(1 - 1 / outputs))
