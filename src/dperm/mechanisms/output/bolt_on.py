"""Bolt-on private SGD (Wu, Li, Kumar, Chaudhuri, Jha & Naughton 2017), all five step-size rules."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from dperm.errors import InvalidInput, NotCertified
from dperm.mechanisms.output.family import DescentMechanism
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.excess import Schedules, batch_size_for, steps_to_try
from dperm.planning.rules import MOST_ROWS, against_output_noise, check_count, check_positive, setting
from dperm.planning.schedule import Schedule, split_rows
from dperm.privacy import Budget
from dperm.privacy.textbook import classic_gaussian_scale
from dperm.problem import Problem
from dperm.typing import Floats, Integers

RULES = ("convex-constant", "convex-decreasing", "convex-sqrt", "strong-constant", "strong-decreasing")
PASSES_OF_PAPER, BATCH_OF_PAPER = 10, 50
PASSES = (1, 2, 5, 10)


@register
@dataclass(frozen=True)
class BoltOn(DescentMechanism):
    """Permuted SGD for ``passes`` passes with one of five step-size rules, then noise.

    With t the number of the update, L the smoothness and n the number of rows, the step size is

    ===================== ============================== =========================
    ``convex-constant``   ``step_size`` (default 1/L)
    ``convex-decreasing`` 2 / (L (t + n^exponent))       0 <= ``exponent`` < 1
    ``convex-sqrt``       2 / (L (sqrt(t) + n^exponent)) 0 <= ``exponent`` < 1
    ``strong-constant``   ``step_size`` (default 1/L)    at most 1/L, l2 > 0
    ``strong-decreasing`` min(1/L, 1/(l2 t))             l2 > 0
    ===================== ============================== =========================

    Without a ``rule`` it is ``convex-constant``, and what is left open of its step size, passes and batches is chosen
    so that ``planning/excess.py`` predicts the least excess; with the accounting of the paper it is the paper's own
    ``strong-decreasing`` with 10 passes over batches of 50 rows, which are what the other rules have too.
    """

    passes: int | None = setting(None, check_count)
    batch_size: int | None = setting(None, check_count, most=MOST_ROWS)
    rule: str | None = None
    step_size: float | None = setting(None, check_positive)
    exponent: float = 0.5

    name: ClassVar[str] = "bolt-on"
    title: ClassVar[str] = "SGD in secret order with small batches, noise on the result"
    source: ClassVar[str] = "Wu, Li, Kumar, Chaudhuri, Jha & Naughton (2017)"
    paper_accountant: ClassVar[str] = "classic Gaussian formula with the paper's sensitivity"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(settings={"passes": 2, "batch_size": 4}),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule is not None and self.rule not in RULES:
            raise InvalidInput(f"rule must be one of {', '.join(RULES)}; got {self.rule!r}.")
        if self.step_size is not None and not self._rule.endswith("-constant"):
            raise InvalidInput(
                f"step_size belongs to the two constant rules; rule {self._rule!r} sets its own."
            )
        number = isinstance(self.exponent, int | float) and not isinstance(self.exponent, bool)
        if not (number and 0 <= self.exponent < 1):
            raise InvalidInput(f"exponent must be at least 0 and below 1; got {self.exponent!r}.")

    @property
    def _rule(self) -> str:
        if self.rule is not None:
            return self.rule
        return "strong-decreasing" if self.accounting == "paper" else "convex-constant"

    def misfit(self, problem: Problem) -> str | None:
        if self._rule.startswith("strong") and problem.l2 == 0:
            return f"rule {self._rule!r} needs l2 > 0; the convex rules do not"
        if problem.smoothness == 0:
            return "its step sizes need a loss with curvature or l2 > 0"
        return super().misfit(problem)

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        """For the strong rules that of a minimiser, whose sensitivity they have."""
        if self._rule.startswith("strong"):
            return against_output_noise(problem, budget)
        return super().l2_rule(problem, budget)

    def settled(self, problem: Problem, mu: float) -> Self:
        if self._rule != "convex-constant":
            return replace(
                self,
                rule=self._rule,
                passes=self.passes or PASSES_OF_PAPER,
                batch_size=self.batch_size or BATCH_OF_PAPER,
            )
        batch = self.batch_size or batch_size_for(problem)
        tried = [
            (step, passes, passes + 1)
            for step in steps_to_try(problem, self.step_size)
            for passes in ((self.passes,) if self.passes else PASSES)
        ]
        batches = len(split_rows(problem.n_rows, batch))
        step, passes, _ = tried[Schedules.of(tried, batches, decay=False).best(problem, mu)]
        return replace(self, rule=self._rule, step_size=step, passes=passes, batch_size=batch)

    def schedule(self, problem: Problem) -> Schedule:
        """Of settled settings."""
        assert self.passes is not None
        assert self.batch_size is not None
        sizes = split_rows(problem.n_rows, self.batch_size)
        t = np.arange(1, self.passes * len(sizes) + 1).reshape(self.passes, len(sizes))
        return Schedule(
            batch_sizes=sizes, step_sizes=self._steps(problem, t), averaged=(False,) * self.passes
        )

    def _steps(self, problem: Problem, t: Integers) -> Floats:
        L, l2, offset = problem.smoothness, problem.l2, problem.n_rows**self.exponent
        if self._rule.endswith("-constant"):
            step = 1 / L if self.step_size is None else self.step_size
            if self._rule == "strong-constant" and step > (1 + 1e-12) / L:
                raise NotCertified(
                    f"rule 'strong-constant' needs step_size <= 1/L = {1 / L:.6g}; got {step:.6g}."
                )
            return np.full(t.shape, step)
        if self._rule == "strong-decreasing":
            return np.minimum(1 / L, 1 / (l2 * t))
        return np.asarray(2 / (L * ((t if self._rule == "convex-decreasing" else np.sqrt(t)) + offset)))

    def paper_sensitivity(self, problem: Problem) -> float:
        """The closed form printed for the rule, for the smallest batch (equal batches in the paper)."""
        schedule = self.schedule(problem)
        assert self.passes is not None
        passes = self.passes
        gap, L, l2, n = problem.gradient_gap, problem.smoothness, problem.l2, problem.n_rows
        b, m, step = min(schedule.batch_sizes), len(schedule.batch_sizes), float(schedule.step_sizes[0, 0])
        first_update = np.arange(passes) * m + 1
        offset = n**self.exponent
        forms: dict[str, Callable[[], float]] = {
            "convex-constant": lambda: passes * gap * step / b,
            "convex-decreasing": lambda: 2 * gap / (L * b) * float(np.sum(1 / (first_update + offset))),
            "convex-sqrt": lambda: 2 * gap / (L * b) * float(np.sum(1 / (np.sqrt(first_update) + offset))),
            "strong-constant": lambda: step * gap / (b * (1 - max(0.0, 1 - step * l2) ** m)),
            "strong-decreasing": lambda: gap / (l2 * b * m),
        }
        return forms[self._rule]()

    def paper_scale(self, problem: Problem, budget: Budget, share: Floats, sensitivities: Floats) -> float:
        return classic_gaussian_scale(self.paper_sensitivity(problem), budget)
