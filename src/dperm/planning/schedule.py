"""One schedule drives both the descent and its sensitivity, so that the two cannot drift apart."""

from dataclasses import dataclass

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import InvalidInput, NotCertified, Unsupported
from dperm.problem import Problem
from dperm.typing import Floats


def split_rows(n_rows: int, batch_size: int) -> tuple[int, ...]:
    """Sizes of the fewest batches of at most ``batch_size`` rows, as equal as they can be."""
    n_batches = -(-n_rows // batch_size)
    small, larger = divmod(n_rows, n_batches)
    return (small + 1,) * larger + (small,) * (n_batches - larger)


def default_step(problem: Problem) -> float:
    """4 over the squared row norm, which is 1/L for logistic regression, but never above 2/L.

    Chosen on Adult, BANK, IPUMS-BR and CPS among 0.3/L to 2/L. It does not depend on the budget, so models
    that differ in their budget alone share one training.
    """
    if problem.smoothness == 0:
        raise Unsupported("a loss without curvature and l2 = 0 suggest no step size; give step_size.")
    return min(2 / problem.smoothness, 4 / (problem.loss.heaviest * problem.row_norm**2))


@dataclass(frozen=True, eq=False, kw_only=True)
class Schedule:
    """Passes over fixed batches: a step size for every update and the epochs that end in an average.

    ``step_sizes`` has one row per epoch and one column per batch. After an epoch marked in
    ``averaged`` the weights become the mean of all iterates since the last such epoch.
    """

    batch_sizes: tuple[int, ...]
    step_sizes: Floats
    averaged: tuple[bool, ...]

    def __post_init__(self) -> None:
        if self.step_sizes.shape != (len(self.averaged), len(self.batch_sizes)):
            raise InvalidInput("step_sizes must have one row per epoch and one column per batch.")
        if not (np.isfinite(self.step_sizes).all() and (self.step_sizes > 0).all()):
            raise InvalidInput("every step size must be a positive finite number.")

    @property
    def shape(self) -> tuple[int, int, tuple[bool, ...]]:
        """What two schedules must share to run in one batch."""
        return (*self.step_sizes.shape, self.averaged)

    def check_steps(self, problem: Problem) -> None:
        """Refuse steps for which no sensitivity is known."""
        check_step(float(self.step_sizes.max()), problem)


def check_step(step: float, problem: Problem) -> None:
    """Refuse a step above 2/L: a gradient step is then no longer sure not to spread weights apart."""
    if step * problem.smoothness > 2 * (1 + 1e-12):
        raise NotCertified(
            f"step size {step:.6g} is above 2/L = {2 / problem.smoothness:.6g}, with L = "
            f"{problem.smoothness:.6g} the smoothness of the regularised loss; choose a smaller step_size."
        )


def branch_sensitivities(schedule: Schedule, problem: Problem, *, rounding: bool = True) -> Floats:
    r"""How far the final weights can move when the differing row lies in batch j, for every j.

    Guarantee
    ---------
    If neighbours agree outside one position of batch j, the outputs of the descent are at most
    ``result[j]`` apart. One update contracts the distance by :math:`\rho(\eta)` and, in batch j, adds
    :math:`\eta\,g/b_j` with g the gradient gap; averages are averaged. The linear loss attains it.
    With ``rounding`` the float64 error of every update, in both runs, is added.

    Assumes
    -------
    Both runs visit the same batches in the same order with this schedule (docs/proofs/rsgd-ar.md).
    """
    sizes = np.array(schedule.batch_sizes, dtype=float)
    distance = np.zeros(len(sizes))
    window = np.zeros(len(sizes))
    window_epochs = 0
    weight_bound = _weight_bound(schedule, problem)
    for steps, averaged in zip(schedule.step_sizes, schedule.averaged, strict=True):
        ratio = np.maximum(np.abs(1 - steps * problem.l2), np.abs(1 - steps * problem.smoothness))
        push = steps * problem.gradient_gap / sizes
        error = _update_error(steps, sizes, weight_bound, problem) if rounding else np.zeros_like(steps)
        after, while_in_window = _decay(ratio)
        window += distance * ratio[0] * while_in_window[0] + push * while_in_window + error @ while_in_window
        distance = distance * ratio[0] * after[0] + push * after + error @ after
        window_epochs += 1
        if averaged:
            n_iterates = window_epochs * len(sizes)
            distance = window / n_iterates
            if rounding:
                distance = distance + 2 * (n_iterates + 1) * UNIT_ROUNDOFF * weight_bound
            window = np.zeros(len(sizes))
            window_epochs = 0
    return distance


def _decay(ratio: Floats) -> tuple[Floats, Floats]:
    """What is left at the epoch's end, and summed over its iterates, of a unit push at each update."""
    after = np.ones_like(ratio)
    total = np.ones_like(ratio)
    for j in range(len(ratio) - 2, -1, -1):
        after[j] = after[j + 1] * ratio[j + 1]
        total[j] = 1 + ratio[j + 1] * total[j + 1]
    return after, total


def _weight_bound(schedule: Schedule, problem: Problem) -> float:
    """Bound on the norm of every iterate that starts at zero."""
    by_steps = problem.gradient_bound * float(schedule.step_sizes.sum())
    if problem.l2 > 0 and float(schedule.step_sizes.max()) * problem.l2 <= 1:
        return min(by_steps, problem.gradient_bound / problem.l2)
    return by_steps


def _update_error(steps: Floats, sizes: Floats, weight_bound: float, problem: Problem) -> Floats:
    """Distance that float64 arithmetic can add in one update, both runs together."""
    gradient_error = np.array([problem.gradient_error(n, weight_bound) for n in sizes])
    update_error = 8 * UNIT_ROUNDOFF * (weight_bound + steps * problem.gradient_bound)
    return np.asarray(2 * (steps * gradient_error + update_error))
