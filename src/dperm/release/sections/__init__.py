"""Parts of the page to sign, and the gaps that only people can fill."""

from dperm.render.html import Html, safe

BLANK = "not stated"


def blank(key: str) -> Html:
    """A visible gap, and the key of deployment.toml that fills it."""
    return Html(f'<span class="blank">{BLANK} <small>({safe(key)})</small></span>')


def ask(question: str) -> Html:
    """A question to put to the author of deployment.toml."""
    return Html(f'<span class="blank">ask: {safe(question)}</span>')
