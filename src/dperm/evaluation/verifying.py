"""What an evaluation file must follow from: the counts of its model, the plan, and the figures of what was released."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.certificate.evaluation import MOST_ROWS, Counted, class_parts, regression_parts
from dperm.errors import InvalidInput
from dperm.evaluation.bins import check_bins
from dperm.evaluation.examining import Kind
from dperm.evaluation.figures import figures
from dperm.evaluation.form import checked, made_of
from dperm.evaluation.found import LOCAL_NOTE, Found
from dperm.evaluation.notes import notes_of
from dperm.evaluation.planning import Plan, plan_for
from dperm.evaluation.subject import Task
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


def _parts(document: Mapping[str, Any]) -> list[Counted]:
    release, relation = document["release"], document["relation"]
    bins, bound = release["bins"], release["error_bound"]
    if document["task"] == "regression":
        low, high = document["y_range"]
        if bins is not None or release["default_bins"] or release["probabilities"] or release["line"] != 0:
            raise InvalidInput("release: a regression has no bins, no probabilities and no line.")
        if bound is not None and not 0 < bound <= high - low:
            raise InvalidInput("release, error_bound must lie above 0 and within the range of the target.")
        return regression_parts(relation)
    if bound is not None:
        raise InvalidInput("release, error_bound is for regressions.")
    if document["task"] != "binary" and release["line"] != 0:
        raise InvalidInput("release, line is for two classes.")
    return class_parts(len(document["classes"]), check_bins(bins), release["probabilities"], relation)


def _plan(document: Mapping[str, Any], budget: Budget, neighbours: Neighbours) -> Plan:
    release = document["release"]
    public = document["rows"] if neighbours is Neighbours.REPLACE_ONE else document["max_rows"]
    asked = None if release["default_bins"] else release["bins"]
    plan = plan_for(StatedModel.of(document), budget, neighbours, public, asked, release["error_bound"])
    if plan.bins != release["bins"]:
        raise InvalidInput(f"release, bins are not the {plan.bins} that the public rule gives.")
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
        line=release["line"],
    )
    notes = notes_of(subject, release["secure"], plan.error_bound, document["unit"] == "person")
    return made_of(Found(task=subject.task, model="", notes=notes, **found))


def _exact(document: Mapping[str, Any]) -> str:
    """Exact figures claim nothing, and have neither noise nor anything that a release has."""
    stated = [name for name in NOTHING if document[name] is not None]
    if stated or document["private"]:
        raise InvalidInput(f"exact figures are not private and have no {', '.join(stated) or 'guarantee'}.")
    if (
        document["notes"] != [LOCAL_NOTE]
        or document["rows"] is None
        or not 1 <= document["rows"] <= MOST_ROWS
    ):
        raise InvalidInput(
            "exact figures state their number of rows, and the note that they are not private."
        )
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
