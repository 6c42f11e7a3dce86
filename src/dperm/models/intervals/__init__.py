"""Estimates and intervals from the numbers that a model released for them (docs/intervals.md)."""

from dperm.models.intervals.confidence import confidence_intervals
from dperm.models.intervals.table import Interval, Intervals

__all__ = ["Interval", "Intervals", "confidence_intervals"]
