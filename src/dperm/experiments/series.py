"""What figures and pages draw: means with standard errors, a look for every configuration, and where an axis ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.experiments.metrics import METRICS, SCORES
from dperm.experiments.results import Curve, Study, mean_and_error
from dperm.experiments.spec import ORACLE_MARK

MINIMISER = "none"
DEFAULT = "auto"
COLOURS = 8
"""So many configurations are told apart by colour and name; of more, the most accurate ones."""

TIGHT = ("default", "private")
"""Kinds of look of a model that is private at the exact price."""

_SMALLEST_EXCESS = 1e-7  # float32 rows do not resolve less

# Which part of an axis matters: from the best value to somewhat beyond the method that looks at nothing.
_OF_THE_COST = 4.0
_OF_THE_TRIVIAL = 1.3
_OF_THE_MEDIAN = 2.0
_ROOM = 1.15
_LEAST = 0.02  # of the best value: what is flat is not blown up

Values = list[NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Look:
    """``colour`` counts from 0 and is None for grey; ``kind`` is default, private, paper, oracle or baseline."""

    colour: int | None
    kind: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Line:
    """One configuration in one metric. ``error`` is not a number where there are too few runs to tell."""

    epsilons: NDArray[np.float64]
    mean: NDArray[np.float64]
    error: NDArray[np.float64]


def is_above_minimum(found: Sequence[Curve], metric: str) -> bool:
    """Whether objectives are drawn as what they exceed the least one by: the exact minimiser took part."""
    return metric == "objective" and len(found) > 1 and _minimiser(found) is not None


def known_metrics(found: Sequence[Curve], metrics: Sequence[str]) -> tuple[str, ...]:
    """Those of the metrics that some curve has values of."""
    return tuple(
        metric
        for metric in metrics
        if any(np.isfinite(values).all() for curve in found for values in getattr(curve, metric))
    )


def line(curve: Curve, metric: str, found: Sequence[Curve]) -> Line | None:
    """How to draw the curve, one of those found; None where it has nothing to draw in this metric."""
    if metric not in METRICS:
        raise InvalidInput(f"metric must be one of {', '.join(METRICS)}; got {metric!r}.")
    values: Values = getattr(curve, metric)
    if is_above_minimum(found, metric):
        minimiser = _minimiser(found)
        if curve is minimiser:
            return None
        assert minimiser is not None
        values = _excess(curve, minimiser)
    drawn = [place for place, some in enumerate(values) if np.isfinite(some).all()]
    if not drawn:
        return None
    mean, error = zip(*(mean_and_error(values[i], curve.runs[i][:, 0]) for i in drawn), strict=True)
    return Line(epsilons=curve.epsilons[drawn], mean=np.array(mean), error=np.array(error))


def error_in_words(study: Study) -> str:
    """What the bands and the numbers behind ± are."""
    if study.repeats > 1:
        return f"± one standard error of the mean over {study.repeats} repeats"
    if study.folds > 1:
        return f"± one standard error of the mean over the {study.folds} folds of one repeat"
    return "no standard error, since there is one run"


def looks(found: Sequence[Curve], highlight: Sequence[str] = ()) -> list[Look]:
    """A look for every curve, in their order.

    The paper's accounting and the choice on the test rows take the colour of their mechanism. Where there are more
    mechanisms than colours, the most accurate ones over all epsilons keep one, or those in ``highlight``.
    """
    unknown = set(highlight) - {curve.label for curve in found}
    if unknown:
        raise InvalidInput(f"highlight names {sorted(unknown)[0]!r}, which is not part of these results.")
    family = {curve.label: _family(curve, found) for curve in found if curve.private}
    names = list(dict.fromkeys(family.values()))
    if highlight:
        chosen = {family[name] for name in highlight if name in family}
    else:
        chosen = set(sorted(names, key=_score(found, family), reverse=True)[:COLOURS])
    coloured = [name for name in names if name in chosen]
    if len(coloured) > COLOURS:
        raise InvalidInput(f"highlight has {len(coloured)} mechanisms; there are {COLOURS} colours.")
    number = {name: place for place, name in enumerate(coloured)}
    return [Look(colour=number.get(family.get(curve.label, "")), kind=_kind(curve)) for curve in found]


def display_name(curve: Curve) -> str:
    """The label without the mark of an oracle, which figures spell out beside it."""
    return curve.label.removesuffix(ORACLE_MARK) if curve.tuning == "oracle" else curve.label


def remark(curve: Curve) -> str:
    """What a reader must know of a configuration beside its name."""
    return {
        "oracle": "chosen on test, not private",
        "baseline": "not private",
        "paper": "the paper's accounting",
        "default": "the default",
        "private": "settings chosen privately" if curve.tuning == "search" else "",
    }[_kind(curve)]


def _kind(curve: Curve) -> str:
    if not curve.private:
        return "baseline"
    if curve.tuning == "oracle":
        return "oracle"
    if curve.label == DEFAULT:
        return "default"
    return "paper" if curve.accounting == "paper" else "private"


def _family(curve: Curve, found: Sequence[Curve]) -> str:
    """The label of the curve that this one shares its colour with."""
    if _kind(curve) in TIGHT:
        return curve.label
    same = (one.label for one in found if one.mechanism == curve.mechanism and _kind(one) in TIGHT)
    return next(same, curve.label)


def _score(found: Sequence[Curve], family: dict[str, str]) -> Callable[[str], float]:
    """Mean accuracy, or R², over all epsilons; where a family has no result it counts as the worst there."""
    score = next(iter(known_metrics(found, SCORES)), SCORES[0])
    best: dict[str, dict[float, float]] = {}
    for curve in found:
        if curve.private:
            mine = best.setdefault(family[curve.label], {})
            for epsilon, runs in zip(curve.epsilons.tolist(), getattr(curve, score), strict=True):
                mine[epsilon] = max(mine.get(epsilon, -np.inf), float(runs.mean()))
    every = {epsilon for mine in best.values() for epsilon in mine}
    worst = {epsilon: min(mine.get(epsilon, 1.0) for mine in best.values()) for epsilon in every}
    return lambda name: sum(best[name].get(epsilon, worst[epsilon]) for epsilon in every)


def _minimiser(found: Sequence[Curve]) -> Curve | None:
    return next((curve for curve in found if curve.mechanism == MINIMISER), None)


def _excess(curve: Curve, minimiser: Curve) -> Values:
    """Objectives above the least ones on the same rows: those of the same repeat and fold."""
    least = {  # a baseline is the same at every epsilon
        tuple(run): value
        for run, value in zip(minimiser.runs[0].tolist(), minimiser.objective[0], strict=True)
    }
    average = float(np.mean(minimiser.objective[0]))
    return [
        np.maximum(values - [least.get(tuple(run), average) for run in runs.tolist()], _SMALLEST_EXCESS)
        for values, runs in zip(curve.objective, curve.runs, strict=True)
    ]


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
