"""What was spent on these people before and after, under which cap."""

from __future__ import annotations

from dperm.certificate.numerals import written
from dperm.release.html import Html, blank, facts, paragraph, section, table
from dperm.release.release import Release
from dperm.release.spending import Spending
from dperm.release.words import evaluation_words, kept_for, threshold_words

MOST_CHARGES = 15


def budget(release: Release) -> Html:
    other = release.deployment.text("privacy.other_releases")
    elsewhere = facts(
        [("Other releases from the same people", other or blank("privacy.other_releases"))], "facts long"
    )
    return section("Budget: before, after, and the cap", *_told(release), _besides(release), elsewhere)


def _besides(release: Release) -> Html:
    said = evaluation_words(release)
    tuned = threshold_words(release)
    return Html(
        (paragraph(tuned) if tuned else "")
        + (paragraph(f"{said} Whoever is in both tables pays for both.") if said else "")
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
        '<div class="purse" role="img" aria-label="share of the cap spent before and by this release">'
        f'<i class="past" style="width:{before:.2f}%"></i><i class="mine" style="width:{own:.2f}%"></i></div>'
        '<div class="legend"><span><b class="past"></b>before</span><span><b class="mine"></b>this release</span>'
        "<span><b></b>free under the cap</span></div>"
    )
