"""What each feature does in a saved model: one line of text each, or a small figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.labels import as_told, told_classes
from dperm.schema import Schema
from dperm.schema.effects import Effect, effects

MOST_LINES = 20
MOST_LEVELS = 6
WIDTH, HEIGHT, BAR = 240.0, 110.0, 17.0
_STEPS = "▁▂▃▄▅▆▇█"
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
    return sorted(lines, key=lambda line: -line.span)


def effects_text(model: PrivateLinearModel, schema: Schema) -> str:
    """A paragraph: the widest effects, numbers as curves from the low end of their range to the high one."""
    lines = effect_lines(model, schema)
    shown = lines[:MOST_LINES]
    width = max(len(line.title) for line in shown)
    told = [f"  {line.title:{width}}  {_in_words(line)}" for line in shown]
    more = [f"  and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return "\n".join([_head(model, schema), *told, *more])


def effects_section(model: PrivateLinearModel, schema: Schema) -> str:
    """The same as figures for a web page; every name is escaped."""
    lines = effect_lines(model, schema)
    figures = "".join(
        f"<figure><figcaption>{escape(line.title)}</figcaption>{_curve(line) or _bars(line)}</figure>"
        for line in lines[:MOST_LINES]
    )
    more = f"<p class=dim>and {len(lines) - MOST_LINES} more</p>" if len(lines) > MOST_LINES else ""
    return (
        f"<h2>Effects</h2><p class=dim>{escape(_head(model, schema))}. They are what was released, noise included.</p>"
        f"<div class=plots>{figures}</div>{more}"
    )


def _head(model: PrivateLinearModel, schema: Schema) -> str:
    classes = told_classes(model)
    score = "the score of a class" if len(classes) else f"the predicted {schema.target.name!r}, in its units"
    if len(classes) == 2:
        score = f"the score of {str(classes[1])!r}"
    return f"What each feature adds to {score}, the widest effects first"


def _ends(line: Line) -> Sequence[str]:
    return line.effect.ends or ("", "")


def _in_words(line: Line) -> str:
    if line.effect.shares is None:
        told = ", ".join(f"{level} {added:+.3g}" for level, added in line.largest())
        return told + (", ..." if len(line.effect.levels) > MOST_LEVELS else "")
    low, high = _ends(line)
    heights = np.interp(np.linspace(0, 1, _POINTS), line.effect.shares, line.added)
    steps = (heights - heights.min()) / (np.ptp(heights) or 1.0) * (len(_STEPS) - 1)
    curve = "".join(_STEPS[step] for step in np.rint(steps).astype(int))
    return f"{low} {curve} {high}  {line.added.min():+.3g} to {line.added.max():+.3g}"


def _curve(line: Line) -> str:
    if line.effect.shares is None:
        return ""
    low, high = min(0.0, float(line.added.min())), max(0.0, float(line.added.max()))
    down = HEIGHT / ((high - low) or 1.0)
    points = " ".join(
        f"{4 + share * WIDTH:.1f},{14 + (high - added) * down:.1f}"
        for share, added in zip(line.effect.shares, line.added, strict=True)
    )
    zero = 14 + high * down
    first, last = map(escape, _ends(line))
    return (
        f'<svg viewBox="0 0 {WIDTH + 8:.0f} {HEIGHT + 36:.0f}" role="img">'
        f'<line class="grid" x1="4" x2="{WIDTH + 4:.0f}" y1="{zero:.1f}" y2="{zero:.1f}"/>'
        f'<polyline class="own" points="{points}"/>'
        f'<text x="4" y="{HEIGHT + 32:.0f}">{first}</text>'
        f'<text x="{WIDTH + 4:.0f}" y="{HEIGHT + 32:.0f}" text-anchor="end">{last}</text>'
        f'<text x="4" y="10">{line.added.min():+.3g} to {line.added.max():+.3g}</text></svg>'
    )


def _bars(line: Line) -> str:
    shown = line.largest()
    longest = max(abs(added) for _, added in shown) or 1.0
    parts = []
    for place, (level, added) in enumerate(shown):
        size, top = abs(added) / longest * WIDTH / 2, 4 + 2 * place * BAR
        left = WIDTH / 2 - (size if added < 0 else 0.0)
        parts.append(
            f'<text x="4" y="{top + 11:.0f}">{escape(level)} {added:+.3g}</text>'
            f'<rect class="bar" x="{4 + left:.1f}" y="{top + 15:.0f}" width="{size:.1f}" height="{BAR - 5:.0f}"/>'
        )
    height = 8 + 2 * BAR * len(shown)
    return f'<svg viewBox="0 0 {WIDTH + 8:.0f} {height:.0f}" role="img">{"".join(parts)}</svg>'
