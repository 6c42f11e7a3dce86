"""What someone can find out about one row, or one person, at most: two figures and a table."""

from __future__ import annotations

from dperm.certificate.figure import attack_figures
from dperm.certificate.words import attack_table
from dperm.release.html import Html, paragraph, section, table
from dperm.release.release import Release

_LEGEND = Html(
    '<div class="legend"><span><i class="l-own"></i>this mechanism, by its own price</span>'
    '<span><i class="l-claim"></i>the claim (ε, δ) alone</span>'
    '<span><i class="l-guess"></i>guessing</span></div>'
)

_KNOWS = {
    "row": "The attacker knows every row but one and decides between two candidates for it.",
    "person": "The attacker knows the rows of everybody but one person and decides between two candidates for them.",
}


def attacks(release: Release) -> Html:
    """Nothing where there is no verified guarantee."""
    figures = attack_figures(release.verdict)
    if not figures:
        return Html("")
    ceiling = (
        "With noise and sensitivities as stated, no attack of any kind lies above the lines."
        if release.verdict.not_checked
        else "No attack, of any kind, lies above the lines."
    )
    shown = table(
        ("wrong accusations", "right, by this mechanism", "right, by the claim alone"),
        [
            (f"{row.fpr:.1%}", f"{row.mechanism:.3%}", f"{row.budget:.3%}")
            for row in attack_table(release.verdict)
        ],
        numbers=(1, 2),
        style="figures",
    )
    return section(
        "What an attacker can achieve",
        paragraph(
            f"{_KNOWS[release.unit]} Closer to guessing is better. {ceiling}",
            "dim",
        ),
        Html(f'<div class="keep">{_LEGEND}<div class="plots">{figures}</div></div>'),
        shown,
    )
