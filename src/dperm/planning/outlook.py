"""Is epsilon enough? What a fit of the default is expected to lose, and what would change that; from public facts."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from dperm.planning.rules import noise_level, noise_parameter
from dperm.privacy import Budget, GaussianProfile, gaussian_mu
from dperm.privacy.budget import EPSILON_RANGE
from dperm.privacy.selection import cheapest_selection
from dperm.problem import Problem
from dperm.unit import Neighbours

CONSTANTS, STUDY = "expected.json", "study.csv"

FORMS: Mapping[str, tuple[str, ...]] = {
    "line": ("1", "x"),
    "line, classes": ("1", "x", "k"),
    "bend": ("1", "x", "xx"),
    "bend, classes": ("1", "x", "xx", "k"),
}
"""What a curve may be a sum of: x is the noise level and k the number of outputs, as binary logarithms."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """An expected loss, and the band around it."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class LossCurve:
    r"""Expected loss of a metric: :math:`\operatorname{asinh}(\text{loss}/s) = \log(1 + e^t)`, t a sum of terms.

    Below ``scale`` s a loss counts as it is, far above it by its logarithm. ``low`` and ``high`` are added on that
    scale and give the ends of the band. ``share`` of the runs on the ``sets`` tables, each table left out of the fit of
    its own band, lay inside, every table counting once. ``studied`` has the smallest and the largest noise level,
    number of rows, features and outputs in the study.
    """

    metric: str
    form: str
    scale: float
    coefficients: tuple[float, ...]
    low: float
    high: float
    share: float
    sets: int
    studied: Mapping[str, tuple[float, float]]

    def __call__(self, level: float, outputs: int = 1) -> Forecast:
        """The forecast at a noise level, with the number of outputs: 1, or the number of more than 2 classes."""
        x, k = math.log2(level), math.log2(outputs)
        terms = {"1": 1.0, "x": x, "xx": x * x, "k": k}
        t = math.fsum(c * terms[name] for c, name in zip(self.coefficients, FORMS[self.form], strict=True))
        height = max(t, 0.0) + math.log1p(math.exp(-abs(t)))
        most = math.inf if self.metric == "r2" else 1.0
        expected, low, high = (
            min(self.scale * math.sinh(height + shift), most) for shift in (0.0, self.low, self.high)
        )
        return Forecast(expected=expected, low=low, high=high)

    def level_for(self, loss: float, outputs: int = 1) -> float | None:
        """The noise level at which this loss is expected; None if it is below the studied ones."""
        low, high = (math.log2(end) for end in self.studied["level"])
        if self(2.0**low, outputs).expected > loss:
            return None
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (low, middle) if self(2.0**middle, outputs).expected > loss else (middle, high)
        return math.exp2(low)

    def beyond(self, **facts: float) -> dict[str, tuple[float, float]]:
        """Which of these facts lie outside of what was studied, with what was."""
        return {
            name: self.studied[name]
            for name, value in facts.items()
            if not self.studied[name][0] <= value <= self.studied[name][1]
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> LossCurve:
        studied = {name: (low, high) for name, (low, high) in stored["studied"].items()}
        return cls(**{**stored, "coefficients": tuple(stored["coefficients"]), "studied": studied})


@lru_cache(maxsize=1)
def constants() -> dict[str, Any]:
    """The generated file: when and by which command it was made, from which tables, and the curves."""
    stored: dict[str, Any] = json.loads(_read(CONSTANTS))
    return stored


def loss_curve(metric: str) -> LossCurve:
    """The curve of "accuracy", "auc" or "r2"."""
    return next(LossCurve.from_dict(one) for one in constants()["curves"] if one["metric"] == metric)


def study_rows() -> list[dict[str, str]]:
    """The study behind the curves, as text: mean losses for each table, size and epsilon."""
    return list(csv.DictReader(_read(STUDY).splitlines()))


def _read(name: str) -> str:
    return (files("dperm.planning") / "data" / name).read_text(encoding="utf-8")


HELD_OUT = 0.2
"""Share of the rows that an evaluation or a search keeps for itself."""

CANDIDATES = 10.0
"""Mean number of settings that a private search tries."""

LEAST_LOSS = 0.001
"""Half of a smaller loss is not looked for: it is nothing already."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to spend the budget: the model that is left, and what it is expected to lose by metric."""

    name: str
    epsilon: float
    n_rows: int
    losses: Mapping[str, Forecast]


@dataclass(frozen=True, kw_only=True)
class Half:
    """What would halve the expected loss: more rows at the same epsilon, or more epsilon with the same rows.

    None where it is beyond what was studied, or not on offer.
    """

    n_rows: int | None
    epsilon: float | None


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What the default is expected to lose to the model without noise on a table that resembles the studied ones.

    ``level`` is the noise level, and ``rows_worth`` how many changed rows could do to the fit what the noise does.
    ``beyond`` has those of the ``facts`` that lie outside of what was studied, with the ends of what was.
    """

    problem: Problem
    budget: Budget
    level: float
    rows_worth: float
    losses: Mapping[str, Forecast]
    facts: Mapping[str, float]
    beyond: Mapping[str, tuple[float, float]]

    @property
    def curves(self) -> dict[str, LossCurve]:
        return {metric: loss_curve(metric) for metric in self.losses}

    @property
    def too_noisy(self) -> bool:
        """Whether there is more noise than in any run of the study, so that no loss can be forecast."""
        return "level" in self.beyond and self.level > self.beyond["level"][1]

    def half(self) -> Half | None:
        """What would halve the loss of the first metric; None if there is next to none to halve."""
        metric, forecast = next(iter(self.losses.items()))
        if forecast.expected < LEAST_LOSS or self.too_noisy:
            return None
        level = loss_curve(metric).level_for(forecast.expected / 2, self.problem.loss.outputs)
        if level is None:
            return Half(n_rows=None, epsilon=None)
        times = self.level / level
        epsilon = _epsilon_of(times * noise_parameter(self.problem, self.budget), self.budget.delta)
        rows = math.ceil(times * self.problem.n_rows)
        return Half(n_rows=rows, epsilon=epsilon if epsilon <= EPSILON_RANGE[1] else None)

    def ways(self, evaluation: float) -> list[Way]:
        """The whole budget on one model, or some of it on an evaluation at epsilon = ``evaluation`` or a search.

        None of them where there is too much noise to tell.
        """
        if self.too_noisy:
            return []
        whole, delta, n = gaussian_mu(self.budget), self.budget.delta, self.problem.n_rows
        fewer = max(1, round((1 - HELD_OUT) * n))
        searched = cheapest_selection(self.budget, CANDIDATES).mu
        found = [
            self._way("all on one model", whole, n),
            self._way(f"{100 * HELD_OUT:g} % held out to evaluate", whole, fewer),
        ]
        spent = gaussian_mu(Budget(evaluation, delta))
        if spent < whole:
            left = math.sqrt(whole**2 - spent**2)
            found.append(self._way(f"... charged ε = {evaluation:g} here", left, fewer))
        if self.problem.many_rows:  # which a search does not take
            return found
        return [*found, self._way(f"a search of {CANDIDATES:g} settings", searched, fewer)]

    def _way(self, name: str, mu: float, n_rows: int) -> Way:
        level = self.level * noise_parameter(self.problem, self.budget) / mu * self.problem.n_rows / n_rows
        outputs = self.problem.loss.outputs
        return Way(
            name=name,
            epsilon=min(_epsilon_of(mu, self.budget.delta), self.budget.epsilon),
            n_rows=n_rows,
            losses={metric: curve(level, outputs) for metric, curve in self.curves.items()},
        )


def outlook(problem: Problem, budget: Budget) -> Outlook | None:
    """The outlook of the default for this task; None without delta, which was not studied."""
    if budget.delta == 0:
        return None
    metrics = ("r2",) if problem.loss.labels == "real" else ("accuracy", "auc")
    level, outputs = noise_level(problem, budget), problem.loss.outputs
    facts = {"level": level, "n": problem.n_rows, "features": problem.n_features, "outputs": outputs}
    return Outlook(
        problem=problem,
        budget=budget,
        level=level,
        rows_worth=2 * level * problem.n_rows / problem.neighbours.rows_changed,
        losses={metric: loss_curve(metric)(level, outputs) for metric in metrics},
        facts=facts,
        beyond=loss_curve(metrics[0]).beyond(**facts),
    )


def _epsilon_of(mu: float, delta: float) -> float:
    return GaussianProfile.gaussian(mu).epsilon(delta)


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
    losses = "; ".join(f"{NAMES[metric]} {points(found)}" for metric, found in outlook.losses.items())
    beyond = "; beyond what was studied" if outlook.beyond else ""
    return f"a loss of points against the model without noise: {losses}{beyond} (dperm plan)"


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
        "tables like those, not a guarantee."
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
    parts = []
    for name, (low, high) in outlook.beyond.items():
        fact = outlook.facts[name]
        value = f"{FACTS[name]} of {fact:.2g}" if name == "level" else f"{fact:,} {FACTS[name]}"
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
