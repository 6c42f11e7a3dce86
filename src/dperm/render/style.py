"""The one style sheet: of pages by day, by night, on a telephone and on paper, of what a notebook shows, of figures.

``shared.css`` is how tables, lists and drawings look everywhere. A page adds ``page.css``, its layout; in a notebook
the rules hold inside an element of the class ``dperm`` only, and colours are those of the notebook around it.
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files

# Okabe and Ito's palette without its yellow, and wine; markers tell the lines apart in grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255")
GREY = "#5F5F5F"
FAINT = "#E2E2E2"

_FILES = files("dperm.render")
_COLOURS = tomllib.loads((_FILES / "colours.toml").read_text(encoding="utf-8"))
LIGHT, DARK = _COLOURS["light"], _COLOURS["dark"]


def colours(selector: str, named: Mapping[str, str]) -> str:
    """Custom properties, one for each colour."""
    return f"{selector} {{ {' '.join(f'--{name}: {value};' for name, value in named.items())} }}\n"


_SHARED = (_FILES / "shared.css").read_text(encoding="utf-8")

CELL = colours(".dperm", _COLOURS["notebook"]) + _SHARED.replace("&", ".dperm")
"""What a notebook needs."""

PAGE = (
    colours(":root", LIGHT)
    + ":root { color-scheme: light dark; }\n"
    + f"@media (prefers-color-scheme: dark) {{ {colours(':root', DARK)} }}"
    + _SHARED.replace("& ", "")
    + (_FILES / "page.css")
    .read_text(encoding="utf-8")
    .replace("/*PRINT*/", colours(":root", _COLOURS["print"]))
)
"""What a page to sign needs."""
