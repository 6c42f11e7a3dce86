"""How far sums over rows move between neighbours: the logistic gradient at known weights, and moments.

A logistic gradient splits as -y x / 2 + tanh(m / 2) x / 2 with the margin m. The first part does not
depend on the weights; the second, the *remainder*, vanishes at zero weights. All bounds grow with the norm
of the weights and reach the general 2R only at infinity. Proofs: docs/proofs/dp-gd.md, docs/proofs/ssp.md.
"""

import math
from collections.abc import Callable

from dperm.arithmetic import Arithmetic
from dperm.errors import InvalidInput, Unsupported
from dperm.losses import Logistic
from dperm.problem import Problem
from dperm.unit import Neighbours

# Each bound is computed in some ten roundings; the weights' norm in some n_columns of them.
_ROUND_UP = 1 + 1e-14
_NORM_ALLOWANCE = 1 + 1e-9
SMALLEST_TERM = 1e-20  # bound on a row's gradient: below it underflow of float32 might matter
_LARGE = 1e4  # norms above which the limit at infinity is close enough


def gradient_spread(s: float) -> float:
    r"""G(s): largest distance between two logistic gradients at weights of norm s, for rows of norm 1.

    :math:`G(s) = \max_{0 \le a \le 1} 2 \sqrt{1 - a^2}\, \sigma(s a)`, from 1 at s = 0 to 2 at infinity.

    Guarantee
    ---------
    Rounded up by at most a relative 1e-13. The logarithm of the maximand is concave in a with curvature
    at most -1, so its value at any a plus half the squared slope there bounds the maximum.
    """
    if _checked(s) > _LARGE:
        return 2.0

    def derivatives(a: float) -> tuple[float, float]:
        tail = _sigmoid(-s * a)
        return s * tail, -s * s * tail * (1 - tail)

    a, slope = _peak(derivatives, start=1 / (2 + s / 5))
    return min(2 * math.sqrt(1 - a * a) * _sigmoid(s * a) * math.exp(slope * slope / 2) * _ROUND_UP, 2.0)


def remainder_spread(s: float) -> float:
    r"""H(s): the same for the remainders; :math:`\max_a \sqrt{1 - a^2} \tanh(s a / 2)`, from 0 to 1."""
    if _checked(s) < 1e-8:
        return s / 4 * _ROUND_UP  # tanh(t) <= t
    if s > _LARGE:
        return 1.0

    def derivatives(a: float) -> tuple[float, float]:
        t = min(s * a, 300.0)
        return s / math.sinh(t), -s * s * math.cosh(t) / math.sinh(t) ** 2

    a, slope = _peak(derivatives, start=1 / (2 + s / 5))
    return min(math.sqrt(1 - a * a) * math.tanh(s * a / 2) * math.exp(slope * slope / 2) * _ROUND_UP, 1.0)


def gradient_gap(problem: Problem, weight_norm: float) -> float:
    """How far the sum of gradients moves between neighbours at weights of a known norm.

    For the logistic loss it depends on the norm; for any other it is ``problem.gradient_gap``.

    Assumes
    -------
    The weights are public: they were computed from earlier releases alone.
    """
    if type(problem.loss) is not Logistic:
        return problem.gradient_gap
    s = _scaled_norm(problem, weight_norm)
    replaced = problem.neighbours is Neighbours.REPLACE_ONE
    spread = gradient_spread(s) if replaced else min(_sigmoid(s) * _ROUND_UP, 1.0)
    return min(problem.row_norm * spread * _ROUND_UP, problem.gradient_gap)


def remainder_gap(problem: Problem, weight_norm: float) -> float:
    """How far the sum of logistic remainders, tanh(m / 2) x / 2, moves between neighbours."""
    _check_logistic(problem)
    s = _scaled_norm(problem, weight_norm)
    replaced = problem.neighbours is Neighbours.REPLACE_ONE
    spread = remainder_spread(s) if replaced else min(math.tanh(s / 2) / 2 * _ROUND_UP, 0.5)
    return problem.row_norm * spread * _ROUND_UP


def label_statistic_gap(problem: Problem) -> float:
    """How far the sum of y x / 2, the part of the logistic gradient without weights, moves."""
    _check_logistic(problem)
    return problem.neighbours.rows_changed * problem.row_norm / 2


def joint_statistic_sensitivity(
    weight: float, neighbours: Neighbours | str = Neighbours.REPLACE_ONE
) -> float:
    r"""S(c): how far the pair of sums (y x / 2, c x x^T) moves between neighbours, for rows of norm 1.

    Replacing a row: 1 up to :math:`c^2 = 1/8`, so the second moment is free there, then
    :math:`\sqrt{1/2 + 1/(32 c^2) + 2 c^2}`. Adding or removing one: :math:`\sqrt{1/4 + c^2}`.
    Rows of norm r move the pair by r S(c r). The matrix counts with its Frobenius norm: release the upper
    triangle with the off-diagonal entries times sqrt(2).
    """
    if not 0 <= weight < math.inf:
        raise InvalidInput(f"weight must be a finite number of at least 0; got {weight!r}.")
    squared = weight * weight
    if Neighbours.parse(neighbours) is Neighbours.ADD_REMOVE:
        return math.sqrt(0.25 + squared) * _ROUND_UP
    if 8 * squared <= 1:
        return 1.0
    return max(math.sqrt(0.5 + 1 / (32 * squared) + 2 * squared) * _ROUND_UP, 1.0)


def _sigmoid(t: float) -> float:
    decay = math.exp(-abs(t))
    return (1.0 if t >= 0 else decay) / (1 + decay)


def _peak(derivatives: Callable[[float], tuple[float, float]], start: float) -> tuple[float, float]:
    """Near the maximum of log(1 - a**2) / 2 + f(a), with the slope there; ``derivatives`` are f' and f''.

    Newton's method inside a bracket. Where it stops decides how tight the bound is, never whether it holds.
    """
    low, high, a = 0.0, 1.0, start
    while True:
        first, second = derivatives(a)
        rest = 1 - a * a
        slope = first - a / rest
        if slope > 0:
            low = a
        else:
            high = a
        step = slope / (second - (1 + a * a) / (rest * rest))
        following = a - step if low < a - step < high else (low + high) / 2
        if abs(slope) < 1e-7 or following in (low, high):
            return a, slope
        a = following


def _checked(s: float) -> float:
    if not s >= 0:
        raise InvalidInput(f"The norm of the weights must be a number of at least 0; got {s!r}.")
    return s


def _scaled_norm(problem: Problem, weight_norm: float) -> float:
    return problem.row_norm * _checked(weight_norm) * _NORM_ALLOWANCE


def _check_logistic(problem: Problem) -> None:
    if type(problem.loss) is not Logistic:
        raise Unsupported(
            f"only the logistic gradient splits in this way; the loss is {problem.loss.name!r}."
        )


def curvature(problem: Problem) -> float:
    """Curvature that the step size goes by: the largest, or with C outputs that at zero weights, 1/C.

    Only accuracy rests on it. 1 for a loss without curvature.
    """
    loss = problem.loss
    largest = loss.smoothness if loss.outputs == 1 else loss.heaviest / loss.outputs
    return largest * problem.row_norm**2 or 1.0


def sum_error(problem: Problem, weight_norm: float) -> float:
    """What rounding adds to the distance of two neighbours' gradient sums at the same weights; both errors count.

    The norm is rounded up to a power of two, and to ordinary margins, so that the noise seldom changes.
    """
    allowance = _rounded_up(problem, weight_norm)
    return 2 * problem.n_rows * problem.gradient_error(problem.n_rows, allowance)


def whole_sum_error(
    problem: Problem, weight_norm: float, clip: float | None = None, *, exact_margins: bool = False
) -> float:
    """The same for sums over all rows, which ``rounds_alike`` allows to be coarser.

    Every row but the changed one adds the same computed number to both sums, so that only the changed row and its
    block differ (docs/proofs/arithmetic.md, Theorem 2). A clipped gradient is no longer than the clip, as computed.
    ``exact_margins`` says that the exact gap is that of slopes at exact margins, not of the largest slopes there are.
    """
    apart, coarser = sum_error(problem, weight_norm), rounds_alike(problem)
    if coarser is None:
        return apart
    if clip is not None and clip <= problem.gradient_bound:
        return max(apart, coarser.block_error(problem.n_rows) * clip)
    own = 2 * problem.row_error(coarser, _rounded_up(problem, weight_norm) if exact_margins else 0.0)
    return max(apart, own + coarser.block_error(problem.n_rows) * problem.gradient_bound)


def rounds_alike(problem: Problem) -> Arithmetic | None:
    """The arithmetic that is enough for sums over all rows at public weights, if a coarser one is.

    Neighbours under replace-one hold their common rows at the same places. A removed row moves all that follow it, and
    so does a person who is replaced by one with more rows or fewer.
    """
    replaced = problem.neighbours is Neighbours.REPLACE_ONE and not problem.many_rows
    return problem.arithmetic.alike if replaced and problem.gradient_bound >= SMALLEST_TERM else None


def _rounded_up(problem: Problem, weight_norm: float) -> float:
    margin = max(problem.arithmetic.ordinary_margin, problem.row_norm * weight_norm)
    return math.ldexp(1.0, math.frexp(margin)[1]) / problem.row_norm
