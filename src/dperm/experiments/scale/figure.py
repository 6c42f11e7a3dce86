"""The figure: time and memory over n, and time over p, on logarithmic axes; a column for each kind of rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dperm.experiments.figures import save
from dperm.experiments.scale.cells import CODED, DENSE, SCIKIT_LEARN, SHARDS, SPARSE, Method
from dperm.experiments.scale.tables import BUSY, MEMORY, Measured, Quantity
from dperm.experiments.style import MARKERS
from dperm.models.atomic import atomic_path
from dperm.render.style import GREY, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ((DENSE,), (CODED, SHARDS), (SPARSE,))
ROWS = (("n", BUSY, "processor seconds"), ("n", MEMORY, "peak memory, MB"), ("p", BUSY, "processor seconds"))
_MECHANISMS = ("auto", "objective", "output", "ssp", "rsgd-ar", "dp-gd", "dp-sgd")
_DASHES = {SCIKIT_LEARN[0]: "--", SCIKIT_LEARN[1]: ":"}
_BELOW = 1.0  # inches, for the legend and the note
_NOTE = (
    "Each point is one fit in a process of its own; processor seconds are those of all its threads and processes. "
    "Memory counts the rows."
)


def draw(measured: Sequence[Measured], path: Path) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = 12.6, 11.4
    figure = Figure(figsize=(width, height), dpi=160)
    FigureCanvasAgg(figure)
    handles: dict[str, Any] = {}
    for axes, (over, quantity, label) in zip(figure.subplots(3, 3), ROWS, strict=True):
        for place, kinds in zip(axes, COLUMNS, strict=True):
            mine = [one for one in measured if one.sweep.kind in kinds and one.sweep.over == over]
            handles |= _panel(place, mine, quantity)
            fixed = ", ".join(dict.fromkeys(one.sweep.setting for one in mine))
            title = " and ".join(one.sweep.kind for one in mine)
            place.set_title(f"{title}; {fixed}" if mine else kinds[0], loc="left", fontsize=10.5)
            place.set_xlabel(over)
            place.set_ylabel(label)
    figure.suptitle(
        "Time and memory of one fit over rows (n) and columns (p)",
        x=0.12 / width,
        y=1 - 0.12 / height,
        ha="left",
        va="top",
        fontsize=13,
        fontweight="bold",
    )
    figure.legend(
        handles.values(),
        handles.keys(),
        fontsize=8.5,
        frameon=False,
        ncols=6,
        loc="upper left",
        bbox_to_anchor=(0.05 / width, _BELOW / height),
    )
    figure.text(0.12 / width, 0.08 / height, _NOTE, fontsize=8.5, color=GREY)
    figure.tight_layout(rect=(0, _BELOW / height, 1, 1 - 0.35 / height))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)
    return path


def _panel(axes: Axes, measured: Sequence[Measured], quantity: Quantity) -> dict[str, Any]:
    """Draw what was measured; what stands for each line in the legend."""
    handles: dict[str, Any] = {}
    for one in measured:
        for method in one.sweep.methods:
            values = {size: value for size, value in one.values(method, quantity).items() if value > 0}
            if values:
                label = f"{method.label}, {SHARDS}" if one.sweep.kind == SHARDS else method.label
                (handles[label],) = axes.plot(
                    list(values), list(values.values()), **_look(method, one.sweep.kind == SHARDS)
                )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
    axes.set_axisbelow(True)
    return handles


def _look(method: Method, on_disk: bool) -> dict[str, Any]:
    """A colour for each mechanism, hollow markers for another engine or the disk; scikit-learn is grey and broken."""
    if not method.is_private:
        return {"color": GREY, "linestyle": _DASHES[method.name], "linewidth": 1.6}
    place = _MECHANISMS.index(method.name) % len(PALETTE) if method.name in _MECHANISMS else -1
    look = {"color": PALETTE[place], "linewidth": 2.4 if method == Method("auto") and not on_disk else 1.4}
    look |= {"marker": MARKERS[place], "markersize": 4.8}
    if method.engine:
        look |= {"linestyle": "-.", "marker": {"Dask": "v", "Spark": "*", "torch": "P"}[method.engine]}
    return look | ({"markerfacecolor": "white"} if on_disk or method.engine else {})
