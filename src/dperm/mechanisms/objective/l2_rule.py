"""The l2 that objective perturbation takes where none is given: a public rule of the task and the budget."""

from dperm.mechanisms.objective.profile import hessian_trace
from dperm.planning.penalty import SMALLEST
from dperm.problem import LARGEST, Problem

# Chosen by leaving one of many public tables out (docs/results/defaults.md); no guarantee rests on them.
COUPLED = 2.0  # in units of coupling r^2 / (n epsilon) under replace-one
TWO_SIDED = 8.0  # the same for a loss whose slope has both signs
CURVED = (
    12.0  # in units of the Hessian's trace over n epsilon, for other losses: it costs about 8 % of epsilon
)


def l2_of_noise(problem: Problem, epsilon: float) -> float:
    """As little as can be paid for: half of that l2 makes the log-determinant cost much more.

    It adds 0 to 9 % to the noise, more beside a standardisation; docs/proofs/objective.md, section 9, has a table.
    More l2 only moves the weights away from the rows, on nearly every table and at every epsilon that was tried.
    """
    loss, share = problem.loss, problem.neighbours.rows_changed / 2
    if loss.coupling is None:
        return l2_of_curvature(problem, epsilon)
    units = (COUPLED if loss.sign_definite else TWO_SIDED) * share
    rule = max(units * loss.coupling / (problem.n_rows * epsilon), SMALLEST * loss.lipschitz)
    return min(rule * problem.row_norm**2, LARGEST)


def l2_of_curvature(problem: Problem, epsilon: float) -> float:
    """At which the general bound on the log-determinant takes about a twelfth of epsilon."""
    least = SMALLEST * max(problem.loss.lipschitz, problem.loss.smoothness) * problem.row_norm**2
    return min(max(CURVED * hessian_trace(problem) / (problem.n_rows * epsilon), least), LARGEST)
