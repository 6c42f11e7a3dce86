"""The sentences below an evaluation: each follows from public facts, and a file holds no other."""

from __future__ import annotations

from dperm.evaluation.classifying import loss_cap
from dperm.evaluation.found import SEEDED_NOTE
from dperm.evaluation.paying import BY_PERSON
from dperm.evaluation.subject import Public


def notes_of(subject: Public, secure: bool, error_bound: float | None, by_person: bool) -> tuple[str, ...]:
    found = [] if secure else [SEEDED_NOTE]
    if by_person:
        found.append(BY_PERSON)
    if subject.has_probabilities:
        cap = loss_cap(len(subject.classes))
        found.append(f"The log loss of one row counts {cap:.3g} at most.")
    if subject.task == "regression":
        found.append("Targets and predictions are cut off at the ends of the declared range.")
    if error_bound is not None:
        found.append(f"Errors larger than {error_bound:g} count as {error_bound:g}.")
    return tuple(found)
