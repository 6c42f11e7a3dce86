"""The plan of an evaluation, before a row is read; what its result states, and the notes that follow from that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm import __version__
from dperm.counting.bins import DEFAULTS, Scale, ScoreBins, default_bins
from dperm.counting.classification import Classification, loss_cap
from dperm.counting.estimates import UNIT
from dperm.counting.query import Query, Release
from dperm.counting.regression import Regression
from dperm.evaluation.curves import Task
from dperm.evaluation.model import EvaluatedModel, StatedModel
from dperm.evaluation.results import BY_PERSON, SEEDED_NOTE
from dperm.evaluation.rows import Ownership, PublicCount
from dperm.privacy import Budget
from dperm.unit import Neighbours


def planned(
    model: EvaluatedModel | StatedModel,
    scales: Mapping[str, Scale],
    budget: Budget,
    neighbours: Neighbours,
    n_rows: int,
    bins: int | None = None,
    error_bound: float | None = None,
) -> tuple[Task, Query]:
    """What an evaluation of this model, whose scores have these ``scales``, will count and release.

    ``n_rows`` is the public number, or that of ``max_rows``.
    """

    def asked(task: Task) -> tuple[Task, Query]:
        return task, Query(design=task.design, budget=budget, neighbours=neighbours)

    def with_bins(count: int) -> tuple[Task, Query]:
        return asked(Classification(len(model.classes), model.has_probabilities, ScoreBins(count, scales)))

    if model.task == "regression":
        return asked(Regression(model.y_range, error_bound, neighbours))
    task, query = with_bins(DEFAULTS[0] if bins is None else bins)
    return (task, query) if bins is not None else with_bins(default_bins(query.noise.scale, n_rows))


def stated(
    model: EvaluatedModel, whose: Ownership, public: PublicCount, query: Query, release: Release
) -> dict[str, Any]:
    """What every result says of its release, by the names that ``Result`` has."""
    return {
        "model": model.digest,
        "unit": whose.unit,
        "rows": public.n_rows,
        "max_rows": public.max_rows,
        "budget": {"epsilon": query.budget.epsilon, "delta": query.budget.delta},
        "neighbours": query.neighbours.value,
        "ledger_entry": release.ledger_entry,
        "library": __version__,
    }


def notes_of(
    model: EvaluatedModel | StatedModel, secure: bool, error_bound: float | None, by_person: bool
) -> tuple[str, ...]:
    """The sentences below an evaluation: each follows from public facts, and a file holds no other."""
    notes = _common_notes(secure, by_person)
    if model.has_probabilities:
        cap = loss_cap(len(model.classes))
        notes.append(f"The log loss of one row counts {cap:.3g} at most.")
    if model.task == "regression":
        notes.append("Targets and predictions are cut off at the ends of the declared range.")
    if error_bound is not None:
        notes.append(f"Errors larger than {error_bound:g} count as {error_bound:g}.")
    return tuple(notes)


def means_notes(label: Any, ends: tuple[float, float], secure: bool, by_person: bool) -> tuple[str, ...]:
    """The sentences below the means: each follows from public facts, and a file holds no other."""
    notes = _common_notes(secure, by_person)
    if label is None or ends != UNIT:
        notes.append(f"Predictions are cut off at {ends[0]:g} and {ends[1]:g}.")
    notes.append("How sure the model's own numbers are is not in the intervals.")
    return tuple(notes)


def _common_notes(secure: bool, by_person: bool) -> list[str]:
    return [*([] if secure else [SEEDED_NOTE]), *([BY_PERSON] if by_person else [])]
