"""Is epsilon enough? What a fit of the default is expected to lose, and what would change that; from public facts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dperm.planning.expectation import Forecast, LossCurve, loss_curve
from dperm.planning.noise_level import noise_level, noise_parameter
from dperm.privacy import Budget, GaussianProfile, gaussian_mu
from dperm.privacy.budget import EPSILON_RANGE
from dperm.privacy.selection import cheapest_selection
from dperm.problem import Problem

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
    ``beyond`` has the facts outside of what was studied, with the ends of what was.
    """

    problem: Problem
    budget: Budget
    level: float
    rows_worth: float
    losses: Mapping[str, Forecast]
    beyond: Mapping[str, tuple[float, float]]

    @property
    def curves(self) -> dict[str, LossCurve]:
        return {metric: loss_curve(metric) for metric in self.losses}

    @property
    def too_noisy(self) -> bool:
        """Whether there is more noise than in any run of the study, so that no loss can be told."""
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
            words = f"... charged ε = {evaluation:g} here"
            found.append(self._way(words, left, fewer))
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
    first = loss_curve(metrics[0])
    facts = {"level": level, "n": problem.n_rows, "features": problem.n_features, "outputs": outputs}
    return Outlook(
        problem=problem,
        budget=budget,
        level=level,
        rows_worth=2 * level * problem.n_rows / problem.neighbours.rows_changed,
        losses={metric: loss_curve(metric)(level, outputs) for metric in metrics},
        beyond=first.beyond(**facts),
    )


def _epsilon_of(mu: float, delta: float) -> float:
    return GaussianProfile.gaussian(mu).epsilon(delta)
