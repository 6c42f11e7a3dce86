"""What each feature does in a saved model: one line of text each, or a small figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.labels import as_told, told_classes
from dperm.render.html import Html, figure, paragraph, section, tag
from dperm.render.numbers import signed
from dperm.render.svg import bar, drawing, line, polyline, words
from dperm.render.text import sparkline
from dperm.schema import Schema
from dperm.schema.encoding import Effect, effects

MOST_LINES = 20
MOST_LEVELS = 6
WIDTH, HEIGHT, BAR = 240.0, 110.0, 17.0
_POINTS = 16


@dataclass(frozen=True, eq=False)
class Line:
    """One feature and one score: a curve over the range of a number, or a bar for each level."""

    title: str
    effect: Effect
    added: NDArray[np.float64]

    @property
    def span(self) -> float:
        return float(np.ptp(self.added))

    def largest(self) -> list[tuple[str, float]]:
        """The levels with the largest effects in size."""
        order = np.argsort(-np.abs(self.added), kind="stable")[:MOST_LEVELS]
        return [(self.effect.levels[place], float(self.added[place])) for place in order]


def effect_lines(model: PrivateLinearModel, schema: Schema) -> list[Line]:
    """Every feature with every score, the widest effect first."""
    classes = [str(label) for label in told_classes(model)]
    scores = [f" → {label}" for label in classes] if len(classes) > 2 else [""]
    lines = [
        Line(effect.name + score, effect, added)
        for effect in effects(schema, as_told(model, model.coef_.T).T)
        for score, added in zip(scores, effect.added, strict=True)
    ]
    return sorted(lines, key=lambda one: -one.span)


def effects_text(model: PrivateLinearModel, schema: Schema) -> str:
    """A paragraph: the widest effects, numbers as curves from the low end of their range to the high one."""
    lines = effect_lines(model, schema)
    shown = lines[:MOST_LINES]
    width = max(len(one.title) for one in shown)
    told = [f"  {one.title:{width}}  {_in_words(one)}" for one in shown]
    more = [f"  and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return "\n".join([_head(model, schema), *told, *more])


def effects_section(model: PrivateLinearModel, schema: Schema) -> Html:
    """The same as figures for a web page; every name is escaped."""
    found = effect_lines(model, schema)
    figures = (figure(one.title, _curve(one) or _bars(one)) for one in found[:MOST_LINES])
    return section(
        "Effects",
        paragraph(f"{_head(model, schema)}. They are what was released, noise included.", "dim"),
        tag("div", *figures, style="plots"),
        paragraph(f"and {len(found) - MOST_LINES} more", "dim") if len(found) > MOST_LINES else "",
    )


def _head(model: PrivateLinearModel, schema: Schema) -> str:
    classes = told_classes(model)
    score = "the score of a class" if len(classes) else f"the predicted {schema.target.name!r}, in its units"
    if len(classes) == 2:
        score = f"the score of {str(classes[1])!r}"
    return f"What each feature adds to {score}, the widest effects first"


def _in_words(one: Line) -> str:
    if one.effect.shares is None:
        told = ", ".join(f"{level} {signed(added)}" for level, added in one.largest())
        return told + (", ..." if len(one.effect.levels) > MOST_LEVELS else "")
    low, high = one.effect.ends or ("", "")
    heights = np.interp(np.linspace(0, 1, _POINTS), one.effect.shares, one.added)
    return f"{low} {sparkline(heights.tolist())} {high}  {_range(one)}"


def _range(one: Line) -> str:
    return f"{signed(one.added.min())} to {signed(one.added.max())}"


def _curve(one: Line) -> Html:
    if one.effect.shares is None:
        return Html("")
    low, high = min(0.0, float(one.added.min())), max(0.0, float(one.added.max()))
    down = HEIGHT / ((high - low) or 1.0)
    points = [
        (4 + share * WIDTH, 14 + (high - added) * down)
        for share, added in zip(one.effect.shares, one.added, strict=True)
    ]
    zero = 14 + high * down
    first, last = one.effect.ends or ("", "")
    return drawing(
        WIDTH + 8,
        HEIGHT + 36,
        line("grid", (4, zero), (WIDTH + 4, zero)),
        polyline("own", points),
        words((4, HEIGHT + 32), first),
        words((WIDTH + 4, HEIGHT + 32), last, "end"),
        words((4, 10), _range(one)),
    )


def _bars(one: Line) -> Html:
    shown = one.largest()
    longest = max(abs(added) for _, added in shown) or 1.0
    parts = []
    for place, (level, added) in enumerate(shown):
        size, top = abs(added) / longest * WIDTH / 2, 4 + 2 * place * BAR
        left = WIDTH / 2 - (size if added < 0 else 0.0)
        parts += [
            words((4, top + 11), f"{level} {signed(added)}"),
            bar("bar", (4 + left, top + 15), size, BAR - 5),
        ]
    return drawing(WIDTH + 8, 8 + 2 * BAR * len(shown), *parts)
