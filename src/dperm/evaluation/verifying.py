"""What an evaluation file must follow from: the counts of its model, the plan, and the figures of what was released."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.certificate.document import plain
from dperm.certificate.evaluation import MOST_ROWS, Counted, check_scales, class_parts, regression_parts
from dperm.errors import InvalidInput
from dperm.estimators.margin_bins import Scale, check_bins
from dperm.evaluation.examining import Kind
from dperm.evaluation.figures import figures
from dperm.evaluation.form import checked, made_of
from dperm.evaluation.found import LOCAL_NOTE, Found
from dperm.evaluation.notes import notes_of
from dperm.evaluation.paying import ONCE
from dperm.evaluation.planning import Plan, plan_for
from dperm.evaluation.scales import ScoreBins, scales_of
from dperm.evaluation.subject import Subject, Task
from dperm.neighbours import Neighbours
from dperm.privacy import Budget

NOTHING = ("row_count", "max_rows", "relation", "budget", "ledger_entry", "release")
"""What a file of exact figures must not state: nothing was released."""


@dataclass(frozen=True, eq=False)
class StatedModel:
    """What a file says of the model that it is about."""

    task: Task
    classes: tuple[Any, ...]
    y_range: tuple[float, float]
    has_probabilities: bool

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> StatedModel:
        low, high = document["y_range"] or (-math.inf, math.inf)
        probabilities = document["release"]["probabilities"]
        return cls(document["task"], tuple(document["classes"]), (float(low), float(high)), probabilities)


def stated_facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says of its model; exact figures say less."""
    facts = {name: document[name] for name in ("task", "classes", "y_range")}
    release = document["release"]
    return facts if release is None else facts | {name: release[name] for name in ("probabilities", "scales")}


def model_facts(subject: Subject) -> dict[str, Any]:
    """The same of the model itself."""
    return {
        "task": subject.task,
        "classes": plain("classes", subject.classes),
        "y_range": list(subject.y_range) if subject.task == "regression" else None,
        "probabilities": subject.has_probabilities,
        "scales": [] if subject.task == "regression" else ScoreBins(0, scales_of(subject)).to_list(),
    }


def _parts(document: Mapping[str, Any]) -> list[Counted]:
    release, relation = document["release"], document["relation"]
    bins, bound = release["bins"], release["error_bound"]
    if document["table_rows"] is not None:
        raise InvalidInput("table_rows is told of exact figures alone.")
    if document["task"] == "regression":
        low, high = document["y_range"]
        if bins is not None or release["default_bins"] or release["probabilities"] or release["scales"]:
            raise InvalidInput("release: a regression has no bins, no probabilities and no scales of scores.")
        if bound is not None and not 0 < bound <= high - low:
            raise InvalidInput("release, error_bound must lie above 0 and within the range of the target.")
        return regression_parts(relation)
    if bound is not None:
        raise InvalidInput("release, error_bound is for regressions.")
    parts = class_parts(len(document["classes"]), check_bins(bins), release["probabilities"], relation)
    check_scales(release["scales"], parts)
    return parts


def _plan(document: Mapping[str, Any], budget: Budget, neighbours: Neighbours) -> Plan:
    release = document["release"]
    public = document["rows"] if neighbours is Neighbours.REPLACE_ONE else document["max_rows"]
    asked = None if release["default_bins"] else release["bins"]
    scales = {
        one["name"]: Scale(float(one["centre"]), float(one["spread"]), one["line"])
        for one in release["scales"]
    }
    bound = release["error_bound"]
    plan = plan_for(StatedModel.of(document), scales, budget, neighbours, public, asked, bound)
    if plan.bins is not None and plan.bins.count != release["bins"]:
        raise InvalidInput(f"release, bins are not the {plan.bins.count} that the public rule gives.")
    return plan


def _made(document: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    subject, release = StatedModel.of(document), document["release"]
    found = figures(
        subject,
        plan.design,
        np.array(release["numbers"], np.float64),
        release["noise_scale"],
        document["rows"],
        plan.bins,
        plan.error_bound,
    )
    notes = notes_of(subject, release["secure"], plan.error_bound, document["unit"] == "person")
    return made_of(Found(task=subject.task, model="", notes=notes, **found))


def _exact(document: Mapping[str, Any]) -> str:
    """Exact figures claim nothing, and have neither noise nor anything that a release has."""
    stated = [name for name in NOTHING if document[name] is not None]
    if stated or document["private"]:
        raise InvalidInput(f"exact figures are not private and have no {', '.join(stated) or 'guarantee'}.")
    by_person, rows, of = document["unit"] == "person", document["rows"], document["table_rows"]
    if document["notes"] != [LOCAL_NOTE, *([ONCE] if by_person else [])]:
        raise InvalidInput("exact figures have the note that they are not private, and no other.")
    if rows is None or of is None or not (1 <= rows <= of <= MOST_ROWS and (by_person or rows == of)):
        raise InvalidInput("exact figures state their numbers of rows.")
    made = {name: document[name] for name in ("metrics", "confusion", "rates", "roc", "calibration")}
    if any(noise not in (0, None) for noise in _noises(made)):
        raise InvalidInput("exact figures have no noise.")
    return "no release, no noise, and nothing is claimed"


def _noises(value: Any) -> Iterator[float | None]:
    if isinstance(value, Mapping):
        if "noise" in value:
            yield value["noise"]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _noises(inner)


EVALUATION: Kind = Kind(checked=checked, parts=_parts, plan=_plan, made=_made, exact=_exact)
