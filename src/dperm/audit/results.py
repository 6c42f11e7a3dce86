"""What an audit found, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from dperm.audit.bounds import Bounds
from dperm.audit.draws import DrawCheck
from dperm.audit.noise_check import NoiseCheck

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
