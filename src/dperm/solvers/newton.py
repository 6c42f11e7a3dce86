"""Newton's method, where similar problems share a Hessian factor, and L-BFGS that starts from a rough Hessian."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dperm.solvers.base import Hessian, Matrix, Objective, Solution, Vector

SLOW = 0.1  # renew the Hessian when some gradient norm shrinks less than this in one iteration
SUFFICIENT = 1e-4  # Armijo's constant
VALUE_ROUNDING = 1e-12  # relative; near the minimum values differ by less than their rounding
HALVINGS = 5  # of a step by a rough Hessian


def newton(
    objective: Objective,
    hessian: Hessian,
    start: Matrix,
    tolerance: float | Vector,
    max_iterations: int = 200,
    groups: Sequence[int] | None = None,
) -> Solution:
    r"""Minimise K strongly convex functions, each to a gradient norm of at most its ``tolerance``.

    All models of a group step with the Hessian of the worst one, :math:`w_k \leftarrow w_k - t_k H^{-1} g_k`.
    For models on nearly the same rows this contracts quickly with a single factorisation; when it does
    not, the Hessian is renewed at the model that is then worst, which for one model is Newton's method.
    Steps are halved, per model, until the value falls enough. Where values are level within their
    rounding, a smaller gradient norm decides. Without ``groups`` all models are one group. A model may miss
    its tolerance: its norm says so.
    """
    group = np.zeros(start.shape[1], int) if groups is None else np.asarray(groups)
    points = start.copy()
    values, gradients = objective(points)
    norms = np.linalg.norm(gradients, axis=0)
    size_of_value = np.abs(values)
    stuck = np.zeros(len(norms), bool)
    factors: dict[int, Any] = {}
    for _ in range(max_iterations):
        moving = (norms > tolerance) & ~stuck
        if not moving.any():
            break
        direction = np.zeros_like(points)
        fresh = np.zeros(len(norms), bool)
        for g in np.unique(group[moving]):
            members = np.flatnonzero(moving & (group == g))
            if g not in factors:
                worst = int(members[np.argmax(norms[members])])
                try:
                    factors[g] = cho_factor(hessian(worst, points[:, worst]), lower=True)
                except LinAlgError:  # singular within rounding: Newton's method ends here
                    stuck[members], moving[members] = True, False
                    continue
                fresh[members] = True
            direction[:, members] = cho_solve(factors[g], gradients[:, members])
        descent = np.sum(direction * gradients, axis=0)
        level = values + VALUE_ROUNDING * size_of_value
        length = np.ones(points.shape[1])
        for _ in range(60):
            trial = points - length * direction
            trial_values, trial_gradients = objective(trial)
            trial_norms = np.linalg.norm(trial_gradients, axis=0)
            falls = trial_values <= values - SUFFICIENT * length * descent
            flatter = (trial_values <= level) & (trial_norms < norms)
            good = ~moving | falls | flatter
            if good.all():
                break
            length = np.where(good, length, length / 2)
        stuck |= ~good & fresh
        for g in np.unique(group[~good | (moving & (trial_norms > SLOW * norms))]):
            del factors[g]
        points, gradients = np.where(good, trial, points), np.where(good, trial_gradients, gradients)
        values, norms = np.where(good, trial_values, values), np.where(good, trial_norms, norms)
        size_of_value = np.maximum(size_of_value, np.abs(values))
    return Solution(points=points, gradient_norms=norms)


def steered(
    objectives: Callable[[Sequence[int]], Objective],
    guesses: Sequence[Matrix],
    start: Matrix,
    tolerance: float | Vector,
    max_iterations: int = 30,
) -> Solution:
    r"""Step towards minima of K functions until each gradient norm is at most its ``tolerance`` or progress ends.

    ``objectives`` gives some of the functions: one that has arrived is not asked again. The direction of model k is
    :math:`B^{-1}g` with B its guess, symmetric and positive, corrected by what the gradients on the way told of the
    true Hessian (BFGS, all steps kept). Steps are taken as in ``newton``. The guesses matter to the number of steps
    alone.
    """
    n_models = start.shape[1]
    limits = np.broadcast_to(tolerance, (n_models,))
    factors = {id(guess): _factor(guess) for guess in guesses}
    values, gradients = objectives(range(n_models))(start)
    courses = [
        _Course(start[:, k], float(values[k]), gradients[:, k], factors[id(guesses[k])])
        for k in range(n_models)
    ]
    moving = [k for k in range(n_models) if courses[k].factor is not None]
    for _ in range(max_iterations):
        moving = [k for k in moving if courses[k].norm > limits[k]]
        for k in moving:
            courses[k].aim()
        trying = moving
        for halving in range(HALVINGS):
            if not trying:
                break
            trial = np.stack([courses[k].trial(0.5**halving) for k in trying], axis=1)
            values, gradients = objectives(trying)(trial)
            found = zip(trying, trial.T, values.tolist(), gradients.T, strict=True)
            trying = [k for k, *there in found if not courses[k].takes(0.5**halving, *there)]
        moving = [k for k in moving if k not in trying]
    return Solution(
        points=np.stack([course.point for course in courses], axis=1),
        gradient_norms=np.array([course.norm for course in courses]),
    )


class _Course:
    """Where one model stands, and what it learnt of its Hessian."""

    def __init__(self, point: Vector, value: float, gradient: Vector, factor: Any) -> None:
        self.point, self.value, self.gradient, self.factor = point, value, gradient, factor
        self.norm = float(np.linalg.norm(gradient))
        self._pairs: list[tuple[Vector, Vector]] = []

    def aim(self) -> None:
        self._step = _direction(self.factor, self._pairs, self.gradient)
        self._descent = float(self._step @ self.gradient)

    def trial(self, length: float) -> Vector:
        return np.asarray(self.point - length * self._step)

    def takes(self, length: float, point: Vector, value: float, gradient: Vector) -> bool:
        """Go there if the value falls enough, or is level within its rounding where the gradient is smaller."""
        norm = float(np.linalg.norm(gradient))
        flatter = value <= self.value + VALUE_ROUNDING * abs(self.value) and norm < self.norm
        if not (value <= self.value - SUFFICIENT * length * self._descent or flatter):
            return False
        pair = point - self.point, gradient - self.gradient
        if pair[0] @ pair[1] > 0:
            self._pairs.append(pair)
        self.point, self.value, self.gradient, self.norm = point, value, gradient, norm
        return True


def _factor(guess: Matrix) -> Any:
    try:
        return cho_factor(guess, lower=True)
    except LinAlgError:  # singular within rounding
        return None


def _direction(factor: tuple[Matrix, bool], pairs: list[tuple[Vector, Vector]], gradient: Vector) -> Vector:
    """The two loops of L-BFGS around the factor."""
    rest, shares = gradient, []
    for moved, change in reversed(pairs):
        shares.append(moved @ rest / (moved @ change))
        rest = rest - shares[-1] * change
    found = cho_solve(factor, rest)
    for (moved, change), share in zip(pairs, reversed(shares), strict=True):
        found = found + (share - change @ found / (moved @ change)) * moved
    return np.asarray(found)
