"""The same in a terminal, short and in the same order."""

from __future__ import annotations

from dperm.certificate.words import attack_table, meaning
from dperm.models.effects import effects_text
from dperm.release.group import at_most, groups, in_words
from dperm.release.release import NOT_PRIVATE, Release, is_private
from dperm.release.words import (
    POST_PROCESSING,
    assumed,
    command,
    counting,
    guarantee_words,
    kept_for,
    model_words,
    threshold_words,
    unprotected,
)
from dperm.render.numbers import written


def text(release: Release) -> str:
    """Paragraphs, each with a heading."""
    parts = [
        _head(release),
        _listed("In plain words", meaning(release.statement, release.verdict)),
        _people(release),
        _listed("How rows count", counting(release)) if release.unit == "person" else "",
        _attacks(release),
        _budget(release),
        _evaluation(release),
        effects_text(release.estimator, release.schema)
        if release.schema is not None and release.estimator is not None
        else "",
        _listed("Not protected", unprotected(release)),
        _listed("After the release", [POST_PROCESSING]) if release.verdict.guarantee is not None else "",
        _listed("Assumed", [line for line, _ in assumed(release)]),
        _listed("Verify again", [command(release)]),
    ]
    return "\n\n".join(part for part in parts if part)


def _listed(title: str, lines: list[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])


def _head(release: Release) -> str:
    told, verdict = release.deployment, release.verdict
    head = (
        f"Differentially private: {guarantee_words(verdict.guarantee)}, for {verdict.unit}, {verdict.relation}"
        if verdict.ok and verdict.guarantee is not None
        else f"NOT PRIVATE: {verdict.objections[0]}"
    )
    facts = {
        "model": f"{release.title}: {model_words(release)}",
        "data set": told.text("dataset.name"),
        "purpose": told.text("product.purpose"),
        "made by": "; ".join(map(str, told.made_by)),
        "to approve": "; ".join(map(str, told.approved_by)),
        "verified": str(verdict).replace("\n", "\n  ") if verdict.ok else "",
        "and": "\n  ".join([*verdict.objections[1:], *map(str, verdict.cautions)]) if not verdict.ok else "",
    }
    return "\n".join([head, *(f"  {name:12} {value}" for name, value in facts.items() if value)])


def _people(release: Release) -> str:
    found = groups(release)
    if not found:
        return ""
    told = [f"{group.size:>6}   ε = {at_most(group.epsilon)} at the same δ" for group in found]
    title = "A person with so many rows" if release.unit == "row" else "So many persons together"
    return _listed(title, [*told, in_words(release, found)])


def _attacks(release: Release) -> str:
    rows = attack_table(release.verdict)
    if not rows:
        return ""
    lines = [
        f"Right accusations of an attacker who knows all {release.unit}s but one, at most",
        "  if wrong in   by this mechanism   by the claim alone",
    ]
    lines += [f"  {row.fpr:>11.1%}   {row.mechanism:>17.3%}   {row.budget:>18.3%}" for row in rows]
    return "\n".join(lines)


def _budget(release: Release) -> str:
    spent, cited = release.spending, release.statement["model"]["ledger_entry"]
    tuned = [line for line in (threshold_words(release),) if line]
    if spent is not None:
        return _listed(
            "Budget",
            [
                f"before ε = {written(spent.before, 4)}, after ε = {written(spent.after, 4)}, cap "
                f"ε = {written(spent.cap.epsilon)} at δ = {written(spent.cap.delta)} "
                f"({spent.dataset}{kept_for(release)})",
                *tuned,
            ],
        )
    charged = "not charged to a ledger" if cited is None else f"charged: {cited}"
    return _listed("Budget", [charged, *tuned])


def _evaluation(release: Release) -> str:
    if release.evaluation is None:
        return ""
    loud = [] if is_private(release.evaluation) else [NOT_PRIVATE]
    return _listed("Evaluation", [*loud, *str(release.evaluation).splitlines()])
