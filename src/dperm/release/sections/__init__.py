"""Parts of the page to sign, and the gaps that only people can fill."""

from dperm.release.release import Release
from dperm.render.html import Html, safe, tag

BLANK = "not stated"


def stated(release: Release, key: str, question: str = "") -> str:
    """What deployment.toml says; else a visible gap, with the question for its author or the key that fills it."""
    return release.deployment.text(key) or (ask(question) if question else blank(key))


def blank(key: str) -> Html:
    return tag("span", Html(f"{BLANK} <small>({safe(key)})</small>"), style="blank")


def ask(question: str) -> Html:
    return tag("span", f"ask: {question}", style="blank")
