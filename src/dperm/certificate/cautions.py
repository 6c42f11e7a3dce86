"""Public facts that keep a promise true and make it worth little: said before the fit and in every report."""

from __future__ import annotations

from dataclasses import dataclass

from dperm.errors import PrivacyWarning, UtilityWarning
from dperm.neighbours import Neighbours
from dperm.privacy import Budget
from dperm.problem import Problem


@dataclass(frozen=True)
class Caution:
    """What to look out for, in words; ``kind`` is the warning that says it in Python."""

    text: str
    kind: type[Warning]

    def __str__(self) -> str:
        return f"CAUTION: {self.text}"


def cautions(problem: Problem, budget: Budget, private: bool = True) -> tuple[Caution, ...]:
    """Of the number of rows, or their capacity, against delta and the number of coefficients; a baseline has none."""
    found = []
    rows, coefficients = problem.n_rows, problem.dimension
    number = "the number of rows" if problem.neighbours is Neighbours.REPLACE_ONE else "max_rows"
    if private and budget.delta >= 1 / rows:
        text = (
            f"delta = {budget.delta:g} is not below 1 / {rows}, one over {number}. A promise with such a delta allows "
            "each row to be published outright with that chance; choose it far smaller."
        )
        found.append(Caution(text, PrivacyWarning))
    if private and rows < coefficients:
        text = (
            f"{number}, {rows}, is below that of the coefficients, {coefficients}: expect more noise than signal, and "
            "use fewer features or more rows."
        )
        found.append(Caution(text, UtilityWarning))
    return tuple(found)
