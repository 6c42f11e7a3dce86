"""Check the file of an evaluation or of mean predictions: its statement by formulas, its estimates from the release."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.certificate.accountant import Price
from dperm.certificate.evaluation import (
    MOST_ROWS,
    Counted,
    check_claim,
    check_release,
    check_scales,
    class_parts,
    means_parts,
    regression_parts,
    release_price,
)
from dperm.certificate.recomputation import check_price
from dperm.certificate.statement import check_citation, plain
from dperm.certificate.verdict import (
    FORMULA,
    REPLANNED,
    SECOND,
    STRUCTURE,
    Examination,
    Requirements,
    Verdict,
)
from dperm.counting.bins import Scale, ScoreBins, check_bins, scales_of
from dperm.counting.classification import Classification
from dperm.counting.estimates import UNIT
from dperm.counting.metrics import STANDARD
from dperm.counting.query import Query
from dperm.errors import InvalidInput
from dperm.evaluation.curves import estimated
from dperm.evaluation.groups import ALL, means, means_design
from dperm.evaluation.model import EvaluatedModel, StatedModel
from dperm.evaluation.plan import means_notes, notes_of, planned
from dperm.evaluation.results import (
    EVALUATION_FORMAT,
    LOCAL_NOTE,
    MEANS_FORMAT,
    ONCE,
    SEEDED_NOTE,
    EvaluationResult,
    checked_evaluation,
    checked_means,
    evaluation_estimates,
    means_estimates,
)
from dperm.privacy import Budget
from dperm.unit import UNITS, Neighbours

REMADE = "made again"
"""The route of what follows from released numbers and public facts: it is computed once more, by the library."""
CLOSE = 1e-6  # rounding may differ between machines
RELEASED = ("row_count", "max_rows", "relation", "budget", "ledger_entry", "release")
"""What a file of exact values must not state: nothing was released."""

Stated = Mapping[str, Any]
Remake = Callable[[], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What one kind of file is checked by.

    ``checked`` reads its form, ``parts`` are what it counts, ``plan`` gives the query and what makes its estimates
    again, and ``exact`` checks exact values, where a file may hold such.
    """

    checked: Callable[[object], dict[str, Any]]
    parts: Callable[[Stated], list[Counted]]
    plan: Callable[[Stated, Budget, Neighbours], tuple[Query, Remake]]
    exact: Callable[[Stated], str] | None = None


def examine(document: Any, kind: Kind, requirements: Requirements | None = None) -> Verdict:
    """Whether a file claims a guarantee that follows from what it states, and holds nothing else."""
    examination, price = Examination(), None
    examination.run(
        "shape of the file", STRUCTURE, lambda: kind.checked(document) and "keys, types and digest"
    )
    if examination.sound and kind.exact is not None and document["local"]:
        exact = kind.exact
        examination.run("exact figures", STRUCTURE, lambda: exact(document))
    elif examination.sound:
        price = _recomputed(document, kind, examination)
    return _verdict(document, examination, price, requirements or Requirements())


def accepted(document: object, kind: Kind) -> dict[str, Any]:
    """The fields of what a file holds, if every check passes; whether a guarantee is claimed is another matter."""
    verdict = examine(document, kind)
    if not verdict.accepted:
        raise InvalidInput(verdict.failures[0])
    return kind.checked(document)


def _recomputed(document: Stated, kind: Kind, examination: Examination) -> Price | None:
    release = document["release"]
    examination.run("claim", STRUCTURE, lambda: _claimed(document))
    if examination.sound:
        examination.run("release", FORMULA, lambda: check_release(release, kind.parts(document)))
    if not examination.sound:
        return None
    budget, prices, remakes = Budget(**document["budget"]), [], []

    def cost() -> str:
        prices.append(release_price(release))
        return check_price(prices[0], budget)

    def plan() -> str:
        query, remake = kind.plan(document, budget, Neighbours.parse(document["relation"]))
        remakes.append(remake)
        return _check_plan(release, query)

    examination.run("epsilon at delta", SECOND, cost)
    if examination.sound:
        examination.run("the whole plan", REPLANNED, plan)
    if examination.sound:
        examination.run("figures and notes", REMADE, lambda: _check_estimates(document, remakes[0]))
    return prices[0] if examination.sound else None


def _claimed(document: Stated) -> str:
    entry = document["ledger_entry"]
    if entry is not None:
        check_citation("ledger_entry", entry)
    return check_claim(document)


def _check_plan(release: Stated, query: Query) -> str:
    """The noise is what the library would add: less is too little, and who states more drew from another plan."""
    for name, value in (("noise_scale", query.noise.scale), ("sensitivity", query.noise.sensitivity)):
        if not math.isclose(release[name], value, rel_tol=1e-9):
            raise InvalidInput(f"release, {name} is not the {value:.9g} that this plan gives.")
    if release["parts"] != query.design.stated or release["grid_exponent"] != query.noise.grid_exponent:
        raise InvalidInput("release, parts or grid_exponent are not what this plan gives.")
    return f"noise of scale {query.noise.scale:.6g}, as a new plan gives it"


def _check_estimates(document: Stated, remake: Remake) -> str:
    with np.errstate(all="ignore"):
        made = remake()
    for name, follows in made.items():
        if not alike(document[name], follows):
            raise InvalidInput(f"{name} does not follow from the numbers that were released.")
    return f"{', '.join(made)} follow from the released numbers"


def alike(stated: Any, follows: Any) -> bool:
    """Equal, but for the last digits of numbers: those of one object to a part of the largest of them."""
    if isinstance(follows, Mapping):
        if not isinstance(stated, Mapping) or stated.keys() != follows.keys():
            return False
        numbers = [name for name, value in follows.items() if isinstance(value, float)]
        rest = follows.keys() - set(numbers)
        return _close([stated[name] for name in numbers], [follows[name] for name in numbers]) and all(
            alike(stated[name], follows[name]) for name in rest
        )
    if isinstance(follows, Sequence) and not isinstance(follows, str):
        same = isinstance(stated, Sequence) and len(stated) == len(follows)
        return same and all(map(alike, stated, follows))
    if isinstance(follows, float):
        return _close([stated], [follows])
    return type(stated) is type(follows) and bool(stated == follows)


def _close(stated: Sequence[Any], follows: Sequence[float]) -> bool:
    reach = CLOSE * max(map(abs, follows), default=0.0)
    return all(
        isinstance(one, float | int) and not isinstance(one, bool) and abs(one - other) <= reach
        for one, other in zip(stated, follows, strict=True)
    )


def _verdict(
    document: Any, examination: Examination, price: Price | None, requirements: Requirements
) -> Verdict:
    if not examination.sound:
        return Verdict(checks=tuple(examination.checks), claim=None, reason=None, requirements=requirements)
    local = bool(document.get("local"))
    reason = document["notes"][0] if local else None if document["private"] else SEEDED_NOTE
    return Verdict(
        checks=tuple(examination.checks),
        claim=None if reason else {name: float(value) for name, value in document["budget"].items()},
        reason=reason,
        unit=UNITS[document["unit"]],
        relation="" if local else document["relation"],
        price=price,
        requirements=requirements,
    )


def stated_facts(document: Stated) -> dict[str, Any]:
    """What a file says of its model; exact values say less."""
    facts = {name: document[name] for name in ("task", "classes", "y_range")}
    release = document["release"]
    return facts if release is None else facts | {name: release[name] for name in ("probabilities", "scales")}


def model_facts(evaluated: EvaluatedModel) -> dict[str, Any]:
    """The same of the model itself."""
    return {
        "task": evaluated.task,
        "classes": plain("classes", evaluated.classes),
        "y_range": list(evaluated.y_range) if evaluated.task == "regression" else None,
        "probabilities": evaluated.has_probabilities,
        "scales": [] if evaluated.task == "regression" else ScoreBins(0, scales_of(evaluated)).to_list(),
    }


def _evaluation_parts(document: Stated) -> list[Counted]:
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


def _evaluation_plan(document: Stated, budget: Budget, neighbours: Neighbours) -> tuple[Query, Remake]:
    release, model = document["release"], StatedModel.of(document)
    public = document["rows"] if neighbours is Neighbours.REPLACE_ONE else document["max_rows"]
    asked = None if release["default_bins"] else release["bins"]
    scales = {
        one["name"]: Scale(float(one["centre"]), float(one["spread"]), one["line"])
        for one in release["scales"]
    }
    bound = release["error_bound"]
    task, query = planned(model, scales, budget, neighbours, public, asked, bound)
    if isinstance(task, Classification) and task.bins.count != release["bins"]:
        raise InvalidInput(f"release, bins are not the {task.bins.count} that the public rule gives.")

    def remake() -> dict[str, Any]:
        numbers = np.array(release["numbers"], np.float64)
        found = estimated(task, numbers, release["noise_scale"], document["rows"])
        expected = STANDARD.union(document["metrics"])  # one of another package may be there or not
        found["metrics"] = {name: value for name, value in found["metrics"].items() if name in expected}
        notes = notes_of(model, release["secure"], bound, document["unit"] == "person")
        return evaluation_estimates(EvaluationResult(task=model.task, model="", notes=notes, **found))

    return query, remake


def _exact(document: Stated) -> str:
    """Exact values claim nothing, and have neither noise nor anything that a release has."""
    stated = [name for name in RELEASED if document[name] is not None]
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


def _n_groups(document: Stated) -> int:
    """One where nothing is declared: that of all rows."""
    return max(1, len(document["values"]) + (document["other"] is not None))


def _means_parts(document: Stated) -> list[Counted]:
    low, high = document["range"]
    if document["label"] is not None and not UNIT[0] <= low < high <= UNIT[1]:
        raise InvalidInput("range: probabilities are cut off between 0 and 1.")
    if not document["values"] and document["by"] != ALL:
        raise InvalidInput("by names what declares groups, and there are none.")
    return means_parts(_n_groups(document), document["relation"])


def _means_plan(document: Stated, budget: Budget, neighbours: Neighbours) -> tuple[Query, Remake]:
    release, (low, high) = document["release"], document["range"]
    ends, by_person = (float(low), float(high)), document["unit"] == "person"

    def remake() -> dict[str, Any]:
        numbers = np.array(release["numbers"], np.float64)
        found = means(numbers, release["noise_scale"], document["rows"], ends)
        notes = means_notes(document["label"], ends, release["secure"], by_person)
        return means_estimates(found, bool(document["values"]), notes)

    design = means_design(_n_groups(document))
    return Query(design=design, budget=budget, neighbours=neighbours), remake


EVALUATION = Kind(checked=checked_evaluation, parts=_evaluation_parts, plan=_evaluation_plan, exact=_exact)
MEANS = Kind(checked=checked_means, parts=_means_parts, plan=_means_plan)
KINDS = {EVALUATION_FORMAT: EVALUATION, MEANS_FORMAT: MEANS}
"""By the format that a file names."""
