"""One panel of the privacy-utility figure: a metric over epsilon, cropped to what matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.experiments.metrics import METRICS
from dperm.experiments.results import Curve
from dperm.experiments.series import Look, display_name, is_above_minimum, line
from dperm.experiments.style import PALE, ink, is_pale, style
from dperm.experiments.view import limit
from dperm.render.style import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

_ROOM = 0.06  # of the drawn range, above and below it
_SAME_PLACE = 9.0  # points within which two labels would overlap
_NEXT = 6.0  # points from one arrow to the next


@dataclass(frozen=True, eq=False, kw_only=True)
class _Drawn:
    """A line in the units that are shown; ``beyond`` says which points are off the scale."""

    curve: Curve
    look: Look
    epsilons: Floats
    mean: Floats
    error: Floats
    beyond: NDArray[np.bool_]


def is_cropped(found: Sequence[Curve], looks: Sequence[Look], metric: str) -> bool:
    """Whether some contender is off the scale of its panel."""
    return any(one.beyond.any() for one in _lines(found, looks, metric))


def draw_panel(axes: Axes, found: Sequence[Curve], looks: Sequence[Look], metric: str) -> None:
    """Draw the lines, a mark at the edge for what is beyond it, and the names of the baselines."""
    above = is_above_minimum(found, metric)
    axes.set_title("Objective, above the minimum (none)" if above else METRICS[metric].title)
    drawn = _lines(found, looks, metric)
    if not drawn:
        axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", color=GREY)
        axes.set_axis_off()
        return
    _epsilons(axes, np.unique(np.concatenate([curve.epsilons for curve in found])))
    if above or metric == "noise_scale":
        axes.set_yscale("log")
    for one in drawn:
        _draw(axes, one)
    _range(axes, drawn)
    down = METRICS[metric].better > 0
    _arrows(axes, [one for one in drawn if one.look.kind != "baseline"], down)
    _label_baselines(axes, drawn, down)


def _lines(found: Sequence[Curve], looks: Sequence[Look], metric: str) -> list[_Drawn]:
    better, factor = METRICS[metric].better, METRICS[metric].factor
    end = None if is_above_minimum(found, metric) else limit(found, looks, metric)
    lines = []
    for curve, look in zip(found, looks, strict=True):
        points = line(curve, metric, found)
        if points is not None:
            beyond = np.zeros(len(points.mean), bool) if end is None else better * points.mean < better * end
            lines.append(
                _Drawn(
                    curve=curve,
                    look=look,
                    epsilons=points.epsilons,
                    mean=factor * points.mean,
                    error=factor * np.nan_to_num(points.error),
                    beyond=beyond,
                )
            )
    return lines


def _epsilons(axes: Axes, epsilons: Floats) -> None:
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.xaxis.minorticks_off()
    axes.set_xlabel("ε (more privacy to the left)")


def _draw(axes: Axes, one: _Drawn) -> None:
    look = style(one.look)
    if one.look.kind == "baseline":
        if not one.beyond.all():
            axes.axhline(one.mean[-1], **look)
        return
    if one.look.colour is not None:
        low = one.mean - one.error
        if axes.get_yscale() == "log":
            low = np.maximum(low, 0.3 * one.mean)  # a logarithm has no room for an error above the mean
        colour = ink(one.look)
        axes.fill_between(one.epsilons, low, one.mean + one.error, color=colour, alpha=0.16, linewidth=0)
        if len(one.mean) == 1:  # a band needs two points
            axes.vlines(one.epsilons, low, one.mean + one.error, color=colour, linewidth=1)
    axes.plot(one.epsilons, one.mean, **look)


def _range(axes: Axes, drawn: Sequence[_Drawn]) -> None:
    """From the least to the largest mean that is on the scale; on a logarithm to whole powers of ten."""
    shown = np.concatenate([one.mean[~one.beyond] for one in drawn])
    low, high = float(shown.min()), float(shown.max())
    if axes.get_yscale() == "log":
        axes.set_ylim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high) + 1e-9))
    else:
        room = _ROOM * (high - low) or 0.02 * abs(high) or 1.0
        axes.set_ylim(low - 1.5 * room, high + 1.5 * room)
        axes.locator_params(axis="y", nbins=6)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")


def _arrows(axes: Axes, drawn: Sequence[_Drawn], down: bool) -> None:
    """A mark on the edge of the panel for every point beyond it, side by side; the grey ones share theirs."""
    from matplotlib.transforms import ScaledTranslation

    named = [one for one in drawn if not is_pale(one.look)]
    pale = [one for one in drawn if is_pale(one.look)]
    marked: dict[float, list[str]] = {}
    for one in sorted(named, key=lambda one: float(one.mean[0]), reverse=True):
        for epsilon in one.epsilons[one.beyond].tolist():
            marked.setdefault(epsilon, []).append(style(one.look)["color"])
    for epsilon in sorted({epsilon for one in pale for epsilon in one.epsilons[one.beyond].tolist()}):
        marked.setdefault(epsilon, []).append(PALE)
    for epsilon, colours in marked.items():
        for place, colour in enumerate(colours):
            across = (place - (len(colours) - 1) / 2) * _NEXT / 72
            moved = axes.get_xaxis_transform() + ScaledTranslation(across, 0, axes.figure.dpi_scale_trans)
            axes.plot(
                [epsilon],
                [0.0 if down else 1.0],
                marker="v" if down else "^",
                color=colour,
                markersize=5.5,
                clip_on=False,
                transform=moved,
                zorder=5,
            )


def _label_baselines(axes: Axes, drawn: Sequence[_Drawn], down: bool) -> None:
    """Names on the dotted lines, at the end where more room is; those of one place share a label."""
    from matplotlib.patheffects import withStroke

    height = axes.get_window_extent().height * 72 / axes.figure.dpi
    to_panel = axes.transData + axes.transAxes.inverted()

    def place(value: float) -> float:
        return float(to_panel.transform((axes.get_xlim()[0], value))[1]) * height

    curves = [one for one in drawn if one.look.kind != "baseline"]
    labels: list[tuple[float, list[str]]] = []
    off: list[str] = []
    for one in drawn:
        if one.look.kind != "baseline":
            continue
        if one.beyond.all():
            off.append(f"{'↓' if down else '↑'} {display_name(one.curve)} {one.mean[-1]:.3g}")
            continue
        at = place(float(one.mean[-1]))
        near = next((names for other, names in labels if abs(other - at) < _SAME_PLACE), None)
        if near is None:
            labels.append((at, [display_name(one.curve)]))
        else:
            near.append(display_name(one.curve))
    halo = [withStroke(linewidth=2.5, foreground="white")]
    text: dict[str, Any] = {"transform": axes.transAxes, "fontsize": 7.5, "color": GREY, "zorder": 6}
    text["path_effects"] = halo
    for at, names in labels:
        room = [
            min((abs(place(float(one.mean[side])) - at - 5) for one in curves), default=1.0)
            for side in (0, -1)
        ]
        left = room[0] >= room[1]
        axes.text(
            0.012 if left else 0.988,
            (at + 1.5) / height,
            f"{', '.join(names)} (not private)",
            ha="left" if left else "right",
            va="bottom",
            **text,
        )
    if off:
        axes.text(
            0.988, 0.02 if down else 0.98, ", ".join(off), ha="right", va="bottom" if down else "top", **text
        )
