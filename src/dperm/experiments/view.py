"""Which part of an axis matters: from the best value to somewhat beyond the method that looks at nothing."""

from collections.abc import Sequence

import numpy as np

from dperm.experiments.metrics import METRICS
from dperm.experiments.results import Curve
from dperm.experiments.series import MINIMISER, Look, line

_OF_THE_COST = 4.0
_OF_THE_TRIVIAL = 1.3
_OF_THE_MEDIAN = 2.0
_ROOM = 1.15
_LEAST = 0.02  # of the best value: what is flat is not blown up


def limit(found: Sequence[Curve], looks: Sequence[Look], metric: str) -> float | None:
    """The worst value that is drawn, None where all of them are or where no direction is better.

    Behind the best value of all there is room for the best private method at every epsilon, and for twice the median of
    the named ones. Beyond that, room ends at four times what privacy costs the former, or a little behind the baseline
    that gives all rows one prediction, whichever comes first.
    """
    better = METRICS[metric].better
    drawn = [
        (curve, look, better * points.mean, points.epsilons.tolist())
        for curve, look in zip(found, looks, strict=True)
        if (points := line(curve, metric, found)) is not None
    ]
    private = [(mean, at) for curve, look, mean, at in drawn if curve.private and look.kind != "oracle"]
    if better == 0 or not private:
        return None
    every = np.concatenate([mean for _, _, mean, _ in drawn])
    best = float(every.max())
    reached: dict[float, float] = {}
    for mean, at in private:
        for epsilon, value in zip(at, mean.tolist(), strict=True):
            reached[epsilon] = max(reached.get(epsilon, -np.inf), value)
    cost = best - min(reached.values())
    trivial = [best - float(mean[-1]) for curve, _, mean, _ in drawn if _is_trivial(curve)]
    named = [best - mean for _, look, mean, _ in drawn if look.colour is not None]
    depth = max(
        _ROOM * cost,
        _OF_THE_MEDIAN * float(np.median(np.concatenate(named))) if named else 0.0,
        min([_OF_THE_COST * cost, *(_OF_THE_TRIVIAL * far for far in trivial)]),
        _LEAST * abs(best),
    )
    return better * (best - depth) if float(every.min()) < best - depth else None


def _is_trivial(curve: Curve) -> bool:
    return not curve.private and curve.mechanism != MINIMISER
