r"""What descent with noise on its result is predicted to lose: the public rule behind its open settings.

Along a direction in which the loss has curvature h, descent from zero reaches a share g of the best weight, which step
sizes, averages and l2 decide; noise of scale :math:`\sigma` moves the margin of a row of norm r by about
:math:`\sigma r`. The predicted excess, in squared margins, is

.. math:: S\, \overline{(1 - g_h)^2} + (\sigma r)^2,

with the mean over curvatures that halve from one to the next, and S the squared margins that there are to learn. For
labels S is over the largest slope of the loss, and grows with the number of margins and, up to ``MOST_COLUMNS``, with
that of columns: more columns have more to learn. S for two classes, its power of the columns and the largest curvature
were chosen on public tables, leaving one out at a time; ``MOST_COLUMNS`` and S for several classes by the mean over
tables of that kind. Only accuracy rests on them: noise and guarantee are computed afterwards, for the settings that
were chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from dperm.errors import Unsupported
from dperm.planning.schedule import check_step
from dperm.problem import Problem
from dperm.typing import Floats, Integers

SIGNAL = {"binary": 0.07, "classes": 0.004, "real": 0.3}  # for labels of each margin and power of the columns
COLUMNS_POWER, MOST_COLUMNS = 0.75, 256
LARGEST_CURVATURE, HALVINGS = 0.025, 10  # in units of the largest slope and the squared row norm

FRACTIONS = 2.0 ** np.arange(-7, 0.1, 0.5)
"""First steps to try, of 2/L, the longest that a sensitivity is known for."""
LEAST_BATCH, MOST_BATCHES = 250, 160  # rows in a batch, and batches, where neither was given
NEARLY = 1.02  # of two predictions this close the one with fewer epochs is taken


@dataclass(frozen=True, eq=False, kw_only=True)
class Schedules:
    """Candidates: so many epochs of ``batches`` updates with one step size, or with ``first / epoch`` if they decay.

    Every ``average_every`` epochs iterates are averaged and steps begin anew; more than ``epochs`` is never.
    """

    first: Floats
    epochs: Integers
    average_every: Integers
    batches: int
    decay: bool

    @classmethod
    def of(cls, tried: Sequence[tuple[float, int, int]], batches: int, *, decay: bool = True) -> Self:
        """Of first steps, epochs and how often iterates are averaged."""
        first, epochs, every = zip(*tried, strict=True)
        return cls(
            first=np.array(first, float),
            epochs=np.array(epochs),
            average_every=np.array(every),
            batches=batches,
            decay=decay,
        )

    def best(self, problem: Problem, mu: float) -> int:
        """The candidate of least predicted excess at a Gaussian parameter of mu; of two alike the sooner done."""
        if len(self.first) == 1:
            return 0
        share, apart = self._outcome(problem)
        excess = _signal(problem) * ((1 - share) ** 2).mean(axis=1) + (apart / mu * problem.row_norm) ** 2
        good = np.flatnonzero(excess <= NEARLY * excess.min())
        return int(good[np.lexsort((excess[good], self.epochs[good]))[0]])

    def _outcome(self, problem: Problem) -> tuple[Floats, Floats]:
        """What share of the best weight each curvature reaches, and about how far neighbours end up apart.

        For the distance a row in the first batch of an epoch and one in the last are followed; the larger one counts.
        """
        m, l2 = self.batches, problem.l2
        pull = _curvatures(problem)[None, :] + l2
        limit = (pull - l2) / pull
        behind, apart = -np.repeat(limit, len(self.first), axis=0), np.zeros((len(self.first), 2))
        sums = np.zeros_like(behind), np.zeros_like(apart)
        reached, ends = np.zeros_like(behind), np.zeros(len(self.first))
        visited = np.zeros(len(self.first))
        for epoch in range(1, int(self.epochs.max()) + 1):
            since = (epoch - 1) % self.average_every + 1 if self.decay else 1
            step = (self.first / since)[:, None]
            keep = 1 - step * pull
            _add(sums[0], behind, keep, m)
            behind = behind * keep**m
            keep = np.maximum(np.abs(1 - step * l2), np.abs(1 - step * problem.smoothness))
            push = step * problem.gradient_gap * m / problem.n_rows
            _add(sums[1], apart, keep, m)
            sums[1][:, :1] += push * _geometric(keep, m)
            sums[1][:, 1:] += push
            apart = apart * keep**m + push * np.hstack([keep ** (m - 1), np.ones_like(keep)])
            visited += m
            means = epoch % self.average_every == 0
            for now, total in zip((behind, apart), sums, strict=True):
                now[means] = total[means] / visited[means, None]
                total[means] = 0.0
            visited[means] = 0
            done = self.epochs == epoch
            reached[done], ends[done] = (limit + behind)[done], apart[done].max(axis=1)
        return reached, ends


def steps_to_try(problem: Problem, given: float | None) -> tuple[float, ...]:
    """The step that was given, or shares of the longest one."""
    if given is not None:
        check_step(given, problem)
        return (given,)
    if problem.smoothness == 0:
        raise Unsupported("a loss without curvature and l2 = 0 suggest no step size; give step_size.")
    return tuple((FRACTIONS * (2 / problem.smoothness)).tolist())


def batch_size_for(problem: Problem) -> int:
    """Rows of a batch: the sensitivity follows the length of the path, so small batches replace epochs."""
    return max(LEAST_BATCH, -(-problem.n_rows // MOST_BATCHES))


def _signal(problem: Problem) -> float:
    loss = problem.loss
    if loss.labels == "real":
        return SIGNAL["real"]
    columns = min(problem.n_columns, MOST_COLUMNS) ** COLUMNS_POWER
    return float(SIGNAL[loss.labels] * loss.outputs * columns / loss.unweighted.lipschitz)


def _curvatures(problem: Problem) -> Floats:
    largest = LARGEST_CURVATURE * problem.loss.lipschitz * problem.row_norm**2
    return np.asarray(largest * 0.5 ** np.arange(HALVINGS))


def _geometric(ratio: Floats, n: int) -> Floats:
    """1 + ratio + ... + ratio^(n - 1)."""
    apart = 1 - ratio
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(apart) < 1e-12, float(n), (1 - ratio**n) / apart)


def _add(total: Floats, start: Floats, ratio: Floats, n: int) -> None:
    """Add the n iterates that follow the start, each the ratio times the one before."""
    total += start * ratio * _geometric(ratio, n)
