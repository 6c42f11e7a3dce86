"""An outlook in words, for a terminal and for the text of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from dperm.neighbours import Neighbours
from dperm.planning.expectation import Forecast, constants
from dperm.planning.outlook import Outlook

NAMES = {"accuracy": "accuracy", "auc": "AUC", "r2": "R²"}
FACTS = {"level": "a noise level", "n": "rows", "features": "features", "outputs": "classes"}


def points(forecast: Forecast) -> str:
    """An expected loss with its band, in points: hundredths of the metric."""
    return f"{_number(forecast.expected)} ({_number(forecast.low)} to {_number(forecast.high)})"


def points_at_most(forecast: Forecast) -> str:
    """The same with the upper end of the band alone."""
    return f"{_number(forecast.expected)} (up to {_number(forecast.high)})"


def in_short(outlook: Outlook) -> str:
    """One line for the text of a plan."""
    if outlook.too_noisy:
        return "more noise than in any run of the study: expect a model of little use (dperm plan)"
    told = "; ".join(f"{NAMES[metric]} {points(found)}" for metric, found in outlook.losses.items())
    beyond = "; beyond what was studied" if outlook.beyond else ""
    return f"a loss of points against the model without noise: {told}{beyond} (dperm plan)"


def losses_in_words(outlook: Outlook) -> list[str]:
    """What is expected to be lost, and how far that is to be trusted."""
    if outlook.too_noisy:
        return ["more noise than in any run of the study: expect a model of little use"]
    lines = [f"{NAMES[metric]:<10}{points(found)} points" for metric, found in outlook.losses.items()]
    curves = list(outlook.curves.values())
    shares = _listed([f"{100 * curve.share:.0f}\N{NO-BREAK SPACE}%" for curve in curves])
    lines.append(
        f"In brackets the band for 8 of 10 tables, from a study of the default on {curves[0].sets} public tables "
        f"({constants()['made']}). Of each table, left out of the fit, {shares} of the runs lay in it. A forecast for "
        "tables like those, not a promise."
    )
    if outlook.problem.many_rows:
        lines.append(
            "The study had one row of each person; the rows of one person count here as their mean does."
        )
    return lines + beyond_in_words(outlook)


def beyond_in_words(outlook: Outlook) -> list[str]:
    """Which facts lie outside of the study; nothing if none does."""
    if not outlook.beyond:
        return []
    asked = {
        "level": outlook.level,
        "n": outlook.problem.n_rows,
        "features": outlook.problem.n_features,
        "outputs": outlook.problem.loss.outputs,
    }
    parts = []
    for name, (low, high) in outlook.beyond.items():
        value = f"{FACTS[name]} of {asked[name]:.2g}" if name == "level" else f"{asked[name]:,} {FACTS[name]}"
        parts.append(f"{value} (studied: {low:,.3g} to {high:,.6g})")
    return [f"Beyond what was studied: {'; '.join(parts)}."]


def noise_in_words(outlook: Outlook) -> list[str]:
    """How large the noise is, against what rows can do."""
    rows, n = outlook.rows_worth, outlook.problem.n_rows
    hidden = outlook.problem.neighbours is Neighbours.ADD_REMOVE
    change = "adding or removing" if hidden else "replacing"
    units = f"{outlook.problem.unit}s"
    of = f"{_count(rows)} {units} of at most {n:,}" if hidden else f"{_count(rows)} of the {n:,} {units}"
    if rows > n:
        return [
            f"In size it is more than {change} all {n:,} {units} could do to the fit; noise level {outlook.level:.2g}."
        ]
    return [
        f"In size it is what {change} {of} at worst could do to the fit ({100 * rows / n:.2g} %); noise level "
        f"{outlook.level:.2g}."
    ]


def half_in_words(outlook: Outlook) -> list[str]:
    """What would halve the first loss."""
    if outlook.too_noisy:
        return [
            f"More {outlook.problem.unit}s, fewer features or a larger ε; this is too far off to say how much."
        ]
    half = outlook.half()
    name = NAMES[next(iter(outlook.losses))]
    if half is None:
        return [f"Next to no {name} is expected to be lost: there is nothing to halve."]
    units = f"{outlook.problem.unit}s"
    if half.n_rows is None:
        return [f"Half of the loss of {name} was not reached in the study by {units} or by ε."]
    epsilon = "" if half.epsilon is None else f", or ε = {half.epsilon:.2g} with these {units}"
    return [f"{_rounded(half.n_rows):,} {units} at ε = {outlook.budget.epsilon:g}{epsilon}."]


def _number(share: float) -> str:
    """Points with as many digits as mean something."""
    value = 100 * share
    if value < 0.05:
        return "0" if value > -0.05 else f"{value:.1f}"
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def _count(rows: float) -> str:
    return f"about {_rounded(rows):,}" if rows >= 1 else "less than 1"


def _rounded(count: float) -> int:
    """Two digits are enough of an estimate."""
    scale: int = 10 ** max(0, len(str(int(count))) - 2)
    return round(count / scale) * scale


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(dict.fromkeys(parts))
