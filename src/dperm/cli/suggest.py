"""Did you mean: the names that are close to a word that is none of them."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST = 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question to append to a message, with a blank before it; empty if nothing is close."""
    names = list(dict.fromkeys(known))
    close = get_close_matches(word.lower(), names, MOST)
    if not close and word:
        close = [name for name in names if name.startswith(word.lower())][:MOST]
    if not close:
        return ""
    *first, last = (repr(name) for name in close)
    return f" Did you mean {', '.join(first)} or {last}?" if first else f" Did you mean {last}?"
