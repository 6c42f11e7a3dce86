"""What a file of mean predictions must follow from: its declared groups, the plan, and the sums that were released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dperm.certificate.evaluation import Counted, means_parts
from dperm.errors import InvalidInput
from dperm.evaluation.examining import Kind
from dperm.evaluation.found import SEEDED_NOTE
from dperm.evaluation.intervals import UNIT
from dperm.evaluation.means.counting import means_design
from dperm.evaluation.means.declared import ALL
from dperm.evaluation.means.figures import means
from dperm.evaluation.means.form import checked, written
from dperm.evaluation.paying import BY_PERSON
from dperm.evaluation.planning import Plan
from dperm.neighbours import Neighbours
from dperm.privacy import Budget


def notes_of(label: Any, ends: tuple[float, float], secure: bool, by_person: bool) -> tuple[str, ...]:
    """The sentences below the means: each follows from public facts, and a file holds no other."""
    found = [] if secure else [SEEDED_NOTE]
    if by_person:
        found.append(BY_PERSON)
    if label is None or ends != UNIT:
        found.append(f"Predictions are cut off at {ends[0]:g} and {ends[1]:g}.")
    found.append("How sure the model's own numbers are is not in the intervals.")
    return tuple(found)


def _n_groups(document: Mapping[str, Any]) -> int:
    """One where nothing is declared: that of all rows."""
    return max(1, len(document["values"]) + (document["other"] is not None))


def _parts(document: Mapping[str, Any]) -> list[Counted]:
    low, high = document["range"]
    if document["label"] is not None and not UNIT[0] <= low < high <= UNIT[1]:
        raise InvalidInput("range: probabilities are cut off between 0 and 1.")
    if not document["values"] and document["by"] != ALL:
        raise InvalidInput("by names what declares groups, and there are none.")
    return means_parts(_n_groups(document), document["relation"])


def _plan(document: Mapping[str, Any], budget: Budget, neighbours: Neighbours) -> Plan:
    return Plan(design=means_design(_n_groups(document)), budget=budget, neighbours=neighbours)


def _made(document: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    release, (low, high) = document["release"], document["range"]
    ends, by_person = (float(low), float(high)), document["unit"] == "person"
    found = means(np.array(release["numbers"], np.float64), release["noise_scale"], document["rows"], ends)
    groups = found[:-1] if document["values"] else []
    return {
        "groups": [written(one) for one in groups],
        "overall": written(found[-1]),
        "notes": list(notes_of(document["label"], ends, release["secure"], by_person)),
    }


MEANS: Kind = Kind(checked=checked, parts=_parts, plan=_plan, made=_made)
