"""What is guaranteed, to whom, against whom and at what price; and what is not protected, trusted and assumed."""

from __future__ import annotations

import math

import numpy as np

from dperm.certificate import Verdict
from dperm.certificate.words import attack_rates, attack_table
from dperm.privacy import Budget
from dperm.privacy.budget import tradeoff
from dperm.release.group import NOTHING, at_most, groups, in_words, stated_rows
from dperm.release.release import Release, Spending
from dperm.release.sections import stated
from dperm.release.words import (
    POST_PROCESSING,
    WORDS,
    assumed,
    evaluation_words,
    kept_for,
    preprocessing,
    threshold_words,
    trust,
    unit_words,
    unprotected,
)
from dperm.render.html import Html, bullets, facts, figure, joined, paragraph, section, table
from dperm.render.numbers import written
from dperm.render.svg import Square, polyline

LEAST = 1e-4

_FORMULA = Html(
    "The table shows by how much, first for this mechanism at the δ of the guarantee, then for any mechanism with the "
    "same claim: kε, with δ (1 + e<sup>ε</sup> + … + e<sup>(k−1)ε</sup>)."
)


def people(release: Release) -> Html:
    found = groups(release)
    if not found:
        return Html("")
    declared, words = stated_rows(release), WORDS[release.unit]
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
        words["title"],
        paragraph(f"The unit of privacy is {unit_words(release)}."),
        paragraph(Html(f"{words['less']} {_FORMULA}"), "dim"),
        table(
            (words["size"], "ε at the same δ", "by the claim: ε", "with δ"),
            rows,
            numbers=(1, 2, 3),
            style="figures",
        ),
        paragraph(in_words(release, found)),
    )


_LEGEND = Html(
    '<div class="legend"><span><i class="l-own"></i>this mechanism, by its own price</span>'
    '<span><i class="l-claim"></i>the claim (ε, δ) alone</span>'
    '<span><i class="l-guess"></i>guessing</span></div>'
)


def attacks(release: Release) -> Html:
    """Nothing where there is no verified guarantee."""
    figures = _attack_figures(release.verdict)
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
            f"{WORDS[release.unit]['knows']} Closer to guessing is better. {ceiling}",
            "dim",
        ),
        Html(f'<div class="keep">{_LEGEND}<div class="plots">{figures}</div></div>'),
        shown,
    )


def _attack_figures(verdict: Verdict) -> Html:
    """Both plots, or nothing where there is no verified guarantee."""
    if verdict.guarantee is None or verdict.price is None:
        return Html("")
    budget = Budget(**verdict.guarantee)
    plain = np.unique(np.concatenate([np.linspace(0, 1, 81), np.geomspace(1e-4, 0.1, 30)]))
    small = np.geomspace(LEAST, 1, 61)
    parts = []
    for title, rates, scale, ticks in (
        ("All attacks", plain, _linear, (0, 0.25, 0.5, 0.75, 1)),
        ("Careful attacks, on logarithmic axes", small, _logarithmic, (1e-4, 1e-3, 1e-2, 1e-1, 1)),
    ):
        claim = np.array([tradeoff(budget, float(rate)) for rate in rates])
        curves = {"claim": claim, "own": attack_rates(verdict, rates.tolist()), "guess": rates}
        axes = Square(side=300.0, left=58.0, right=26.0, below=47.0, scale=scale)
        drawn = axes.drawing(
            *(
                polyline(name, axes.path(zip(rates.tolist(), values.tolist(), strict=True)))
                for name, values in curves.items()
            ),
            ticks=[(tick, f"{100 * tick:g} %" if tick else "0") for tick in ticks],
            across="wrong accusations",
            up="right accusations, at most",
            label=f"{title}: right against wrong accusations",
        )
        parts.append(figure(title, drawn))
    return joined(parts)


def _linear(rate: float) -> float:
    return min(max(rate, 0.0), 1.0)


def _logarithmic(rate: float) -> float:
    return 1 - math.log(min(max(rate, LEAST), 1.0)) / math.log(LEAST)


MOST_CHARGES = 15


def budget(release: Release) -> Html:
    said, tuned = evaluation_words(release), threshold_words(release)
    besides = [tuned, f"{said} Whoever is in both tables pays for both." if said else ""]
    elsewhere = stated(release, "privacy.other_releases")
    return section(
        "Budget: before, after, and the cap",
        *_told(release),
        joined(map(paragraph, filter(None, besides)), ""),
        facts([("Other releases from the same people", elsewhere)], "facts long"),
    )


def _told(release: Release) -> list[str]:
    cited = release.statement["model"]["ledger_entry"]
    if release.spending is not None:
        return _shown(release.spending, kept_for(release))
    if cited is not None:
        return [
            paragraph(f"This release was charged to a ledger: {cited}."),
            paragraph(
                "Give the ledger to see what was spent before and after: dperm report ... --ledger FILE.",
                "note",
            ),
        ]
    return [
        paragraph(
            "This release was not charged to a ledger, so no count was kept of what else was released about the same "
            "people. Whatever is promised covers this model alone; every other release from the same rows adds to it.",
            "note",
        )
    ]


def _shown(spent: Spending, protects: str) -> list[str]:
    delta = written(spent.cap.delta)
    rows = [
        ("Spent before this release", f"ε = {written(spent.before, 4)}"),
        ("This release by itself", f"ε = {written(spent.alone, 4)}"),
        ("Spent after it", f"ε = {written(spent.after, 4)}"),
        ("Cap", f"ε = {written(spent.cap.epsilon)}"),
        ("Left today", f"ε = {written(spent.remaining, 4)} for one more release with Gaussian noise"),
    ]
    later = spent.later
    note = (
        f"All numbers are at δ = {delta}, of the data set {spent.dataset!r} in {spent.file}{protects}. "
        "They add up by less than a sum, because the ledger composes noise and not epsilons."
    )
    if later:
        note += (
            f" Since this release {later} more charge{' was' if later == 1 else 's were'} made; today "
            f"ε = {written(spent.now, 4)} is spent."
        )
    listed = spent.charges[-MOST_CHARGES:]
    left_out = len(spent.charges) - len(listed)
    charges = [
        (
            f"{entry.id}" + (" (this one)" if entry.id in spent.cited else ""),
            entry.time[:10],
            entry.label or "",
            entry.mechanism,
            written(epsilon, 4),
        )
        for entry, epsilon in listed
    ]
    return [
        _bar(spent),
        facts(rows),
        paragraph(note, "dim"),
        table(("charge", "date", "label", "mechanism", "ε alone"), charges, numbers=(4,), style="charges"),
        paragraph(f"{left_out} earlier ones are in the ledger.", "dim") if left_out else Html(""),
    ]


def _bar(spent: Spending) -> Html:
    """Before, this release, and what is free under the cap, to scale."""
    cap = spent.cap.epsilon
    before = min(100.0, 100 * spent.before / cap)
    own = min(100.0 - before, 100 * max(0.0, spent.after - spent.before) / cap)
    return Html(
        '<div class="spent" role="img" aria-label="share of the cap spent before and by this release">'
        f'<i class="past" style="width:{before:.2f}%"></i><i class="mine" style="width:{own:.2f}%"></i></div>'
        '<div class="legend"><span><b class="past"></b>before</span><span><b class="mine"></b>this release</span>'
        "<span><b></b>free under the cap</span></div>"
    )


def unhidden(release: Release) -> Html:
    return section("What is not protected", bullets(unprotected(release)))


def before_and_after(release: Release) -> Html:
    """Preprocessing, tuning and post-processing."""
    after = POST_PROCESSING if release.verdict.guarantee is not None else ""
    return section(
        "Before the fit, and after it",
        bullets(preprocessing(release)),
        facts([("The curator says", stated(release, "privacy.preprocessing"))], "facts long"),
        paragraph(after) if after else "",
    )


def trust_model(release: Release) -> Html:
    rows = [
        *trust(release),
        ("Who else sees what", stated(release, "privacy.actors")),
        ("How the rows are kept", stated(release, "privacy.security")),
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
