"""The page to sign: one file, no scripts, no network, everything from files escaped."""

from __future__ import annotations

from dperm.release.html import joined, safe
from dperm.release.release import Release
from dperm.release.sections.annex import annex
from dperm.release.sections.attacks import attacks
from dperm.release.sections.budget import budget
from dperm.release.sections.content import coefficients, columns, effects, evaluation
from dperm.release.sections.glossary import glossary
from dperm.release.sections.limits import assumptions, before_and_after, trust_model, unhidden
from dperm.release.sections.people import people
from dperm.release.sections.pyramid import pyramid
from dperm.release.sections.signing import again, signature
from dperm.release.sections.top import purpose, title, verdict
from dperm.release.style import STYLE

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
        f"<title>Privacy certificate: {safe(release.title)}</title><style>{STYLE}{foot}</style></head>\n"
        f'<body class="{kind}"><main>\n{body}\n</main></body></html>\n'
    )
