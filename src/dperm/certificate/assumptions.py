"""What a guarantee takes for granted, what of it is not met, and what to look out for: data with one wording each.

A statement, a report and a model file carry :class:`Assumption` objects. Code decides on their ``code`` and ``status``;
``text`` is for people and always the one that belongs to the code, so nobody can write a softer sentence into a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from string import Formatter
from typing import Any

from dperm.errors import InvalidInput, PrivacyWarning, UtilityWarning
from dperm.losses import Weighted
from dperm.mechanisms import Plan
from dperm.mechanisms.inference import ROWS_BOUNDED
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.strict_json import check_object, matches
from dperm.unit import Neighbours

DECLARED, TAKEN = "declared", "taken from y, declared public"
_TYPES: Mapping[str, type] = {"": str, "d": int, "g": float}  # of a value, by its format in a wording


class Status(StrEnum):
    """What an assumption does to the guarantee."""

    ASSUMED = "assumed"  # it rests on it
    NOT_MET = "not met"  # it is void, because the fit saw that this does not hold
    CAUTION = "caution"  # it stands, and is worth little

    @property
    def mark(self) -> str:
        """How a line of this status begins."""
        return "" if self is Status.ASSUMED else f"{self.value.upper()}: "


@dataclass(frozen=True)
class Wording:
    """The sentence of a code.

    Attributes
    ----------
    text : str
        With a field for each value.
    plain : str
        The same for readers who do not know the names of settings; empty where ``text`` has none.
    status : Status
    around : bool
        Whether only the fit can know it, from what stood around it. All others follow from the plan.
    warning : type or None
        The warning that says it in Python.
    """

    text: str
    plain: str = ""
    status: Status = Status.ASSUMED
    around: bool = False
    warning: type[Warning] | None = None

    @property
    def fields(self) -> dict[str, type]:
        """Names and types of the values."""
        parts = Formatter().parse(self.text + self.plain)
        return {name: _TYPES[spec or ""] for _, name, spec, _ in parts if name}


_BLIND = "without looking at the data"
_ONE_FIT = "the guarantee covers this one fit only."
_WEIGHED = (
    f" were chosen {_BLIND}: no row weighs more than {{bound:g}}, weights outside 0 to the bound were cut off, and a "
    "weight follows from its own row."
)


def _seen(text: str, plain: str = "") -> Wording:
    """What the fit saw around it, and found no fault with."""
    return Wording(text, plain, around=True)


def _not_met(text: str) -> Wording:
    return Wording(text, status=Status.NOT_MET, around=True)


def _caution(text: str, warning: type[Warning], count: str, plain: str = "") -> Wording:
    """The same text about the number of rows or about its bound."""
    return Wording(text.format(count), text.format(plain or count), Status.CAUTION, warning=warning)


_LARGE_DELTA = (
    "delta = {{delta:g}} is not below 1 / {{count:d}}, one over {}. A promise with such a delta allows "
    "{{published}} to be published outright with that chance; choose it far smaller."
)
_FEW_UNITS = (
    "{}, {{count:d}}, is below that of the coefficients, {{coefficients:d}}: expect more noise than signal, and "
    "use fewer features or more {{unit}}s."
)
_COUNT, _BOUND = ("the number of {unit}s",), ("max_rows", "the largest number of {unit}s")


class Code(Enum):
    """Which assumption it is, and its one wording."""

    ONE_ROW = Wording("One person contributes one row.")
    ONE_ID = Wording("All rows of one person have one id, and rows of different persons have different ids.")
    PUBLIC_COUNT = Wording("The number of {unit}s, {count:d}, is public.")
    MAX_ROWS = Wording(
        f"max_rows = {{count:d}} was chosen {_BLIND}, and no table exceeds it.",
        f"The largest number of rows, {{count:d}}, was chosen {_BLIND}, and no table exceeds it.",
    )
    MAX_UNITS = Wording(
        f"max_rows = {{count:d}} was chosen {_BLIND}, and no table has more persons.",
        f"The largest number of persons, {{count:d}}, was chosen {_BLIND}, and no table has more persons.",
    )
    CLASSES_DECLARED = Wording(f"classes was chosen {_BLIND}.", f"The set of classes was chosen {_BLIND}.")
    CLASSES_TAKEN = Wording("The label set was taken from y; it is public knowledge.")
    RANGE_DECLARED = Wording(
        f"y_range was chosen {_BLIND}; targets outside it were cut off.",
        f"The range of the target was chosen {_BLIND}; targets outside it were cut off.",
    )
    WEIGHTS = Wording(f"Class weights, and the bound on sample weights,{_WEIGHED}")
    WEIGHTS_OF_UNITS = Wording(
        f"Class weights and the bound on sample weights, where rows have any,{_WEIGHED}"
    )
    SETTINGS = _seen(
        f"x_norm, l2 and every other setting were chosen {_BLIND}.",
        f"The bound on rows, the penalty and every other setting were chosen {_BLIND}.",
    )
    SEARCH_GRID = _seen(
        f"x_norm, param_grid and every other setting were chosen {_BLIND}.",
        f"The bound on rows, param_grid and every other setting were chosen {_BLIND}.",
    )
    PUBLIC_CHOICE = _seen(
        "{settings} was chosen by cross-validation on {rows:d} rows of public_data, which are public and not "
        f"protected; every other setting was chosen {_BLIND}.",
        "Settings were chosen by cross-validation on {rows:d} public rows, which are not protected: {settings}; every "
        f"other setting was chosen {_BLIND}.",
    )
    UNCOUNTED_SEARCH = _not_met(
        "{search} chose settings from the rows; the guarantee does not cover the choice."
    )
    FEATURES = _seen("Features were computed row by row, with nothing learned from other rows.")
    LEARNED_STEPS = _not_met(
        "steps before this model learned from the rows, so the guarantee covers this last step only: {steps}."
    )
    FROZEN_STEP = _seen("The frozen step {step} was fitted on public rows.")
    FUNCTION_STEP = _seen("The function of step {step} works row by row.")
    INSIDE = _not_met(f"this model was fitted inside {{kind}}, which learns {{learns}}; {_ONE_FIT}")
    FOLD = _not_met(
        "this model was fitted for one part of a cross-validation, of which every part spends its budget anew and no "
        f"score is private; {_ONE_FIT}"
    )
    WORKER = _not_met(f"this model was fitted in a parallel worker whose caller cannot be seen; {_ONE_FIT}")
    WORKER_CALLED = _not_met(
        f"this model was fitted in a parallel worker, by {{caller}}, whose caller cannot be seen; {_ONE_FIT}"
    )
    MECHANISM = Wording("{line}")
    INTERVAL_ROWS = Wording(ROWS_BOUNDED, ROWS_BOUNDED.replace("x_norm", "the bound on rows"))
    PLACES = Wording(
        "The order of the rows does not depend on what they hold: sums are rounded row by row and block by block."
    )
    SECRET_CANDIDATES = Wording("The number of candidates, and so the time of the search, is kept secret.")
    LARGE_DELTA = _caution(_LARGE_DELTA, PrivacyWarning, *_COUNT)
    LARGE_DELTA_BOUND = _caution(_LARGE_DELTA, PrivacyWarning, *_BOUND)
    FEW_UNITS = _caution(_FEW_UNITS, UtilityWarning, *_COUNT)
    FEW_UNITS_BOUND = _caution(_FEW_UNITS, UtilityWarning, *_BOUND)

    def __str__(self) -> str:
        """As a file names it."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class Assumption:
    """One line of a report: what is taken for granted, is not met, or deserves caution.

    Attributes
    ----------
    code : Code
    status : Status
        It follows from the code.
    text : str
        The sentence, which follows from the code and its values. ``str()`` puts the status before it.
    values : mapping
        What the sentence names: numbers, settings, steps of a pipeline.
    """

    code: Code
    values: Mapping[str, str | float] = field(default_factory=dict)

    @classmethod
    def of(cls, code: Code, **values: str | float) -> Assumption:
        return cls(code, values)

    @classmethod
    def read(cls, where: str, stored: object) -> Assumption:
        """From a file; an unknown code, and a status or text of another one, are refused."""
        told = check_object(where, stored, ("code", "status", "text", "values"))
        code = next((known for known in Code if str(known) == told["code"]), None)
        if code is None:
            raise InvalidInput(f"{where}: an unknown code.")
        fields = code.value.fields
        values = check_object(f"{where}, values of {code}", told["values"], fields)
        if not all(matches(values[name], kind) for name, kind in fields.items()):
            raise InvalidInput(f"{where}, values of {code}: one is of a wrong type.")
        found = cls(code, values)
        if told["status"] != found.status or told["text"] != found.text:
            raise InvalidInput(f"{where}: status and text are not those of the code {code}.")
        return found

    @property
    def status(self) -> Status:
        return self.code.value.status

    @property
    def text(self) -> str:
        return self.code.value.text.format(**self.values)

    @property
    def plain(self) -> str:
        """As ``str()``, without the names that settings have in code."""
        wording = self.code.value
        return f"{self.status.mark}{(wording.plain or wording.text).format(**self.values)}"

    @property
    def around(self) -> bool:
        """Whether only the fit can know it."""
        return self.code.value.around

    @property
    def warning(self) -> type[Warning] | None:
        return self.code.value.warning

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "code": str(self.code),
            "status": self.status.value,
            "text": self.text,
            "values": dict(self.values),
        }

    def __str__(self) -> str:
        return f"{self.status.mark}{self.text}"


TARGETS = {
    ("classes", DECLARED): Code.CLASSES_DECLARED,
    ("classes", TAKEN): Code.CLASSES_TAKEN,
    ("range", DECLARED): Code.RANGE_DECLARED,
}
"""What is assumed of the targets, by their kind and where it was taken from."""
BLIND = (Assumption(Code.SETTINGS), Assumption(Code.FEATURES))
"""Of a fit around which nothing learned from the rows."""


def read_assumptions(where: str, stored: Sequence[object]) -> tuple[Assumption, ...]:
    return tuple(Assumption.read(f"{where}, {place}", one) for place, one in enumerate(stored))


def with_status(assumptions: Sequence[Assumption], status: Status) -> tuple[Assumption, ...]:
    return tuple(one for one in assumptions if one.status is status)


def assumptions(
    plan: Plan, targets: Mapping[str, Any], around: Sequence[Assumption]
) -> tuple[Assumption, ...]:
    """What the guarantee of a plan takes for granted, and what to look out for.

    ``around`` says how settings and features came about, as far as the fit could see.
    """
    places = (Assumption(Code.PLACES),) if len(plan.allows) > 1 else ()
    granted = taken_for_granted(plan.problem, targets, (*around, *of_plan(plan), *places))
    return (*granted, *cautions(plan.problem, plan.budget, plan.private))


def of_plan(plan: Plan) -> tuple[Assumption, ...]:
    """What the mechanism itself assumes."""
    return tuple(
        Assumption(Code.INTERVAL_ROWS) if line == ROWS_BOUNDED else Assumption.of(Code.MECHANISM, line=line)
        for line in plan.assumptions
    )


def taken_for_granted(
    problem: Problem, targets: Mapping[str, Any], others: Sequence[Assumption]
) -> tuple[Assumption, ...]:
    """What a guarantee for all rows of a problem rests on; ``others`` are more of the same kind."""
    alone = problem.persons is None
    if problem.neighbours is Neighbours.REPLACE_ONE:
        rows = Assumption.of(Code.PUBLIC_COUNT, count=problem.n_rows, unit=problem.unit)
    else:
        rows = Assumption.of(Code.MAX_ROWS if alone else Code.MAX_UNITS, count=problem.n_rows)
    return (
        Assumption(Code.ONE_ROW if alone else Code.ONE_ID),
        rows,
        Assumption(TARGETS[targets["kind"], targets["origin"]]),
        *_weights(problem),
        *others,
    )


def _weights(problem: Problem) -> tuple[Assumption, ...]:
    if not isinstance(problem.loss, Weighted):
        return ()
    # With several rows a person the loss has weights, whether rows have weights of their own or not.
    code = Code.WEIGHTS_OF_UNITS if problem.many_rows else Code.WEIGHTS
    return (Assumption.of(code, bound=problem.heaviest_row),)


def cautions(problem: Problem, budget: Budget, private: bool = True) -> tuple[Assumption, ...]:
    """Of the number of rows or persons, or their bound, against delta and the number of coefficients.

    A baseline has none.
    """
    found = []
    count, coefficients = problem.n_rows, problem.dimension
    public = problem.neighbours is Neighbours.REPLACE_ONE
    values: dict[str, str | float] = {"unit": problem.unit, "count": count}
    if private and budget.delta >= 1 / count:
        published = "each row" if problem.persons is None else "all rows of each person"
        code = Code.LARGE_DELTA if public else Code.LARGE_DELTA_BOUND
        found.append(Assumption(code, {**values, "delta": budget.delta, "published": published}))
    if private and count < coefficients:
        code = Code.FEW_UNITS if public else Code.FEW_UNITS_BOUND
        found.append(Assumption(code, {**values, "coefficients": coefficients}))
    return tuple(found)
