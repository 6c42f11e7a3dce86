"""How precisely an engine computes: a value that plans read for their allowances and that decides what is certified."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

UNIT_ROUNDOFF = 2.0**-53  # of float64, in which everything outside the engines is computed


def rounded_up(value: Fraction) -> float:
    """The smallest float that is at least this number."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    r"""Bounds on the rounding of one pass over rows, for p columns, n rows and weights w (docs/proofs/arithmetic.md).

    Parameters
    ----------
    name : str
        In the words of a report.
    margin : float
        A margin is within :math:`2p\,u_m r \lVert w\rVert` of :math:`\langle x, w\rangle`, r the bound on a row.
    slope : float
        A slope is within this times max(``loss.lipschitz``, ``loss.smoothness`` / 5) of exact *at the computed margin*.
    value : float
        A loss is within this times 1 + |loss| of exact at the computed margin.
    sum : float
        Unit roundoff :math:`u_s` inside a block of rows. Sums of blocks are added in float64, in chains of at most
        n/64 + 1024 additions.
    block : int
        Rows of a block at most.
    alike : Arithmetic, optional
        A coarser one that is enough where both neighbours' runs round every row that they share in the same way.
    """

    name: str
    margin: float
    slope: float
    value: float
    sum: float
    block: int = 1024
    alike: Arithmetic | None = None

    ordinary_margin: ClassVar[float] = 32.0
    """Allowances at public weights follow their norm beyond it only."""

    def within(self, planned: Arithmetic) -> bool:
        """Whether every error is at most the one that was planned for; NaN is not."""
        return all(used <= allowed for used, allowed in zip(self._errors, planned._errors, strict=True))

    @property
    def _errors(self) -> tuple[float, ...]:
        return self.margin, self.slope, self.value, self.sum, self.block**2 * self.sum

    def sum_error(self, n_rows: float) -> float:
        r"""Error of a sum over n rows, in units of :math:`\sum_i |\phi'_i| \lVert x_i\rVert`."""
        return 2 * (min(n_rows, self.block) * self.sum + self._chain(n_rows))

    def block_error(self, n_rows: float) -> float:
        """What rounding adds between two sums that differ in one block, in units of the bound on one row's term.

        Both sums of that block are rounded, and so are both chains of blocks.
        """
        rows = min(n_rows, self.block)
        return 2.01 * rows * rows * self.sum + 4 * n_rows * self._chain(n_rows)

    def worsened(self, margin: float, sum: float) -> Arithmetic:
        r"""This one with errors larger by these factors, as far as they are above 1.

        An engine that adds up ax/s and -fc/s apart, and never forms z, amplifies both by at most
        :math:`A = 1 + 2\lVert c/s\rVert/r`. Shorter chains than were promised make up for it: k roundings in a margin
        give the factor Ak/2p.
        """
        if margin <= 1 and sum <= 1:
            return self
        name = f"{self.name}, amplified"
        return replace(self, name=name, margin=self.margin * max(1.0, margin), sum=self.sum * max(1.0, sum))

    def _chain(self, n_rows: float) -> float:
        return min(n_rows, n_rows / 64 + 1024) * UNIT_ROUNDOFF


FLOAT32 = Arithmetic(name="float32", margin=2.0**-24, slope=1e-6, value=1e-6, sum=2.0**-24, block=256)
FLOAT64 = Arithmetic(
    name="float64",
    margin=UNIT_ROUNDOFF,
    slope=1e-14,
    value=1e-14,
    sum=UNIT_ROUNDOFF,
    alike=FLOAT32,
)
