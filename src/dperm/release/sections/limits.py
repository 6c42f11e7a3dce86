"""What is not protected, what has to be trusted, and what was assumed."""

from __future__ import annotations

from dperm.release.html import Html, blank, bullets, facts, paragraph, section
from dperm.release.release import Release
from dperm.release.words import POST_PROCESSING, assumed, preprocessing, trust, unprotected


def unhidden(release: Release) -> Html:
    return section("What is not protected", bullets(unprotected(release)))


def before_and_after(release: Release) -> Html:
    """Preprocessing, tuning and post-processing."""
    told = release.deployment.text("privacy.preprocessing")
    after = POST_PROCESSING if release.verdict.guarantee is not None else ""
    return section(
        "Before the fit, and after it",
        bullets(preprocessing(release)),
        facts([("The curator says", told or blank("privacy.preprocessing"))], "facts long"),
        paragraph(after) if after else "",
    )


def trust_model(release: Release) -> Html:
    told = release.deployment
    rows = [
        *trust(release),
        ("Who else sees what", told.text("privacy.actors") or blank("privacy.actors")),
        ("How the rows are kept", told.text("privacy.security") or blank("privacy.security")),
    ]
    return section("Who and what must be trusted", facts(rows, "facts long"))


def assumptions(release: Release) -> Html:
    note = (
        "There is no guarantee that could rest on these."
        if release.verdict.guarantee is None
        else "The guarantee says nothing if one of these is false. Who signs vouches for them."
    )
    lines = assumed(release)
    return section(
        "What is assumed",
        paragraph(note, "dim"),
        bullets([line for line, _ in lines], [kind for _, kind in lines]),
    )
