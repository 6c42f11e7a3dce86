"""Diagnostics for people who may see the rows. NOT PRIVATE: nothing here is a release."""

from dperm_papers.analysis.bounds import BOUNDS, Bound, Setting, UtilityBounds, utility_bounds
from dperm_papers.analysis.curvature import Curvature, measure_curvature

__all__ = [
    "BOUNDS",
    "Bound",
    "Curvature",
    "Setting",
    "UtilityBounds",
    "measure_curvature",
    "utility_bounds",
]
