"""The words of the page."""

from __future__ import annotations

from collections.abc import Mapping

from dperm.release.html import Html, facts, section
from dperm.release.release import Release

_OF_ROWS = {
    "promise": "whatever one row says, every result is nearly as likely as with another row in its place",
    "count": "rows",
    "unit": "one row, not one person, unless a person has one row",
    "either": "rows",
}
_OF_PERSONS = {
    "promise": "whatever all rows of one person say, every result is nearly as likely as with another person in their "
    "place",
    "count": "number of persons",
    "unit": "one person, with all rows that carry their id",
    "either": "persons",
}


def terms(of: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return (
        (
            "Differential privacy",
            f"A promise about a computation: {of['promise']}. It holds whatever else is known, now or later.",
        ),
        (
            "ε (epsilon)",
            Html(
                "How nearly: likelihoods differ by a factor of at most e<sup>ε</sup>. Smaller is more private."
            ),
        ),
        (
            "δ (delta)",
            "The chance, at most, with which even that factor may fail. It should be far below one over the "
            f"{of['count']}.",
        ),
        ("Unit of privacy", f"What two tables may differ in: here {of['unit']}."),
        ("Noise", "Random numbers added before anything is released; their size is what ε and δ ask for."),
        (
            "Budget, ledger, cap",
            "Releases about the same people add up. A ledger counts them and stops at the cap.",
        ),
        ("Post-processing", "Whatever is computed from a release alone. It cannot weaken the promise."),
        ("Central model", "One trusted curator holds the rows and adds the noise."),
        (
            "Right and wrong accusations",
            f"Of someone who claims to know which of two {of['either']} was in the table: true and false positive "
            "rate.",
        ),
        ("Digest", "A fingerprint of a file or text: change a letter, and it is another."),
    )


def glossary(release: Release) -> Html:
    """Nothing on a page that has no guarantee to explain."""
    if release.verdict.guarantee is None:
        return Html("")
    of = _OF_PERSONS if release.unit == "person" else _OF_ROWS
    return section("Glossary", facts(terms(of), "facts long"))
