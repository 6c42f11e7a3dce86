"""A plan in words: what will be spent and what will be released, before any data is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dperm.losses import SoftClippedLogistic, SoftClippedSquared, Softmax
from dperm.planning.outlook import in_short, outlook
from dperm.unit import Neighbours

if TYPE_CHECKING:
    from dperm.mechanisms.base import Plan
    from dperm.problem import Problem


def plan_summary(plan: Plan) -> str:
    """What a fit by this plan will spend and release, and what its guarantee takes for granted."""
    problem, budget, persons = plan.problem, plan.budget, plan.problem.persons
    guarantee = (
        f"({budget.epsilon:g}, {budget.delta:g})-differential privacy{for_persons(f'one {problem.unit}')}, "
        f"{problem.neighbours.value} neighbours"
    )
    head = f"Plan for {guarantee}"
    if not plan.private:
        head = f"Plan WITHOUT PRIVACY: mechanism {plan.mechanism.name!r} is a baseline without noise"
    elif plan.not_certified is not None:
        head = f"Plan WITHOUT PRIVACY: {plan.not_certified}"
    counted = "" if problem.neighbours is Neighbours.REPLACE_ONE else "at most "
    units = "rows" if problem.persons is None else "persons, rows"
    counted += f"{problem.n_rows} {units}"
    table = f"{counted} of {problem.n_features} features, feature norm at most {problem.x_norm:g}"
    chosen = {"mechanism", "why"} if "why" in plan.settings else set()
    used = ", ".join(f"{name}={_short(value)}" for name, value in plan.settings.items() if name not in chosen)
    by = (
        f"{plan.settings['mechanism']}, chosen by auto: {plan.settings['why']}"
        if chosen
        else plan.mechanism.name
    )
    lines = [
        head,
        f"  table        {table}",
        *(
            []
            if persons is None
            else [f"  persons      {rows_counted(persons.loss.value, persons.rows_per_person)}"]
        ),
        f"  loss         {problem.loss.name}{_weights(problem)}, l2 = {problem.l2:g}",
        f"  mechanism    {by}",
        f"  settings     {used}",
        f"  spends       {_spent(plan)}",
        f"  releases     {_released(plan)}",
    ]
    expected = _expected(plan)
    lines += [f"  expects      {expected}"] if expected else []
    lines += ["  assumes"] + [f"    - {line}" for line in plan.assumptions] if plan.assumptions else []
    return "\n".join(lines)


def for_persons(unit: str) -> str:
    """Whom a guarantee protects, said where it is not one row."""
    return "" if unit == "one row" else f" for {unit}"


def rows_counted(loss: str, rows_per_person: int) -> str:
    """How the rows of one person count."""
    if rows_per_person == 1:
        return "each counts by their first row"
    return f"each counts by the {loss} over their rows, the first {rows_per_person:,} at most"


def _expected(plan: Plan) -> str | None:
    """What the default as it was studied is expected to lose; None for any other mechanism, loss or l2."""
    problem, budget = plan.problem, plan.budget
    if plan.trained_by is plan or plan.mechanism != type(plan.mechanism)():
        return None
    studied = isinstance(problem.loss, SoftClippedLogistic | SoftClippedSquared | Softmax)
    if not studied or problem.l2 != plan.mechanism.l2_rule(problem, budget):
        return None
    found = outlook(problem, budget)
    return None if found is None else in_short(found)


def _spent(plan: Plan) -> str:
    if not plan.private:
        return "no finite epsilon: without noise nothing is hidden"
    if plan.not_certified is not None:
        return "more than the budget says"
    return f"epsilon = {plan.budget.epsilon:g} at delta = {plan.budget.delta:g} ({plan.accountant})"


def _released(plan: Plan) -> str:
    dimension = plan.problem.dimension
    model = f"a model of {dimension} coefficients"
    if plan.noise is None:
        return f"{model}, without noise"
    on = plan.noise_on
    first = "" if plan.standardisation is None else f"{plan.standardisation.words}; "
    last = "" if plan.inference is None else f"; then {plan.inference.words}"
    return f"{first}{model}; noise of scale {plan.noise.scale:.6g} on {on}{last}"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _weights(problem: Problem) -> str:
    heaviest = problem.heaviest_row
    alone = problem.loss is problem.loss.unweighted or (problem.many_rows and heaviest == 1)
    return "" if alone else f", rows weigh at most {heaviest:g}"
