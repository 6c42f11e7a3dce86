"""How to check the page again, and where to sign."""

from __future__ import annotations

from shlex import quote

from dperm.release.html import Html, code, facts, paragraph, safe, section
from dperm.release.release import Release


def command(release: Release) -> str:
    """The command that must end well for the page to be true."""
    found = release.verdict.guarantee
    limits = (
        ""
        if found is None
        else f" --max-epsilon {found['epsilon']!r} --max-delta {found['delta']!r} --unit {release.unit}"
    )
    return f"dperm verify {quote(release.name)}{limits}"


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
