"""The page to sign: one file, no scripts, no network, everything from files escaped."""

from __future__ import annotations

from collections.abc import Sequence

from dperm.certificate.words import meaning
from dperm.release.deployment import Person
from dperm.release.group import groups, in_words, stated_rows
from dperm.release.release import Release
from dperm.release.sections import blank
from dperm.release.sections.guarantee import (
    assumptions,
    attacks,
    before_and_after,
    budget,
    people,
    trust_model,
    unhidden,
)
from dperm.release.sections.model import annex, coefficients, columns, effects, evaluation
from dperm.release.sections.review import glossary, pyramid
from dperm.release.words import command, guarantee_words, model_words
from dperm.render.html import Html, code, facts, joined, paragraph, safe, section
from dperm.render.style import PAGE

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


def again(release: Release) -> Html:
    """The command and the digests."""
    model, digest = release.statement["model"]["sha256"], release.statement["digest"]
    rows = [("Command", Html(f"<code>{' '.join(map(_unbroken, command(release).split(' ')))}</code>"))]
    if release.file_sha256 is not None:
        rows.append(("SHA-256 of the model file", code(release.file_sha256)))
    rows += [("Digest of the certificate", code(digest)), ("Digest of the released numbers", code(model))]
    if release.spending is not None:
        rows.append(("Head of the ledger", code(release.spending.head)))
    shows = (
        "A certificate shows that the stated noise is enough for the stated constants. It cannot show that the "
        "statement is true: that rows were bounded, settings chosen without the data and noise really drawn is what "
        "its author vouches for."
        if release.verdict.guarantee is not None
        else "This page shows what the file states, and that it does not add up to a guarantee."
    )
    return section(
        "How to verify this again",
        paragraph(
            "Anyone with the model file can, without data. The command ends with code 0 only if the guarantee "
            "holds and is no weaker than this page says; the digests say that it is the same file.",
            "dim",
        ),
        facts(rows, "facts long"),
        paragraph(shows, "dim"),
    )


def _unbroken(word: str) -> Html:
    """An option is not to be broken after its dashes."""
    return Html(f'<span class="nb">{safe(word)}</span>') if word.startswith("--") else safe(word)


def signature(release: Release) -> Html:
    """One block for each who approves; a model whose guarantee does not hold cannot be approved."""
    approvers = release.deployment.approved_by or (None,)
    choices = ["approved for release", "not approved"] if release.holds else ["not approved"]
    decision = "".join(f'<span class="box">{choice}</span>' for choice in choices)
    refused = (
        ""
        if release.holds
        else paragraph("The guarantee does not hold, so this page cannot be signed as approved.", "alarm")
    )
    blocks = "".join(
        '<div class="sign">'
        f"<div><label>Name</label><p>{safe(person.name if person else '')}</p></div>"
        f"<div><label>Role</label><p>{safe(person.role if person else '')}</p></div>"
        f'<div class="decision"><label>Decision</label><p>{decision}</p></div>'
        "<div><label>Date</label><p></p></div><div><label>Signature</label><p></p></div></div>"
        for person in approvers
    )
    subject = release.file_sha256 or release.statement["digest"]
    about = Html(f"About {safe(release.name)}, {code(subject)}")
    return section("Decision", refused, paragraph(about, "dim"), Html(blocks), style="signature")


SECTIONS = (
    title,
    verdict,
    purpose,
    people,
    attacks,
    budget,
    evaluation,
    effects,
    columns,
    unhidden,
    before_and_after,
    trust_model,
    assumptions,
    pyramid,
    again,
    signature,
    glossary,
    annex,
    coefficients,
)
_FOOT = """@page {{ @bottom-left {{ content: "{about}"; font: 8pt sans-serif; }}
  @bottom-right {{ content: counter(page) " / " counter(pages); font: 8pt sans-serif; }} }}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(release: Release) -> str:
    """The whole document."""
    foot = _FOOT.format(about=f"SHA-256 {release.file_sha256[:16]}…" if release.file_sha256 else "")
    kind = "holds" if release.holds else "fails"
    body = joined(part(release) for part in SECTIONS)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>Privacy certificate: {safe(release.title)}</title><style>{PAGE}{foot}</style></head>\n"
        f'<body class="{kind}"><main>\n{body}\n</main></body></html>\n'
    )
