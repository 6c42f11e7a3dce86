"""Whom the guarantee protects: one row, and what that says of a person with several; or one person, and several."""

from __future__ import annotations

import math

from dperm.certificate.numerals import written
from dperm.release.group import Group, group_privacy
from dperm.release.html import Html, paragraph, section, table
from dperm.release.release import Release
from dperm.release.words import unit_words

SIZES = (1, 2, 5, 10)
NOTHING = "no promise"
_FORMULA = Html(
    "The table shows by how much, first for this mechanism at the δ of the guarantee, then for any mechanism with the "
    "same claim: kε, with δ (1 + e<sup>ε</sup> + … + e<sup>(k−1)ε</sup>)."
)
_LESS = {
    "row": "A person with k rows is protected less: changing all of them is k changes of one row.",
    "person": "k persons together, such as a household, are protected less: changing all of them is k changes of one "
    "person.",
}
_TITLE = {
    "row": "For whom: one row, and a person with several",
    "person": "For whom: one person, and several together",
}
_SIZE = {"row": "rows of a person", "person": "persons together"}


def groups(release: Release) -> list[Group]:
    """For a few numbers of rows or persons, and the number of rows that was declared; none without a guarantee."""
    verdict = release.verdict
    if verdict.guarantee is None:
        return []
    return [group_privacy(verdict, size) for size in sorted({*SIZES, stated_rows(release) or 1})]


def stated_rows(release: Release) -> int | None:
    """The rows that one person may have, as it was stated, where the guarantee is for one row."""
    return release.deployment.most_rows_per_person if release.unit == "row" else None


def at_most(epsilon: float) -> str:
    """An epsilon with three digits, rounded up."""
    if not math.isfinite(epsilon):
        return NOTHING
    if epsilon == 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return written(math.ceil(epsilon / step * (1 - 1e-9)) * step, 3)


def in_words(release: Release, found: list[Group]) -> str:
    """What the declared number of rows makes of the guarantee."""
    if release.unit == "person":
        return (
            "The guarantee is for one person with all their rows, so it needs no number of rows that a person can "
            "have. It is as good as the ids: rows of one person under two ids are two persons to it."
        )
    declared = stated_rows(release)
    if declared is None:
        return (
            "How many rows one person can have is not stated (dataset.most_rows_per_person). If it can be more "
            "than one, read the line for that number: it is the guarantee for a person."
        )
    if declared == 1:
        return "It is stated that a person has one row, so the guarantee for a row is that for a person."
    of_person = next(group for group in found if group.size == declared)
    return (
        f"It is stated that a person has at most {declared:,} rows. The guarantee for a person is therefore "
        f"ε = {at_most(of_person.epsilon)} at the same δ, and not the one for a row."
    )


def people(release: Release) -> Html:
    found = groups(release)
    if not found:
        return Html("")
    declared = stated_rows(release)
    rows = [
        (
            f"{group.size:,}" + (" (stated)" if group.size == declared else ""),
            at_most(group.epsilon),
            written(group.claim_epsilon, 4),
            NOTHING if group.claim_delta >= 1 else written(group.claim_delta, 2),
        )
        for group in found
    ]
    return section(
        _TITLE[release.unit],
        paragraph(f"The unit of privacy is {unit_words(release)}."),
        paragraph(Html(f"{_LESS[release.unit]} {_FORMULA}"), "dim"),
        table(
            (_SIZE[release.unit], "ε at the same δ", "by the claim: ε", "with δ"),
            rows,
            numbers=(1, 2, 3),
            style="figures",
        ),
        paragraph(in_words(release, found)),
    )
