"""Solvers: minimise smooth strongly convex functions given as callables. No data types, no privacy."""

from dperm.solvers.base import Solution
from dperm.solvers.certain import Known, certain
from dperm.solvers.lbfgs import lbfgs
from dperm.solvers.newton import newton
from dperm.solvers.steered import steered

__all__ = ["Known", "Solution", "certain", "lbfgs", "newton", "steered"]
