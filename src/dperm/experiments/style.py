"""The house style of figures: colours, markers and dashes by the look of a contender."""

from typing import Any

from dperm.experiments.series import TIGHT, Look
from dperm.render.style import FAINT, GREY, PALETTE

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PALE = "#B5B5B5"
HOUSE: dict[str, Any] = {
    "figure.dpi": 160,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.edgecolor": "#808080",
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.6,
    "text.parse_math": False,
}
_DASHES: dict[str, Any] = {
    "default": "-",
    "private": "-",
    "paper": (0, (2, 1.5)),
    "oracle": (0, (6, 2)),
    "baseline": (0, (1, 1.5)),
}


def is_pale(look: Look) -> bool:
    """Whether a contender has neither a colour nor a name in the figure."""
    return look.colour is None and look.kind != "baseline"


def ink(look: Look) -> str:
    if look.kind == "baseline":
        return GREY
    return PALE if look.colour is None else PALETTE[look.colour]


def style(look: Look) -> dict[str, Any]:
    """How a contender's line is drawn."""
    colour = _lighter(ink(look)) if look.kind == "paper" else ink(look)
    found: dict[str, Any] = {"color": colour, "linestyle": _DASHES[look.kind]}
    if look.colour is None:
        marker = {} if look.kind == "baseline" else {"marker": ".", "markersize": 3.0}
        return {**found, "linewidth": 1.2 if look.kind == "baseline" else 0.8, "zorder": 1, **marker}
    found |= {"marker": MARKERS[look.colour], "markerfacecolor": colour if look.kind in TIGHT else "white"}
    if look.kind == "default":
        found |= {"linewidth": 3.0, "markersize": 7.0}
    return {**found, "zorder": {"default": 4.0, "private": 3.0}.get(look.kind, 2.5)}


def _lighter(colour: str) -> str:
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + 0.4 * (255 - part)):02X}" for part in parts)
