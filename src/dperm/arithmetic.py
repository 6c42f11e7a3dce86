"""How precisely an engine computes: a value that plans read for their allowances and that decides what is certified."""

from __future__ import annotations

from dataclasses import dataclass

UNIT_ROUNDOFF = 2.0**-53  # of float64, in which everything outside the engines is computed


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    r"""Bounds on the rounding of one pass over rows, for p columns, n rows and weights w.

    Parameters
    ----------
    name : str
        In the words of a report.
    margin : float
        A computed margin is within :math:`2p\,u_m \lVert x\rVert \lVert w\rVert` of :math:`\langle x, w\rangle`.
    slope : float
        A slope is within this times max(``loss.lipschitz``, ``loss.smoothness`` / 5) of exact *at the computed margin*.
    value : float
        A loss is within this times 1 + |loss| of exact at the computed margin.
    sum : float
        A sum over n rows is within :math:`2n\,u_s \sum_i |\phi'_i| \lVert x_i\rVert` of the exact sum of the
        computed terms.
    """

    name: str
    margin: float
    slope: float
    value: float
    sum: float

    def within(self, planned: Arithmetic) -> bool:
        """Whether every error is at most the one that was planned for; NaN is not."""
        mine = (self.margin, self.slope, self.value, self.sum)
        theirs = (planned.margin, planned.slope, planned.value, planned.sum)
        return all(used <= allowed for used, allowed in zip(mine, theirs, strict=True))

    def between_neighbours(self, error: float) -> float:
        """What rounding adds to the distance of two neighbours' sums, each with at most this ``error``.

        Both errors count. No engine here promises that the rows which two neighbours share are rounded alike.
        """
        return 2 * error


FLOAT64 = Arithmetic(name="float64", margin=UNIT_ROUNDOFF, slope=1e-14, value=1e-14, sum=UNIT_ROUNDOFF)
FLOAT32 = Arithmetic(name="float32", margin=2.0**-24, slope=1e-6, value=1e-6, sum=2.0**-24)
