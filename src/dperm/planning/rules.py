"""Rules for settings that the user leaves open, from public facts alone."""

import math

from dperm.problem import Problem


def path_length(problem: Problem, mu: float, margin: float) -> float:
    r"""Total length of steps at which the noise of full-batch descent moves margins by about ``margin``.

    T steps of size s with noise :math:`g\sqrt T/(n\mu)` on every coordinate of the mean gradient add noise of
    norm about :math:`sT\sqrt d\,g/(n\mu)` to the weights. A longer path fits better and is noisier.
    """
    return (
        margin
        / problem.row_norm
        * problem.n_rows
        * mu
        / (math.sqrt(problem.dimension) * problem.gradient_gap)
    )


def within(value: float, least: int, most: int) -> int:
    """The nearest whole number in a range."""
    return min(max(round(value), least), most)
