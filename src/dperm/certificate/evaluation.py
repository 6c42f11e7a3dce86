"""What an evaluation and mean predictions state: who may claim, how far one row moves the sums, what the noise costs.

The formulas are those of docs/proofs/evaluation.md and docs/proofs/means.md, written anew: ``dperm.evaluation`` shares
none of this code, so that a mistake there is not repeated here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dperm.certificate.accountant import Price, gaussian_price
from dperm.certificate.constants import ROWS_CHANGED, grid_exponent, padded
from dperm.errors import InvalidInput
from dperm.privacy.entropy import SeededEntropy, SystemEntropy
from dperm.unit import UNITS

MOST_ROWS = 2**32
MOST_AGAINST = 16
STEP, FINE = 2.0**-20, 2.0**-40  # of what is counted, and of the numbers of a row before
FARTHEST = 1e7
CLOSE = 1e-12
# Weights of the sums of a regression, by the powers of error and target that they are sums of.
MOMENTS = {
    (0, 1): 0.5,
    (0, 2): 0.75,
    (0, 3): 0.25,
    (0, 4): 0.25,
    (1, 0): 1.0,
    (2, 0): 1.5,
    (4, 0): 0.5,
    (2, 1): 0.25,
    (2, 2): 0.25,
}
LOSSES = (1.0, 0.5, 0.5, 0.25)
_SHA256 = re.compile("[0-9a-f]{64}")
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,64}")


class Counted(NamedTuple):
    """One part of the vector: its weights, number by number, its step, and the square of how far one row moves it."""

    name: str
    weights: tuple[float, ...]
    step: float
    squared: float


def class_parts(n_classes: int, bins: int, probabilities: bool, relation: str) -> list[Counted]:
    """Histograms of label and prediction, and of scores; sums of losses from 0 to 1."""
    parts = [_histogram("confusion", n_classes * n_classes, 1.0, relation)]
    if n_classes == 2:
        parts.append(_histogram("scores", 2 * bins, 1.0, relation))
    elif n_classes <= MOST_AGAINST:
        weight = 1.0
        while n_classes * weight * weight > 1:  # all of them together count as one histogram at most
            weight /= 2
        for k in range(n_classes):
            parts.append(_histogram(f"one against the rest {k}", 2 * bins, weight, relation))
    if probabilities:
        if n_classes > 2:
            parts.append(_histogram("confidence", 2 * bins, 0.5, relation))
        parts.append(Counted("losses", LOSSES, STEP, math.fsum(w * w for w in LOSSES)))
    return parts


def regression_parts(relation: str) -> list[Counted]:
    """Moments; the two rows that are farthest apart are (t, e) = (1, 1) and (-1, 0), or the first and none."""
    weights = tuple(MOMENTS.values())
    far = 0.0
    for (error, target), weight in MOMENTS.items():
        other = 0.0 if relation == "add-remove" or error else (-1.0) ** target
        far += (weight * (1.0 - other)) ** 2
    rounding = (STEP + FINE) * math.sqrt(math.fsum(w * w for w in weights))
    moments = Counted("moments", weights, STEP, (math.sqrt(far) + rounding) ** 2)
    return [_histogram("rows", 1, 1.0, relation), moments] if relation == "add-remove" else [moments]


def means_parts(n_groups: int, relation: str) -> list[Counted]:
    """Rows, t and 1 - t² of each group: a row's own three numbers have a squared length of at most 2."""
    return [Counted("groups", (1.0,) * (3 * n_groups), STEP, 2.0 * ROWS_CHANGED[relation])]


def check_claim(stated: Mapping[str, Any]) -> str:
    """What may be claimed at all: budget, relation, unit, numbers of rows, and where the noise came from."""
    if not _SHA256.fullmatch(stated["model"]["sha256"]):
        raise InvalidInput("model, sha256 must have 64 hexadecimal digits.")
    if not _VERSION.fullmatch(stated["library"]):
        raise InvalidInput("library must be a version.")
    if stated["unit"] not in UNITS:
        raise InvalidInput(f"unit must be {' or '.join(UNITS)}.")
    budget, release, relation = stated["budget"], stated["release"], stated["relation"]
    if relation not in ROWS_CHANGED:
        raise InvalidInput(f"relation must be {' or '.join(ROWS_CHANGED)}.")
    if budget is None or release is None:
        raise InvalidInput("a budget and a release must be stated.")
    if not (0 < budget["epsilon"] < math.inf and 0 < budget["delta"] < 1):
        raise InvalidInput("budget: epsilon must lie above 0, and delta between 0 and 1.")
    public, bound = ("rows", "max_rows") if relation == "replace-one" else ("max_rows", "rows")
    if stated[bound] is not None or stated[public] is None or not 1 <= stated[public] <= MOST_ROWS:
        raise InvalidInput(
            "rows is public under replace-one and max_rows under add-remove, from 1 to 2**32; the other is null."
        )
    source = SystemEntropy if release["secure"] else SeededEntropy
    if release["entropy"] != source.name or stated["private"] is not release["secure"]:
        raise InvalidInput("private, secure and entropy do not say the same of the noise.")
    if not release["secure"]:
        return "no guarantee is claimed"
    return f"budget, relation and numbers of rows; noise from the {release['entropy']}"


def check_release(release: Mapping[str, Any], parts: Sequence[Counted]) -> str:
    """Parts, sensitivity, grid and number of the released numbers, by the formulas of the proof."""
    if release["parts"] != [_told(part) for part in parts]:
        raise InvalidInput("release, parts are not what is counted here, with their sizes and weights.")
    sensitivity = math.sqrt(math.fsum(part.squared for part in parts))
    if not math.isclose(release["sensitivity"], sensitivity, rel_tol=CLOSE):
        raise InvalidInput(
            f"release, sensitivity is stated as {release['sensitivity']:.12g}; it is {sensitivity:.12g}."
        )
    dimension = sum(len(part.weights) for part in parts)
    if len(release["numbers"]) != dimension:
        raise InvalidInput(
            f"release, numbers: {dimension} are released, and there are {len(release['numbers'])}."
        )
    exponent = grid_exponent(sensitivity, dimension)
    if release["grid_exponent"] != exponent:
        raise InvalidInput(
            f"release, grid_exponent is stated as {release['grid_exponent']}; it is {exponent}."
        )
    if not all(math.ldexp(number, -exponent).is_integer() for number in release["numbers"]):
        raise InvalidInput("release, numbers are not all on the grid of the noise.")
    return f"sensitivity {sensitivity:.6g}, grid and size of one release of {dimension} numbers"


def check_scales(scales: Sequence[Mapping[str, Any]], parts: Sequence[Counted]) -> None:
    """Every histogram of scores has its scale, that of two classes with the line of the prediction."""
    binned = ("scores", "confidence", "one against the rest")
    if [one.get("name") for one in scales] != [part.name for part in parts if part.name.startswith(binned)]:
        raise InvalidInput("release, scales must be those of the scores that are counted in bins.")
    for one in scales:
        needed = ("centre", "spread", "line") if one["name"] == "scores" else ("centre", "spread")
        sized = all(isinstance(one.get(key), float | int) and abs(one[key]) <= FARTHEST for key in needed)
        told = {key for key, value in one.items() if value is not None}
        if len(one) != 4 or told != {"name", *needed} or "line" not in one or not sized or one["spread"] <= 0:
            raise InvalidInput(
                "release, scales have a name, a centre, a spread above 0 and, of two classes alone, a line."
            )


def release_price(release: Mapping[str, Any]) -> Price:
    """Of the stated noise, for a release that was checked."""
    if not 0 < release["noise_scale"] < math.inf:
        raise InvalidInput("release, noise_scale must lie above 0.")
    mu = padded(release["sensitivity"], len(release["numbers"])) / release["noise_scale"]
    return gaussian_price(mu, "one Gaussian release")


def _histogram(name: str, cells: int, weight: float, relation: str) -> Counted:
    """A row that is replaced leaves one cell and comes to another; one that comes or goes changes one."""
    return Counted(name, (weight,) * cells, STEP, ROWS_CHANGED[relation] * weight * weight)


def _told(part: Counted) -> dict[str, Any]:
    """As a file tells it: one weight where all are the same."""
    weights = [part.weights[0]] if len(set(part.weights)) == 1 else list(part.weights)
    return {"name": part.name, "size": len(part.weights), "weights": weights, "step": part.step}
