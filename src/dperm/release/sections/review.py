"""The questions of NIST SP 800-226, from the guarantee at the top to the data at the base; and the glossary."""

from __future__ import annotations

from dperm.release.release import Release, is_private
from dperm.release.sections import ask, stated
from dperm.release.words import WORDS, guarantee_words, mechanism_words, unit_words
from dperm.render.html import Html, facts, paragraph, safe, section
from dperm.render.numbers import written

Line = tuple[str, str]
Level = tuple[str, str, list[Line]]


def levels(release: Release) -> list[Level]:
    """The three levels, each line filled with what this release says."""
    return [
        ("top", "The guarantee", _top(release)),
        ("middle", "What can undermine it", _middle(release)),
        ("base", "What it stands on", _base(release)),
    ]


def _top(release: Release) -> list[Line]:
    verdict = release.verdict
    stands = "none that holds" if verdict.guarantee is None else guarantee_words(verdict.guarantee)
    return [
        ("Privacy parameters", stands),
        ("Unit of privacy", _unit(release)),
        ("Why these", stated(release, "privacy.justification", "who chose ε and δ, and on what grounds?")),
    ]


def _unit(release: Release) -> str:
    if release.unit == "person":
        return unit_words(release)
    most = release.deployment.most_rows_per_person
    person = (
        ask("how many rows can one person have?")
        if most is None
        else f"a person has at most {most:,} row{'' if most == 1 else 's'}"
    )
    return Html(f"{safe(unit_words(release))}; {safe(person)}")


def _middle(release: Release) -> list[Line]:
    verdict, entropy = release.verdict, release.statement["entropy"]
    checked = verdict.how if verdict.guarantee is not None else "; ".join(verdict.objections[:2])
    return [
        ("Algorithm and its correctness", f"{mechanism_words(release)}; {checked}"),
        ("Utility and bias", _utility(release)),
        ("Queries", "none: one model is published, and nobody can ask the table anything"),
        ("Trust model", "central: one curator holds the rows, trains and adds the noise"),
        (
            "Floating point",
            "exact noise on a grid; rounding is bounded by a proof and covered"
            if release.statement["certified_arithmetic"] and verdict.guarantee is not None
            else "no guarantee that it could weaken"
            if release.statement["certified_arithmetic"]
            else "NOT within what the proof allows for",
        ),
        (
            "Timing and other side channels",
            "not hidden: nobody outside may watch the machine while it trains",
        ),
        ("Randomness", f"{entropy['source']}{'' if entropy['secure'] else ', which can be predicted'}"),
        ("Budget over time", _budget(release)),
    ]


def _utility(release: Release) -> str:
    if release.evaluation is None:
        return ask("how good is the model, and is it worse for small groups of people?")
    how = (
        "evaluated privately"
        if is_private(release.evaluation)
        else "evaluated with figures that are NOT private"
    )
    return f"{how}, see how good the model is. Noise and bounds weigh most on groups with few rows"


def _budget(release: Release) -> str:
    spent = release.spending
    if spent is not None:
        return f"ε = {written(spent.after, 4)} after this release of a cap of {written(spent.cap.epsilon)}, in a ledger"
    if release.statement["model"]["ledger_entry"] is not None:
        return "counted in a ledger, which was not given to this page"
    return stated(release, "privacy.other_releases", "what else was released from the same people?")


def _base(release: Release) -> list[Line]:
    return [
        (
            "Security and access to the rows",
            stated(release, "privacy.security", "how are the rows kept, and who can get at them?"),
        ),
        ("Actors", stated(release, "privacy.actors", "who sees what, before and after the release?")),
        (
            "Data collection",
            stated(release, "dataset.collection", "how were the data collected, and what were people told?"),
        ),
        ("The people", stated(release, "dataset.description", "who is in the table?")),
    ]


def pyramid(release: Release) -> Html:
    body = "".join(
        f'<div class="level {kind}"><h3>{safe(head)}</h3>{facts(lines, "facts long")}</div>'
        for kind, head, lines in levels(release)
    )
    return section(
        "Evaluated as NIST SP 800-226 asks",
        paragraph(
            "The higher levels are worth nothing if a lower one fails: noise does not protect rows that were stolen.",
            "dim",
        ),
        Html(f'<div class="pyramid">{body}</div>'),
    )


def glossary(release: Release) -> Html:
    """Nothing on a page that has no guarantee to explain."""
    if release.verdict.guarantee is None:
        return Html("")
    terms = [(term, Html(told.format(**WORDS[release.unit]))) for term, told in WORDS["glossary"].items()]
    return section("Glossary", facts(terms, "facts long"))
