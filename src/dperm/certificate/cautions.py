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
    """Of the number of rows or persons, or their capacity, against delta and the number of coefficients.

    A baseline has none.
    """
    found = []
    count, coefficients = problem.n_rows, problem.dimension
    units = f"{problem.unit}s"
    number = f"the number of {units}" if problem.neighbours is Neighbours.REPLACE_ONE else "max_rows"
    if private and budget.delta >= 1 / count:
        published = "each row" if problem.persons is None else "all rows of each person"
        text = (
            f"delta = {budget.delta:g} is not below 1 / {count}, one over {number}. A promise with such a delta allows "
            f"{published} to be published outright with that chance; choose it far smaller."
        )
        found.append(Caution(text, PrivacyWarning))
    if private and count < coefficients:
        text = (
            f"{number}, {count}, is below that of the coefficients, {coefficients}: expect more noise than signal, and "
            f"use fewer features or more {units}."
        )
        found.append(Caution(text, UtilityWarning))
    return tuple(found)
