"""Solvers: minimise smooth strongly convex functions given as callables. No data types, no privacy."""

from dperm.solvers.base import Known, Solution, certain
from dperm.solvers.lbfgs import lbfgs
from dperm.solvers.newton import newton, steered

__all__ = ["Known", "Solution", "certain", "lbfgs", "newton", "steered"]
