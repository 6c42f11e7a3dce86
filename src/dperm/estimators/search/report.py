"""What is said of a search as a whole; what concerns the training itself is that of the released model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dperm.certificate.assumptions import (
    Assumption,
    Code,
    assumptions,
    cautions,
    of_plan,
    read_assumptions,
    taken_for_granted,
)
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.report import PrivacyReport
from dperm.estimators.search.candidates import Task, in_words
from dperm.mechanisms import Plan
from dperm.privacy import Budget
from dperm.problem import Problem

NAME = "private search"
ACCOUNTANT = "Renyi price of the best of a random number of candidates (Papernot & Steinke 2022)"


def whole_problem(plan: Plan, task: Task) -> Problem:
    """The public facts of a candidate's fit, said of all rows."""
    return replace(plan.problem, n_rows=task.n_rows)


def search_cautions(plan: Plan, task: Task, whole: Budget) -> tuple[Assumption, ...]:
    """Those of the whole search: all rows, and the whole delta."""
    return cautions(whole_problem(plan, task), whole)


def statement_of_fit(
    model: PrivateLinearModel, plan: Plan, targets: Mapping[str, Any], settings_chosen: Assumption
) -> dict[str, Any]:
    """The model's own statement, with the labels as the user declared them and how the settings came about."""
    stated = model.privacy_.statement
    around = [
        settings_chosen if one.code is Code.SETTINGS else one
        for one in read_assumptions("around", stated["around"])
    ]
    lines = assumptions(plan, targets, around)
    return {
        **stated,
        "targets": dict(targets),
        "around": [one.to_dict() for one in around],
        "assumptions": [one.to_dict() for one in lines],
    }


def report_on_public_choice(
    model: PrivateLinearModel,
    plan: Plan,
    targets: Mapping[str, Any],
    params: Mapping[str, Any],
    n_public: int,
) -> PrivacyReport:
    """The report of the one private fit, which says where its settings were chosen."""
    chosen = Assumption.of(Code.PUBLIC_CHOICE, settings=in_words(params), rows=n_public)
    return PrivacyReport.of(statement_of_fit(model, plan, targets, chosen))


def search_report(
    model: PrivateLinearModel,
    plan: Plan,
    targets: Mapping[str, Any],
    task: Task,
    whole: Budget,
    params: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> PrivacyReport:
    """The guarantee of the whole.

    The model's statement for machines is that of one fit, so it claims nothing and points to the whole: its part
    ``search`` says so.
    """
    inner = PrivacyReport.of(statement_of_fit(model, plan, targets, Assumption(Code.SEARCH_GRID)))
    epsilon, delta = float(whole.epsilon), float(whole.delta)
    pointer = (
        "this statement of one fit claims nothing by itself: the model was chosen by a private search, whose "
        f"guarantee for the whole is epsilon = {epsilon:g}, delta = {delta:g}."
    )
    statement = {
        **inner.statement,
        "guarantee": None,
        "reason": inner.reason or pointer,
        "search": {"epsilon": epsilon, "delta": delta},
    }
    around = read_assumptions("around", inner.statement["around"])
    others = (*around, *of_plan(plan), Assumption(Code.SECRET_CANDIDATES))
    granted = taken_for_granted(whole_problem(plan, task), targets, others)
    refitted = settings["refit_share"] is not None
    return replace(
        inner,
        claim=None if inner.claim is None else {"epsilon": epsilon, "delta": delta},
        budget={"epsilon": epsilon, "delta": delta},
        mechanism=NAME,
        accountant=f"{ACCOUNTANT}, and the last fit, added up" if refitted else ACCOUNTANT,
        settings={
            "best": in_words(params),
            "trained_by": inner.settings.get("mechanism", inner.mechanism),
            **settings,
            "model_epsilon": inner.budget["epsilon"],
            "model_delta": inner.budget["delta"],
        },
        n_rows=task.n_rows,
        noise_on=f"{inner.noise_on}; and on the score of every candidate",
        assumptions=(*granted, *search_cautions(plan, task, whole)),
        statement=statement,
    )
