"""The page to sign: one file, no scripts, no network, everything from files escaped."""

from __future__ import annotations

from importlib.resources import files
from string import Template

from dperm.certificate.words import meaning
from dperm.release.group import groups, in_words, stated_rows
from dperm.release.release import Release
from dperm.release.sections import blank, guarantee, model, review, stated
from dperm.release.words import command, guarantee_words, model_words
from dperm.render.html import Html, code, facts, joined, paragraph, safe, section, tag
from dperm.render.style import PAGE

_BLANKS = (
    "Some blanks on this page can only be filled by people. Write them down once: dperm report --init-deployment "
    "deployment.toml, then dperm report ... --deployment deployment.toml."
)


def title(release: Release) -> Html:
    told = release.deployment
    version = told.text("product.version")
    rows = [
        ("Data set", stated(release, "dataset.name")),
        ("Published by", stated(release, "curator.organisations")),
        ("Made by", "\n".join(map(str, told.made_by)) or blank("made_by")),
        ("To be approved by", "\n".join(map(str, told.approved_by)) or blank("approved_by")),
        ("Publication", stated(release, "product.publication_date")),
        ("Contact", stated(release, "curator.contact")),
        ("Model file", f"{release.name}{f', version {version}' if version else ''}"),
        ("This page", f"made on {release.today.isoformat()} with dperm {release.library}"),
    ]
    return tag(
        "header",
        paragraph("Privacy certificate, for signature", "kind"),
        tag("h1", release.title),
        facts(rows),
    )


def verdict(release: Release) -> Html:
    """The answer in one heading; only a guarantee that stands is called one."""
    found = release.verdict
    if not found.accepted:
        head = "Not verified"
    elif found.claim is None:
        head = "No guarantee"
    elif found.unmet:
        head = "Not private as a whole: an assumption is not met"
    elif found.guarantee is None:
        head = "Not confirmed"
    else:
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
    return tag(
        "section",
        paragraph("The guarantee holds" if found.ok else "The guarantee does NOT hold", "stands"),
        tag("strong", head),
        *map(paragraph, lines),
        style=f"verdict {'good' if found.ok else 'bad'}",
    )


def purpose(release: Release) -> Html:
    """What it is for; without a deployment file, how to say so."""
    told = release.deployment
    place = "; ".join(filter(None, map(told.text, ("dataset.region", "dataset.sector"))))
    often = {"one": "once", "many": "again and again, from the same people"}
    releases = [often.get(told.text("product.releases")), told.text("product.future")]
    rows = [
        ("What is released", stated(release, "product.description")),
        ("Which is", model_words(release)),
        ("Purpose", stated(release, "product.purpose")),
        ("Audience", stated(release, "product.audience")),
        ("Access to the model", stated(release, "product.access")),
        ("Releases", ". ".join(filter(None, releases)) if releases[0] else blank("product.releases")),
        ("Why this guarantee", stated(release, "privacy.justification")),
        ("People in the table", stated(release, "dataset.description")),
        ("Where, and what about", place or blank("dataset.region, dataset.sector")),
    ]
    note = "" if release.deployed else paragraph(_BLANKS, "note")
    return section("What is released, and why", facts(rows, "facts long"), note)


def again(release: Release) -> Html:
    """The command and the digests."""
    model, digest = release.statement["model"]["sha256"], release.statement["digest"]
    words = command(release).split(" ")
    unbroken = (tag("span", word, style="nb") if word.startswith("--") else word for word in words)
    rows = [("Command", tag("code", joined(unbroken, " ")))]
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
    guarantee.people,
    guarantee.attacks,
    guarantee.budget,
    model.evaluation,
    model.effects,
    model.columns,
    guarantee.unhidden,
    guarantee.before_and_after,
    guarantee.trust_model,
    guarantee.assumptions,
    review.pyramid,
    again,
    signature,
    review.glossary,
    model.annex,
    model.coefficients,
)
_PAGE = Template((files("dperm.release") / "page.html").read_text(encoding="utf-8"))


def page(release: Release) -> str:
    """The whole document."""
    return _PAGE.substitute(
        title=safe(release.title),
        style=PAGE,
        about=f"SHA-256 {release.file_sha256[:16]}…" if release.file_sha256 else "",
        kind="holds" if release.holds else "fails",
        body=joined(part(release) for part in SECTIONS),
    )
