"""The one style sheet: of pages by day, by night, on a telephone and on paper, of what a notebook shows, of figures.

``shared.css`` is how tables, lists and drawings look everywhere. A page adds ``page.css``, its layout; in a notebook
the rules hold inside an element of the class ``dperm`` only, and colours are those of the notebook around it.
"""

from collections.abc import Mapping
from importlib.resources import files

# Okabe and Ito's palette without its yellow, and wine; markers tell the lines apart in grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255")
GREY = "#5F5F5F"
FAINT = "#E2E2E2"

LIGHT = {
    "ink": "#1c2330",
    "dim": "#566072",
    "paper": "#f6f6f3",
    "card": "#ffffff",
    "line": "#d9dde4",
    "good": "#1b7f4b",
    "bad": "#b3261e",
    "none": "#8a5a00",
    "own": "#2457c5",
    "claim": "#b4690e",
    "tint": "#eef1f6",
    "alarm": "#fdecea",
}
DARK = {
    "ink": "#e7eaf0",
    "dim": "#9aa4b5",
    "paper": "#12151b",
    "card": "#1a1f28",
    "line": "#323a47",
    "good": "#57c98d",
    "bad": "#ff8a80",
    "none": "#e2b04a",
    "own": "#7ea6ff",
    "claim": "#f0a95a",
    "tint": "#222936",
    "alarm": "#3b1f1f",
}
_PRINT = {**dict.fromkeys(LIGHT, "#000"), **dict.fromkeys(("paper", "card", "tint", "alarm"), "#fff")}
_PRINT |= {"dim": "#333", "line": "#999", "claim": "#555"}
_NOTEBOOK = {  # which may be light or dark, whatever the system prefers
    "ink": "currentColor",
    "dim": "color-mix(in srgb, currentColor 68%, transparent)",
    "card": "transparent",
    "line": "#8884",
    "good": "currentColor",
    "bad": "#d2342b",
    "none": "#a8730f",
    "own": "#3f78e0",
    "alarm": "transparent",
}


def colours(selector: str, named: Mapping[str, str]) -> str:
    """Custom properties, one for each colour."""
    return f"{selector} {{ {' '.join(f'--{name}: {value};' for name, value in named.items())} }}\n"


_FILES = files("dperm.render")
_SHARED = (_FILES / "shared.css").read_text(encoding="utf-8")

CELL = colours(".dperm", _NOTEBOOK) + _SHARED.replace("&", ".dperm")
"""What a notebook needs."""

PAGE = (
    colours(":root", LIGHT)
    + ":root { color-scheme: light dark; }\n"
    + f"@media (prefers-color-scheme: dark) {{ {colours(':root', DARK)} }}"
    + _SHARED.replace("& ", "")
    + (_FILES / "page.css").read_text(encoding="utf-8").replace("/*PRINT*/", colours(":root", _PRINT))
)
"""What a page to sign needs."""
