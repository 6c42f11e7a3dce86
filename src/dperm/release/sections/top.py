"""The head of the page: what is released, by whom, and whether its guarantee stands."""

from __future__ import annotations

from collections.abc import Sequence

from dperm.certificate.words import meaning
from dperm.release.deployment import Person
from dperm.release.html import Html, blank, facts, joined, paragraph, safe, section
from dperm.release.release import Release
from dperm.release.sections.people import groups, in_words, stated_rows
from dperm.release.words import guarantee_words, model_words

_BLANKS = (
    "Some blanks on this page can only be filled by people. Write them down once: dperm report --init-deployment "
    "deployment.toml, then dperm report ... --deployment deployment.toml."
)


def title(release: Release) -> Html:
    told = release.deployment
    version = told.text("product.version")
    rows = [
        ("Data set", told.text("dataset.name") or blank("dataset.name")),
        ("Published by", told.text("curator.organisations") or blank("curator.organisations")),
        ("Made by", _people(told.made_by, "made_by")),
        ("To be approved by", _people(told.approved_by, "approved_by")),
        ("Publication", told.text("product.publication_date") or blank("product.publication_date")),
        ("Contact", told.text("curator.contact") or blank("curator.contact")),
        ("Model file", f"{release.name}{f', version {version}' if version else ''}"),
        ("This page", f"made on {release.today.isoformat()} with dperm {release.library}"),
    ]
    return Html(
        f'<header><p class="kind">Privacy certificate, for signature</p><h1>{safe(release.title)}</h1>'
        f"{facts(rows)}</header>"
    )


def _people(people: Sequence[Person], key: str) -> str:
    return "\n".join(map(str, people)) if people else blank(key)


def verdict(release: Release) -> Html:
    """The answer in one heading; only a guarantee that stands is called one."""
    found = release.verdict
    if not found.accepted:
        kind, head = "bad", "Not verified"
    elif found.claim is None:
        kind, head = "bad", "No guarantee"
    elif found.unmet:
        kind, head = "bad", "Not private as a whole: an assumption is not met"
    elif found.guarantee is None:
        kind, head = "bad", "Not confirmed"
    else:
        kind = "good" if found.ok else "bad"
        head = f"Differentially private: {guarantee_words(found.guarantee)}, for {found.unit}".replace(
            " = ", "\u00a0=\u00a0"
        )
    lines = [*meaning(release.statement, found)]
    if stated_rows(release) is not None and (several := groups(release)):
        lines.append(in_words(release, several))
    lines += [*found.failures, *map(str, found.unmet)]
    lines += [f"Not confirmed: {line}." for line in found.unproven]
    lines += [one.plain for one in found.cautions]
    if found.guarantee is not None:
        lines += [] if found.ok else [f"Required, and not so: {line}." for line in found.objections]
        lines.append(f"The price was {found.how}.")
        lines += [f"Not checked: {line}." for line in found.not_checked]
    stands = "The guarantee holds" if found.ok else "The guarantee does NOT hold"
    body = "".join(paragraph(line) for line in lines)
    return Html(
        f'<section class="verdict {kind}"><p class="stands">{stands}</p><strong>{safe(head)}</strong>{body}</section>'
    )


def purpose(release: Release) -> Html:
    """What it is for; without a deployment file, how to say so."""
    told = release.deployment
    access, releases = told.text("product.access"), told.text("product.releases")
    place = "; ".join(filter(None, map(told.text, ("dataset.region", "dataset.sector"))))
    rows = [
        ("What is released", told.text("product.description") or blank("product.description")),
        ("Which is", model_words(release)),
        ("Purpose", told.text("product.purpose") or blank("product.purpose")),
        ("Audience", told.text("product.audience") or blank("product.audience")),
        ("Access to the model", access or blank("product.access")),
        ("Releases", _often(releases, told.text("product.future"))),
        ("Why this guarantee", told.text("privacy.justification") or blank("privacy.justification")),
        ("People in the table", told.text("dataset.description") or blank("dataset.description")),
        ("Where, and what about", place or blank("dataset.region, dataset.sector")),
    ]
    note = "" if release.deployed else paragraph(_BLANKS, "note")
    return section("What is released, and why", joined([facts(rows, "facts long"), note]))


def _often(releases: str, future: str) -> str:
    said = {"one": "once", "many": "again and again, from the same people"}.get(releases)
    if said is None:
        return blank("product.releases")
    return f"{said}. {future}" if future else said
