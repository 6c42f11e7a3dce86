"""Inline SVG: colours are those of the style sheet, by day and by night, and nothing is loaded or run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dperm.render.html import Html, safe

Point = tuple[float, float]


def drawing(width: float, height: float, *parts: str, label: str = "", style: str = "") -> Html:
    """A picture of this size, with a name for those who do not see it."""
    kind = f' class="{style}"' if style else ""
    name = f' aria-label="{safe(label)}"' if label else ""
    return Html(f'<svg{kind} viewBox="0 0 {width:.0f} {height:.0f}" role="img"{name}>{"".join(parts)}</svg>')


def polyline(style: str, points: Iterable[Point]) -> str:
    return f'<polyline class="{style}" points="{_listed(points)}"/>'


def polygon(style: str, points: Iterable[Point]) -> str:
    return f'<polygon class="{style}" points="{_listed(points)}"/>'


def line(style: str, first: Point, last: Point) -> str:
    ends = f'x1="{first[0]:.1f}" y1="{first[1]:.1f}" x2="{last[0]:.1f}" y2="{last[1]:.1f}"'
    return f'<line class="{style}" {ends}/>'


def dot(style: str, at: Point, radius: float) -> str:
    return f'<circle class="{style}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:g}"/>'


def bar(style: str, corner: Point, width: float, height: float) -> str:
    x, y = corner
    return f'<rect class="{style}" x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" height="{height:.0f}"/>'


def words(at: Point, text: object, anchor: str = "start") -> str:
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}">{safe(text)}</text>'


@dataclass(frozen=True, kw_only=True)
class Square:
    """Axes of one length, both from 0 to 1 on a scale of their own.

    Attributes
    ----------
    side, left, top, right, below : float
        Length of an axis, and the room around the square.
    scale : callable
        Where a value lies, from 0 to 1.
    """

    side: float
    left: float
    right: float
    below: float
    top: float = 12.0
    scale: Callable[[float], float] = float

    def at(self, across: float, up: float) -> Point:
        return (
            self.left + self.side * self.scale(across),
            self.top + self.side * (1 - self.scale(up)),
        )

    def path(self, points: Iterable[Point]) -> list[Point]:
        return [self.at(*point) for point in points]

    def drawing(
        self,
        *parts: str,
        ticks: Sequence[tuple[float, str]],
        across: str,
        up: str,
        label: str,
    ) -> Html:
        """The parts on a grid with the names of both axes."""
        low, high = ticks[0][0], ticks[-1][0]
        bottom, middle = self.top + self.side, self.side / 2
        grid = []
        for tick, name in ticks:
            x, y = self.at(tick, tick)
            grid += [
                line("grid", self.at(tick, low), self.at(tick, high)),
                line("grid", self.at(low, tick), self.at(high, tick)),
                words((x, bottom + 16), name, "middle"),
                words((self.left - 6, y + 4), name, "end"),
            ]
        turned = f'transform="translate(13 {self.top + middle:.0f}) rotate(-90)"'
        axes = (
            f'<text class="axis" x="{self.left + middle:.0f}" y="{bottom + self.below - 9:.0f}" text-anchor="middle">'
            f'{safe(across)}</text><text class="axis" {turned} text-anchor="middle">{safe(up)}</text>'
        )
        width, height = self.left + self.side + self.right, bottom + self.below
        return drawing(width, height, *grid, axes, *parts, label=label)


def _listed(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
