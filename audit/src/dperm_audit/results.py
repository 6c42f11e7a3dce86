"""What an audit found, and the verdict."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.privacy import Budget
from dperm_audit.bounds import Bounds, ProfileFamily, lower_bounds
from dperm_audit.draws import DrawCheck
from dperm_audit.noise_check import NoiseCheck

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STANDS, INCONCLUSIVE, BROKEN = "stands", "inconclusive", "BROKEN"


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """What one attack proved.

    ``null`` is the bound that the same procedure gives for one table against itself: it must be 0. ``gaussian`` tells
    that a whole profile is claimed, so that the sharper bound may be used.
    """

    attack: str
    claimed: float
    delta: float
    runs: int
    bounds: Bounds
    null: float
    gaussian: bool

    @classmethod
    def of_scores(
        cls,
        name: str,
        budget: Budget,
        scores: tuple[NDArray[np.float64], NDArray[np.float64]],
        cut: int,
        failure: float,
        family: ProfileFamily | None,
    ) -> AttackResult:
        """From scores of runs on both tables: the first ``cut`` choose a threshold, the others are counted."""
        here, there = scores
        training, delta = (here[:cut], there[:cut]), budget.delta
        half = (len(here) - cut) // 2
        same = here[cut : cut + half], here[cut + half :]
        bounds, null = (
            lower_bounds(training, tested, delta, failure, family)
            for tested in ((here[cut:], there[cut:]), same)
        )
        return cls(
            attack=name,
            claimed=budget.epsilon,
            delta=delta,
            runs=len(here),
            bounds=bounds,
            null=null.epsilon,
            gaussian=family is not None,
        )

    @property
    def ratio(self) -> float:
        return self.bounds.epsilon / self.claimed

    @property
    def refuted(self) -> bool:
        return self.bounds.direct > self.claimed or (self.bounds.factor or 0.0) > 1.0


@dataclass(frozen=True, kw_only=True)
class ReplaySummary:
    """How many replays of a mechanism were made, and what failed."""

    replays: int = 0
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """All that was tried on one mechanism, and the processor time that it took.

    ``out_of_reach`` says why no attack can prove a part of the claim, where that is known beforehand.
    """

    mechanism: str
    replays: ReplaySummary = ReplaySummary()
    draws: DrawCheck | None = None
    noise: tuple[NoiseCheck, ...] = ()
    attacks: tuple[AttackResult, ...] = ()
    seconds: float = 0.0
    out_of_reach: str | None = None

    @property
    def best(self) -> AttackResult | None:
        """The attack that proved most; None if the audit stopped before one was made."""
        return max(self.attacks, key=lambda attack: attack.ratio, default=None)

    @property
    def lower_bound(self) -> float:
        """The epsilon that was proved."""
        return 0.0 if self.best is None else self.best.bounds.epsilon

    @property
    def ratio(self) -> float:
        """Share of the claimed epsilon that was proved."""
        return 0.0 if self.best is None else self.best.ratio

    @property
    def null(self) -> float:
        return max((attack.null for attack in self.attacks), default=0.0)

    @property
    def faults(self) -> tuple[str, ...]:
        """Why the claim is broken; empty when it is not."""
        draws = () if self.draws is None else self.draws.faults
        found = [*self.replays.failures, *draws, *(fault for noise in self.noise for fault in noise.faults)]
        found += [
            f"{attack.attack}: epsilon >= {attack.bounds.epsilon:.3g}, claimed {attack.claimed:g}"
            for attack in self.attacks
            if attack.refuted
        ]
        if self.null > 0:
            found.append(f"a table differs from itself by epsilon >= {self.null:.3g}: the audit is at fault")
        return tuple(found)

    @property
    def verdict(self) -> str:
        """Broken, or not; a claim of which the attacks could prove nothing was not tried."""
        if self.faults:
            return BROKEN
        return STANDS if self.ratio > 0 else INCONCLUSIVE


@dataclass(frozen=True, kw_only=True)
class ControlResult:
    """Whether a mechanism that is broken on purpose was noticed, and by what; ``ratio`` where it was attacked."""

    control: str
    what_is_wrong: str
    caught_by: str
    faults: tuple[str, ...]
    seconds: float
    ratio: float | None = None

    @property
    def caught(self) -> bool:
        return bool(self.faults)


_GAUSSIAN, _OTHER, _CONTROL, _GREY = "#0072B2", "#56B4E9", "#D55E00", "#666666"
_TARGET = 0.9
_LONGEST = 2.2  # claims; a longer bar is broken, ends here and is labelled with its value
_BREAK = 2.02
_DPI = 160


def draw_audit(
    results: Sequence[AuditResult], controls: Sequence[ControlResult], path: str | os.PathLike[str]
) -> None:
    """Draw one bar per mechanism, the audited lower bound over the claimed epsilon, and controls below.

    Parameters
    ----------
    results, controls
        As ``audit_all`` gives them. Controls that were not attacked are left out.
    path : path
        The PNG to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    attacked = [control for control in controls if control.ratio is not None]
    if not results and not attacked:
        raise InvalidInput("there is nothing to draw: nothing was audited.")
    ordered = sorted(results, key=lambda result: -result.ratio)
    bars = [
        (
            result.mechanism,
            result.ratio,
            _GAUSSIAN if result.best and result.best.gaussian else _OTHER,
            result.verdict,
        )
        for result in ordered
    ]
    bars += [
        (control.control, control.ratio or 0.0, _CONTROL, _reason(control))
        for control in sorted(attacked, key=lambda control: -(control.ratio or 0.0))
    ]
    width, height = 10.0, 2.2 + 0.29 * len(bars)
    figure = Figure(figsize=(width, height), dpi=_DPI)
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, (_, ratio, colour, note) in enumerate(bars):
        axes.barh(place, min(ratio, _LONGEST), height=0.62, color=colour)
        if ratio > _LONGEST:
            _break(axes, place)
        value = f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"
        label = value if note in ("", "stands") else f"{value}  {note}"
        axes.text(max(1.0, min(ratio, _LONGEST)) + 0.02, place, label, va="center", fontsize=8.5)
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars], fontsize=9)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.axvline(1.0, color="black", linewidth=1.2)
    axes.axvline(_TARGET, color=_GREY, linewidth=1.0, linestyle="--")
    axes.set_xlim(0, _LONGEST + 0.35)
    axes.set_xlabel("audited lower bound on ε over the claimed ε")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    named = {_GAUSSIAN: "whole profile claimed", _OTHER: "ε at one δ claimed", _CONTROL: "broken on purpose"}
    shown = [
        Patch(color=colour, label=label)
        for colour, label in named.items()
        if any(b[2] == colour for b in bars)
    ]
    figure.legend(
        handles=shown,
        loc="lower left",
        bbox_to_anchor=(0.0, 0.3 / height),
        ncols=3,
        fontsize=9,
        frameon=False,
    )
    broken = " A broken bar is longer than it is drawn." if any(b[1] > _LONGEST for b in bars) else ""
    note = f"Line: the claim. Dashes: 90 % of it.{broken}"
    figure.text(0.12 / width, 0.1 / height, note, fontsize=8.5, color=_GREY)
    epsilons = sorted({f"{result.best.claimed:g}" for result in results if result.best})
    axes.set_title(
        "What attacks on worst-case neighbours can prove"
        + (f", ε = {', '.join(epsilons)}" if epsilons else ""),
        loc="left",
        fontsize=12,
        fontweight="bold",
    )
    figure.tight_layout(rect=(0, 0.55 / height, 1, 1))
    figure.savefig(path, format="png")


def _break(axes: Axes, place: int) -> None:
    """Two slanted strokes through a bar that is longer than it is drawn."""
    for at in (_BREAK, _BREAK + 0.04):
        axes.plot([at - 0.015, at + 0.015], [place + 0.42, place - 0.42], color="white", linewidth=3.2)


def _reason(control: ControlResult) -> str:
    if not control.caught:
        return "MISSED"
    return "caught" if (control.ratio or 0) > 1 else f"caught: {control.faults[-1]}"
