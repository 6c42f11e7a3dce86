"""What the rule of the default for two classes could be: other largest slopes, other l2, the other row map."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from dperm.losses import SoftClippedLogistic
from dperm.mechanisms.auto import KNEE, Auto, AutoPlan
from dperm.mechanisms.standardising import BOUNDED, LINEAR
from dperm.privacy import Budget
from dperm.problem import Problem

CLIPS = (0.25, 0.35, 0.5, 0.75)
L2_TIMES = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Candidate(Auto):
    """``auto`` with one largest slope for every task and budget, and a multiple of the l2 of its rule."""

    name: ClassVar[str] = "candidate"

    clip: float = field(default=0.5, kw_only=True)
    l2_times: float = field(default=1.0, kw_only=True)

    @property
    def label(self) -> str:
        return f"{self.standardise} rows, clip {self.clip:g}, l2 × {self.l2_times:g}"

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        return self.l2_times * super().l2_rule(self._clipped(problem), budget)

    def plan(self, problem: Problem, budget: Budget, *, inference: bool = False) -> AutoPlan:
        return super().plan(self._clipped(problem), budget, inference=inference)

    def _clipped(self, problem: Problem) -> Problem:
        return replace(problem, loss=SoftClippedLogistic(self.clip, KNEE))


CANDIDATES = {
    candidate.label: candidate
    for candidate in (
        *(Candidate(standardise=LINEAR, clip=clip, l2_times=times) for clip in CLIPS for times in L2_TIMES),
        Candidate(standardise=BOUNDED),
    )
}
"""By label. Constants that stay: the share, the power and the typical norm of the standardisation, and the knee."""
